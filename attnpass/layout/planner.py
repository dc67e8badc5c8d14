"""The planner: asks the producers of a value what a layout would cost. It changes no IR.

A plan is a graph of nodes, memoised on (value, demand), so that what two attentions share
is planned and priced once. The walk is a loop over an explicit stack: chains of thousands
of producers are planned in linear time without deep recursion.

A value that a loop carries depends on itself. Where a demand comes back to itself, a node is
*promised*: planning goes on as if the demand were met. If in the end it is, the promised
node becomes the plan; if not, what was planned meanwhile is forgotten.
"""

from __future__ import annotations

import functools
from collections.abc import Generator, Iterable
from dataclasses import dataclass, field, replace

from iree.compiler import ir

from ..ir import Size, defining_op, has_one_use, is_ranked_tensor, tensor_bytes
from ..ir.views import repeat_of
from ..machines import DEFAULT_TARGET, Target
from .cost import FREE, Cost
from .layout import Layout
from .rules import Alternative, Demand, Refusal, Rule, rules_for
from .rules.carried_values import CarriedValue, CarriedValues, owner_of

# An axis as it was delivered: its parts, major to minor, and whether each is there or was
# left out because the value does not change along it.
AxisParts = tuple[tuple[Size, bool], ...]


@dataclass(eq=False)
class Node:
    """One step of a plan: `value` in the layout of `demand`, made by `rule`.

    `rule` is None where the value has the layout already, up to a reshape. `children` are
    the nodes of the operands that the alternative asks for, None where one is read as it
    is. `parts[i]` tells how axis i of the demand is delivered.

    A node of a `carried` value has the demand on all its aliases, and a child per source, None
    for one that is transposed on its way in. An alias has a node of its own above that, its only
    child.
    """

    value: ir.Value
    demand: Demand
    rule: Rule | None
    alternative: Alternative | None
    children: tuple[Node | None, ...]
    parts: tuple[AxisParts, ...]
    own_cost: Cost
    total: Cost = field(default=FREE)
    carried: CarriedValue | None = None

    def become(self, other: Node) -> None:
        """Makes this node, which was promised, the plan that it stands for."""
        self.__dict__.update(other.__dict__)

    @property
    def aliased(self) -> Node | None:
        """The node of the carried value that the value is an alias of, if it is one."""
        child = self.children[0] if len(self.children) == 1 else None
        return child if child is not None and child.carried and not self.carried else None

    @property
    def is_complete(self) -> bool:
        """Whether every axis of the demand is there."""
        return all(present for parts in self.parts for _, present in parts)

    @property
    def creates_op(self) -> bool:
        """Whether committing makes a new op that computes (views and reads do not)."""
        return self.alternative is not None and self.alternative.view is None

    @functools.cached_property
    def op(self) -> ir.Operation | None:
        return defining_op(self.value)


Plan = Node | Refusal
# What is planned: a value, or all aliases of a carried value, in a layout.
Key = tuple[ir.Value | CarriedValue, Demand]
Solving = Generator[Key, Plan, Plan]

# An alias of a carried value, and that itself: committing them makes no op.
_AS_ALIAS = Alternative((), view=())


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
        self.carried_values = CarriedValues()
        # A carried value has one layout, whoever asks: this is the first that it can have.
        self._layout_of: dict[CarriedValue, Layout] = {}
        self._memo: dict[Key, Plan] = {}
        # What is being planned, with its promised node where it was asked for meanwhile.
        self._open: dict[Key, Node | None] = {}
        self._narrowing: Planner | None = None

    def narrowing(self) -> Planner:
        """The planner beside this one that computes windows."""
        if self._narrowing is None:
            self._narrowing = Planner(self.target, computes_windows=True)
            self._narrowing.carried_values = self.carried_values
            self._narrowing._layout_of = self._layout_of
        return self._narrowing

    def plan(self, value: ir.Value, demand: Demand) -> Plan:
        """The cheapest way to have `value` in this layout, or why there is none."""
        request: Key = (value, demand)
        answer = self._known(request)
        stack: list[Solving] = []
        while answer is None or stack:
            if answer is None:
                stack.append(self._solve(request))
            try:
                # None starts the generator that was just made.
                request = stack[-1].send(answer)  # type: ignore[arg-type]
                answer = self._known(request)
            except StopIteration as stop:
                stack.pop()
                answer = stop.value
        return answer

    def _known(self, key: Key) -> Plan | None:
        """The plan for `key` if there is one, or a promised one while it is being made."""
        if key not in self._open:
            return self._memo.get(key)
        what, demand = key
        promised = self._open[key]
        if promised is None and isinstance(what, CarriedValue):
            promised = _carried(what, demand, (), FREE)
        elif promised is None:
            promised = Node(what, demand, None, None, (), _whole(demand.layout), FREE)  # type: ignore[arg-type]
        self._open[key] = promised
        return promised

    def _solve(self, key: Key) -> Solving:
        what, demand = key
        before = len(self._memo)
        self._open[key] = None
        if isinstance(what, CarriedValue):
            found = yield from self._solve_carried(what, demand)
        else:
            found = yield from self._solve_value(what, demand)
        promised = self._open.pop(key)
        if promised is not None and isinstance(found, Node):
            promised.become(found)
            found = promised
        elif promised is not None:
            while len(self._memo) > before:
                self._memo.popitem()
        self._memo[key] = found
        return found

    def _solve_value(self, value: ir.Value, demand: Demand) -> Solving:
        best: Plan = self._as_it_is(value, demand)
        narrows = self.computes_windows and bool(demand.layout.windows)
        insists = narrows or value in self.moved
        if isinstance(best, Refusal) or demand.droppable or insists:
            found = yield from self._ask_producer(value, demand)
            taken = insists and isinstance(found, Node)
            if isinstance(best, Refusal) or taken or self._is_better(found, best):
                best = found
        whole = self._memo.get((value, Demand(demand.layout)))
        if isinstance(best, Node) and isinstance(whole, Node) and best.is_complete:
            # Others have the value so, with nothing to drop: one node for all of them.
            return best if self._is_better(best, whole) else whole
        return best

    def _solve_carried(self, carried: CarriedValue, demand: Demand) -> Solving:
        layout = demand.layout
        if self._layout_of.setdefault(carried, layout) != layout:
            return Refusal("another of its readers wants it in another layout", None)
        operands = [op.operands[number] for op, number in carried.sources]
        inner = [carried.layout_of(layout, operand) for operand in operands]
        refusal = carried.check(layout)
        if any(wanted is None for wanted in inner):
            refusal = Refusal("its sizes are known otherwise where it is made", None)
        answers: list[Plan] = []
        for operand, wanted in zip(operands, inner, strict=True):
            if refusal is None and wanted is not None:
                answers.append((yield operand, Demand(wanted)))
        refusal = refusal or _why_not_carried(carried, answers)
        if refusal is not None:
            del self._layout_of[carried]
            return replace(refusal, reason=carried.title + refusal.reason)
        copied = [x for x, a in zip(operands, answers, strict=True) if isinstance(a, Refusal)]
        own = Cost(sum(2 * tensor_bytes(operand) for operand in copied), len(copied))
        children = tuple(answer if isinstance(answer, Node) else None for answer in answers)
        return _carried(carried, demand, children, own)

    def _as_it_is(self, value: ir.Value, demand: Demand) -> Plan:
        layout = demand.layout
        if layout.is_row_major:
            return Node(value, demand, None, None, (), _whole(layout), FREE)
        return _no_rule(value)

    def _ask_producer(self, value: ir.Value, demand: Demand) -> Solving:
        carried = self.carried_values.of(value)
        if carried is None:
            return (yield from self._ask_rules(value, demand))
        if isinstance(carried, Refusal):
            return carried
        owner, layout = owner_of(value), demand.layout
        if layout.is_row_major:
            return Refusal("it has this layout, and nothing is dropped on the way", owner)
        if layout.windows:
            return Refusal("only a slice is wanted of what this op hands on whole", owner)
        whole = carried.layout_of(layout.merged().layout, carried.aliases[0])
        if whole is None:
            return Refusal("a dim of dynamic size would be split on its way through", owner)
        node = yield carried, Demand(whole)
        if isinstance(node, Refusal):
            return node
        parts = _whole(layout)
        return Node(value, demand, None, _AS_ALIAS, (node,), parts, FREE, node.total)

    def _ask_rules(self, value: ir.Value, demand: Demand) -> Solving:
        op = defining_op(value)
        if op is None or not is_ranked_tensor(value):
            return _no_rule(value)
        number = list(op.results).index(value)
        refusal = _no_rule(value)
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
    ) -> Solving:
        op = defining_op(value)
        assert op is not None
        children: list[Node | None] = []
        own, total = alternative.cost, FREE
        for request in alternative.requests:
            child = yield op.operands[request.operand], request.demand
            fallback = request.as_it_is
            if isinstance(child, Refusal) and fallback is None:
                return child
            if isinstance(child, Refusal) or self._reads_old(op, fallback, child):
                assert fallback is not None
                children.append(None)
                own += fallback
            else:
                children.append(child)
                total += child.total
        parts = _delivered(demand, alternative, children)
        return Node(value, demand, rule, alternative, tuple(children), parts, own, total + own)

    def _reads_old(self, op: ir.Operation, fallback: Cost | None, child: Node) -> bool:
        """Whether `op` reads its old operand rather than `child`: where that is cheaper, or as
        cheap and others read the operand, who would need it back.

        Not a mere repeat at equal cost: IREE folds it into attention where it can split the
        heads, and the transpose that it took over with it.
        """
        if fallback is None:
            return False
        old, new = self.seconds(fallback), self.seconds(child.total)
        return old < new or (old == new and _is_shared(child) and repeat_of(op) is None)

    def _is_better(self, plan: Plan, than: Node) -> bool:
        return isinstance(plan, Node) and self.seconds(plan.total) < self.seconds(than.total)

    def seconds(self, cost: Cost) -> float:
        """What `cost` takes on the planner's target."""
        return price(cost, self.target)


def price(cost: Cost, target: Target | None) -> float:
    """Seconds that `cost` takes on `target`, or on the documented default machine."""
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
        if node.creates_op or node.aliased or child is None or others:
            return False
        node = child
    return False


def _delivered(
    demand: Demand, alternative: Alternative, children: list[Node | None]
) -> tuple[AxisParts, ...]:
    sizes = demand.layout.sizes
    if alternative.view is None:
        return _whole(demand.layout)
    (child,) = children
    assert child is not None
    return tuple(
        _parts_of(size, [piece for axis in axes for piece in child.parts[axis]])
        for size, axes in zip(sizes, alternative.view, strict=True)
    )


def _parts_of(size: Size, parts: list[tuple[Size, bool]]) -> AxisParts:
    """An axis of this size made of `parts`: a cast may say its size in another way."""
    if not parts:
        return ((size, False),)
    return ((size, True),) if len(parts) == 1 and parts[0][1] else tuple(parts)


def _whole(layout: Layout) -> tuple[AxisParts, ...]:
    """Every axis is there, in one piece."""
    return tuple(((size, True),) for size in layout.sizes)


def _carried(
    carried: CarriedValue, demand: Demand, children: tuple[Node | None, ...], own: Cost
) -> Node:
    total = own
    for child in children:
        total += FREE if child is None else child.total
    alias, parts = carried.aliases[0], _whole(demand.layout)
    return Node(alias, demand, None, _AS_ALIAS, children, parts, own, total, carried)


def _why_not_carried(carried: CarriedValue, answers: list[Plan]) -> Refusal | None:
    """Why a carried value cannot have a layout, given what its sources answer: one that refuses is
    transposed on its way in, unless all do or it is required."""
    refusals = {i: answer for i, answer in enumerate(answers) if isinstance(answer, Refusal)}
    needed = [refusals[i] for i in refusals if i in carried.required]
    if needed:
        return needed[0]
    return refusals[0] if answers and len(refusals) == len(answers) else None


# Ops that nothing moves through, and why.
_CALLERS = {
    "hal.tensor.import": "it is a function argument, and its caller's buffer has the layout",
    "hal.tensor.alias": "it lies in a buffer of the caller, which has the layout",
}
_WALLS = {
    "util.optimization_barrier": "an optimization barrier is there to keep what it hides",
    "iree_tensor_ext.compute_barrier.start": "a compute barrier is there to keep what it hides",
    "iree_tensor_ext.compute_barrier.end": "a compute barrier is there to keep what it hides",
}


def _no_rule(value: ir.Value) -> Refusal:
    op = defining_op(value)
    if op is None:
        why = "it is a block argument, and nothing before it can absorb the change"
        return Refusal(why, None, "handed-in")
    if op.name in _CALLERS:
        return Refusal(_CALLERS[op.name], op, "handed-in")
    return Refusal(_WALLS.get(op.name, f"no rule moves the change through {op.name}"), op)
