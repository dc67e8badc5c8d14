"""attn-propagate-layout: plan and commit the layouts that pay. The pass people use.

`choose.py` has the choice for one operand, `profitability.py` what becomes of it beside the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from iree.compiler import ir

from ..attention.facts import AttentionFacts, find
from ..kernels.demand import with_later_kernels
from ..machines import Target
from ..passes import Pass, PassContext, TargetPass, option
from ..report.records import Report
from .chains import record_chains
from .choose import (
    Choice,
    choose_other,
    choose_v,
    may_drop_broadcasts,
    read_source,
    record_taken,
)
from .commit_choices import commit_choices
from .planner import Planner
from .profitability import drop_what_does_not_pay
from .residual_uses import ResidualUses
from .sources import moved_into_place
from .transpose_caches import TransposeCaches


def propagate(
    found: Sequence[AttentionFacts],
    *,
    mode: str,
    operands: Sequence[str],
    target: Target | None,
    report: Report,
    pass_name: str,
) -> bool:
    """Plans and commits the layout of `operands` (names as in AttentionFacts) for every
    attention in `found`; returns whether IR changed.

    `mode` is `cost`, `always` (whatever is fully absorbed) or `never` (records only).
    """
    choices, residual = _choose_all(found, mode, operands, target)
    for choice in choices:
        choice.record.pass_name = pass_name
        _record(choice, report)
    taken = [choice for choice in choices if choice.plans or choice.reads_source]
    if mode == "never" or not taken:
        return False
    commit_choices(taken, residual, [])
    return True


def _record(choice: Choice, report: Report) -> None:
    """Says what was chosen, unless that is to keep what an earlier pass has absorbed."""
    about = choice.facts.record_in(report)
    if choice.record.decision != "kept" or not about.is_absorbed(choice.record.operand):
        about.decide(choice.record)


def _choose_all(
    found: Sequence[AttentionFacts],
    mode: str,
    operands: Sequence[str],
    target: Target | None,
) -> tuple[list[Choice], ResidualUses]:
    """What is chosen for each operand."""
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
            choices.append(choose_v(facts, mode, target, planner, may_drop, planned))
    residual = drop_what_does_not_pay(choices, target, planner)
    if mode != "never":
        for choice in choices:
            read_source(choice, target, may_drop_broadcasts(choice.facts))
    record_chains(choices)
    for choice in choices:
        record_taken(choice)
    return choices, residual


OPERANDS = {"v": "value", "k": "key", "q": "query", "mask": "mask"}


@dataclass(frozen=True)
class PropagateLayout(TargetPass):
    """Puts k2 innermost in V where V's producers absorb that and it pays; with
    `operands=v,k,q,mask` also k1 in K and Q, and k2 in the mask.

    `mode=cost` decides by price, `always` commits whatever can be fully absorbed, `never`
    changes nothing and only reports.

    Where attn-use-kernels follows, V^T is worth to an attention what it is worth to the
    kernel that will be taken for it.
    """

    name = "attn-propagate-layout"
    summary = "plan layouts for attention operands by cost and commit those that pay"

    mode: str = option("cost", "what is committed", ("cost", "always", "never"))
    operands: tuple[str, ...] = option(("v",), "operands to plan", tuple(OPERANDS))
    cache: str = option(
        "kept", "transposed: as attn-transpose-caches in front of it", ("kept", "transposed")
    )

    def stages(self) -> tuple[Pass, ...]:
        if self.cache == "kept" or self.mode == "never":
            return (self,)
        return TransposeCaches(target=self.target), replace(self, cache="kept")

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        target = self.target_for(module, context)
        report = context.report
        report.mode = self.mode
        if target is not None:
            report.target = target.name
        return propagate(
            find(module),
            mode=self.mode,
            operands=[OPERANDS[word] for word in self.operands],
            target=with_later_kernels(module, target, context),
            report=report,
            pass_name=self.name,
        )
