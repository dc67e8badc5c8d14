"""Chooses a layout for one operand of one attention, by what it costs and is worth.

V is planned twice: with k2 innermost, and as it is but without the broadcasts that attention can do
itself. Prices are seconds on the target: what the layout is worth there (`machines`) against the
bytes and launches that the plan adds. A tie changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from iree.compiler import ir

from ..attention.facts import AttentionFacts
from ..ir import (
    body_names,
    defining_op,
    has_one_use,
    location_text,
    maps,
    reduces,
    sizes_of,
    tensor_bytes,
)
from ..ir.contractions import is_contraction
from ..ir.views import RESHAPES
from ..machines import Target, Worth
from ..report.entries import OperandRecord, PricedLayout
from .attention_rewrite import OperandPlan, moves_nothing, transpose_behind
from .cost import FREE, Cost
from .layout import permuted
from .planner import Node, Planner, graph_cost, nodes_of, price, total_cost
from .rules import Demand, Refusal
from .sources import Source, find_source

TRANSPOSED = "V^T, k2 innermost"
WITHOUT_BROADCAST = "as it is, without its broadcast"
_AS_IT_IS = PricedLayout("as it is", 0, 0, 0.0, 0.0)


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


def choose_other(
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
        record.reason, record.cause = "mode=never leaves every layout as it is", "mode"
        return choice
    if facts.is_innermost(operand, dims):
        record.reason, record.cause = f"{name} is innermost already", "innermost"
        return choice
    plan = plan_operand(facts, operand, innermost(facts, operand, dims), planner, may_drop)
    _price(choice, f"{name} innermost", plan, None, 0.0, target)
    if isinstance(plan, Refusal):
        record.decision, record.cause = "refused", plan.cause
        record.reason = f"{name} innermost cannot be absorbed: {plan}"
    elif mode == "always" or price(total_cost(plan.nodes), target) < 0:
        choice.plans = [plan]
        record.decision = "absorbed"
        record.reason = f"{name} innermost, absorbed by {_absorber(plan)}"
        record.map_after = maps.show(plan.map_after)
        _count(choice)
    else:
        record.reason, record.cause = f"{name} innermost saves no data movement", "costs"
    return choice


def choose_v(
    facts: AttentionFacts,
    mode: str,
    target: Target | None,
    planner: Planner,
    may_drop: bool,
    planned: set[str],
) -> Choice:
    """V with k2 innermost, or as it is without the broadcasts of K and V; `planned` are the
    operands that have a plan already."""
    before = maps.show(facts.map_of("value"))
    choice = Choice(facts, OperandRecord("value", "kept", "", before, before), mode)
    record = choice.record
    if mode == "never":
        record.reason, record.cause = "mode=never leaves every layout as it is", "mode"
        return choice
    foldable = [name for name in ("key", "value") if may_drop and name not in planned]
    folds = _broadcast_plans(facts, foldable, planner)
    fold_cost = graph_cost(plan.node for plan in folds)
    plan = plan_operand(facts, "value", transposed_v(facts), planner, may_drop)
    if facts.is_innermost("value", facts.k2) and not _absorbs_transpose(plan, planner):
        record.reason, record.cause = "k2 is innermost in V already", "innermost"
        return _fold_broadcasts(choice, folds, fold_cost, target)
    worth = _worth(facts, target)
    _price(choice, TRANSPOSED, plan, None, worth.seconds, target)
    if folds:
        _price(choice, WITHOUT_BROADCAST, folds[0], fold_cost, 0.0, target)
    if isinstance(plan, Refusal):
        record.decision, record.cause = "refused", plan.cause
        record.reason = f"V^T cannot be absorbed: {plan}"
        return _fold_broadcasts(choice, folds, fold_cost, target)
    plans = [plan]
    if not plan.node.is_complete:
        plans += [fold for fold in folds if fold.operand == "key"]
    # Attention of IREE's own can read V before its transpose as well, and a kernel that is there
    # for row-major V alone stays.
    saved = FREE
    if target is not None and target.kernel_for(facts) and (worth.seconds or 0.0) >= 0:
        saved = _dispatch_between(facts, "value")
    cost = total_cost(plan.nodes) if len(plans) == 1 else graph_cost(p.node for p in plans)
    if mode == "always" and cost.launches <= fold_cost.launches:
        return _absorb(choice, plans, worth.seconds or 0.0, "")
    record.cause = "unmeasured" if worth.seconds is None and mode != "always" else "costs"
    if mode == "always":
        record.reason = (
            "V stays as it is: V^T would keep a broadcast copy that attention can read past"
            if folds
            else f"V stays as it is: V^T cannot be absorbed whole, it takes {cost.launches} more "
            f"launch(es) and {cost.bytes} bytes"
        )
    elif worth.seconds is None:
        record.reason = f"V stays as it is: {worth.reason}, so no gain is assumed"
    elif price(cost + saved, target) - worth.seconds < min(0.0, price(fold_cost, target)):
        why = "; the dispatch of its own that transposes V goes" if saved else ""
        gain = worth.seconds - price(saved, target)
        return _absorb(choice, plans, gain, f"{why}; {worth.reason}")
    else:
        record.reason = f"V stays as it is: {worth.reason}"
    return _fold_broadcasts(choice, folds, fold_cost, target)


def _price(
    choice: Choice,
    layout: str,
    plan: OperandPlan | Refusal,
    cost: Cost | None,
    worth: float | None,
    target: Target | None,
) -> None:
    """Records what a layout would cost, beside the operand as it is; `cost` is that of the plan
    where none is given."""
    if isinstance(plan, Refusal):
        priced = PricedLayout(layout, worth=worth, refusal=str(plan))
    else:
        cost = cost or total_cost(plan.nodes)
        seconds = None if worth is None else price(cost, target) - worth
        priced = PricedLayout(layout, cost.bytes, cost.launches, worth, seconds)
    choice.record.alternatives = [*(choice.record.alternatives or [_AS_IT_IS]), priced]


def record_taken(choice: Choice) -> None:
    """Marks which of the priced layouts an operand has in the end."""
    decision = choice.record.decision
    folded = decision == "folded" and not choice.reads_source
    chosen = {"absorbed": 1}.get(decision, 2 if folded else 0)
    choice.record.alternatives = [
        replace(one, taken=number == min(chosen, len(choice.record.alternatives) - 1))
        for number, one in enumerate(choice.record.alternatives)
    ]


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


def _absorb(choice: Choice, plans: list[OperandPlan], worth: float, why: str) -> Choice:
    plan, record = plans[0], choice.record
    choice.plans, choice.worth = plans, worth
    record.decision, record.cause = "absorbed", ""
    record.reason = f"k2 innermost in V, absorbed by {_absorber(plan)}{why}"
    record.map_after = maps.show(plan.map_after)
    return _count(choice)


def _absorbs_transpose(plan: OperandPlan | Refusal, planner: Planner) -> bool:
    """Whether a plan takes away the transpose that alone puts k2 innermost in V."""
    if isinstance(plan, Refusal):
        return False
    transposed = planner.moved.get(plan.node.value)
    return transposed is not None and any(
        node.value == transposed and node.alternative is not None for node in nodes_of([plan.node])
    )


def _worth(facts: AttentionFacts, target: Target | None) -> Worth:
    if target is None:
        return Worth(None, "the module names no single target")
    return target.worth_of_transposed_v(facts)


def plan_operand(
    facts: AttentionFacts,
    operand: str,
    order: Sequence[int],
    planner: Planner,
    may_drop: bool,
) -> OperandPlan | Refusal:
    """Plans `operand` with its dims in `order`; with `may_drop`, its broadcasts along batch
    dims are left out."""
    plan = planner.plan(facts.value(operand), demand_for(facts, operand, order, may_drop))
    if isinstance(plan, Refusal):
        return plan
    return OperandPlan(facts, operand, tuple(order), plan)


def demand_for(facts: AttentionFacts, operand: str, order: Sequence[int], may_drop: bool) -> Demand:
    """The demand for `operand` with its dims in `order`; with `may_drop`, broadcasts along batch
    dims may be left out."""
    layout = permuted(sizes_of(facts.value(operand)), order)
    positions = facts.map_of(operand)
    droppable = (
        axis
        for dim, axes in enumerate(layout.dims)
        for axis in axes
        if positions[dim] in facts.batch and positions[dim] not in facts.score_index_dims
    )
    return Demand(layout, frozenset(droppable if may_drop else ()))


def transposed_v(facts: AttentionFacts) -> tuple[int, ...]:
    """The order of V's dims that puts k2 innermost."""
    return innermost(facts, "value", facts.k2)


def innermost(facts: AttentionFacts, operand: str, dims: Sequence[int]) -> tuple[int, ...]:
    """The order of the operand's dims that puts the iteration dims `dims` last and keeps the
    others as they stand."""
    last = [dim for dim, p in enumerate(facts.map_of(operand)) if p in dims]
    rank = len(facts.map_of(operand))
    return (*(dim for dim in range(rank) if dim not in last), *last)


def may_drop_broadcasts(facts: AttentionFacts) -> bool:
    """Whether a broadcast in front of this attention is ours to leave out.

    IREE splits the heads of an attention whose result is transposed behind it, and then
    folds a broadcast within groups of them itself; doing it here as well would only get in its
    way. It does not fold one that all heads of a single sequence read (multi-query attention).
    Where Q is a repeat itself, no operand might be left that has the repeated dim.
    """
    query = find_source(facts, "query")
    if facts.own_configuration or (query is not None and query.is_repeated):
        return False
    found = transpose_behind(facts)
    return found is None or moves_nothing(found[0]) or _is_for_all_heads(facts)


def _is_for_all_heads(facts: AttentionFacts) -> bool:
    """Whether broadcasts in front of K and V are along whole batch dims, and there are some."""
    lost: list[bool] = []
    for operand in ("key", "value"):
        source = find_source(facts, operand)
        parts = source.parts if source is not None else ()
        for axes, p in zip(parts, facts.map_of(operand), strict=False):
            repeats = [axis is None for axis in axes]
            if p in facts.batch and any(repeats):
                lost.append(all(repeats))
    return bool(lost) and all(lost)


def read_source(choice: Choice, target: Target | None, may_drop: bool) -> None:
    """Lets attention read an operand before its transpose where that saves a dispatch.

    IREE fuses `bias -> transpose` into a dispatch of its own between projection and
    attention. With the transpose in attention's map, the bias is fused into the projection.
    With `may_drop`, likewise for a repeat that stands before a transpose (a cache of sequence,
    heads, head dim), which no layout of the repeated value takes away.
    A precompiled kernel reads one order only: its transpose stays where it can be fused, but
    takes longer than the kernel saves where it copies repeats.
    Repeats of what is read by index (Falcon's V out of a packed projection) stay, too: IREE fuses
    the two, and moves every element once a head.
    """
    facts, record = choice.facts, choice.record
    if choice.plans or facts.own_configuration:
        return
    source = find_source(facts, record.operand)
    if source is None:
        return
    has_kernel = target is not None and target.kernel_for(facts)
    if not has_kernel and (saved := _dispatch_between(facts, record.operand)):
        why = (
            "attention reads it as it lies before its transpose, and what makes it at "
            f"{_place(source.value)} is fused into the projection"
        )
    elif may_drop and (saved := _repeat_between(facts, record.operand, source)):
        why = "attention reads it as it lies before its transpose and its grouped-query broadcast"
    elif not has_kernel and (saved := _repeat_of_reads(facts, record.operand, source)):
        why = f"attention reads what is read by index at {_place(source.value)}, not its repeats"
    else:
        return
    choice.reads_source = True
    record.decision = "folded"
    record.reason = f"{record.reason}; {why}".removeprefix("; ")
    record.launches = saved.launches
    record.bytes_before, record.bytes_after = -saved.bytes, 0


def _repeat_between(facts: AttentionFacts, operand: str, source: Source) -> Cost:
    """What it saves to read `source` instead of repeats of it behind which a transpose stands;
    nothing where there are none, or where the innermost dim would be another one."""
    if not source.is_repeated or source.layout.is_row_major or not source.keeps_innermost:
        return FREE
    moved = tensor_bytes(source.value) + tensor_bytes(facts.value(operand))
    return Cost(-moved, -1)


def _repeat_of_reads(facts: AttentionFacts, operand: str, source: Source) -> Cost:
    """What it saves to read elements that another tensor is read for by index, instead of repeats
    of them; nothing where `source` is made otherwise, or the innermost dim would be another one."""
    op = defining_op(source.value)
    if not source.is_repeated or not source.keeps_innermost:
        return FREE
    if op is None or op.name != "linalg.generic" or "tensor.extract" not in body_names(op):
        return FREE
    return Cost(tensor_bytes(source.value) - tensor_bytes(facts.value(operand)), 0)


def _dispatch_between(facts: AttentionFacts, operand: str) -> Cost:
    """What it saves that IREE's dispatch between a projection and attention goes, of the
    projection's elementwise op and a transpose; nothing where there is none."""
    source = find_source(facts, operand)
    if source is None or source.layout.is_row_major or not epilogue_products(source.value):
        return FREE
    if _is_read_beside(facts.value(operand), source.value):
        return FREE
    return Cost(-2 * tensor_bytes(source.value), -1)


def _is_read_beside(value: ir.Value, source: ir.Value) -> bool:
    """Whether another op than attention reads what is made of `source` on the way to `value`: it
    needs the transpose that is there."""
    while value != source:
        op = defining_op(value)
        if op is None or not op.operands:
            return False
        value = op.operands[0]
        if value != source and not has_one_use(value):
            return True
    return False


def epilogue_products(value: ir.Value) -> list[ir.Operation]:
    """The contractions that `value`, below reshapes, is an elementwise op on, all of them read by
    nobody else; none where it is something else."""
    while has_one_use(value) and (op := defining_op(value, *RESHAPES)) is not None:
        value = op.operands[0]
    op = defining_op(value, "linalg.generic")
    if op is None or reduces(op) or not has_one_use(value):
        return []
    inputs = list(op.operands)[: len(op.operands) - len(op.results)]
    made = [made for x in inputs if has_one_use(x) and (made := defining_op(x)) is not None]
    return [product for product in made if is_contraction(product)]


def _place(value: ir.Value) -> str:
    op = defining_op(value)
    return "unknown" if op is None else location_text(op.location)


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
