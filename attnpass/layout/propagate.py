"""Decides which layouts pay, for all attentions of a module together, and commits them.

For each attention the value operand is planned twice: with k2 innermost, and as it is but
without the broadcasts that attention can do itself. Prices are seconds on the target: what
the layout is worth there (targets/) against the bytes and launches that the plan adds. A
tie changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from iree.compiler import ir

from .. import maps
from ..attention import AttentionFacts, describe
from ..ir import (
    defining_op,
    erase_dead,
    has_one_use,
    location_text,
    reduces,
    sizes_of,
    tensor_bytes,
)
from ..producers import Demand, Refusal
from ..producers.loop_nest import is_contraction
from ..report.records import AttentionRecord, OperandRecord, Report
from ..targets import Target, Worth
from .attention_rewrite import (
    VIEWS,
    OperandPlan,
    Swept,
    commit_attention,
    find_result_fold,
    fold_result,
    moves_nothing,
    transpose_behind,
)
from .caches import Cache, declare, find_caches, find_missed
from .commit import Committer
from .cost import Cost
from .indexed_repeats import make_repeats_explicit
from .layout import permuted
from .planner import Node, Planner, graph_cost, nodes_of, price, total_cost
from .remains import Remains, remains_of
from .sources import find_source, fold_through_reshapes, moved_into_place


@dataclass
class Choice:
    """What is chosen for one operand of one attention, and the record that says why: plans
    to commit, or that attention reads the operand as it lies before its transpose."""

    facts: AttentionFacts
    record: OperandRecord
    mode: str
    plans: list[OperandPlan] = field(default_factory=list)
    worth: float = 0.0
    reads_source: bool = False

    @property
    def nodes(self) -> list[Node]:
        """The nodes of all plans, each once."""
        if len(self.plans) == 1:
            return self.plans[0].nodes
        return nodes_of(plan.node for plan in self.plans)


def propagate(
    module: ir.Operation,
    found: Sequence[AttentionFacts],
    *,
    mode: str,
    operands: Sequence[str],
    target: Target | None,
    report: Report,
    pass_name: str,
    cache: str = "kept",
) -> bool:
    """Plans and commits the layout of `operands` (names as in AttentionFacts) for every
    attention in `found`; returns whether IR changed.

    `mode` is `cost`, `always` (whatever is fully absorbed) or `never` (records only). With
    `cache="transposed"` V caches cross the boundary of public functions as V^T, all of them
    or none.
    """
    swept: Swept = []
    repeats = make_repeats_explicit(found) if mode != "never" else []
    caches = _caches(found, report) if cache == "transposed" and mode != "never" else []
    changes = [each.transpose(swept) for each in caches]
    crossing = {id(facts) for each in caches for facts in each.readers}
    choices, remains = _choose_all(found, mode, crossing, operands, target)
    spoilers = [choice for choice in choices if _spoils(choice, crossing)]
    if spoilers:
        for each in caches:
            each.undo(swept)
        record = spoilers[0].record
        report.note(f"every cache keeps its layout, for one cannot change: {record.reason}")
        choices, remains = _choose_all(found, mode, set(), operands, target)
    elif caches:
        declare(caches, changes)
        report.note("transposed for the caller: " + _listed(changes))
    elif cache == "transposed" and mode != "never":
        report.note("no cache is transposed for the caller")
    for choice in choices:
        choice.record.pass_name = pass_name
        record_of(report, choice.facts).decide(choice.record)
    taken = [choice for choice in choices if choice.plans or choice.reads_source]
    if mode == "never" or not taken:
        for repeat in repeats:
            repeat.undo(swept)
        erase_dead(swept)
        return False
    swept += [repeat.op for repeat in repeats]
    _commit(taken, remains, swept)
    return True


def _caches(found: Sequence[AttentionFacts], report: Report) -> list[Cache]:
    """The V caches of these attentions that could be V^T for the caller, too: of all entry
    points, or none."""
    demands = [
        (facts, _demand(facts, "value", _transposed_v(facts), may_drop_broadcasts(facts)))
        for facts in found
        if not facts.is_innermost("value", facts.k2)
    ]
    caches = find_caches(demands)
    if caches and find_missed(demands, caches) is not None:
        report.note(
            "every cache keeps its layout, for another is read through ops that no rule knows"
        )
        return []
    return caches


def _spoils(choice: Choice, crossing: set[int]) -> bool:
    """Whether V, which crosses a function's boundary as V^T, could not be had so."""
    is_value = choice.record.operand == "value" and id(choice.facts) in crossing
    return is_value and choice.record.decision != "absorbed"


def _listed(changes: Sequence[Sequence[str]]) -> str:
    return "; ".join(text for words in changes for text in words)


def _choose_all(
    found: Sequence[AttentionFacts],
    mode: str,
    crossing: set[int],
    operands: Sequence[str],
    target: Target | None,
) -> tuple[list[Choice], Remains]:
    """What is chosen for each operand; V of the attentions in `crossing` is not priced."""
    planner = Planner(target)
    for facts in found:
        if mode != "never" and facts.is_innermost("value", facts.k2):
            planner.moved.update(moved_into_place(facts, "value"))
    choices: list[Choice] = []
    for facts in found:
        may_drop = mode != "never" and may_drop_broadcasts(facts)
        others = [
            _choose_other(facts, name, mode, target, planner, may_drop)
            for name in ("query", "key", "mask")
            if name in operands and name in facts.operand_names
        ]
        choices += others
        if "value" in operands:
            planned = {plan.operand for choice in others for plan in choice.plans}
            its_mode = "always" if id(facts) in crossing else mode
            choices.append(_choose(facts, its_mode, target, planner, may_drop, planned))
    remains = _drop_what_does_not_pay(choices, target, planner)
    if mode != "never":
        for choice in choices:
            _read_source(choice, target)
    return choices, remains


def record_of(report: Report, facts: AttentionFacts) -> AttentionRecord:
    """The report's record of this attention, made at its first use."""
    return report.attention(
        (facts.location, facts.function, facts.number),
        lambda: AttentionRecord(
            facts.location,
            facts.function,
            facts.kind,
            facts.shapes,
            facts.element_types,
            number=facts.number,
        ),
    )


def innermost(facts: AttentionFacts, operand: str, dims: Sequence[int]) -> tuple[int, ...]:
    """The order of the operand's dims that puts the iteration dims `dims` last and keeps the
    others as they stand."""
    last = [dim for dim, p in enumerate(facts.map_of(operand)) if p in dims]
    rank = len(facts.map_of(operand))
    return (*(dim for dim in range(rank) if dim not in last), *last)


def may_drop_broadcasts(facts: AttentionFacts) -> bool:
    """Whether a broadcast in front of this attention is ours to leave out.

    IREE splits the heads of an attention whose result is transposed behind it, and then
    folds such a broadcast itself; doing it here as well would only get in its way.
    """
    found = None if facts.own_configuration else transpose_behind(facts)
    return not facts.own_configuration and (found is None or moves_nothing(found[0]))


def plan_operand(
    facts: AttentionFacts,
    operand: str,
    order: Sequence[int],
    planner: Planner,
    may_drop: bool,
) -> OperandPlan | Refusal:
    """Plans `operand` with its dims in `order`; with `may_drop`, its broadcasts along batch
    dims are left out."""
    plan = planner.plan(facts.value(operand), _demand(facts, operand, order, may_drop))
    if isinstance(plan, Refusal):
        return plan
    return OperandPlan(facts, operand, tuple(order), plan)


def _demand(facts: AttentionFacts, operand: str, order: Sequence[int], may_drop: bool) -> Demand:
    layout = permuted(sizes_of(facts.value(operand)), order)
    positions = facts.map_of(operand)
    droppable = (
        axis
        for dim, axes in enumerate(layout.dims)
        for axis in axes
        if positions[dim] in facts.batch and positions[dim] not in facts.score_index_dims
    )
    return Demand(layout, frozenset(droppable if may_drop else ()))


def _transposed_v(facts: AttentionFacts) -> tuple[int, ...]:
    return innermost(facts, "value", facts.k2)


def _choose_other(
    facts: AttentionFacts,
    operand: str,
    mode: str,
    target: Target | None,
    planner: Planner,
    may_drop: bool,
) -> Choice:
    """Q and K with k1 innermost, the mask with k2 innermost. No gain was measured for these,
    so only a plan that saves data movement pays by itself."""
    before = maps.show(facts.map_of(operand))
    choice = Choice(facts, OperandRecord(operand, "kept", "", before, before), mode)
    dims, name = (facts.k2, "k2") if operand == "mask" else (facts.k1, "k1")
    record = choice.record
    if mode == "never":
        record.reason = "mode=never leaves every layout as it is"
        return choice
    if facts.is_innermost(operand, dims):
        record.reason = f"{name} is innermost already"
        return choice
    plan = plan_operand(facts, operand, innermost(facts, operand, dims), planner, may_drop)
    if isinstance(plan, Refusal):
        record.decision = "refused"
        record.reason = f"{name} innermost cannot be absorbed: {plan}"
    elif mode == "always" or price(total_cost(plan.nodes), target) < 0:
        choice.plans = [plan]
        record.decision = "absorbed"
        record.reason = f"{name} innermost, absorbed by {_absorber(plan)}"
        record.map_after = maps.show(plan.map_after)
        _count(choice)
    else:
        record.reason = f"{name} innermost saves no data movement"
    return choice


def _choose(
    facts: AttentionFacts,
    mode: str,
    target: Target | None,
    planner: Planner,
    may_drop: bool,
    planned: set[str],
) -> Choice:
    """V; `planned` are the operands that have a plan already."""
    before = maps.show(facts.map_of("value"))
    choice = Choice(facts, OperandRecord("value", "kept", "", before, before), mode)
    if mode == "never":
        choice.record.reason = "mode=never leaves every layout as it is"
        return choice
    foldable = [name for name in ("key", "value") if may_drop and name not in planned]
    folds = _broadcast_plans(facts, foldable, planner)
    fold_cost = graph_cost(plan.node for plan in folds)
    plan = plan_operand(facts, "value", _transposed_v(facts), planner, may_drop)
    if facts.is_innermost("value", facts.k2) and not _absorbs_transpose(plan, planner):
        choice.record.reason = "k2 is innermost in V already"
        return _fold_broadcasts(choice, folds, fold_cost, target)
    if isinstance(plan, Refusal):
        choice.record.decision = "refused"
        choice.record.reason = f"V^T cannot be absorbed: {plan}"
        return _fold_broadcasts(choice, folds, fold_cost, target)
    plans = [plan]
    if not plan.node.is_complete:
        plans += [fold for fold in folds if fold.operand == "key"]
    worth = _worth(facts, target)
    cost = total_cost(plan.nodes) if len(plans) == 1 else graph_cost(p.node for p in plans)
    if mode == "always" and cost.launches <= fold_cost.launches:
        return _absorb(choice, plans, worth.seconds or 0.0, "")
    if mode == "always":
        choice.record.reason = (
            "V stays as it is: V^T would keep a broadcast copy that attention can read past"
            if folds
            else f"V stays as it is: V^T cannot be absorbed whole, it takes {cost.launches} more "
            f"launch(es) and {cost.bytes} bytes"
        )
    elif worth.seconds is None:
        choice.record.reason = f"V stays as it is: {worth.reason}, so no gain is assumed"
    elif price(cost, target) - worth.seconds < min(0.0, price(fold_cost, target)):
        return _absorb(choice, plans, worth.seconds, f"; {worth.reason}")
    else:
        choice.record.reason = f"V stays as it is: {worth.reason}"
    return _fold_broadcasts(choice, folds, fold_cost, target)


def _absorbs_transpose(plan: OperandPlan | Refusal, planner: Planner) -> bool:
    """Whether a plan takes away the transpose that alone puts k2 innermost in V."""
    if isinstance(plan, Refusal):
        return False
    transposed = planner.moved.get(plan.node.value)
    return transposed is not None and any(
        node.value == transposed and node.alternative is not None for node in nodes_of([plan.node])
    )


def _read_source(choice: Choice, target: Target | None) -> None:
    """Lets attention read an operand before its transpose where that saves a dispatch.

    IREE fuses `bias -> transpose` into a dispatch of its own between projection and
    attention. With the transpose in attention's map, the bias is fused into the projection.
    A precompiled kernel reads one order only: its transpose stays where it can be fused.
    """
    facts, record = choice.facts, choice.record
    if choice.plans or facts.own_configuration or (target and target.kernel_for(facts)):
        return
    source = find_source(facts, record.operand)
    if source is None or source.layout.is_row_major or not _is_epilogue(source.value):
        return
    moved = 2 * tensor_bytes(source.value)
    choice.reads_source = True
    record.decision = "folded"
    record.reason = (
        f"{record.reason}; attention reads it as it lies before its transpose, and what makes "
        f"it at {_place(source.value)} is fused into the projection"
    ).removeprefix("; ")
    record.launches = -1
    record.bytes_before, record.bytes_after = moved, 0


def _is_epilogue(value: ir.Value) -> bool:
    """Whether `value`, below reshapes, is an elementwise op on a contraction, all of them
    read by nobody else."""
    op = defining_op(value)
    while op is not None and op.name in VIEWS and has_one_use(value):
        value = op.operands[0]
        op = defining_op(value)
    if op is None or op.name != "linalg.generic" or reduces(op) or not has_one_use(value):
        return False
    inputs = list(op.operands)[: len(op.operands) - len(op.results)]
    return any(is_contraction(defining_op(x)) and has_one_use(x) for x in inputs)


def _place(value: ir.Value) -> str:
    op = defining_op(value)
    return "unknown" if op is None else location_text(op.location)


def _worth(facts: AttentionFacts, target: Target | None) -> Worth:
    if target is None:
        return Worth(None, "the module names no single target")
    return target.worth_of_transposed_v(facts)


def _absorb(choice: Choice, plans: list[OperandPlan], worth: float, why: str) -> Choice:
    plan, record = plans[0], choice.record
    choice.plans, choice.worth = plans, worth
    record.decision = "absorbed"
    record.reason = f"k2 innermost in V, absorbed by {_absorber(plan)}{why}"
    record.map_after = maps.show(plan.map_after)
    return _count(choice)


def _fold_broadcasts(
    choice: Choice, folds: list[OperandPlan], cost: Cost, target: Target | None
) -> Choice:
    """V keeps its order; broadcasts in front of K or V that attention can do itself go."""
    if folds and price(cost, target) < 0:
        choice.plans = folds
        choice.record.decision = "folded"
        choice.record.reason += "; the grouped-query broadcast is folded into attention's maps"
        _count(choice)
    return choice


def _broadcast_plans(
    facts: AttentionFacts, operands: Sequence[str], planner: Planner
) -> list[OperandPlan]:
    """Plans that leave out the broadcasts in front of `operands` and change nothing else."""
    plans = []
    for operand in operands:
        plan = plan_operand(facts, operand, range(len(facts.map_of(operand))), planner, True)
        if isinstance(plan, OperandPlan) and not plan.node.is_complete:
            plans.append(plan)
    return plans


def _count(choice: Choice) -> Choice:
    record, nodes = choice.record, choice.nodes
    cost = total_cost(nodes)
    record.launches = cost.launches
    record.producers = list(dict.fromkeys(_changed(nodes)))
    saved = sum(-min(node.own_cost.bytes, 0) for node in nodes)
    record.bytes_before, record.bytes_after = saved, saved + cost.bytes
    return choice


def _changed(nodes: Sequence[Node]) -> list[str]:
    """The producers that plans rewrite or drop, nearest to attention first."""
    names = []
    for node in nodes:
        op = node.op
        if op is None or node.alternative is None or op.name in ("tensor.empty", "linalg.fill"):
            continue
        if node.creates_op or not op.name.startswith("tensor."):
            names.append(f"{op.name} at {location_text(op.location)}")
    return names


def _absorber(plan: OperandPlan) -> str:
    """The producer that the layout change ends at: the last one that computes."""
    makers = [
        node.op
        for node in plan.nodes
        if node.creates_op
        and node.op is not None
        and node.op.name not in ("tensor.empty", "linalg.fill")
    ]
    if not makers:
        return "the reshapes and transposes in front of attention"
    op = makers[-1]
    assert op is not None
    return f"{op.name} at {location_text(op.location)}"


def _drop_what_does_not_pay(
    choices: list[Choice], target: Target | None, planner: Planner
) -> Remains:
    """Prices what the plans would leave behind, values that others still read, and returns
    that for the plans that stay.

    A choice that does not pay any more is taken back, which changes what is left for the
    others, so this repeats until nothing changes; every round takes back at least one.
    """
    while True:
        taken = [choice for choice in choices if choice.plans]
        remains = remains_of([plan.root for c in taken for plan in c.plans], planner)
        bad = [
            (choice, why)
            for choice in taken
            if (why := _why_not(choice, remains, target)) is not None
        ]
        if not bad:
            return remains
        for choice, why in bad:
            choice.plans = []
            record = choice.record
            record.decision, record.map_after = "refused", record.map_before
            record.producers, record.launches = [], 0
            record.bytes_before = record.bytes_after = None
            record.reason = why


def _why_not(choice: Choice, remains: Remains, target: Target | None) -> str | None:
    nodes, left = choice.nodes, remains.costs
    cost = total_cost(nodes)
    kept = [node for node in nodes if id(node) in left]
    for node in kept:
        cost += left[id(node)]
    choice.record.launches = cost.launches
    absorbed = choice.record.decision == "absorbed"
    if choice.mode == "always" and absorbed and cost.launches > 0:
        pays = False
    else:
        gain = choice.worth if absorbed else 0.0
        pays = (choice.mode == "always" and absorbed) or price(cost, target) < gain
    if pays:
        return None
    if kept and kept[0].op is not None:
        op = kept[0].op
        if kept[0] in remains.split:
            return (
                f"V^T cannot be absorbed: {op.name} at {location_text(op.location)} makes more "
                "than V, in one launch; a second one for V alone does not pay"
            )
        return (
            f"V^T cannot be absorbed: others read {op.name} at {location_text(op.location)} "
            "as it is, and a copy for them does not pay"
        )
    return f"V^T costs {cost.launches:+d} launches and {cost.bytes:+d} bytes, more than it saves"


def _commit(choices: Sequence[Choice], remains: Remains, swept: Swept) -> None:
    committer = Committer()
    operands = [value for choice in choices for value in choice.facts.op.operands]
    swept += [op for value in operands if (op := defining_op(value)) is not None]
    remains.commit(committer, swept)
    for group in _by_attention(choices):
        facts = group[0].facts
        rank = facts.num_dims
        group_plans = [plan for choice in group for plan in choice.plans]
        if group_plans:
            facts = describe(commit_attention(group_plans, committer, swept))
        for choice in group:
            if choice.reads_source:
                new = fold_through_reshapes(facts, choice.record.operand, swept)
                facts = facts if new is None else describe(new)
        # With its heads split, attention can write the order that a transpose behind it
        # makes; IREE no longer finds that through the finer iteration space.
        fold = find_result_fold(facts) if facts.num_dims != rank else None
        if fold is not None:
            fold_result(fold, swept)
    committer.finish(swept)
    erase_dead(swept)


def _by_attention(choices: Sequence[Choice]) -> list[list[Choice]]:
    groups: dict[int, list[Choice]] = {}
    for choice in choices:
        groups.setdefault(id(choice.facts), []).append(choice)
    return list(groups.values())
