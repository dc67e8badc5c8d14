"""attn-decompose against float64: every form of attention that IREE's ops allow."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from attention_case import SCORES, TOLERANCE, Case
from attention_form import TOLERANCE as FORM_TOLERANCE
from attention_form import Form
from helpers import compile_text, has_avx512, rel_error, run_module, thinned
from interpreter import interpret
from iree.compiler import ir

import attnpass
from attnpass.forms.decompose import decompose_all
from attnpass.forms.score_blocks import decomposed_within

# A CPU for which IREE 3.13 cannot compile what vectorizes over packed i1.
WIDE = "--iree-llvmcpu-target-cpu=znver4"
ROWS = {"maxima": "bm", "sums": "bm"}

DIMS = {
    "plain": Form(),
    "no_batch": Form("md", "kd", "kn", "mn"),
    "one_row": Form("d", "kd", "kn", "n"),
    "grouped_queries": Form("bgmd", "bkd", "bkn", "bgmn"),
    "key_and_value_of_all_batches": Form("bmd", "kd", "kn", "bmn"),
    "value_of_all_batches": Form("bmd", "bkd", "kn", "bmn"),
    "key_of_all_batches": Form("bmd", "kd", "bkn", "bmn"),
    "query_of_all_batches": Form("md", "bkd", "bkn", "bmn"),
    "several_dims_of_each": Form("bhmgde", "bhklde", "bhklno", "bhmgno"),
    "any_order": Form("dmbh", "khd", "nbk", "nhmb"),
    "no_head_dim": Form("bm", "bk", "bkn", "bmn"),
    "no_value_dim": Form("bmd", "bkd", "bk", "bm"),
    "no_key_dim": Form("bmd", "bd", "bn", "bmn"),
    "head_dim_everywhere": Form("bmd", "bkd", "bkd", "bmd"),
    "rows_summed": Form("bmgd", "bkd", "bkn", "bmn"),
    "batches_summed": Form("bmd", "bkd", "bkn", "mn"),
    "value_dim_summed": Form("bmd", "bkd", "bkno", "bmn"),
    "keys_that_value_lacks": Form("bmd", "bkld", "bkn", "bmn"),
    "result_dim_of_its_own": Form("bmd", "bkd", "bkn", "bmno"),
}
ONLINE = {
    "online": Form(**ROWS),
    "online_head_dim_everywhere": replace(DIMS["head_dim_everywhere"], **ROWS),
    "online_sums_by_head_dim": replace(DIMS["head_dim_everywhere"], maxima="bm", sums="bmd"),
    "online_any_order": replace(DIMS["any_order"], maxima="hbm", sums="mhb"),
    "online_f16": Form(kinds=("f16",) * 4, **ROWS),
}
TYPES = {
    "_".join(kinds): Form(kinds=kinds, scale_kind=scale, mask="mk", mask_kind=mask)
    for kinds, scale, mask in (
        (("f16",) * 4, "f16", "i1"),
        (("bf16",) * 4, "bf16", "bf16"),
        (("f64",) * 4, "f64", "f64"),
        (("f64", "f32", "f16", "f32"), "f64", "f16"),
        (("f8E4M3FN",) * 3 + ("f16",), "f32", "f32"),
        (("f8E5M2",) * 3 + ("bf16",), "f32", "i8"),
        (("f8E4M3FNUZ",) * 3 + ("f32",), "f16", "i1"),
        (("f32", "i8", "i8", "f32"), "f32", "f64"),
        (("f16", "f32", "bf16", "f32"), "f32", "i32"),
    )
}
MASKS = {
    f"mask_{kind}_{dims}": Form(mask=dims, mask_kind=kind)
    for kind, dims in (
        *(("i1", dims) for dims in ("bmk", "k", "bk", "km", "m", "kd", "bmkn")),
        *(("packed", dims) for dims in ("bmk", "km", "kd")),
        *(("i8", dims) for dims in ("bmk", "bk", "kd")),
        *(("f32", dims) for dims in ("bmk", "km", "kd", "bmkn")),
        *(("f16", dims) for dims in ("mk", "k")),
    )
}
HIDDEN = {
    f"hidden_{kind}{online}": Form(
        mask="mk", mask_kind=kind, hidden=hidden, **(ROWS if online else {})
    )
    for kind, hidden in (
        ("i1", "inf"),
        ("packed", "inf"),
        ("i8", "inf"),
        ("f32", "inf"),
        ("f32", "lowest"),
    )
    for online in ("", "_online")
}
SIZES = {
    **{f"unknown_{d}": Form(mask="bmk", dynamic=d) for d in ("b", "m", "d", "k", "n")},
    "unknown_all": Form(mask="bmk", dynamic="bmdkn", mask_kind="packed"),
    "unknown_all_online": Form(mask="mk", dynamic="bmdkn", mask_kind="f16", **ROWS),
    # IREE joins dims of weights, not of maxima; with more keys than rows, it shows if it then takes
    # one's sizes for the other's.
    "unknown_joined_online": Form(
        "bmd",
        "bkld",
        "bkln",
        "bmn",
        dynamic="bmkl",
        sizes=(("k", 9), ("l", 11)),
        maxima="mb",
        sums="mb",
    ),
    "no_keys": Form(dynamic="k", sizes=(("k", 0),)),
    "no_keys_online": Form(dynamic="k", sizes=(("k", 0),), **ROWS),
    **{f"single_{d}": Form(sizes=((d, 1),), mask="mk") for d in "bmdkn"},
    **{f"single_{d}_online": Form(sizes=((d, 1),), mask="mk", **ROWS) for d in "mdk"},
    "wide_head": Form(sizes=(("d", 300), ("n", 260))),
}


def _random_form(seed: int) -> Form:
    """Dims in any order, and left out of operands; unknown sizes."""
    draw = random.Random(seed)

    def some(dims: str) -> str:
        return "".join(draw.sample(dims, draw.randint(0, len(dims))))

    def order(dims: str) -> str:
        return "".join(draw.sample(dims, len(dims)))

    batch, rows, head = some("bh"), some("mg"), some("de")
    keys, width = some("kl"), some("no")
    in_key, in_value = some(batch), some(batch)
    out = order(batch + rows + width)
    accumulated = {"maxima": order(batch + rows), "sums": order(batch + rows)}
    every = batch + rows + head + keys + width
    return Form(
        order(batch + rows + head),
        order(in_key + keys + head),
        order(in_value + keys + width),
        out,
        mask=order(some(batch + rows) + keys) if keys else "",
        mask_kind=draw.choice(["i1", "packed", "i8", "f32", "f16"]),
        dynamic=some(every),
        sizes=tuple((dim, 1) for dim in every if draw.random() < 0.1),
        **(accumulated if draw.random() < 0.4 and batch + rows else {}),
    )


RANDOM = {f"random_{seed}": _random_form(seed) for seed in thinned(range(16))}
GROUPS = {
    "dims": DIMS | ONLINE,
    "types": TYPES,
    "masks": MASKS | HIDDEN,
    "sizes": SIZES,
    "random": RANDOM,
}
FORMS = {name: (group, form) for group, forms in GROUPS.items() for name, form in forms.items()}
# Of forms that the interpreter runs, every other is compiled.
WHOLE = ("types", "random")
SEEN = [name for name, (group, form) in FORMS.items() if not (group in WHOLE or form.packed)]
LEFT_OUT = {*SEEN}.difference(thinned(SEEN))
COMPILED = [name for name in FORMS if name not in LEFT_OUT]


@cache
def compiled(group: str) -> bytes:
    report = attnpass.Report()
    forms = {name: form for name, form in GROUPS[group].items() if name in COMPILED}
    text = "".join(form.text(name) for name, form in forms.items())
    flags = ["--iree-input-demote-f64-to-f32=false"]
    program = compile_text(text, mode="cost", pipeline="attn-decompose", report=report, flags=flags)
    assert len(report.found("decomposed")) == len(forms)
    return program


@pytest.mark.parametrize("name", COMPILED)
def test_forms(name: str) -> None:
    group, form = FORMS[name]
    results = run_module(compiled(group), form.arguments(), name)
    check(form, results if form.online else [results])


def check(form: Form, results: Sequence[np.ndarray]) -> None:
    for number, (result, wanted) in enumerate(zip(results, form.wanted(), strict=True)):
        tolerance = FORM_TOLERANCE[form.kinds[3] if number == 0 else "f32"]
        assert np.isfinite(result.astype(float)).all()
        if np.linalg.norm(wanted):
            assert rel_error(result, wanted) < tolerance
        else:
            assert not result.any()


@pytest.mark.parametrize(
    "name",
    [name for name, (group, form) in FORMS.items() if group != "types" and not form.packed],
)
def test_meaning(name: str) -> None:
    """By the interpreter, where nothing is wrong but the rewrite."""
    form = FORMS[name][1]
    with ir.Context() as context:
        context.load_all_available_dialects()
        module = ir.Module.parse(form.text("main"))
        attnpass.run(module, "attn-decompose")
        assert "attention" not in str(module)
        results = interpret(module, form.arguments())
    for result, wanted in zip(results, form.wanted(), strict=True):
        # log2(e), of online_attention, is a number of 32 bits.
        exact = 1e-6 if form.online else 1e-10
        assert np.allclose(result, wanted, rtol=exact, atol=exact)


def test_packed_masks_compile_where_vectors_are_wide() -> None:
    form = MASKS["mask_packed_bmk"]
    program = compile_text(form.text("main"), mode="cost", pipeline="attn-decompose", flags=[WIDE])
    if has_avx512():
        check(form, [run_module(program, form.arguments())])


REGIONS = {
    f"score_{number}{online}": Case(2, 16, 33, 32, score=score, online=bool(online), mask="i1")
    for number, score in enumerate(SCORES)
    for online in ("", "_online")[: 1 + number % 2]
}


@cache
def regions() -> bytes:
    text = "".join(case.text(name) for name, case in REGIONS.items())
    return compile_text(text, mode="cost", pipeline="attn-decompose")


@pytest.mark.parametrize("name", REGIONS)
def test_regions(name: str) -> None:
    case = REGIONS[name]
    assert rel_error(case.result(regions(), name), case.wanted()) < TOLERANCE["f32"]


# Three rows of some at once, single ones of others.
SOME = 60
IN_PARTS = {
    name: (DIMS | ONLINE | MASKS | HIDDEN | SIZES | RANDOM)[name]
    for name in (
        "any_order",
        "several_dims_of_each",
        "batches_summed",
        "result_dim_of_its_own",
        "online_any_order",
        "online_head_dim_everywhere",
        "mask_packed_bmk",
        "hidden_f32_online",
        "unknown_all",
        "unknown_all_online",
        "unknown_joined_online",
        "no_keys",
        "random_4",
    )
}


def _in_parts(text: str) -> str:
    with ir.Context() as context, ir.Location.unknown():
        context.load_all_available_dialects()
        module = ir.Module.parse(text)
        decompose_all(
            module.operation,
            lambda _: "as asked for",
            attnpass.Report(),
            lambda facts: decomposed_within(facts, SOME),
        )
        module.operation.verify()
        assert "scf.for" in str(module)
        return str(module)


@cache
def in_parts() -> bytes:
    return compile_text(_in_parts("".join(form.text(name) for name, form in IN_PARTS.items())))


@pytest.mark.parametrize("name", IN_PARTS)
def test_some_scores_at_a_time(name: str) -> None:
    form = IN_PARTS[name]
    results = run_module(in_parts(), form.arguments(), name)
    check(form, results if form.online else [results])


# Each row and key adds its place.
POSITIONS = Form(dynamic="m")
PLACES = """
      %i = iree_linalg_ext.index 1 : index
      %j = iree_linalg_ext.index 3 : index
      %b = iree_linalg_ext.index 0 : index
      %ij = arith.muli %i, %j : index
      %at = arith.addi %ij, %b : index
      %int = arith.index_cast %at : index to i32
      %float = arith.sitofp %int : i32 to f32
      %some = arith.constant 0.125 : f32
      %part = arith.mulf %float, %some : f32
      %sum = arith.addf %score, %part : f32
      iree_linalg_ext.yield %sum : f32"""


def test_positions_of_scores_at_a_time() -> None:
    text = POSITIONS.text("main").replace("\n      iree_linalg_ext.yield %score : f32", PLACES)
    programs = [
        compile_text(text, mode="cost", pipeline="attn-decompose"),
        compile_text(_in_parts(text)),
    ]
    whole, some = (run_module(program, POSITIONS.arguments()) for program in programs)
    assert rel_error(some, whole) < 1e-6
