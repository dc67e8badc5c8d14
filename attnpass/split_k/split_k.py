"""attn-split-k: decode attention over chunks of the keys at once, then a combine."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from iree.compiler import ir

from ..attention.facts import AttentionFacts, describe, find
from ..errors import PipelineError
from ..ir import Refusal, erase_dead, maps
from ..layout.sources import find_source, fold_through_reshapes
from ..machines import DEFAULT_TARGET, Target
from ..passes import PassContext, TargetPass, option
from ..report.entries import OperandRecord
from ..report.records import Report
from .plan import SplitPlan, make_plan, refusal, split_dim
from .rewrite import split


def split_all(
    module: ir.Operation,
    splits: int | None,
    rows: int,
    target: Target,
    report: Report,
    pass_name: str,
    unfit: Callable[[AttentionFacts], Refusal | None] | None,
) -> bool:
    """Splits what can be split; returns whether IR changed. Needs a current context.

    An attention of which `unfit` says something is passed by, without a record.
    """
    dead_ops: list[ir.Operation] = []
    changed = False
    for facts in find(module):
        if unfit is not None and unfit(facts):
            continue
        operand = _record(facts, report, pass_name)
        if why := refusal(facts, rows):
            operand.reason = str(why)
            continue
        repeats = {name: _repeats(facts, name) for name in ("key", "value")}
        plan = make_plan(facts, splits, target, min(repeats.values()))
        if isinstance(plan, Refusal):
            operand.decision, operand.reason = "kept", plan.reason
            continue
        operand.decision, operand.reason = "split", _words(plan)
        for name, count in repeats.items():
            if count > 1:
                facts, words = _without_repeat(facts, name, count, dead_ops)
                operand.reason += words
        # The same plan, in the dims that folding left.
        split(facts, replace(plan, dim=split_dim(facts)))
        dead_ops.append(facts.op)
        changed = True
    erase_dead(dead_ops)
    return changed


def _record(facts: AttentionFacts, report: Report, pass_name: str) -> OperandRecord:
    before = maps.show(facts.map_of("key"))
    operand = OperandRecord("key", "refused", "", before, before, pass_name=pass_name)
    facts.record_in(report).decide(operand)
    return operand


def _without_repeat(
    facts: AttentionFacts, operand: str, count: int, dead_ops: list[ir.Operation]
) -> tuple[AttentionFacts, str]:
    """Attention that reads the operand below its grouped-query broadcast, and words for it."""
    folded = fold_through_reshapes(facts, operand, dead_ops)
    if folded is None:
        return facts, ""
    return describe(folded), f"; the {operand} is read without its {count}-fold repeat"


def _repeats(facts: AttentionFacts, operand: str) -> int:
    """How often a grouped-query broadcast repeats the operand; 1 where there is none."""
    source = find_source(facts, operand)
    if source is None:
        return 1
    return math.prod(
        size
        for axes, sizes in zip(source.parts, source.sizes, strict=True)
        for axis, size in zip(axes, sizes, strict=True)
        if axis is None and isinstance(size, int)
    )


def _words(plan: SplitPlan) -> str:
    """The chunks in words."""
    splits = "as many chunks as fit" if plan.splits is None else f"{plan.splits} chunks"
    keys = "the length's share of keys" if plan.chunk is None else f"{plan.chunk} keys"
    if plan.length is None:
        tail = ", and a tail of what is left"
    else:
        assert plan.splits is not None and plan.chunk is not None
        left = plan.length - plan.splits * plan.chunk
        tail = f", and a tail of {left}" if left else ""
    return f"{splits} of {keys}{tail} ({plan.reason})"


@dataclass(frozen=True)
class SplitK(TargetPass):
    """Cuts the keys of attention ops with few query rows into chunks that run side by side.

    `attention` and `online_attention` become partial online_attention, with the chunk as one
    more batch dim, and a combine of (output, max, sum). Keys that fill no chunk form a tail
    of their own. Grouped-query broadcasts before K and V are folded, so that the heads that
    share K and V become rows. `splits=auto` chooses the number of chunks by the formula in
    `attnpass.split_k.plan`; V's layout is left as it is. With `configured=true` an attention
    is left alone, without a record, where its chunks would get no kernel configuration:
    splitting alone can lose; on CPUs also where a head has less than 8 MB of K and V.
    """

    name = "attn-split-k"
    summary = "decode attention: partial attention over chunks of keys, combined"

    splits: str = option("auto", "number of chunks, or auto")
    configured: bool = option(False, "split only what attn-configure has a kernel for")
    rows: int = option(16, "most query rows that an attention may have to be split")

    def __post_init__(self) -> None:
        if self.splits != "auto" and not (self.splits.isdigit() and int(self.splits)):
            raise PipelineError(
                f"pass '{self.name}': '{self.splits}' is not a value of option 'splits' "
                "(use auto or a whole number from 1 on)"
            )

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        target = self.target_for(module, context) or DEFAULT_TARGET
        splits = None if self.splits == "auto" else int(self.splits)
        unfit = target.decode_refusal if self.configured else None
        return split_all(module, splits, self.rows, target, context.report, self.name, unfit)
