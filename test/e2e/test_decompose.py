"""attn-decompose on llvm-cpu against float64: masks, orders of dims, what stays fused."""

from __future__ import annotations

from functools import cache

import pytest
from attention_case import TOLERANCE, Case
from helpers import compile_text, rel_error

from attnpass import Report

CASES = {
    "plain": Case(3, 64, 96, 288),
    "one_batch": Case(1, 80, 64, 272),
    "additive_mask": Case(2, 64, 112, 272, mask="f32"),
    "boolean_mask": Case(2, 96, 64, 288, mask="i1"),
    "narrower_value": Case(2, 64, 64, 320, value_head=288),
}
# With narrow values: IREE takes ten times as long to compile fused attention with wide ones.
KEPT = {
    "few_rows": Case(2, 32, 64, 288, value_head=16),
    "narrow": Case(2, 64, 65, 288, value_head=16),
    "half": Case(2, 64, 64, 288, "f16", value_head=16),
    "unknown": Case(2, 64, 64, 288, dynamic="k", value_head=16),
}


@cache
def compiled() -> tuple[bytes, Report]:
    report = Report()
    text = "".join(case.text(name) for name, case in (CASES | KEPT).items())
    pipeline = "attn-decompose,attn-configure"
    return compile_text(text, mode="cost", pipeline=pipeline, report=report), report


@pytest.mark.parametrize("name", [*CASES, *KEPT])
def test_numbers(name: str) -> None:
    case = (CASES | KEPT)[name]
    result = case.result(compiled()[0], name)
    assert rel_error(result, case.wanted()) < TOLERANCE[case.kind]


def test_what_stays_fused_is_configured() -> None:
    notes = compiled()[1].notes
    assert sum("is two products and a softmax" in note for note in notes) == len(CASES)
    assert sum("stays fused" in note for note in notes) == len(KEPT)
    assert sum("is configured for" in note for note in notes) == len(KEPT)
