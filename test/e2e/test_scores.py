"""Score functions, of the score and of positions, against numpy in float64."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from attention_case import SCORES, TOLERANCE, Case
from helpers import compile_and_run, compile_text, rel_error

FORMS = {
    "half_booleans": {"kind": "f16", "mask": "i1"},
    "parts_bias": {"online": True, "mask": "f32"},
    "unknown": {"dynamic": "mk", "mask": "i1"},
}
# What is no mask is computed apart for attention as a whole only.
NO_MASKS = ("causal capped", "slope of score")


CASES = {
    f"{score.replace(' ', '_')}_{form}": Case(2, 24, 40, 16, score=score, **FORMS[form])
    for score in SCORES
    for form in FORMS
    # Of partial attention the report says that such numbers are wrong.
    if not (FORMS[form].get("online") and score in NO_MASKS)
}


@cache
def compiled() -> bytes:
    """All cases, one function each: a compile for all of them."""
    return compile_text("".join(case.text(name) for name, case in CASES.items()), mode="cost")


@pytest.mark.parametrize("name", CASES)
def test_scores(name: str) -> None:
    case = CASES[name]
    assert rel_error(case.result(compiled(), name), case.wanted()) < TOLERANCE[case.kind]


def test_split_keys() -> None:
    """The score function goes with each chunk of keys, and positions with the mask."""
    cases = (
        Case(2, 1, 600, 16, score="capped causal"),
        Case(2, 3, 600, 16, score="cap", mask="f32"),
    )
    for each in cases:
        pipeline = "attn-mask-positions,attn-split-k{splits=3},attn-natural-scores"
        vmfb = compile_text(each.text("main"), mode="cost", pipeline=pipeline)
        assert rel_error(each.result(vmfb, "main"), each.wanted()) < TOLERANCE["f32"]


def test_flex_attention() -> None:
    inputs, wanted = flex_case()
    assert rel_error(compile_and_run(FLEX, inputs, mode="cost"), wanted) < TOLERANCE["f32"]


def flex_case() -> tuple[list[np.ndarray], np.ndarray]:
    """Inputs and answer of FLEX."""
    random = np.random.default_rng(6)
    q, k, v = (random.standard_normal((2, 4, 24, 16)).astype(np.float32) * 2 for _ in range(3))
    scores = np.tanh(q.astype(np.float64) @ k.transpose(0, 1, 3, 2) * 0.25)
    scores = np.where(np.tri(24, dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return [q, k, v], weights / weights.sum(-1, keepdims=True) @ v


# FlexAttention as torch exports it: a soft-cap of 1 and a causal mask behind it.
SCALAR, INDEX, TENSOR = "!torch.vtensor<[],f32>", "!torch.vtensor<[],si32>", "[2,4,24,16],f32"
FLEX = f"""
func.func private @score(%s: {SCALAR}, %b: {INDEX}, %h: {INDEX}, %i: {INDEX}, %j: {INDEX}) -> {SCALAR} {{
  %cap = torch.constant.float 1.000000e+00
  %0 = torch.aten.div.Scalar %s, %cap : {SCALAR}, !torch.float -> {SCALAR}
  %1 = torch.aten.tanh %0 : {SCALAR} -> {SCALAR}
  %2 = torch.aten.mul.Scalar %1, %cap : {SCALAR}, !torch.float -> {SCALAR}
  return %2 : {SCALAR}
}}
func.func private @mask(%b: {INDEX}, %h: {INDEX}, %i: {INDEX}, %j: {INDEX}) -> !torch.vtensor<[],i1> {{
  %0 = torch.aten.ge.Tensor %i, %j : {INDEX}, {INDEX} -> !torch.vtensor<[],i1>
  return %0 : !torch.vtensor<[],i1>
}}
func.func @main(%q: !torch.vtensor<{TENSOR}>, %k: !torch.vtensor<{TENSOR}>, %v: !torch.vtensor<{TENSOR}>) -> !torch.vtensor<{TENSOR}> {{
  %scale = torch.constant.float 2.500000e-01
  %false = torch.constant.bool false
  %out, %lse, %max = torch.hop_flex_attention %q, %k, %v, %scale, %false, %false
      {{score_mod_fn = @score, mask_mod_fn = @mask}} : !torch.vtensor<{TENSOR}>, !torch.vtensor<{TENSOR}>,
      !torch.vtensor<{TENSOR}>, !torch.float, !torch.bool, !torch.bool -> !torch.vtensor<{TENSOR}>, !torch.none, !torch.none
  return %out : !torch.vtensor<{TENSOR}>
}}
"""  # noqa: E501


def test_flex_attention_is_imported_by_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else IREE rewrites a function while it copies it: one compile in a hundred fails."""
    from iree.compiler.api import Session, Source

    from attnpass.driver import session as driver

    spans: list[tuple[str, str, int]] = []

    def execute(invocation: object, start: str, stop: str) -> None:
        spans.append((start, stop, session.context.get_num_threads()))
        run(invocation, start, stop)

    run = driver._execute
    monkeypatch.setattr(driver, "_execute", execute)
    for text in (FLEX, FLEX.replace("{score_mod_fn = @score, mask_mod_fn = @mask}", "")):
        session = Session()
        invocation = session.invocation()
        assert invocation.parse_source(Source.wrap_buffer(session, text.encode() + b"\0"))
        driver.drive(invocation, "start", "abi", {"abi": lambda module: None})
    (start, stop, threads), *later = spans
    many = Session().context.get_num_threads()
    assert (start, stop, threads) == ("start", "input", 1)
    assert later == [("input", "abi", many), ("start", "abi", many)]
