"""attn-propagate-layout: plan and commit the layouts that pay. The pass people use.

`choose.py` has the choice for one operand, `profitability.py` what becomes of it beside the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir

from ..attention.facts import AttentionFacts, describe
from ..ir import defining_op, erase_dead
from ..kernels.use_kernels import UseKernels
from ..machines import Target
from ..passes import Pass, PassContext, option
from ..report.records import Report
from .attention_rewrite import Swept, commit_attention, find_result_fold, fold_result
from .caches import Cache, declare, find_caches, find_missed
from .choose import (
    Choice,
    choose_other,
    choose_v,
    demand_for,
    epilogue_products,
    may_drop_broadcasts,
    read_source,
    transposed_v,
)
from .commit import Committer
from .indexed_repeats import make_repeats_explicit
from .planner import Planner
from .profitability import drop_what_does_not_pay
from .residual_uses import ResidualUses
from .rules.contraction import drop_unit_dims
from .sources import find_source, fold_through_reshapes, moved_into_place


def propagate(
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
        report.record_of(choice.facts).decide(choice.record)
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
        (facts, demand_for(facts, "value", transposed_v(facts), may_drop_broadcasts(facts)))
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
) -> tuple[list[Choice], ResidualUses]:
    """What is chosen for each operand; V of the attentions in `crossing` is not priced."""
    planner = Planner(target)
    for facts in found:
        if mode != "never" and facts.is_innermost("value", facts.k2):
            planner.moved.update(moved_into_place(facts, "value"))
    choices: list[Choice] = []
    for facts in found:
        may_drop = mode != "never" and may_drop_broadcasts(facts)
        others = [
            choose_other(facts, name, mode, target, planner, may_drop)
            for name in ("query", "key", "mask")
            if name in operands and name in facts.operand_names
        ]
        choices += others
        if "value" in operands:
            planned = {plan.operand for choice in others for plan in choice.plans}
            its_mode = "always" if id(facts) in crossing else mode
            choices.append(choose_v(facts, its_mode, target, planner, may_drop, planned))
    remains = drop_what_does_not_pay(choices, target, planner)
    if mode != "never":
        for choice in choices:
            read_source(choice, target, may_drop_broadcasts(choice.facts))
    return choices, remains


def _commit(choices: Sequence[Choice], remains: ResidualUses, swept: Swept) -> None:
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
                swept += _without_unit_dims(facts, choice.record.operand)
                new = fold_through_reshapes(facts, choice.record.operand, swept)
                facts = facts if new is None else describe(new)
        # With its heads split, attention can write the order that a transpose behind it
        # makes; IREE no longer finds that through the finer iteration space.
        fold = find_result_fold(facts) if facts.num_dims != rank else None
        if fold is not None:
            fold_result(fold, swept)
    committer.finish(swept)
    erase_dead(swept)


def _without_unit_dims(facts: AttentionFacts, operand: str) -> list[ir.Operation]:
    """Drops unit dims of the product that an operand's source is an elementwise op on; returns
    what is left behind. IREE would drop them from that op alone, and then not fuse the two."""
    source = find_source(facts, operand)
    products = epilogue_products(source.value) if source is not None else []
    return [op for op in products if drop_unit_dims(op)]


def _by_attention(choices: Sequence[Choice]) -> list[list[Choice]]:
    groups: dict[int, list[Choice]] = {}
    for choice in choices:
        groups.setdefault(id(choice.facts), []).append(choice)
    return list(groups.values())


OPERANDS = {"v": "value", "k": "key", "q": "query", "mask": "mask"}


@dataclass(frozen=True)
class PropagateLayout(Pass):
    """Puts k2 innermost in V where V's producers absorb that and it pays; with
    `operands=v,k,q,mask` also k1 in K and Q, and k2 in the mask.

    `mode=cost` decides by price, `always` commits whatever can be fully absorbed, `never`
    changes nothing and only reports.

    `cache=transposed` changes what callers pass and get: a V cache that comes in as an
    argument and goes out as a result, or V that is returned, gets k2 as its last dim. The
    report and the attribute `attnpass.transposed_caches` of the function name each.

    Where attn-use-kernels follows, V^T is worth to an attention what it is worth to the
    kernel that will be taken for it.
    """

    name: ClassVar[str] = "attn-propagate-layout"
    summary: ClassVar[str] = "plan layouts for attention operands by cost and commit those that pay"

    mode: str = option("cost", "what is committed", ("cost", "always", "never"))
    operands: tuple[str, ...] = option(("v",), "operands to plan", tuple(OPERANDS))
    cache: str = option("kept", "layout of V caches for the caller", ("kept", "transposed"))
    target: str = option("", "target to price for, instead of the module's own")

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        from ..attention.facts import find
        from ..kernels.demand import KernelTarget, with_kernels
        from ..kernels.use_kernels import note_priced_out

        target = context.target_for(module, self.target)
        report = context.report
        report.mode = self.mode
        if target is not None:
            report.target = target.name
        with module.context:
            for later in context.later:
                if isinstance(later, UseKernels):
                    device = later.device(module, context)
                    target = with_kernels(module, target, device, later.mode)
                    if isinstance(target, KernelTarget):
                        note_priced_out(
                            module, target.sources, target.device, later.mode, report, later.name
                        )
            return propagate(
                find(module),
                mode=self.mode,
                operands=[OPERANDS[word] for word in self.operands],
                target=target,
                report=report,
                pass_name=self.name,
                cache=self.cache,
            )
