"""attn-order-concats: pieces of heads are put together in the order in which they are made."""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from ..attention.barrier import compute_barrier
from ..ir import Builder, concat_dim, defining_op, maps, ranked_shape
from ..ir.bodies import read_elementwise
from ..ir.views import view_of
from ..passes import OpPass

# How many elementwise ops, as a norm has, may stand behind a transpose.
_DEEPEST = 24


class OrderConcats(OpPass):
    """Makes a `tensor.concat` of transposed pieces, whatever is computed element by element behind
    the transposes, a transpose of the concat of what they were made of, for CUDA.

    Models that join tokens of two kinds (Flux, SD3) join their heads: along a dim with the heads
    in front of it, where a piece is many runs of memory. In front of the transposes it is one, or
    one a batch, and its producer writes it in place; kernels read the transposed whole by strides.
    """

    name = "attn-order-concats"
    summary = "NVIDIA GPUs: pieces are put together in the order they are made in"
    ops = ("tensor.concat",)
    backends = ("cuda",)
    what = "fitted"

    def change(self, op: ir.Operation) -> str:
        order = _common_order(op)
        if order is None:
            return ""
        _reorder(op, order)
        return "its pieces are put together before they are transposed, where each is one run"


def _common_order(op: ir.Operation) -> tuple[int, ...] | None:
    """The dims of what the pieces are made of that are dims 0, 1, ... of the pieces; None where
    pieces differ in that, or where no dim fewer would stand in front of the joined one, that is,
    where pieces would be as many runs of memory as before."""
    orders = {_order(piece) for piece in op.operands}
    if len(orders) != 1:
        return None
    (order,) = orders
    if order is None:
        return None
    dim, shape = concat_dim(op), ranked_shape(op.results[0])
    here = {at for at in range(dim) if shape[at] != 1}
    there = {at for at, source in enumerate(order) if source < order[dim] and shape[at] != 1}
    return order if there < here else None


def _order(value: ir.Value, depth: int = _DEEPEST) -> tuple[int, ...] | None:
    """Where each dim of a value stood before a transpose that it is made by, element by element."""
    op = defining_op(value)
    if op is None or not depth:
        return None
    view = view_of(op)
    if view is not None:
        found = view.projection
        if found is None or None in found or len(found) != len(ranked_shape(value)):
            return None
        order = tuple(found.index(dim) for dim in range(len(found)))
        return None if maps.is_identity(order) else order
    made = read_elementwise(op)
    if made is None:
        return None
    inputs = made.reads[: len(op.operands) - len(op.results)]
    same = tuple(range(len(ranked_shape(value))))
    orders = (_order(read.operand, depth - 1) for read in inputs if read.dims == same)
    return next((order for order in orders if order is not None), None)


def _reorder(op: ir.Operation, order: Sequence[int]) -> None:
    """Gives the users of a concat a transpose of the concat in the order before."""
    build = Builder(op)
    pieces = [_untransposed(piece, maps.inverse(order), build) for piece in op.operands]
    whole = build.concat(pieces, order[concat_dim(op)])
    # Stored: IREE would cut its dims in front of it for one of its readers, which then meets the
    # others in no kernel.
    op.results[0].replace_all_uses_with(build.transpose(compute_barrier(build, whole), order))


def _untransposed(piece: ir.Value, back: Sequence[int], build: Builder) -> ir.Value:
    """A piece in the order that it was made in: what it is a transpose of or, where something is
    computed behind that, a transpose back, which IREE moves up to the first."""
    view = view_of(defining_op(piece))
    return build.transpose(piece, back) if view is None else view.source
