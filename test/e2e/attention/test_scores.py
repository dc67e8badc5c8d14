"""Score functions, of the score and of positions, against numpy in float64."""

from __future__ import annotations

import itertools
from functools import cache

import pytest
from attention_case import SCORES, TOLERANCE, Case
from flex import FLEX, flex_case
from helpers import compile_and_run, compile_text, rel_error, thinned

FORMS = {
    "half_booleans": {"kind": "f16", "mask": "i1"},
    "parts_bias": {"online": True, "mask": "f32"},
    "unknown": {"dynamic": "mk", "mask": "i1"},
}
# What is no mask is computed apart for attention as a whole only.
NO_MASKS = ("causal capped", "slope of score")


CASES = {
    f"{score.replace(' ', '_')}_{form}": Case(2, 24, 40, 16, score=score, **FORMS[form])
    for score, form in thinned(itertools.product(SCORES, FORMS))
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
    public = FLEX.replace("func.func private", "func.func")
    without = FLEX.replace("{score_mod_fn = @score, mask_mod_fn = @mask}", "")
    for text in (FLEX, public, without):
        session = Session()
        invocation = session.invocation()
        assert invocation.parse_source(Source.wrap_buffer(session, text.encode() + b"\0"))
        driver.drive(invocation, "start", "abi", {"abi": lambda module: None})
    many = Session().context.get_num_threads()
    alone = [("start", "input", 1), ("input", "abi", many)]
    assert spans == [*alone, *alone, ("start", "abi", many)]
