"""The planner: asks the producers of a value what a layout would cost. It changes no IR.

A plan is a graph of nodes, memoised on (value, demand), so that what two attentions share
is planned and priced once. The walk is a loop over an explicit stack: chains of thousands
of producers are planned in linear time without deep recursion.
"""

from __future__ import annotations

import functools
from collections.abc import Generator, Iterable
from dataclasses import dataclass, field

from iree.compiler import ir

from ..ir import Size, defining_op, has_one_use, is_ranked_tensor
from ..producers import Alternative, Demand, Refusal, Rule, rules_for
from ..targets import Target
from .cost import FREE, Cost

# An axis as it was delivered: its parts, major to minor, and whether each is there or was
# left out because the value does not change along it.
Pieces = tuple[tuple[Size, bool], ...]


@dataclass(eq=False)
class Node:
    """One step of a plan: `value` in the layout of `demand`, made by `rule`.

    `rule` is None where the value has the layout already, up to a reshape. `children` are
    the nodes of the operands that the alternative asks for, None where one is read as it
    is. `pieces[i]` tells how axis i of the demand is delivered.
    """

    value: ir.Value
    demand: Demand
    rule: Rule | None
    alternative: Alternative | None
    children: tuple[Node | None, ...]
    pieces: tuple[Pieces, ...]
    own_cost: Cost
    total: Cost = field(default=FREE)

    @property
    def is_complete(self) -> bool:
        """Whether every axis of the demand is there."""
        return all(present for parts in self.pieces for _, present in parts)

    @property
    def creates_op(self) -> bool:
        """Whether committing makes a new op that computes (views and reads do not)."""
        return self.alternative is not None and self.alternative.view is None

    @functools.cached_property
    def op(self) -> ir.Operation | None:
        return defining_op(self.value)


Plan = Node | Refusal


class Planner:
    """Plans demands on values against the producers' rules.

    With `computes_windows`, a slice of a value in its own layout is not read from the whole
    value, but asked of the producers, which then compute nothing else. Values in `moved` have
    their layout by a transpose, whose result it maps them to: this, too, is asked of the
    producers. Both are set before the first plan.
    """

    def __init__(self, target: Target | None = None, computes_windows: bool = False):
        self.target = target
        self.computes_windows = computes_windows
        self.moved: dict[ir.Value, ir.Value] = {}
        self._memo: dict[tuple[ir.Value, Demand], Plan] = {}
        self._narrowing: Planner | None = None

    def narrowing(self) -> Planner:
        """The planner beside this one that computes windows."""
        if self._narrowing is None:
            self._narrowing = Planner(self.target, computes_windows=True)
        return self._narrowing

    def plan(self, value: ir.Value, demand: Demand) -> Plan:
        """The cheapest way to have `value` in this layout, or why there is none."""
        stack = [self._solve(value, demand)]
        answer: Plan | None = None
        while stack:
            try:
                request = stack[-1].send(answer)  # type: ignore[arg-type]
            except StopIteration as stop:
                stack.pop()
                answer = stop.value
            else:
                answer = self._memo.get(request)
                if answer is None:
                    stack.append(self._solve(*request))
        assert answer is not None
        return answer

    def _solve(
        self, value: ir.Value, demand: Demand
    ) -> Generator[tuple[ir.Value, Demand], Plan, Plan]:
        key = (value, demand)
        if key in self._memo:
            return self._memo[key]
        # A demand that comes back to itself (a loop) is refused rather than followed.
        self._memo[key] = Refusal("the value depends on itself", None)
        best: Plan = self._as_it_is(value, demand)
        narrows = self.computes_windows and bool(demand.layout.windows)
        insists = narrows or value in self.moved
        if isinstance(best, Refusal) or demand.droppable or insists:
            found = yield from self._ask_rules(value, demand)
            taken = insists and isinstance(found, Node)
            if isinstance(best, Refusal) or taken or self._is_better(found, best):
                best = found
        self._memo[key] = best
        return best

    def _as_it_is(self, value: ir.Value, demand: Demand) -> Plan:
        layout = demand.layout
        if layout.is_row_major:
            pieces = tuple(((size, True),) for size in layout.sizes)
            return Node(value, demand, None, None, (), pieces, FREE)
        return Refusal(_why_no_rule(value), defining_op(value))

    def _ask_rules(
        self, value: ir.Value, demand: Demand
    ) -> Generator[tuple[ir.Value, Demand], Plan, Plan]:
        op = defining_op(value)
        if op is None or not is_ranked_tensor(value):
            return Refusal(_why_no_rule(value), op)
        number = list(op.results).index(value)
        refusal = Refusal(_why_no_rule(value), op)
        best: Node | None = None
        for rule in rules_for(op.name):
            found = rule.match(op, number, demand)
            if isinstance(found, Refusal):
                refusal = found
                continue
            for alternative in found:
                plan = yield from self._follow(value, demand, rule, alternative)
                if isinstance(plan, Refusal):
                    refusal = plan
                elif best is None or self._is_better(plan, best):
                    best = plan
        return best or refusal

    def _follow(
        self, value: ir.Value, demand: Demand, rule: Rule, alternative: Alternative
    ) -> Generator[tuple[ir.Value, Demand], Plan, Plan]:
        op = defining_op(value)
        assert op is not None
        children: list[Node | None] = []
        own, total = alternative.cost, FREE
        for request in alternative.requests:
            child = yield op.operands[request.operand], request.demand
            fallback = request.as_it_is
            if isinstance(child, Refusal) and fallback is None:
                return child
            if isinstance(child, Refusal) or self._reads_old(fallback, child):
                assert fallback is not None
                children.append(None)
                own += fallback
            else:
                children.append(child)
                total += child.total
        pieces = _delivered(demand, alternative, children)
        return Node(value, demand, rule, alternative, tuple(children), pieces, own, total + own)

    def _reads_old(self, fallback: Cost | None, child: Node) -> bool:
        """Whether the old operand is read rather than `child`: where that is cheaper, or as
        cheap and others read the operand, who would need it back."""
        if fallback is None:
            return False
        old, new = self.seconds(fallback), self.seconds(child.total)
        return old < new or (old == new and _is_shared(child))

    def _is_better(self, plan: Plan, than: Node) -> bool:
        return isinstance(plan, Node) and self.seconds(plan.total) < self.seconds(than.total)

    def seconds(self, cost: Cost) -> float:
        """What `cost` takes on the planner's target."""
        return price(cost, self.target)


def price(cost: Cost, target: Target | None) -> float:
    """Seconds that `cost` takes on `target`, or on the documented default machine."""
    from ..targets import DEFAULT_TARGET

    machine = target or DEFAULT_TARGET
    return cost.seconds(machine.bytes_per_second, machine.launch_seconds)


def nodes_of(roots: Iterable[Node]) -> list[Node]:
    """Every node of the plans, each once, consumers before producers."""
    order: list[Node] = []
    seen: set[int] = set()
    stack = [(root, False) for root in roots]
    while stack:
        node, expanded = stack.pop()
        if expanded:
            order.append(node)
        elif id(node) not in seen:
            seen.add(id(node))
            stack.append((node, True))
            stack += [(child, False) for child in node.children if child is not None]
    return order[::-1]


def graph_cost(roots: Iterable[Node]) -> Cost:
    """Cost of the plans as one graph: a node that several share counts once."""
    return total_cost(nodes_of(roots))


def total_cost(nodes: Iterable[Node]) -> Cost:
    """Cost of these nodes themselves."""
    costs = [node.own_cost for node in nodes if node.own_cost]
    return Cost(sum(cost.bytes for cost in costs), sum(cost.launches for cost in costs))


def _is_shared(node: Node) -> bool:
    """Whether a plan makes a value anew, past views of it, that others read, too."""
    while node.alternative is not None:
        if not has_one_use(node.value):
            return True
        (child, *others) = node.children or (None,)
        if node.creates_op or child is None or others:
            return False
        node = child
    return False


def _delivered(
    demand: Demand, alternative: Alternative, children: list[Node | None]
) -> tuple[Pieces, ...]:
    sizes = demand.layout.sizes
    if alternative.view is None:
        return tuple(((size, True),) for size in sizes)
    (child,) = children
    assert child is not None
    return tuple(
        _pieces_of(size, [piece for axis in axes for piece in child.pieces[axis]])
        for size, axes in zip(sizes, alternative.view, strict=True)
    )


def _pieces_of(size: Size, parts: list[tuple[Size, bool]]) -> Pieces:
    """An axis of this size made of `parts`: a cast may say its size in another way."""
    if not parts:
        return ((size, False),)
    return ((size, True),) if len(parts) == 1 and parts[0][1] else tuple(parts)


def _why_no_rule(value: ir.Value) -> str:
    op = defining_op(value)
    if op is None:
        return "it is a block argument, and nothing before it can absorb the change"
    if op.name == "hal.tensor.import":
        return "it is a function argument, and nothing before it can absorb the change"
    return f"no rule moves the change through {op.name}"
