"""Broadcasts that only repeat a value (grouped queries): left out where the consumer can
read the value broadcast. Where it cannot, the loop-nest rule permutes the broadcast."""

from __future__ import annotations

from iree.compiler import ir

from ...ir import sizes_of, tensor_bytes
from ...ir.views import repeat_of
from ..cost import Cost
from . import Alternative, Demand, Refusal, Request, Rule, Ways


class Broadcast(Rule):
    """A repeat along axes that the consumer can do without: the repeat disappears."""

    ops = ("linalg.generic", "linalg.broadcast")

    def match(self, op: ir.Operation, number: int, demand: Demand) -> Ways:
        repeat = repeat_of(op)
        if repeat is None:
            return Refusal("it computes more than a repeat of its operand", op)
        found = demand.layout.through(repeat.runs, sizes_of(repeat.source))
        dropped = [] if found is None else [i for i, new in enumerate(found.groups) if not new]
        if found is None or not dropped or not demand.droppable.issuperset(dropped):
            return Refusal("the broadcast is along a dim that its reader needs", op)
        droppable = frozenset(new for axis in demand.droppable for new in found.groups[axis])
        request = Request(0, Demand(found.layout, droppable))
        saved = Cost(-(tensor_bytes(repeat.source) + tensor_bytes(repeat.result)), -1)
        return [Alternative((request,), saved, found.groups)]
