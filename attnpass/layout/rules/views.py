"""Transposes, reshapes and casts: the demand is said in other words, and the op disappears."""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from ...ir import index_array, is_ranked_tensor, sizes_of
from ..layout import Layout, Refinement
from . import Alternative, Demand, Refusal, Request, Rule


def _cut(demand: Demand, refinement: Refinement) -> Alternative:
    """The operand in a layout whose axes are cut out of those of the demand."""
    droppable = frozenset(new for axis in demand.droppable for new in refinement.groups[axis])
    request = Request(0, Demand(refinement.layout, droppable))
    return Alternative((request,), view=refinement.groups)


def _same_axes(demand: Demand) -> tuple[tuple[int, ...], ...]:
    return tuple((axis,) for axis in range(demand.layout.rank))


class Transpose(Rule):
    """`linalg.transpose`: the axes belong to other dims of the operand."""

    ops = ("linalg.transpose",)

    def match(
        self, op: ir.Operation, number: int, demand: Demand
    ) -> Sequence[Alternative] | Refusal:
        layout = demand.layout.transposed(list(op.attributes["permutation"]))
        request = Request(0, Demand(layout, demand.droppable))
        return [Alternative((request,), view=_same_axes(demand))]


class ExpandShape(Rule):
    """`tensor.expand_shape`: a dim of the operand has the axes of all dims it became."""

    ops = ("tensor.expand_shape",)

    def match(
        self, op: ir.Operation, number: int, demand: Demand
    ) -> Sequence[Alternative] | Refusal:
        layout = demand.layout.expanded(index_array(op.attributes["reassociation"]))
        request = Request(0, Demand(layout, demand.droppable))
        return [Alternative((request,), view=_same_axes(demand))]


class CollapseShape(Rule):
    """`tensor.collapse_shape`: axes that span several dims of the operand are cut."""

    ops = ("tensor.collapse_shape",)

    def match(
        self, op: ir.Operation, number: int, demand: Demand
    ) -> Sequence[Alternative] | Refusal:
        groups = index_array(op.attributes["reassociation"])
        refinement = demand.layout.collapsed(groups, sizes_of(op.operands[0]))
        if refinement is None:
            return Refusal("the collapsed dims cannot be cut as the layout needs", op)
        return [_cut(demand, refinement)]


class Reshape(Rule):
    """`tensor.reshape` (dynamic shapes): all dims collapsed to one, and cut anew."""

    ops = ("tensor.reshape",)

    def match(
        self, op: ir.Operation, number: int, demand: Demand
    ) -> Sequence[Alternative] | Refusal:
        result, source = op.results[0], op.operands[0]
        flat = demand.layout.expanded([range(len(sizes_of(result)))])
        groups = [list(range(len(sizes_of(source))))]
        refinement = flat.collapsed(groups, sizes_of(source))
        if refinement is None:
            return Refusal("the dynamic sizes of the reshape cannot be matched", op)
        return [_cut(demand, refinement)]


class Cast(Rule):
    """`tensor.cast`: only what the type says of the sizes changes. Repeats behind it stay,
    for a reader that does without them takes the sizes of the others from the new value."""

    ops = ("tensor.cast",)

    def match(
        self, op: ir.Operation, number: int, demand: Demand
    ) -> Sequence[Alternative] | Refusal:
        if not is_ranked_tensor(op.operands[0]):
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
        return [Alternative((Request(0, Demand(layout)),), view=_same_axes(demand))]
