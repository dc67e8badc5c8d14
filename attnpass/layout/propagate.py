"""Decides which layouts pay, for all attentions of a module together, and commits them.

For each attention the value operand is planned twice: with k2 innermost, and as it is but
without the broadcasts that attention can do itself. Prices are seconds on the target: what
the layout is worth there (targets/) against the bytes and launches that the plan adds. A
tie changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from iree.compiler import ir

from .. import maps
from ..attention import AttentionFacts
from ..ir import defining_op, erase_dead, location_text, sizes_of, tensor_bytes, users
from ..producers import Demand, Refusal
from ..report.records import AttentionRecord, OperandRecord, Report
from ..targets import Target, Worth
from .commit import Committer, OperandPlan, commit_attention
from .cost import FREE, Cost
from .layout import permuted
from .planner import Node, Planner, graph_cost, nodes_of, price

_VIEWS = ("tensor.expand_shape", "tensor.collapse_shape")


@dataclass
class Choice:
    """What is chosen for one attention: plans to commit, and the record that says why."""

    facts: AttentionFacts
    record: OperandRecord
    plans: list[OperandPlan]
    worth: float


def propagate(
    module: ir.Operation,
    found: Sequence[AttentionFacts],
    *,
    mode: str,
    target: Target | None,
    report: Report,
    pass_name: str,
) -> bool:
    """Plans and commits V's layout for every attention in `found`; returns whether IR changed.

    `mode` is `cost`, `always` (whatever is fully absorbed) or `never` (records only).
    """
    planner = Planner(target)
    choices = [_choose(facts, mode, target, planner) for facts in found]
    _drop_what_does_not_pay(choices, mode, target)
    for choice in choices:
        choice.record.pass_name = pass_name
        record_of(report, choice.facts).decide(choice.record)
    taken = [choice for choice in choices if choice.plans]
    if mode == "never" or not taken:
        return False
    _commit(taken)
    return True


def record_of(report: Report, facts: AttentionFacts) -> AttentionRecord:
    """The report's record of this attention, made at its first use."""
    location, function = facts.location, facts.function
    for record in report.attentions:
        if (record.location, record.function) == (location, function) and (
            location != "unknown"
        ):
            return record
    record = AttentionRecord(
        location, function, facts.kind, facts.shapes, facts.element_types
    )
    report.attentions.append(record)
    return record


def k2_innermost(facts: AttentionFacts) -> tuple[int, ...]:
    """The order of V's dims that puts its k2 dims last and keeps the others as they stand."""
    positions = facts.map_of("value")
    keys = [dim for dim, p in enumerate(positions) if p in facts.k2]
    return (*(dim for dim in range(len(positions)) if dim not in keys), *keys)


def plan_operand(
    facts: AttentionFacts, operand: str, order: Sequence[int], planner: Planner
) -> OperandPlan | Refusal:
    """Plans `operand` with its dims in `order`, its broadcasts left out where that is sound."""
    value = facts.value(operand)
    sizes = sizes_of(value)
    layout = permuted(sizes, order)
    droppable: frozenset[int] = frozenset()
    if not facts.own_configuration:
        positions = facts.map_of(operand)
        droppable = frozenset(
            axis
            for dim, axes in enumerate(layout.dims)
            for axis in axes
            if positions[dim] in facts.batch and positions[dim] not in facts.score_index_dims
        )
    plan = planner.plan(value, Demand(layout, droppable))
    if isinstance(plan, Refusal):
        return plan
    return OperandPlan(facts, operand, tuple(order), plan)


def _choose(
    facts: AttentionFacts, mode: str, target: Target | None, planner: Planner
) -> Choice:
    before = maps.show(facts.map_of("value"))
    record = OperandRecord("value", "kept", "", before, before)
    choice = Choice(facts, record, [], 0.0)
    if mode == "never":
        record.reason = "mode=never leaves every layout as it is"
        return choice
    if facts.is_innermost("value", facts.k2):
        record.reason = "k2 is innermost in V already"
        return choice
    worth = _worth(facts, target)
    plan = plan_operand(facts, "value", k2_innermost(facts), planner)
    if isinstance(plan, Refusal):
        record.decision, record.reason = "refused", f"V^T cannot be absorbed: {plan}"
    elif mode == "always":
        _take(choice, plan, worth.seconds or 0.0, "")
        return choice
    elif worth.seconds is None:
        record.reason = f"V stays as it is: {worth.reason}, so no gain is assumed"
    elif worth.seconds <= price(plan.node.total, target):
        record.reason = f"V stays as it is: {worth.reason}"
    else:
        _take(choice, plan, worth.seconds, f"; {worth.reason}")
        return choice
    _consider_broadcast(choice, planner, target)
    return choice


def _worth(facts: AttentionFacts, target: Target | None) -> Worth:
    if target is None:
        return Worth(None, "the module names no single target")
    return target.worth_of_transposed_v(facts)


def _take(choice: Choice, plan: OperandPlan, worth: float, why: str) -> None:
    record = choice.record
    choice.plans, choice.worth = [plan], worth
    record.decision = "absorbed"
    producers = _changed(plan.node)
    record.reason = f"k2 innermost in V, absorbed by {_absorber(plan.node)}{why}"
    record.map_after = maps.show(plan.map_after)
    record.producers = producers
    _count(record, [plan])


def _consider_broadcast(choice: Choice, planner: Planner, target: Target | None) -> None:
    """V keeps its order; a broadcast in front of K or V that attention can do itself goes."""
    facts = choice.facts
    plans = []
    for operand in ("key", "value"):
        order = range(len(facts.map_of(operand)))
        plan = plan_operand(facts, operand, list(order), planner)
        if isinstance(plan, OperandPlan) and not plan.node.is_complete:
            plans.append(plan)
    cost = graph_cost(plan.node for plan in plans)
    if not plans or price(cost, target) >= 0:
        return
    choice.plans = plans
    record = choice.record
    record.decision = "folded"
    record.reason += "; the grouped-query broadcast is folded into attention's maps"
    record.producers = sorted({name for plan in plans for name in _changed(plan.node)})
    _count(record, plans)


def _count(record: OperandRecord, plans: Sequence[OperandPlan]) -> None:
    cost = graph_cost(plan.node for plan in plans)
    record.launches = cost.launches
    saved = sum(-min(node.own_cost.bytes, 0) for node in nodes_of(p.node for p in plans))
    record.bytes_before, record.bytes_after = saved, saved + cost.bytes


def _changed(root: Node) -> list[str]:
    """The producers that a plan rewrites or drops, nearest to attention first."""
    names = []
    for node in nodes_of([root]):
        op = node.op
        if op is None or node.alternative is None or op.name in ("tensor.empty", "linalg.fill"):
            continue
        if node.creates_op or not op.name.startswith("tensor."):
            names.append(f"{op.name} at {location_text(op.location)}")
    return names


def _absorber(root: Node) -> str:
    """The producer that the layout change ends at: the last one that computes."""
    makers = [
        node.op
        for node in nodes_of([root])
        if node.creates_op
        and node.op is not None
        and node.op.name not in ("tensor.empty", "linalg.fill")
    ]
    if not makers:
        return "the reshapes and transposes in front of attention"
    op = makers[-1]
    assert op is not None
    return f"{op.name} at {location_text(op.location)}"


def _drop_what_does_not_pay(choices: list[Choice], mode: str, target: Target | None) -> None:
    """Prices what the plans would leave behind: values that others still read.

    A choice that does not pay any more is taken back, which changes what is left for the
    others, so this repeats until nothing changes; every round takes back at least one.
    """
    while True:
        taken = [choice for choice in choices if choice.plans]
        left = leftovers([plan for choice in taken for plan in choice.plans])
        bad = [
            (choice, why)
            for choice in taken
            if (why := _why_not(choice, left, mode, target)) is not None
        ]
        if not bad:
            return
        for choice, why in bad:
            choice.plans = []
            record = choice.record
            record.decision, record.map_after = "refused", record.map_before
            record.producers, record.launches = [], 0
            record.bytes_before = record.bytes_after = None
            record.reason = why


def _why_not(
    choice: Choice, left: dict[int, Cost], mode: str, target: Target | None
) -> str | None:
    nodes = nodes_of(plan.node for plan in choice.plans)
    cost = graph_cost(plan.node for plan in choice.plans)
    kept = [node for node in nodes if id(node) in left]
    for node in kept:
        cost += left[id(node)]
    choice.record.launches = cost.launches
    absorbed = choice.record.decision == "absorbed"
    if mode == "always" and absorbed and cost.launches > 0:
        pays = False
    else:
        gain = choice.worth if absorbed else 0.0
        pays = (mode == "always" and absorbed) or price(cost, target) < gain
    if pays:
        return None
    if kept and kept[0].op is not None:
        op = kept[0].op
        return (
            f"V^T cannot be absorbed: others read {op.name} at {location_text(op.location)} "
            "as it is, and a copy for them does not pay"
        )
    return f"V^T costs {cost.launches:+d} launches and {cost.bytes:+d} bytes, more than it saves"


def leftovers(plans: Sequence[OperandPlan]) -> dict[int, Cost]:
    """Nodes whose old op others still read once the plans are committed, and what it costs
    to give them its value back in the old layout."""
    remaining: dict[ir.Operation, int] = {}
    dead: set[ir.Operation] = set()

    def use_less(op: ir.Operation | None) -> list[ir.Operation]:
        if op is None:
            return []
        if op not in remaining:
            remaining[op] = sum(1 for result in op.results for _ in result.uses)
        remaining[op] -= 1
        return [op] if remaining[op] == 0 else []

    pending = [op for plan in plans for op in use_less(plan.node.op)]
    while pending:
        op = pending.pop()
        dead.add(op)
        for operand in op.operands:
            pending += use_less(defining_op(operand))
    found: dict[int, Cost] = {}
    for node in nodes_of(plan.node for plan in plans):
        op = node.op
        if not node.creates_op or op is None or op in dead or op not in remaining:
            continue
        if op.name not in ("tensor.empty", "linalg.fill"):
            found[id(node)] = _cost_of_restoring(node, dead)
    return found


def _cost_of_restoring(node: Node, dead: set[ir.Operation]) -> Cost:
    """Nothing where every other reader transposes the value anyway, else one copy."""
    if all(_transposes(user, dead) for user in users(node.value) if user not in dead):
        return FREE
    return Cost(2 * tensor_bytes(node.value), 1)


def _transposes(op: ir.Operation, dead: set[ir.Operation]) -> bool:
    if op.name == "linalg.transpose":
        return True
    readers = [user for user in users(op.results[0]) if user not in dead] if op.results else []
    return op.name in _VIEWS and bool(readers) and all(_transposes(r, dead) for r in readers)


def _commit(choices: Iterable[Choice]) -> None:
    committer = Committer()
    choices = list(choices)
    plans = [plan for choice in choices for plan in choice.plans]
    left = leftovers(plans)
    for node in nodes_of(plan.node for plan in plans):
        if id(node) in left:
            restored = committer.restore(node)
            node.value.replace_all_uses_with(restored)
    old = [op for plan in plans if (op := plan.node.op) is not None]
    for choice in choices:
        commit_attention(choice.plans, committer)
    erase_dead(old)
