"""Broadcasts that only repeat a value (grouped queries): left out where the consumer can
read the value broadcast. Where it cannot, the loop-nest rule permutes the broadcast."""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from ...ir import maps, tensor_bytes
from ..cost import Cost
from ..layout import Layout
from . import Alternative, Demand, Refusal, Request, Rule


def repeated_value(op: ir.Operation) -> tuple[ir.Value, maps.Positions] | None:
    """(x, dims) if `op` only repeats x: dim j of x is dim dims[j] of the result (None: one)."""
    if len(op.results) != 1:
        return None
    if op.name == "linalg.broadcast":
        added = set(op.attributes["dimensions"])
        rank = len(op.results[0].type.shape)  # type: ignore[attr-defined]
        return op.operands[0], tuple(dim for dim in range(rank) if dim not in added)
    if op.name != "linalg.generic" or len(op.operands) != 2:
        return None
    positions = maps.positions_of(op.attributes["indexing_maps"])
    body = op.regions[0].blocks[0]
    terminator = body.operations[0].operation
    if positions is None or terminator.name != "linalg.yield":
        return None
    source, result = positions
    if terminator.operands[0] != body.arguments[0] or None in result:
        return None
    if len(result) != maps.num_dims(op.attributes["indexing_maps"]):
        return None
    place = {loop: dim for dim, loop in enumerate(result)}
    return op.operands[0], tuple(None if loop is None else place[loop] for loop in source)


class Broadcast(Rule):
    """A repeat along axes that the consumer can do without: the repeat disappears."""

    ops = ("linalg.generic", "linalg.broadcast")

    def match(
        self, op: ir.Operation, number: int, demand: Demand
    ) -> Sequence[Alternative] | Refusal:
        repeated = repeated_value(op)
        if repeated is None:
            return Refusal("it computes more than a repeat of its operand", op)
        source, dims = repeated
        layout = demand.layout
        kept = layout.axes_of(dims)
        dropped = [axis for axis in range(layout.rank) if axis not in kept]
        if not dropped or not demand.droppable.issuperset(dropped):
            return Refusal("the broadcast is along a dim that its reader needs", op)
        number_of = {axis: new for new, axis in enumerate(kept)}
        inner: Layout = layout.restricted(dims)
        droppable = frozenset(number_of[axis] for axis in demand.droppable if axis in number_of)
        view = tuple((number_of[axis],) if axis in number_of else () for axis in range(layout.rank))
        saved = Cost(-(tensor_bytes(source) + tensor_bytes(op.results[0])), -1)
        return [Alternative((Request(0, Demand(inner, droppable)),), saved, view)]
