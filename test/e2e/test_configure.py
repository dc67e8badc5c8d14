"""attn-configure on llvm-cpu: right numbers with the configuration attached.

The cases stand in one module, one function each: a compile for all of them.
"""

from __future__ import annotations

from functools import cache

import pytest
from attention_case import TOLERANCE, Case
from helpers import compile_text, rel_error
from hypothesis import given, settings
from hypothesis import strategies as st

from attnpass import Report

CASES = {
    "prefill": Case(4, 64, 64, 64),
    "additive_mask_odd_rows": Case(3, 100, 52, 32, mask="f32"),
    "one_row": Case(4, 1, 64, 64),
    "one_batch": Case(1, 64, 64, 64, mask="f32"),
    "one_row_one_batch": Case(1, 1, 64, 64),
    "grouped_rows": Case(2, 4, 512, 48),
    # IREE 3.13's own configuration tiles k1 from head dim 256 on: relative error 0.7.
    "wide": Case(2, 16, 64, 256),
    "wider": Case(2, 6, 24, 512),
    "widest": Case(1, 4, 12, 1024),
    "prime": Case(2, 9, 77, 128, mask="f32"),
    "half": Case(2, 40, 64, 64, "f16"),
    "half_mask": Case(2, 8, 33, 80, "f16", "f16"),
    "bfloat": Case(2, 32, 40, 64, "bf16"),
    "bfloat_one_row": Case(3, 1, 100, 128, "bf16", "i1"),
    "boolean_mask": Case(2, 24, 24, 64, mask="i1"),
    "odd_head": Case(2, 17, 19, 20, value_head=33),
    "unknown_rows": Case(2, 21, 64, 64, dynamic="m"),
    "unknown_keys": Case(2, 32, 61, 64, dynamic="k"),
    "unknown_keys_one_row": Case(4, 1, 61, 64, "f16", dynamic="k"),
    "all_unknown": Case(3, 13, 29, 32, mask="f32", dynamic="bmk"),
    "one_key": Case(2, 8, 1, 32),
    "online": Case(2, 12, 37, 64, online=True),
    "online_half_unknown": Case(2, 4, 50, 64, "f16", "i1", dynamic="k", online=True),
}


@cache
def compiled() -> tuple[bytes, Report]:
    report = Report()
    text = "".join(case.text(name) for name, case in CASES.items())
    return compile_text(text, mode="cost", pipeline="attn-configure", report=report), report


@pytest.mark.parametrize("name", CASES)
def test_numbers(name: str) -> None:
    case = CASES[name]
    result = case.result(compiled()[0], name)
    assert rel_error(result, case.wanted()) < TOLERANCE[case.kind]


def test_all_are_configured() -> None:
    notes = [note for note in compiled()[1].notes if "gets no loops" not in note]
    kept = [note for note in notes if "is configured for llvm-cpu" not in note]
    assert len(notes) == len(CASES)
    assert len(kept) == 1 and "needs a dim" in kept[0], kept


@settings(max_examples=6)
@given(
    st.builds(
        Case,
        batch=st.integers(1, 3),
        rows=st.integers(1, 40),
        keys=st.integers(1, 70),
        head=st.integers(1, 18).map(lambda eighths: 8 * eighths),
        kind=st.sampled_from(["f32", "f16", "bf16"]),
        mask=st.sampled_from(["", "f32", "i1"]),
        dynamic=st.sampled_from(["", "m", "k", "mk", "bmk"]),
        online=st.booleans(),
    )
)
def test_any_shape(case: Case) -> None:
    """Whatever the shape, the configured kernel computes attention."""
    vmfb = compile_text(case.text("main"), mode="cost", pipeline="attn-configure")
    assert rel_error(case.result(vmfb, "main"), case.wanted()) < TOLERANCE[case.kind]


@pytest.mark.parametrize("cpu", ["haswell", "x86-64-v4"])
def test_wider_registers_compile(cpu: str) -> None:
    """The steps chosen for 32- and 64-byte registers stay below IREE's limit."""
    report = Report()
    wide = [Case(2, 32, 64, head) for head in (64, 256)]
    text = "".join(case.text(f"f{case.head}") for case in wide)
    flags = [f"--iree-llvmcpu-target-cpu={cpu}"]
    compile_text(text, mode="cost", pipeline="attn-configure", report=report, flags=flags)
    assert sum("is configured" in note for note in report.notes) == len(wide)
