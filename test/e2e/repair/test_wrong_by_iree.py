"""Attention that IREE's own code computes wrong, or fails on, and no configuration is for."""

from __future__ import annotations

import itertools
from functools import cache

import pytest
from attention_form import TOLERANCE, Form
from helpers import compile_text, rel_error, run_module, thinned

from attnpass import Report

ROWS = {"maxima": "bm", "sums": "bm"}
WIDE = (("d", 192), ("n", 16), ("m", 16), ("k", 33))
FORMS = {
    "fp8": Form(kinds=("f8E4M3FN",) * 3 + ("f32",), sizes=WIDE),
    "unknown_head": Form(dynamic="d"),
    "two_head_dims_of_an_unknown_size": Form("bmde", "bkde", mask="mk", dynamic="e"),
    "head_dim_everywhere": Form("bmd", "bkd", "bk", "bm", sizes=WIDE),
    "results_of_two_types": Form(kinds=("f16",) * 4, **ROWS),
    "given_sums_in_fp8": Form(kinds=("f8E4M3FN",) * 3 + ("f32",), **ROWS),
    "rows_summed": Form("bmgd", "bkd", "bkn", "bmn"),
    "result_dim_of_its_own": Form("bmd", "bkd", "bkn", "bmno"),
}
# Wide heads that a configuration takes, once IREE has folded and joined dims: written out, they
# would be slower.
CONFIGURED = {
    "wide": Form(sizes=WIDE),
    "wide_i8_mask": Form(mask="mk", mask_kind="i8", sizes=WIDE),
    "wide_batch_of_one": Form(sizes=(*WIDE, ("b", 1))),
    "wide_two_key_dims": Form("bmd", "bkld", "bkln", "bmn", sizes=WIDE),
    "two_head_dims": Form("bmde", "bkde", "bkn", "bmn", sizes=(("d", 64), ("e", 4))),
    "given_sums": Form(**ROWS),
}
# Wide heads whose dims stand apart somewhere, so that IREE does not join them.
APART = {
    "head": ("bmde", "bked", "bkn", "bmn"),
    "three_of_head": ("bmdeg", "bkged", "bkn", "bmn"),
    "keys": ("bmd", "bkld", "blkn", "bmn"),
    "columns": ("bmd", "bkd", "bkon", "bmno"),
    "all": ("bhmgde", "bhkled", "bhlkon", "mbghno"),
}
SIZES = (("d", 130), ("k", 6))
MASKS = {"": "", "i1": "k", "f16": "km", "i8": "mk"}
CONFIGURED |= {
    f"apart_{name}_{mask}{''.join(dynamic)}": Form(
        *dims,
        mask=MASKS[mask].replace("k", "lk" if "l" in dims[1] else "k"),
        mask_kind=mask or "i1",
        dynamic=dynamic,
        sizes=SIZES,
    )
    for (mask, dynamic), (name, dims) in thinned(
        itertools.product((("", ""), ("i1", "k"), ("f16", "bm"), ("i8", "kl")), APART.items())
    )
}
# Numbers that are given to begin with, over dims that fill IREE's own tiles.
FILL = (("m", 6), ("n", 64), ("d", 16), ("e", 2), ("k", 8), ("l", 4), ("o", 2))
CONFIGURED |= {
    f"given_sums_apart_{name}_{mask}": Form(
        *APART[name],
        mask=MASKS[mask].replace("k", "lk" if name == "keys" else "k"),
        mask_kind=mask or "i1",
        sizes=FILL,
        **ROWS,
    )
    for mask, name in thinned(itertools.product(MASKS, ("head", "keys", "columns")))
}


@cache
def compiled(is_configured: bool) -> tuple[bytes, Report]:
    """One module of all that are configured, one of the others."""
    forms, report = CONFIGURED if is_configured else FORMS, Report()
    text = "".join(form.text(name) for name, form in forms.items())
    return compile_text(text, mode="cost", report=report), report


@pytest.mark.parametrize("is_configured", [True, False])
def test_what_is_written_out(is_configured: bool) -> None:
    report = compiled(is_configured)[1]
    assert not report.events
    written = report.found("decomposed")
    assert len(written) == (0 if is_configured else len(FORMS)), report.records


@pytest.mark.parametrize("name", [*FORMS, *CONFIGURED])
def test_numbers(name: str) -> None:
    form = (FORMS | CONFIGURED)[name]
    results = run_module(compiled(name in CONFIGURED)[0], form.arguments(), name)
    for number, (result, wanted) in enumerate(
        zip(results if form.online else [results], form.wanted(), strict=True)
    ):
        kind = form.kinds[3] if number == 0 else "f32"
        assert rel_error(result, wanted) < 5 * TOLERANCE[kind]


def test_without_configurations() -> None:
    form, report = CONFIGURED["wide"], Report()
    program = compile_text(form.text("main"), mode="cost", report=report, configure=False)
    assert rel_error(run_module(program, form.arguments()), form.wanted()[0]) < TOLERANCE["f32"]
    assert report.found("decomposed")
