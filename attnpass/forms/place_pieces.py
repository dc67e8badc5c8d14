"""attn-place-pieces: pieces that are in memory already are copied to where they stand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir

from ..analysis.boundary import is_held
from ..ir import Builder, Size, element_type, ranked_shape, sizes_of, tensor_bytes
from ..ir.views import IN_PLACE, SLICE, below_views
from ..passes import OpPass
from ..report.words import What


@dataclass(frozen=True)
class PlacePieces(OpPass):
    """Writes a `tensor.concat` as a `tensor.insert_slice` for each piece, where callers or globals
    hold pieces that are half of it or more, as a cache is that a decode step appends a row to.

    IREE 3.13 joins along outermost dims, from `--iree-opt-level=O1` on: it transposes the pieces
    and turns the whole back, so that a cache is read and written twice. What computes a piece can
    write it transposed for nothing; so concats of such pieces stay, and those along a dim that is
    outermost already.
    """

    name: ClassVar[str] = "attn-place-pieces"
    summary: ClassVar[str] = "caches that grow by a row are copied once, not transposed and back"
    what: ClassVar[What] = "fitted"

    def wanted(self, op: ir.Operation) -> bool:
        return op.name == "tensor.concat"

    def change(self, op: ir.Operation) -> str:
        dim = ir.IntegerAttr(op.attributes["dim"]).value
        outer = ranked_shape(op.results[0])[:dim]
        if all(size == 1 for size in outer) or not _is_mostly_held(op):
            return ""
        _place(op, dim)
        return "its pieces are copied to where they stand, and not transposed and back"


def _is_mostly_held(op: ir.Operation) -> bool:
    """Whether pieces that are in memory before the module's ops run are half of a concat."""
    held = [piece for piece in op.operands if is_held(below_views(piece, (*IN_PLACE, SLICE)))]
    return 2 * sum(map(tensor_bytes, held)) >= sum(map(tensor_bytes, op.operands))


def _place(op: ir.Operation, dim: int) -> None:
    """Gives the users of a concat along `dim` its pieces, each inserted into an empty tensor."""
    result, build = op.results[0], Builder(op)
    starts: list[Size] = [0]
    for piece in op.operands:
        start, size = starts[-1], sizes_of(piece)[dim]
        starts.append(size if start == 0 else build.size_op("addi", start, size))
    sizes = [*sizes_of(op.operands[0])]
    sizes[dim] = starts.pop()
    known = zip(ranked_shape(result), sizes, strict=True)
    shape = [size if static is None else static for static, size in known]
    whole = build.empty(shape, element_type(result))
    for piece, start in zip(op.operands, starts, strict=True):
        whole = build.insert_slice(piece, whole, [*[0] * dim, start, *[0] * (len(shape) - dim - 1)])
    result.replace_all_uses_with(whole)
