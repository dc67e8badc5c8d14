"""Commits plans: the only step that writes layout. Refused plans never come here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iree.compiler import ir

from .. import maps
from ..attention import AttentionFacts
from ..ir import (
    Builder,
    Size,
    defining_op,
    element_type,
    erase,
    product,
    size_values,
    sizes_of,
)
from .layout import common_refinement
from .planner import Node


@dataclass(frozen=True)
class OperandPlan:
    """A plan for one operand of one attention: dim i of the new value is dim order[i]."""

    facts: AttentionFacts
    operand: str
    order: tuple[int, ...]
    node: Node

    @property
    def map_after(self) -> maps.Positions:
        positions = self.facts.map_of(self.operand)
        return tuple(positions[dim] for dim in self.order)


class Committer:
    """Builds the new values of plans; what plans share is built once."""

    def __init__(self) -> None:
        self._values: dict[int, ir.Value] = {}

    def value(self, root: Node) -> ir.Value:
        """The new value: one dim per piece that is there, or, where all are, per axis."""
        stack = [root]
        while stack:
            node = stack[-1]
            missing = [c for c in node.children if c is not None and id(c) not in self._values]
            if id(node) in self._values or not missing:
                stack.pop()
                if id(node) not in self._values:
                    self._values[id(node)] = self._build(node)
            else:
                stack += missing
        return self._values[id(root)]

    def restore(self, node: Node) -> ir.Value:
        """The value of `node` put back into its old layout, for users that keep reading it."""
        op = node.op
        assert op is not None
        new = self.value(node)
        layout = node.demand.layout
        build = Builder(op).after_operands([new])
        flat = [axis for axes in layout.dims for axis in axes]
        counts = [len(axes) for axes in layout.dims]
        return build.join_dims(build.transpose(new, flat), counts, sizes_of(node.value))

    def _build(self, node: Node) -> ir.Value:
        alternative, layout = node.alternative, node.demand.layout
        needed = size_values(layout.sizes)
        if alternative is None or node.rule is None:
            build = _behind(node.value).after_operands(needed)
            return build.split_dims(node.value, layout.dim_sizes())
        op = node.op
        assert op is not None
        operands = [None if c is None else self._values[id(c)] for c in node.children]
        given = [value for value in operands if value is not None]
        build = Builder(op).after_operands([*given, *needed])
        if alternative.view is None:
            return node.rule.rewrite(op, node.demand, alternative, operands, build)
        (value,) = given
        if not node.is_complete:
            return value
        return build.join_dims(value, [len(parts) for parts in node.pieces], layout.sizes)


def commit_attention(plans: Sequence[OperandPlan], committer: Committer) -> ir.Operation:
    """Rewrites one attention for its operands' plans; returns the op that stands for it now."""
    facts = plans[0].facts
    values = {plan.operand: committer.value(plan.node) for plan in plans}
    if all(plan.node.is_complete for plan in plans):
        _permute_operands(facts, plans, values)
        return facts.op
    return _split_iteration_space(facts, plans, values)


def _permute_operands(
    facts: AttentionFacts, plans: Sequence[OperandPlan], values: dict[str, ir.Value]
) -> None:
    op, new_maps = facts.op, list(facts.maps)
    build = Builder(op)
    for plan in plans:
        number = facts.index(plan.operand)
        sizes = sizes_of(facts.value(plan.operand))
        wanted = [sizes[dim] for dim in plan.order]
        counts = [0 if size == 1 else 1 for size in wanted]
        op.operands[number] = build.join_dims(values[plan.operand], counts, wanted)
        new_maps[number] = plan.map_after
    op.attributes["indexing_maps"] = maps.maps_attribute(facts.num_dims, new_maps)


def _split_iteration_space(
    facts: AttentionFacts, plans: Sequence[OperandPlan], values: dict[str, ir.Value]
) -> ir.Operation:
    """Operands that lack part of a dim: that dim becomes several, and all maps follow."""
    op = facts.op
    by_operand = {plan.operand: plan for plan in plans}
    cuts = _cuts(facts, plans)
    first = [0]
    for parts in cuts:
        first.append(first[-1] + len(parts))
    build = Builder(op)
    operands: list[ir.Value] = []
    new_maps: list[maps.Positions] = []
    for name, positions in zip(facts.operand_names, facts.maps, strict=True):
        if name == "scale":
            operands.append(facts.value(name))
            new_maps.append(positions)
        elif name in by_operand:
            value, dims = _partial_operand(by_operand[name], values[name], cuts, first, build)
            operands.append(value)
            new_maps.append(dims)
        else:
            operands.append(_split_operand(facts, name, cuts, build))
            new_maps.append(
                tuple(
                    None if p is None else first[p] + i
                    for p in positions
                    for i in range(1 if p is None else len(cuts[p]))
                )
            )
    new = op.clone(ip=ir.InsertionPoint(op)).operation
    outputs = operands[len(operands) - len(op.results) :]
    for number, value in enumerate(operands):
        new.operands[number] = value
    new.attributes["indexing_maps"] = maps.maps_attribute(first[-1], new_maps)
    _renumber_score_indices(new, first)
    for number, (old, value) in enumerate(zip(op.results, outputs, strict=True)):
        new.results[number].set_type(value.type)
        sizes = sizes_of(old)
        positions = facts.maps[len(facts.maps) - len(op.results) + number]
        counts = [1 if p is None else len(cuts[p]) for p in positions]
        old.replace_all_uses_with(build.join_dims(new.results[number], counts, sizes))
    # Only the op itself: what fed it is swept when all attentions are rewritten.
    erase(op)
    return new


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
        _coalesce(parts, seen) if parts else [_iteration_size(facts, dim)]
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
    """Per iteration dim of the operand, the pieces in which it was delivered."""
    sizes = sizes_of(plan.facts.value(plan.operand))
    dims = [
        position
        for dim, position in zip(plan.order, plan.map_after, strict=True)
        if sizes[dim] != 1 and position is not None
    ]
    return {dim: list(parts) for dim, parts in zip(dims, plan.node.pieces, strict=True)}


def _partial_operand(
    plan: OperandPlan,
    value: ir.Value,
    cuts: list[list[Size]],
    first: list[int],
    build: Builder,
) -> tuple[ir.Value, maps.Positions]:
    """An operand that may lack parts of dims, cut as the iteration space is, and its map."""
    parts = _parts_of(plan)
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
        pieces = parts[position]
        pairs = common_refinement([size for size, _ in pieces], cuts[position])
        assert pairs is not None
        if complete:
            fine.append([size for size, _, _ in pairs])
        else:
            fine += [
                [size for size, i, _ in pairs if i == number]
                for number, (_, present) in enumerate(pieces)
                if present
            ]
        for part, size in enumerate(cuts[position]):
            inside = [pieces[i][1] for _, i, j in pairs if j == part]
            if all(inside):
                joined.append(len(inside))
                joined_sizes.append(size)
                positions.append(first[position] + part)
    value = build.split_dims(value, fine)
    return build.join_dims(value, joined, joined_sizes), tuple(positions)


def _split_operand(
    facts: AttentionFacts, name: str, cuts: list[list[Size]], build: Builder
) -> ir.Value:
    value = facts.value(name)
    sizes = sizes_of(value)
    pieces = [
        [sizes[dim]] if p is None or len(cuts[p]) == 1 else cuts[p]
        for dim, p in enumerate(facts.map_of(name))
    ]
    producer = defining_op(value)
    if producer is not None and producer.name == "tensor.empty":
        return build.empty([size for parts in pieces for size in parts], element_type(value))
    return build.split_dims(value, pieces)


def _iteration_size(facts: AttentionFacts, dim: int) -> Size:
    for name in facts.tensor_operands:
        positions = facts.map_of(name)
        if dim in positions:
            return sizes_of(facts.value(name))[positions.index(dim)]
    raise AssertionError("an iteration dim that no operand has")


def _renumber_score_indices(op: ir.Operation, first: Sequence[int]) -> None:
    for inner in op.regions[0].blocks[0].operations:
        if inner.operation.name == "iree_linalg_ext.index":
            old = ir.IntegerAttr(inner.operation.attributes["dim"])
            inner.operation.attributes["dim"] = ir.IntegerAttr.get(old.type, first[old.value])


def _behind(value: ir.Value) -> Builder:
    """A builder right behind the definition of `value`."""
    op = defining_op(value)
    if op is not None:
        return Builder(op).after_operands([value])
    block = value.owner
    assert isinstance(block, ir.Block)
    return Builder(block.operations[0].operation)
