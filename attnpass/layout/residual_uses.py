"""What a committed plan leaves behind: old values that others still read.

For those who read a value whole, it is either put back into its old layout, one copy, or
its old producer stays beside the new one and both layouts are computed, whichever is
cheaper; a contraction is never computed twice for that. Where others read slices (Q and K
of a packed projection), the old producer is narrowed to what they read; where that cannot
be done, the plan computes its part a second time.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

from iree.compiler import ir

from ..ir import (
    Size,
    defining_op,
    is_ranked_tensor,
    ranked_shape,
    reduces,
    replace_reads,
    sizes_of,
    tensor_bytes,
)
from ..ir.contractions import is_contraction
from ..ir.views import IN_PLACE, RESHAPES, SLICE, below_views
from .attention_rewrite import DeadOps, moves_nothing
from .commit import Committer
from .cost import FREE, Cost
from .layout import Layout, make_layout
from .planner import Node, Planner, nodes_of
from .rules import Demand, Refusal
from .rules.carried_values import CarriedValue, Source
from .rules.slices import slice_of, window_of

# Made anew in the new layout, at no cost at run time, while others keep the old one.
_MADE_TWICE = ("tensor.empty", "linalg.fill", "arith.constant")


@dataclass(frozen=True)
class Narrowing:
    """Slices of `source` along `dim` that lie in low .. low + size, and the plan that
    computes nothing else of it."""

    source: ir.Value
    slices: tuple[ir.Operation, ...]
    dim: int
    low: int
    node: Node


@dataclass
class ResidualUses:
    """Per kind what is done for those who still read; `costs` by id of the plan's node.

    `split` are the nodes that compute apart from the rest what was one launch with it, where
    that saves no copy.
    """

    restored: list[Node] = field(default_factory=list)
    split: set[Node] = field(default_factory=set)
    narrowed: list[Narrowing] = field(default_factory=list)
    costs: dict[int, Cost] = field(default_factory=dict)

    def commit(self, committer: Committer, dead_ops: DeadOps) -> None:
        """Gives those who still read what they need. Call before attention is rewritten."""
        for node in self.restored:
            replace_reads(node.value, committer.restore(node))
            dead_ops += [node.op] if node.op is not None else []
        for narrowing in self.narrowed:
            _commit_narrowing(narrowing, committer)
            dead_ops += narrowing.slices


class _Uses:
    """Counts uses down: an op dies with its last reader, unless it is one of `kept`."""

    def __init__(self, replaced: set[Source], kept: set[ir.Operation | None]) -> None:
        self._remaining: dict[ir.Operation, int] = {}
        self._replaced = replaced
        self._kept = kept
        self.dead: set[ir.Operation] = set()

    def drop(self, value: ir.Value) -> None:
        """One reader of `value` goes."""
        pending = [value]
        while pending:
            op = defining_op(pending.pop())
            if op is None or op in self._kept:
                continue
            if op not in self._remaining:
                self._remaining[op] = sum(1 for result in op.results for _ in result.uses)
            self._remaining[op] -= 1
            if self._remaining[op] == 0:
                self.dead.add(op)
                pending += list(op.operands)

    def drop_all(self, value: ir.Value) -> None:
        """All readers of `value` that are left go."""
        for user in self.living(value):
            for operand in user.operands:
                if operand == value:
                    self.drop(value)

    def living(self, value: ir.Value) -> list[ir.Operation]:
        """The ops that still read `value`, each once."""
        found: dict[ir.Operation, None] = {}
        for use in value.uses:
            op = use.owner.operation
            if op not in self.dead and (op, use.operand_number) not in self._replaced:
                found[op] = None
        return list(found)


# A plan and the use that its commit replaces: (plan, reader, operand number).
Root = tuple[Node, ir.Operation, int]


def residual_uses_of(roots: Sequence[Root], planner: Planner) -> ResidualUses:
    """What is left once the plans are committed."""
    nodes = nodes_of(node for node, _, _ in roots)
    carried_nodes = [(node, node.carried) for node in nodes if node.carried is not None]
    roots = [*roots, *(root for node, carried in carried_nodes for root in _fed(node, carried))]
    # Ops that hand a value on live, whatever their results are.
    kept = {defining_op(alias) for _, carried in carried_nodes for alias in carried.aliases}
    uses, residual = _Uses({(reader, number) for _, reader, number in roots}, kept), ResidualUses()
    for _, reader, number in roots:
        uses.drop(reader.operands[number])
    for source, slices in _sliced(nodes).items():
        narrowing = _narrow(source, uses, planner)
        if narrowing is None:
            continue
        residual.narrowed.append(narrowing)
        for op in narrowing.slices:
            uses.dead.add(op)
            uses.drop(source)
        if not any(_is_copied(op) for op in slices):
            residual.split.update(_maker(node) for node in nodes if node.value == source)
    for node in residual.split:
        residual.costs[id(node)] = Cost(0, 1)
    for node in nodes:
        op = node.op
        if op is None or op in uses.dead or op in kept or op.name in _MADE_TWICE:
            continue
        if not node.creates_op:
            if node.own_cost:
                # A repeat that attention reads past is still made for its other readers.
                residual.costs[id(node)] = Cost(-node.own_cost.bytes, -node.own_cost.launches)
            continue
        if node.demand.layout.windows:
            moved = sum(tensor_bytes(operand) for operand in op.operands)
            residual.costs[id(node)] = Cost(moved, 1)
            continue
        restoring, keeping = _cost_for_readers(node.value, uses), _cost_of_keeping(node)
        if keeping is not None and planner.seconds(keeping) < planner.seconds(restoring):
            residual.costs[id(node)] = keeping
            continue
        residual.costs[id(node)] = restoring
        residual.restored.append(node)
        uses.drop_all(node.value)
    again = _read_again(nodes)
    for node, carried in carried_nodes:
        for alias in carried.aliases:
            copy = Cost(2 * tensor_bytes(alias), 1)
            cost = copy if alias in again else _cost_for_readers(alias, uses)
            if cost:
                residual.costs[id(node)] = residual.costs.get(id(node), FREE) + cost
    return residual


def _read_again(nodes: Sequence[Node]) -> set[ir.Value]:
    """The values that the plans themselves read in their old layout."""
    found: set[ir.Value] = set()
    for node in nodes:
        if node.alternative is None:
            found.add(node.value)
        elif node.creates_op and node.op is not None:
            pairs = zip(node.alternative.requests, node.children, strict=True)
            given = {request.operand for request, child in pairs if child is not None}
            operands = enumerate(node.op.operands)
            found.update(operand for number, operand in operands if number not in given)
    return found


def _fed(node: Node, carried: CarriedValue) -> list[Root]:
    """The plans of what feeds a carried value; a source without one stays, and is transposed."""
    pairs = zip(node.children, carried.sources, strict=True)
    return [(child, op, number) for child, (op, number) in pairs if child is not None]


def _cost_for_readers(value: ir.Value, uses: _Uses) -> Cost:
    """Nothing where every other reader transposes the value anyway, or asks for its size,
    else one copy."""
    readers = uses.living(value)
    if all(reader.name == "tensor.dim" or _transposes(reader, uses) for reader in readers):
        return FREE
    return Cost(2 * tensor_bytes(value), 1)


def _cost_of_keeping(node: Node) -> Cost | None:
    """What the old op costs beside the new one, its operands in their old layouts included;
    None for an op that multiplies or reduces."""
    op = node.op
    assert op is not None
    if is_contraction(op) or reduces(op):
        return None
    read = [x for x in op.operands if is_ranked_tensor(x) and not _is_free(x)]
    cost = Cost(sum(tensor_bytes(x) for x in read) + tensor_bytes(node.value), 1)
    for child in node.children:
        if child is not None and child.creates_op and not _is_free(child.value):
            cost += Cost(2 * tensor_bytes(child.value), 1)
    return cost


def _is_free(value: ir.Value) -> bool:
    """Whether having `value` in two layouts moves nothing at run time."""
    return defining_op(value, *_MADE_TWICE) is not None


def _transposes(op: ir.Operation, uses: _Uses) -> bool:
    transposes = op.name == "linalg.transpose"
    if transposes and not moves_nothing(op):
        return True
    if not transposes and op.name not in IN_PLACE:
        return False
    readers = uses.living(op.results[0])
    return bool(readers) and all(_transposes(reader, uses) for reader in readers)


def _sliced(nodes: Sequence[Node]) -> dict[ir.Value, list[ir.Operation]]:
    """The values that the plans take slices of, and those slices."""
    found: dict[ir.Value, list[ir.Operation]] = {}
    for node in nodes:
        op = node.op
        taken = node.alternative is not None and node.alternative.view
        if taken and op is not None and op.name == SLICE:
            found.setdefault(op.operands[0], []).append(op)
    return found


def _maker(node: Node) -> Node:
    """The first node, past views, that makes an op."""
    while not node.creates_op and node.children and node.children[0] is not None:
        node = node.children[0]
    return node


def _is_copied(op: ir.Operation) -> bool:
    """Whether IREE launches a copy for a slice: it reads slices where they lie only if no
    reshape of more than unit dims follows and no transpose comes before."""
    readers = [use.owner.operation for use in op.results[0].uses]
    while readers:
        reader = readers.pop()
        if reader.name not in RESHAPES:
            continue
        if _long_dims(reader.operands[0]) != _long_dims(reader.results[0]):
            return True
        readers += [use.owner.operation for use in reader.results[0].uses]
    return defining_op(below_views(op.operands[0], RESHAPES), "linalg.transpose") is not None


def _long_dims(value: ir.Value) -> list[int | None]:
    return [size for size in ranked_shape(value) if size != 1]


def _narrow(source: ir.Value, uses: _Uses, planner: Planner) -> Narrowing | None:
    """How to compute of `source` only what its living readers slice out of it."""
    slices = uses.living(source)
    sizes = sizes_of(source)
    if not slices or any(op.name != SLICE for op in slices):
        return None
    dims: set[int] = set()
    intervals: list[tuple[int, int]] = []
    for op in slices:
        view = slice_of(op)
        if isinstance(view, Refusal):
            return None
        window = window_of(view)
        cut = [dim for dim, (_, size) in enumerate(window) if size != sizes[dim]]
        if len(cut) != 1:
            return None
        offset, size = window[cut[0]]
        if not isinstance(size, int):
            return None
        dims.add(cut[0])
        intervals.append((offset, offset + size))
    intervals.sort()
    touching = all(b[0] <= a[1] for a, b in itertools.pairwise(intervals))
    low, high = intervals[0][0], max(end for _, end in intervals)
    if len(dims) != 1 or not touching:
        return None
    (dim,) = dims
    full = sizes[dim]
    if not isinstance(full, int) or high - low == full:
        return None
    plan = planner.narrowing().plan(source, Demand(_window_layout(sizes, dim, low, high)))
    if isinstance(plan, Refusal) or not plan.is_complete or plan.alternative is None:
        return None
    return Narrowing(source, tuple(slices), dim, low, plan)


def _window_layout(sizes: Sequence[Size], dim: int, low: int, high: int) -> Layout:
    """Row-major, with low .. high of dim `dim`."""
    wanted = [d for d, size in enumerate(sizes) if size != 1]
    full = sizes[dim]
    assert isinstance(full, int)
    return make_layout(
        [high - low if d == dim else sizes[d] for d in wanted],
        tuple((wanted.index(d),) if d in wanted else () for d in range(len(sizes))),
        [(low, full) if d == dim else None for d in wanted],
    )


def _commit_narrowing(narrowing: Narrowing, committer: Committer) -> None:
    op = narrowing.node.op
    assert op is not None
    value = committer.value(narrowing.node, op)
    layout, sizes = narrowing.node.demand.layout, list(sizes_of(narrowing.source))
    sizes[narrowing.dim] = layout.sizes[layout.dims[narrowing.dim][0]]
    for op in narrowing.slices:
        build = committer.builder(narrowing.node, op)
        whole = build.join_dims(value, [len(axes) for axes in layout.dims], sizes)
        replacement = build.slice_again(op, whole, narrowing.dim, narrowing.low)
        op.results[0].replace_all_uses_with(replacement)
