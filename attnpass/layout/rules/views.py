"""Transposes, reshapes and casts: the demand is said in other words, and the op disappears."""

from __future__ import annotations

from iree.compiler import ir

from ...ir import sizes_of
from ...ir.views import RESHAPES, view_of
from ..layout import Layout
from . import Alternative, Demand, Refusal, Request, Rule, Ways

_WHY = {
    "tensor.collapse_shape": "the collapsed dims cannot be cut as the layout needs",
    "tensor.reshape": "the dynamic sizes of the reshape cannot be matched",
}


class WholeView(Rule):
    """All elements of the operand: its dims have the axes of those of the result that lie along
    them, cut where they span several dims of the operand."""

    ops = (*RESHAPES, "linalg.transpose", "tensor.reshape")

    def match(self, op: ir.Operation, number: int, demand: Demand) -> Ways:
        view = view_of(op)
        found = None if view is None else demand.layout.through(view.runs, sizes_of(view.source))
        if found is None:
            return Refusal(_WHY.get(op.name, "its operand is no ranked tensor"), op)
        droppable = frozenset(new for axis in demand.droppable for new in found.groups[axis])
        request = Request(0, Demand(found.layout, droppable))
        return [Alternative((request,), view=found.groups)]


class Cast(Rule):
    """`tensor.cast`: only what the type says of the sizes changes. Repeats behind it stay,
    for a reader that does without them takes the sizes of the others from the new value."""

    ops = ("tensor.cast",)

    def match(self, op: ir.Operation, number: int, demand: Demand) -> Ways:
        if view_of(op) is None:
            return Refusal("it casts an unranked tensor", op)
        old, new = sizes_of(op.results[0]), sizes_of(op.operands[0])
        sizes = list(demand.layout.sizes)
        for axes, before, after in zip(demand.layout.dims, old, new, strict=True):
            if before == after:
                continue
            if 1 in (before, after):
                return Refusal("it casts a dim of size one", op)
            if len(axes) != 1 or demand.layout.window(axes[0]) is not None:
                return Refusal("it casts a dim that would be split", op)
            sizes[axes[0]] = after
        layout = Layout(tuple(sizes), demand.layout.dims, demand.layout.windows)
        same = tuple((axis,) for axis in range(layout.rank))
        return [Alternative((Request(0, Demand(layout)),), view=same)]
