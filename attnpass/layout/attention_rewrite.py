"""Rewrites attention ops: other operand orders, a finer iteration space, folded results."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from iree.compiler import ir

from ..attention.edit import edit, first_dims, iteration_size, may_cut
from ..attention.facts import AttentionFacts
from ..ir import (
    Builder,
    Size,
    completed,
    defining_op,
    element_type,
    has_one_use,
    maps,
    product,
    ranked_shape,
    sizes_of,
)
from ..ir.views import RESHAPES, view_of
from .commit import Committer
from .layout import Layout, common_refinement, permuted
from .planner import Node, nodes_of

# Ops that a rewrite leaves without uses. They are erased together at the end of a pass, by
# one call, so that no handle of them is used when they are gone.
DeadOps = list[ir.Operation]


@dataclass(frozen=True)
class OperandPlan:
    """A plan for one operand of one attention: dim i of the new value is dim order[i]."""

    facts: AttentionFacts
    operand: str
    order: tuple[int, ...]
    node: Node

    @functools.cached_property
    def nodes(self) -> list[Node]:
        """The plan's nodes, consumers first."""
        return nodes_of([self.node])

    @property
    def root(self) -> tuple[Node, ir.Operation, int]:
        """The plan, and the use that it replaces."""
        return self.node, self.facts.op, self.facts.index(self.operand)

    @property
    def map_after(self) -> maps.Positions:
        positions = self.facts.map_of(self.operand)
        return tuple(positions[dim] for dim in self.order)


def commit_attention(
    plans: Sequence[OperandPlan], committer: Committer, dead_ops: DeadOps
) -> ir.Operation:
    """Rewrites one attention for its operands' plans; returns the op that stands for it now."""
    facts = plans[0].facts
    values = {plan.operand: committer.value(plan.node, facts.op) for plan in plans}
    if all(plan.node.is_complete for plan in plans):
        _permute_operands(facts, plans, values)
        return facts.op
    return _split_iteration_space(facts, plans, values, dead_ops)


def _permute_operands(
    facts: AttentionFacts, plans: Sequence[OperandPlan], values: dict[str, ir.Value]
) -> None:
    build, made = Builder(facts.op), edit(facts)
    for plan in plans:
        sizes = sizes_of(facts.value(plan.operand))
        wanted = [sizes[dim] for dim in plan.order]
        counts = [0 if size == 1 else 1 for size in wanted]
        value = build.join_dims(values[plan.operand], counts, wanted)
        made = made.operand(plan.operand, value, plan.map_after)
    made.in_place()


def _split_iteration_space(
    facts: AttentionFacts,
    plans: Sequence[OperandPlan],
    values: dict[str, ir.Value],
    dead_ops: DeadOps,
) -> ir.Operation:
    """Operands that lack part of a dim: that dim becomes several, and all maps follow."""
    cuts = _cuts(facts, plans)
    build, made = Builder(facts.op), edit(facts).cut(cuts)
    for plan in plans:
        operand = _partial_operand(plan, values[plan.operand], cuts, build)
        made = made.operand(plan.operand, *operand)
    dead_ops.append(facts.op)
    return made.replace()


def _cuts(facts: AttentionFacts, plans: Sequence[OperandPlan]) -> list[list[Size]]:
    """Per iteration dim the sizes of the dims it becomes: cut only where some operand
    lacks one part and has another."""
    sizes: list[list[Size]] = [[] for _ in range(facts.num_dims)]
    presence: list[list[list[bool]]] = [[] for _ in range(facts.num_dims)]
    for plan in plans:
        for dim, parts in _parts_of(plan).items():
            if len({present for _, present in parts}) < 2 and all(p for _, p in parts):
                continue
            known = sizes[dim] or [product([size for size, _ in parts])]
            pairs = common_refinement(known, [size for size, _ in parts])
            assert pairs is not None, "two operands cut a dim in ways that do not fit together"
            presence[dim] = [[seen[i] for _, i, _ in pairs] for seen in presence[dim]]
            presence[dim].append([parts[j][1] for _, _, j in pairs])
            sizes[dim] = [size for size, _, _ in pairs]
    return [
        completed(_coalesce(parts, seen), iteration_size(facts, dim))
        if parts
        else [iteration_size(facts, dim)]
        for dim, (parts, seen) in enumerate(zip(sizes, presence, strict=True))
    ]


def _coalesce(sizes: list[Size], presence: list[list[bool]]) -> list[Size]:
    """Joins neighbouring parts that every operand has, or lacks, together."""
    groups: list[list[Size]] = []
    for i, size in enumerate(sizes):
        same = i > 0 and all(seen[i] == seen[i - 1] for seen in presence)
        if same:
            groups[-1].append(size)
        else:
            groups.append([size])
    return [product(group) for group in groups]


def _parts_of(plan: OperandPlan) -> dict[int, list[tuple[Size, bool]]]:
    """Per iteration dim of the operand, the parts in which it was delivered."""
    sizes = sizes_of(plan.facts.value(plan.operand))
    dims = [
        position
        for dim, position in zip(plan.order, plan.map_after, strict=True)
        if sizes[dim] != 1 and position is not None
    ]
    return {dim: list(parts) for dim, parts in zip(dims, plan.node.parts, strict=True)}


def _partial_operand(
    plan: OperandPlan,
    value: ir.Value,
    cuts: Sequence[Sequence[Size]],
    build: Builder,
) -> tuple[ir.Value, maps.Positions]:
    """An operand that may lack parts of dims, cut as the iteration space is, and its map."""
    parts, first = _parts_of(plan), first_dims(cuts)
    fine: list[list[Size]] = []
    joined: list[int] = []
    joined_sizes: list[Size] = []
    positions: list[int | None] = []
    complete = plan.node.is_complete
    for position in plan.map_after:
        if position is None or position not in parts:
            joined.append(0)
            joined_sizes.append(1)
            positions.append(None if position is None else first[position])
            continue
        delivered = parts[position]
        pairs = common_refinement([size for size, _ in delivered], cuts[position])
        assert pairs is not None
        if complete:
            fine.append([size for size, _, _ in pairs])
        else:
            fine += [
                [size for size, i, _ in pairs if i == number]
                for number, (_, present) in enumerate(delivered)
                if present
            ]
        for part, size in enumerate(cuts[position]):
            inside = [delivered[i][1] for _, i, j in pairs if j == part]
            if all(inside):
                joined.append(len(inside))
                joined_sizes.append(size)
                positions.append(first[position] + part)
    value = build.split_dims(value, fine)
    return build.join_dims(value, joined, joined_sizes), tuple(positions)


@dataclass(frozen=True)
class ResultFold:
    """A transpose behind attention, reached through reshapes only, and the layout of
    attention's result that makes it disappear."""

    facts: AttentionFacts
    transpose: ir.Operation
    layout: Layout


def transpose_behind(
    facts: AttentionFacts, through_reshapes: bool = True
) -> tuple[ir.Operation, list[ir.Operation]] | None:
    """The transpose that attention's first result goes into, if that is its only use, and
    the reshapes between."""
    value, views = facts.op.results[0], []
    while has_one_use(value):
        op = next(iter(value.uses)).owner.operation
        if op.name == "linalg.transpose" and op.operands[0] == value:
            return op, views
        if not through_reshapes or op.name not in RESHAPES:
            return None
        views.append(op)
        value = op.results[0]
    return None


def moves_nothing(transpose: ir.Operation) -> bool:
    """Whether a transpose moves dims of size one only (the rows of a decode step)."""
    shape = ranked_shape(transpose.operands[0])
    moved = [dim for dim in transpose.attributes["permutation"] if shape[dim] != 1]
    return moved == sorted(moved)


def find_result_fold(facts: AttentionFacts, through_reshapes: bool = True) -> ResultFold | None:
    """How attention could write what the transpose behind it makes; None if none stands there
    or it changes nothing."""
    found = transpose_behind(facts, through_reshapes)
    if found is None:
        return None
    op, views = found
    target = op.results[0]
    sizes = sizes_of(target)
    layout: Layout = permuted(sizes, range(len(sizes)))
    for view in map(view_of, (op, *reversed(views))):
        found = None if view is None else layout.through(view.runs, sizes_of(view.source))
        if found is None:
            return None
        layout = found.layout
    return None if layout.is_row_major else ResultFold(facts, op, layout.merged().layout)


def fold_result(fold: ResultFold, dead_ops: DeadOps) -> ir.Operation | None:
    """Lets attention write its result in the order that the transpose makes.

    Returns the new attention op; None, with nothing changed, where the destination cannot
    be had in that order or a configured op would change its rank.
    """
    facts, layout = fold.facts, fold.layout
    positions = facts.map_of("output")
    destination = facts.value("output")
    producer = defining_op(destination, "tensor.empty")
    if producer is None:
        return None
    cuts: list[list[Size]] = [[iteration_size(facts, dim)] for dim in range(facts.num_dims)]
    for axes, p in zip(layout.dims, positions, strict=True):
        if p is not None and len(axes) > 1:
            cuts[p] = [layout.sizes[axis] for axis in axes]
    if not may_cut(facts, cuts):
        return None
    first = first_dims(cuts)
    new_dim = {
        axis: first[p] + part
        for axes, p in zip(layout.dims, positions, strict=True)
        if p is not None
        for part, axis in enumerate(axes)
    }
    order: list[tuple[int | None, Size]] = [
        (new_dim[axis], layout.sizes[axis]) for axis in range(layout.rank)
    ]
    for dim, (axes, p) in enumerate(zip(layout.dims, positions, strict=True)):
        if not axes:
            # A unit dim keeps its place.
            order.insert(min(dim, len(order)), (None if p is None else first[p], 1))
    build = Builder(facts.op)
    sizes = [size for _, size in order]
    output = build.empty(sizes, element_type(destination))
    made = edit(facts).cut(cuts).operand("output", output, tuple(dim for dim, _ in order))
    new = made.replace("output")
    transposed = fold.transpose.results[0]
    after = Builder(fold.transpose)
    flat = after.split_dims(new.results[0], [[] if size == 1 else [size] for size in sizes])
    transposed.replace_all_uses_with(_reshape(after, flat, layout.sizes, sizes_of(transposed)))
    dead_ops += [fold.transpose, facts.op]
    return new


def _reshape(
    build: Builder, value: ir.Value, sizes: Sequence[Size], wanted: Sequence[Size]
) -> ir.Value:
    """`value` of shape `sizes`, in row-major order, as a tensor of shape `wanted`."""
    targets = [size for size in wanted if size != 1]
    pairs = common_refinement(sizes, targets)
    assert pairs is not None
    fine = [[size for size, i, _ in pairs if i == dim] for dim in range(len(sizes))]
    counts = iter([sum(j == dim for _, _, j in pairs) for dim in range(len(targets))])
    joined = [0 if size == 1 else next(counts) for size in wanted]
    return build.join_dims(build.split_dims(value, fine), joined, wanted)
