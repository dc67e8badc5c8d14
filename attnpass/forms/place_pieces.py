"""attn-place-pieces: pieces of a concat are written to where they stand."""

from __future__ import annotations

from iree.compiler import ir

from ..ir import Builder, Size, concat_dim, element_type, ranked_shape, sizes_of
from ..passes import OpPass


class PlacePieces(OpPass):
    """Writes a `tensor.concat` as a `tensor.insert_slice` for each piece.

    IREE 3.13 joins along outermost dims, from `--iree-opt-level=O1` on: it transposes the pieces
    and turns the whole back, so that a cache that grows by a row is read and written twice, and an
    image that is rolled (`torch.roll`) four times. Concats along a dim that is outermost already,
    but for dims of size one, stay: each piece is one run of memory. So do those of no elements: no
    slice begins in a dim of size 0.
    """

    name = "attn-place-pieces"
    summary = "pieces of a concat are copied once, not transposed and back"
    why = "IREE transposes what it joins along inner dims, and turns it back"
    ops = ("tensor.concat",)
    what = "fitted"

    def change(self, op: ir.Operation) -> str:
        dim = concat_dim(op)
        shape = ranked_shape(op.results[0])
        if 0 in shape or all(size == 1 for size in shape[:dim]):
            return ""
        _place(op, dim)
        return "its pieces are copied to where they stand, and not transposed and back"


def _place(op: ir.Operation, dim: int) -> None:
    """Gives the users of a concat along `dim` its pieces, each inserted into an empty tensor."""
    result, build = op.results[0], Builder(op)
    starts: list[Size] = [0]
    pieces = [piece for piece in op.operands if ranked_shape(piece)[dim] != 0]
    for piece in pieces:
        start, size = starts[-1], sizes_of(piece)[dim]
        starts.append(size if start == 0 else build.size_op("addi", start, size))
    sizes = [*sizes_of(pieces[0])]
    sizes[dim] = starts.pop()
    known = zip(ranked_shape(result), sizes, strict=True)
    shape = [size if static is None else static for static, size in known]
    whole = build.empty(shape, element_type(result))
    for piece, start in zip(pieces, starts, strict=True):
        whole = build.insert_slice(piece, whole, [*[0] * dim, start, *[0] * (len(shape) - dim - 1)])
    result.replace_all_uses_with(whole)
