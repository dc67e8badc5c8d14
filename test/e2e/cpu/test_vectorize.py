"""attn-vectorize on llvm-cpu: right numbers from the loops, for any size, type and mask.

The cases stand in one module, one function each: a compile for all of them.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from attention_case import SCALE, TOLERANCE, Case, Hidden
from helpers import compile_text, covering, has_avx512, rel_error, run_module
from hypothesis import given, settings
from hypothesis import strategies as st

from attnpass import Report

PIPELINE = "attn-configure,attn-vectorize,attn-natural-scores"
_ALL = {
    "prefill": Case(3, 64, 128, 64),
    "odd_everything": Case(2, 37, 77, 20, value_head=33),
    "fewer_rows_than_lanes_left": Case(2, 67, 70, 32),
    "fewer_keys_than_a_block": Case(2, 20, 5, 64),
    "one_key_more_than_a_block": Case(2, 32, 65, 16),
    "wide": Case(2, 16, 40, 128),
    "wider": Case(2, 70, 66, 256),
    "groups_of_rows": Case(2, 100, 66, 512),
    "groups_of_odd_rows": Case(2, 97, 40, 512),
    "groups_of_four": Case(1, 8, 37, 1024, mask="f32"),
    "groups_of_few_rows": Case(2, 16, 40, 576, value_head=512),
    "groups_of_half": Case(2, 32, 40, 512, "f16", "i1"),
    "groups_of_half_unknown": Case(2, 24, 50, 512, "f16", "f16", dynamic="k"),
    "groups_of_bfloat": Case(1, 48, 33, 320, "bf16", value_head=384),
    "groups_transposed": Case(2, 40, 70, 256, transposed="v"),
    "one_batch": Case(1, 64, 64, 64),
    "one_batch_rest": Case(1, 31, 17, 8, value_head=24),
    "one_batch_rest_of_more": Case(1, 63, 40, 64, "f16", "i1"),
    "one_batch_unknown_rows": Case(1, 31, 64, 64, dynamic="m"),
    "one_batch_transposed": Case(1, 31, 40, 20, value_head=33, transposed="v"),
    "one_batch_online": Case(1, 29, 40, 32, transposed="kv", online=True),
    "half": Case(2, 40, 64, 64, "f16"),
    "half_odd": Case(2, 21, 31, 40, "f16", value_head=24),
    "bfloat": Case(2, 32, 40, 64, "bf16"),
    "bfloat_odd": Case(2, 33, 71, 20, "bf16", "i1"),
    "bfloat_odd_keys": Case(2, 33, 71, 64, "bf16", "i1", value_head=48),
    "bfloat_unknown": Case(2, 35, 83, 32, "bf16", "f32", "mk"),
    "bfloat_online": Case(2, 20, 65, 18, "bf16", value_head=16, online=True),
    "boolean_mask": Case(2, 24, 24, 64, mask="i1"),
    "additive_mask": Case(2, 100, 52, 32, mask="f32"),
    "half_mask": Case(2, 18, 33, 80, "f16", "f16"),
    "unknown_rows": Case(2, 21, 64, 64, dynamic="m"),
    "unknown_keys": Case(2, 32, 61, 64, dynamic="k"),
    "unknown_all_masked": Case(3, 45, 29, 32, mask="f32", dynamic="bmk"),
    "unknown_half_masked": Case(2, 45, 130, 32, "f16", "i1", dynamic="mk"),
    "one_row": Case(4, 1, 300, 64),
    "one_row_one_batch": Case(1, 1, 70, 64, mask="f32"),
    "three_rows_odd": Case(2, 3, 77, 20, value_head=33),
    "four_rows": Case(3, 4, 261, 128, mask="i1"),
    "four_rows_half": Case(2, 4, 40, 40, "f16", "f16"),
    "three_rows_unknown_keys": Case(2, 3, 299, 32, "bf16", "i1", dynamic="k"),
    "two_rows_few_keys": Case(2, 2, 3, 64),
    "fifteen_rows": Case(2, 15, 100, 48, mask="f32"),
    "four_rows_online": Case(2, 4, 90, 64, online=True),
    "one_row_online_unknown": Case(2, 1, 90, 24, "f16", "i1", dynamic="bk", online=True),
    "transposed_wide": Case(2, 50, 130, 128, transposed="v"),
    "transposed_odd": Case(2, 37, 77, 20, value_head=33, mask="f32", transposed="v"),
    "transposed_half": Case(2, 21, 83, 40, "f16", "f16", value_head=24, transposed="v"),
    "transposed_bfloat_unknown": Case(2, 35, 83, 64, "bf16", "i1", "mk", transposed="kv"),
    "transposed_online": Case(2, 17, 70, 33, transposed="v", online=True),
    "transposed_half_keys": Case(2, 40, 75, 41, "f16", transposed="k"),
    "transposed_four_rows": Case(2, 4, 600, 64, transposed="v"),
    "transposed_three_rows": Case(2, 3, 277, 20, value_head=33, mask="i1", transposed="kv"),
    "transposed_one_row": Case(2, 1, 700, 80, "f16", transposed="v"),
    "transposed_keys_one_row": Case(2, 1, 333, 40, "f16", transposed="k"),
    "transposed_rows_unknown": Case(2, 4, 301, 64, "bf16", "f32", "bk", 30, transposed="kv"),
    "transposed_fifteen_rows": Case(2, 15, 100, 48, transposed="kv"),
    "transposed_rows_online": Case(2, 5, 130, 32, transposed="kv", online=True),
    "capped": Case(2, 37, 77, 20, score="cap"),
    "capped_bfloat": Case(2, 33, 71, 20, "bf16", "i1", score="cap"),
    "capped_one_row": Case(2, 1, 300, 64, score="cap"),
    "capped_four_rows": Case(2, 4, 90, 64, "f16", "f16", score="cap"),
    "capped_three_rows_unknown": Case(2, 3, 299, 32, "bf16", "i1", dynamic="k", score="cap"),
    "capped_transposed_rows": Case(2, 5, 130, 32, transposed="kv", online=True, score="cap"),
    "squared": Case(2, 24, 50, 16, score="square"),
    "online": Case(2, 17, 37, 64, online=True),
    "online_half_unknown": Case(2, 40, 50, 64, "f16", "i1", dynamic="k", online=True),
}


def _words(case: Case) -> tuple[object, ...]:
    """What a case is a case of."""
    rows = "one" if case.rows == 1 else "few" if case.rows < 16 else "many"
    head = "wide" if case.head >= 256 else "odd" if case.head % 8 else "even"
    rest = case.keys % 4 == 0, bool(case.value_head), case.batch == 1, case.online
    return rows, head, case.kind, case.transposed, case.dynamic, case.mask, case.score, *rest


BOTH = ("prefill", "unknown_half_masked")
EDGES = (
    "fewer_rows_than_lanes_left",
    "fewer_keys_than_a_block",
    "one_key_more_than_a_block",
    "groups_of_odd_rows",
)
CASES = covering(_ALL, _words, (*BOTH, *EDGES))
# Registers of 16 bytes without fused multiply-add, of 32 and of 64.
CPUS = ("generic", "host")
# Each on one CPU, in turns. All forms on both: `tools/fuzz.py --forms`.
RUNS = [
    (name, cpu)
    for place, name in enumerate(CASES)
    for number, cpu in enumerate(CPUS)
    if name in BOTH or place % len(CPUS) == number
    # A head dim of 1024 takes more stack where vectors are shorter: no loops.
    if name != "groups_of_four" or (cpu == "host" and has_avx512())
]


def cases(cpu: str) -> list[Case]:
    return [CASES[name] for name, where in RUNS if where == cpu]


@cache
def compiled(cpu: str) -> tuple[bytes, Report]:
    report = Report()
    text = "".join(CASES[name].text(name) for name, where in RUNS if where == cpu)
    flags = [f"--iree-llvmcpu-target-cpu={cpu}"]
    vmfb = compile_text(text, mode="cost", pipeline=PIPELINE, report=report, flags=flags)
    return vmfb, report


@pytest.mark.parametrize(("name", "cpu"), RUNS)
def test_numbers(name: str, cpu: str) -> None:
    case = CASES[name]
    result = case.result(compiled(cpu)[0], name)
    assert rel_error(result, case.wanted()) < TOLERANCE[case.kind]


@pytest.mark.parametrize("cpu", CPUS)
def test_all_are_loops(cpu: str) -> None:
    report = compiled(cpu)[1]
    assert not report.found("no-loops", of="kernel")
    assert len(report.found("loops")) == len(cases(cpu))


@settings(max_examples=3)
@given(
    st.builds(
        Case,
        batch=st.integers(1, 3),
        rows=st.integers(1, 80),
        keys=st.integers(2, 150),
        head=st.integers(1, 70),
        kind=st.sampled_from(["f32", "f16", "bf16"]),
        mask=st.sampled_from(["", "f32", "i1"]),
        dynamic=st.sampled_from(["", "m", "k", "mk", "bmk"]),
        value_head=st.integers(1, 70),
        online=st.booleans(),
        transposed=st.sampled_from(["", "v", "k", "kv"]),
    )
)
def test_any_shape(case: Case) -> None:
    vmfb = compile_text(case.text("main"), mode="cost", pipeline=PIPELINE)
    assert rel_error(case.result(vmfb, "main"), case.wanted()) < TOLERANCE[case.kind]


@pytest.mark.parametrize(("kind", "mask"), [("f32", "i1"), ("f16", "")])
def test_heads_behind_rows(kind: str, mask: str) -> None:
    """A result that is transposed behind attention, with a loop for rows that see no key."""
    case = Hidden(2, 70, 66, 256, kind, mask) if mask else Case(2, 70, 66, 256, kind)
    out, turned = f"tensor<2x70x256x{kind}>", f"tensor<70x2x256x{kind}>"
    text = case.text("main").replace(f"-> ({out}) {{", f"-> {turned} {{")
    text = text.replace(
        f"return %r : {out}",
        f"""%start = tensor.empty() : {turned}
  %t = linalg.transpose ins(%r : {out}) outs(%start : {turned}) permutation = [1, 0, 2]
  return %t : {turned}""",
    )
    vmfb = compile_text(text, mode="cost", flags=["--iree-llvmcpu-target-cpu=host"])
    result = run_module(vmfb, case.inputs())
    assert rel_error(result.swapaxes(0, 1), case.wanted()) < TOLERANCE[kind]


@pytest.mark.parametrize("cpu", CPUS)
def test_nan_stays(cpu: str) -> None:
    """A row of the query that holds NaN makes its row of the result NaN, and no other."""
    case = CASES["prefill"]
    inputs = case.inputs()
    inputs[0][1, 40, 3] = np.nan
    result = run_module(compiled(cpu)[0], inputs, "prefill")
    wrong = np.isnan(result)
    assert wrong[1, 40].all() and wrong.sum() == case.head


@pytest.mark.parametrize("cpu", CPUS)
def test_large_scores(cpu: str) -> None:
    """Weights of far lower scores are zero, and a mask may hide all keys of a block."""
    case = CASES["unknown_half_masked"]
    q, k, v, seen = case.inputs()
    seen[:, :, :100] = False
    seen[:, :, 100:] = True
    result = run_module(compiled(cpu)[0], [q * 40, k, v, seen], "unknown_half_masked")
    scores = (q * 40).astype(np.float64) @ k[:, 100:].astype(np.float64).transpose(0, 2, 1) * SCALE
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    right = weights / weights.sum(-1, keepdims=True) @ v[:, 100:].astype(np.float64)
    assert rel_error(result, right) < TOLERANCE["f16"]


@pytest.mark.parametrize("cpu", CPUS)
def test_what_stands_beside_loops(cpu: str) -> None:
    """Products with the quotient, one or two results, of heads too wide for one vector."""
    text = (Path(__file__).parents[2] / "vectorize" / "wide.mlir").read_text()
    flags = [f"--iree-llvmcpu-target-cpu={cpu}"]
    vmfb = compile_text(text, mode="cost", pipeline=PIPELINE, flags=flags)
    q, k, v = Case(2, 100, 40, 512).inputs()
    weights = np.random.default_rng(3).standard_normal((2, 100), np.float32)
    scores = q.astype(np.float64) @ k.astype(np.float64).transpose(0, 2, 1) * 0.125
    plain = np.exp(scores - scores.max(-1, keepdims=True))
    plain = plain / plain.sum(-1, keepdims=True) @ v.astype(np.float64)
    weighed = plain * weights[:, :, None]
    assert rel_error(run_module(vmfb, [q, k, v], "main"), plain) < TOLERANCE["f32"]
    assert rel_error(run_module(vmfb, [q, k, v, weights], "weighed"), weighed) < TOLERANCE["f32"]
    for result, right in zip(
        run_module(vmfb, [q, k, v, weights], "both"), (plain, weighed), strict=True
    ):
        assert rel_error(result, right) < TOLERANCE["f32"]
