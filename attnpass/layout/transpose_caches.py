"""attn-transpose-caches: V caches that cross the function's boundary as V^T.

In decode V is an argument, the cache, which comes back as a result with the new keys in it.
No producer inside the module can transpose it, its caller can: here the argument and the
result get k2 (the keys) as their last dim. Transposes at the boundary keep the program what
it was; V^T then absorbs them, in front of the argument and behind the result, like any other.
Functions that only return V (prefill) follow, so that all entry points of a module agree.

Whether each attention can have its cache so is tried on a copy of the module. Where one cannot,
nothing changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from iree.compiler import ir

from ..analysis.boundary import Exit, argument_number, exits, permute_argument, public_function
from ..attention.facts import AttentionFacts, find
from ..ir import (
    Builder,
    collect,
    defining_op,
    detached_copy,
    is_ranked_tensor,
    maps,
    next_op,
    ranked_shape,
    reached,
    reduces,
)
from ..ir.views import SLICE, WHOLE
from ..kernels.demand import with_later_kernels
from ..machines import Target
from ..passes import PassContext, TargetPass
from ..report.ops import MODULE
from .attention_rewrite import DeadOps
from .choose import Choice, choose_v, demand_for, may_drop_broadcasts, transposed_v
from .commit_choices import commit_choices
from .layout import Layout
from .planner import Planner
from .profitability import drop_what_does_not_pay
from .residual_uses import ResidualUses
from .rules import Demand, Refusal, rules_for

# Ops that keep a cache a cache: views, and those that write some of it or take some out.
_UPDATES = (
    "arith.select",
    "iree_linalg_ext.scatter",
    "linalg.generic",
    "tensor.concat",
    "tensor.insert_slice",
    "tensor.pad",
    *WHOLE,
    SLICE,
)

# On a function, what its callers must know: an array of strings.
ATTRIBUTE = "attnpass.transposed_caches"


@dataclass(frozen=True)
class TransposeCaches(TargetPass):
    """Changes what callers pass and get: all V caches of a module, or none. The report and the
    attribute `attnpass.transposed_caches` of the function name each."""

    name = "attn-transpose-caches"
    summary = "V caches that callers hold get k2 as their last dim"

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        report = context.report
        target = self.target_for(module, context)
        target = with_later_kernels(module, target, context)
        if why := _refusal(detached_copy(module), target):
            report.record(MODULE, "not-transposed", why)
            return False
        plan = _plan(module, target)
        assert isinstance(plan, _Plan), "the copy could have its caches so"
        for change in plan.changes:
            details = {"before": change.before, "after": change.after}
            report.record(change.function, "transposed", str(change), kind=change.of, **details)
        for choice in plan.choices:
            choice.record.pass_name = self.name
            choice.facts.record_in(report).decide(choice.record)
        commit_choices(plan.choices, plan.residual, plan.dead_ops)
        return True


@dataclass
class _Plan:
    """V^T for all attentions that read caches: its choices and the uses that these leave, the
    ops to sweep, and what changed at the boundary already."""

    choices: list[Choice]
    residual: ResidualUses
    dead_ops: DeadOps
    changes: list[BoundaryChange]


def _refusal(module: ir.Operation, target: Target | None) -> Refusal | None:
    """Why no cache of this module, a copy to try it on, becomes V^T; None if they do."""
    found = _plan(module, target)
    return found if isinstance(found, Refusal) else None


def _plan(module: ir.Operation, target: Target | None) -> _Plan | Refusal:
    """Transposes the caches at the boundary and plans V^T for what reads them; or why V cannot be
    had so, for a module that is of no use then."""
    found = find(module)
    dead_ops: DeadOps = []
    demands = [
        (facts, demand_for(facts, "value", transposed_v(facts), may_drop_broadcasts(facts)))
        for facts in found
        if not facts.is_innermost("value", facts.k2)
    ]
    caches = find_caches(demands)
    if not caches:
        return Refusal("no cache is transposed for the caller")
    if find_missed(demands, caches) is not None:
        return Refusal(
            "every cache keeps its layout, for another is read through ops that no rule knows"
        )
    changes = [change for cache in caches for change in cache.transpose(dead_ops)]
    readers = {id(facts) for cache in caches for facts in cache.readers}
    planner = Planner(target)
    choices = [
        choose_v(facts, "always", target, planner, may_drop_broadcasts(facts), set())
        for facts in found
        if id(facts) in readers
    ]
    residual = drop_what_does_not_pay(choices, target, planner)
    for choice in choices:
        if choice.record.decision != "absorbed":
            return Refusal(
                f"every cache keeps its layout, for one cannot change: {choice.record.reason}"
            )
    declare(changes)
    return _Plan(choices, residual, dead_ops, changes)


@dataclass(frozen=True)
class BoundaryChange:
    """`of` a function, `argument N` or `result N`, which has another type now."""

    function: ir.Operation
    of: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.before} -> {self.after}"


@dataclass
class Cache:
    """What crosses the boundary of `function` with its dims in `order`: an argument (None
    where V is only returned) and results. `readers` are the attentions it is the V of."""

    function: ir.Operation
    argument: ir.Value | None
    exits: list[Exit]
    order: tuple[int, ...]
    readers: list[AttentionFacts] = field(default_factory=list)

    def transpose(self, dead_ops: DeadOps) -> list[BoundaryChange]:
        """Gives the argument and the results their new types, with transposes inside that
        keep all else as it is. Says what changed."""
        changes = []

        def change(of: str, before: ir.Type, after: ir.Type) -> None:
            changes.append(BoundaryChange(self.function, of, str(before), str(after)))

        back = maps.inverse(self.order)
        if self.argument is not None:
            old, reads = self.argument.type, list(self.argument.uses)
            permute_argument(self.argument, self.order)
            inside = Builder(_behind(self.argument)).transpose(self.argument, back)
            for use in reads:
                use.owner.operation.operands[use.operand_number] = inside
            dead_ops.append(_maker(inside))
            change(f"argument {argument_number(self.argument)}", old, self.argument.type)
        for end in self.exits:
            old = end.value
            end.replace(Builder(end.op).transpose(old, self.order), self.order)
            change(f"result {end.number_of_result}", old.type, end.value.type)
        return changes


def declare(changes: Sequence[BoundaryChange]) -> None:
    """Says in the attributes of each function what `transpose` changed."""
    for change in changes:
        attributes, context = change.function.attributes, change.function.context
        before = list(ir.ArrayAttr(attributes[ATTRIBUTE])) if ATTRIBUTE in attributes else []
        said = ir.StringAttr.get(f"{change.of}: {change}", context=context)
        attributes[ATTRIBUTE] = ir.ArrayAttr.get([*before, said], context=context)


def find_caches(demands: Sequence[tuple[AttentionFacts, Demand]]) -> list[Cache]:
    """The V caches at the boundaries of public functions, each once; `demands` are the
    attentions and what is demanded of their V."""
    caches: dict[object, Cache] = {}
    for facts, demand in demands:
        function = public_function(facts.op)
        if function is not None:
            wanted = _demands(facts.value("value"), demand)
            for key, cache in _caches_of(function, wanted):
                caches.setdefault(key, cache).readers.append(facts)
    updated = {_place(end) for cache in caches.values() if cache.argument for end in cache.exits}
    for cache in caches.values():
        if cache.argument is None:
            cache.exits = [end for end in cache.exits if _place(end) not in updated]
    return [cache for cache in caches.values() if cache.exits]


def find_missed(
    demands: Sequence[tuple[AttentionFacts, Demand]], caches: Sequence[Cache]
) -> AttentionFacts | None:
    """An attention that reads, by ops no rule sees through, an argument that comes back
    updated and is none of `caches`: callers would hold its cache as it was."""
    ours = {id(facts) for cache in caches for facts in cache.readers}
    for facts, _ in demands:
        function = public_function(facts.op)
        if function is None or id(facts) in ours:
            continue
        arguments = _arguments_behind(facts.value("value"))
        ends = list(exits(function))
        if any(_is_updated(argument, end.value) for argument in arguments for end in ends):
            return facts
    return None


def _arguments_behind(value: ir.Value) -> list[ir.Value]:
    """The tensor arguments of the function that `value` takes elements of."""

    def below(value: ir.Value) -> list[ir.Value]:
        op = defining_op(value)
        taken = [] if op is None or _computes(op) else _all_operands(op)
        return [operand for operand in taken if is_ranked_tensor(operand)]

    return [one for one in reached([value], below) if argument_number(one) is not None]


def _all_operands(op: ir.Operation) -> list[ir.Value]:
    """What `op` and the ops in its regions (a `tensor.extract`) read."""
    return [operand for inner in collect(op, lambda _: True) for operand in inner.operands]


def _caches_of(
    function: ir.Operation, wanted: dict[ir.Value, Layout]
) -> Iterator[tuple[object, Cache]]:
    """The caches on the way of one V, with what they are known by."""
    ends = list(exits(function))
    for value, layout in wanted.items():
        order = _order(layout)
        if order is None or order == tuple(range(len(order))):
            continue
        if argument_number(value) is not None:
            updated = [end for end in ends if _is_updated(value, end.value)]
            yield value, Cache(function, value, updated, order)
        for end in ends:
            if end.value == value:
                yield _place(end), Cache(function, None, [end], order)


def _place(end: Exit) -> tuple[ir.Operation, int]:
    return end.op, end.number


def _demands(value: ir.Value, demand: Demand) -> dict[ir.Value, Layout]:
    """The layouts that `demand` on `value` asks of all that it is made of."""
    found: dict[ir.Value, Layout] = {}
    stack = [(value, demand)]
    while stack:
        value, demand = stack.pop()
        op = defining_op(value)
        if value in found:
            continue
        found[value] = demand.layout
        if op is None or not is_ranked_tensor(value):
            continue
        number = list(op.results).index(value)
        for rule in rules_for(op.name):
            ways = rule.match(op, number, demand)
            if not isinstance(ways, Refusal) and ways:
                stack += [(op.operands[r.operand], r.demand) for r in ways[0].requests]
                break
    return found


def _order(layout: Layout) -> tuple[int, ...] | None:
    """The order of dims that this layout is, unit dims where they stand; None where it
    splits a dim or takes a window."""
    if any(layout.windows) or any(len(axes) > 1 for axes in layout.dims):
        return None
    order = [
        dim for _, dim in sorted((axes[0], dim) for dim, axes in enumerate(layout.dims) if axes)
    ]
    for dim, axes in enumerate(layout.dims):
        if not axes:
            order.insert(dim, dim)
    return tuple(order)


def _is_updated(argument: ir.Value, result: ir.Value) -> bool:
    """Whether `result` is `argument` with some of it written, added or taken out."""

    def before(value: ir.Value) -> list[ir.Value]:
        op = defining_op(value, *_UPDATES)
        if op is None or reduces(op):
            return []
        return [operand for operand in op.operands if is_ranked_tensor(operand)]

    return _may_be_one(argument, result) and argument in reached([result], before)


def _computes(op: ir.Operation) -> bool:
    """Whether this is a projection or the like, whose result is no part of its operands."""
    moves = ("linalg.broadcast", "linalg.copy", "linalg.generic", "linalg.transpose")
    return reduces(op) or (op.name.startswith("linalg.") and op.name not in moves)


def _may_be_one(argument: ir.Value, result: ir.Value) -> bool:
    """Whether the types differ in one dim at most, the keys that were added."""
    if not is_ranked_tensor(result):
        return False
    a, b = ir.RankedTensorType(argument.type), ir.RankedTensorType(result.type)
    if a.element_type != b.element_type or a.rank != b.rank:
        return False
    pairs = zip(ranked_shape(argument), ranked_shape(result), strict=True)
    return sum(old != new for old, new in pairs) <= 1


def _maker(value: ir.Value) -> ir.Operation:
    op = defining_op(value)
    assert op is not None
    return op


def _behind(argument: ir.Value) -> ir.Operation:
    """The op in front of which `argument` can first be read."""
    op = defining_op(argument)
    if op is not None:
        return next_op(op)
    return ir.BlockArgument(argument).owner.operations[0].operation
