"""attn-lowest-masks: keys hidden by the lowest finite number weigh what PyTorch gives them.

A row whose keys are all hidden by the lowest finite number is the mean of V, as PyTorch adds
that number to scores. IREE multiplies masks by log2(e).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from iree.compiler import ir

from ..attention.barrier import BARRIER, without_views
from ..attention.facts import AttentionFacts, find_ops, whole_facts
from ..attention.mask_numbers import may_hide, may_hold_below, shows_each_row_a_key
from ..ir import Builder, defining_op, element_type, sizes_of
from ..ir.limits import LOG2E_LOWEST, LOG2E_OVERFLOWS
from ..passes import Pass, PassContext
from ..report.records import Report


def raise_masks(ops: Iterable[ir.Operation], report: Report) -> bool:
    """Has attention ops read masks that may hold numbers that log2(e) makes infinite with
    the lowest that it does not; returns whether IR changed. Needs a current context."""
    raised = [
        facts for op in ops if (facts := whole_facts(op)) is not None and may_be_too_low(facts)
    ]
    for facts in raised:
        _raise_mask(facts)
        report.record(
            facts.op,
            "repaired",
            "rows whose keys are all hidden by the lowest finite number are the mean of V, as in "
            "PyTorch; IREE gives NaN",
        )
    return bool(raised)


def may_be_too_low(facts: AttentionFacts) -> bool:
    """Whether the mask could hide all keys of a row by numbers that log2(e) makes infinite."""
    if not facts.has_mask or not may_hold_below(facts.value("mask"), LOG2E_OVERFLOWS):
        return False
    return not shows_each_row_a_key(facts)


def _raise_mask(facts: AttentionFacts) -> None:
    reader, number = _stored(facts)
    mask = reader.operands[number]
    kind, hides = element_type(mask), may_hide(mask)

    def body(inner: Builder, x: Sequence[ir.Value]) -> ir.Value:
        low, hidden = (inner.constant_float(value, kind) for value in (LOG2E_LOWEST, -math.inf))
        raised = inner.maximumf(x[0], low)
        if not hides:
            return raised
        return inner.select(inner.compare_floats("oeq", x[0], hidden), hidden, raised)

    reader.operands[number] = Builder(reader).computed(sizes_of(mask), kind, body, mask)


def _stored(facts: AttentionFacts) -> tuple[ir.Operation, int]:
    """The op, and the number of its operand, that reads the mask: the barrier that keeps it in
    memory, so that it is stored with its new numbers, or attention."""
    reader, number = without_views(facts.op, facts.index("mask"))
    barrier = defining_op(reader.operands[number], BARRIER)
    return (facts.op, facts.index("mask")) if barrier is None else (barrier, 0)


class LowestMasks(Pass):
    """Raises numbers of masks that log2(e) would make infinite to the lowest that it does not.

    Models hide keys by the lowest finite number (`torch.finfo(...).min`). A row of nothing else
    is the mean of V in PyTorch, since adding scores does not change that number. IREE 3.13
    multiplies it by log2(e), and so makes it infinite: NaN. Masks that cannot hold such numbers,
    or whose rows see a key each whatever they hold (causal ones), stay. Where a mask is computed
    in the module that is part of its computation; one of the caller's is copied.
    """

    name = "attn-lowest-masks"
    summary = "rows hidden by the lowest finite number are the mean of V, not NaN"
    mends = "rows whose keys all have the lowest number as their mask are NaN"

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        return raise_masks(find_ops(module), context.report)
