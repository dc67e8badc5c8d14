"""Masks that hide keys by numbers that log2(e) makes infinite: which they are, and higher ones.

A row whose keys are all hidden by the lowest finite number is the mean of V, as PyTorch adds
that number to scores. IREE multiplies masks by log2(e).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from iree.compiler import ir

from .attention import AttentionFacts, whole_facts
from .ir import Builder, defining_op, element_type, sizes_of
from .iree.barrier import BARRIER, without_views
from .mask_numbers import may_hide, may_hold_below, shows_each_row_a_key
from .report.records import Report
from .scores import LOW, TOO_LOW


def raise_masks(ops: Iterable[ir.Operation], report: Report) -> bool:
    """Has attention ops read masks that may hold numbers below TOO_LOW with LOW there; returns
    whether IR changed. Needs a current context."""
    raised = [
        facts for op in ops if (facts := whole_facts(op)) is not None and may_be_too_low(facts)
    ]
    for facts in raised:
        _raise_mask(facts)
        report.note(
            f"{facts.kind} at {facts.place}: rows whose keys are all hidden by the lowest finite "
            "number are the mean of V, as in PyTorch; IREE gives NaN"
        )
    return bool(raised)


def may_be_too_low(facts: AttentionFacts) -> bool:
    """Whether the mask could hide all keys of a row by numbers that log2(e) makes infinite."""
    if not facts.has_mask or not may_hold_below(facts.value("mask"), TOO_LOW):
        return False
    return not shows_each_row_a_key(facts)


def _raise_mask(facts: AttentionFacts) -> None:
    reader, number = _stored(facts)
    mask = reader.operands[number]
    kind, hides = element_type(mask), may_hide(mask)

    def body(inner: Builder, x: Sequence[ir.Value]) -> list[ir.Value]:
        low, hidden = (inner.constant_float(value, kind) for value in (LOW, -math.inf))
        raised = inner.create("arith.maximumf", [kind], [x[0], low]).results[0]
        if not hides:
            return [raised]
        return [inner.select(inner.compare_floats("oeq", x[0], hidden), hidden, raised)]

    build, everywhere = Builder(reader), tuple(range(len(sizes_of(mask))))
    init = build.empty(sizes_of(mask), kind)
    new = build.generic([mask], [init], [everywhere, everywhere], body)[0]
    reader.operands[number] = new


def _stored(facts: AttentionFacts) -> tuple[ir.Operation, int]:
    """The op, and the number of its operand, that reads the mask: the barrier that keeps it in
    memory, so that it is stored with its new numbers, or attention."""
    reader, number = without_views(facts.op, facts.index("mask"))
    made = defining_op(reader.operands[number])
    return (
        (made, 0) if made is not None and made.name == BARRIER else (facts.op, facts.index("mask"))
    )
