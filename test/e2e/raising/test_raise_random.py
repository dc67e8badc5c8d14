"""Random ways to write attention out keep their meaning when attn-raise makes an op of them, and
the layout passes change that."""

from __future__ import annotations

import numpy as np
from helpers import ALL_RUN, compile_text, rel_error, run_module, thinned
from hypothesis import given, settings
from hypothesis import strategies as st
from interpreter import interpret
from iree.compiler import ir
from random_modules import seeded
from random_written import random_written

import attnpass

RAISE = "attn-raise{mode=always}"
BEHIND = "attn-fuse-normalization,attn-mask-positions,attn-share-masks"
LAYOUT = "attn-propagate-layout"
FOR_TILES = (
    "attn-fit-tiles{only=pad-heads,tile-dynamic,mask-dynamic-keys},attn-join-dims,attn-pad-keys"
)
PIPELINES = [
    RAISE,
    f"{RAISE},{BEHIND},{LAYOUT}{{mode=always operands=v,k,q}}",
    f"{RAISE},{BEHIND},{LAYOUT}{{target=llvm-cpu operands=v,k,q}},attn-drop-unit-dims",
    f"{RAISE},{BEHIND},{LAYOUT}{{target=sm_80 operands=v,k,q}},attn-drop-unit-dims,{FOR_TILES}",
]
# By the first word that is in a function's text.
TOLERANCES = (("bf16", 2e-2), ("f16", 5e-3))


def raised(module: ir.Module, pipeline: str) -> bool:
    """Whether the pipeline, which it runs, makes an op of what is written out."""
    target = "sm_80" if FOR_TILES in pipeline else None
    return bool(attnpass.run(module, pipeline, target=target).found("raised"))


def check(seed: int) -> bool:
    """Holds every pipeline against the function as it was; returns whether it has an op now. Rows
    that are NaN, as where infinity hides all keys, may be anything."""
    function = random_written(seeded(seed))
    inputs = function.inputs(np.random.default_rng(seed))
    changed = False
    with ir.Context() as context, np.errstate(all="ignore"):
        context.load_all_available_dialects()
        wanted = interpret(ir.Module.parse(function.text()), inputs, absorbs=True)
        for pipeline in PIPELINES:
            module = ir.Module.parse(function.text())
            changed = raised(module, pipeline) or changed
            for new, old in zip(interpret(module, inputs, absorbs=True), wanted, strict=True):
                known = np.isfinite(old)
                np.testing.assert_allclose(
                    new[known], old[known], rtol=1e-6, atol=1e-7, err_msg=pipeline
                )
    return changed


@settings(max_examples=-(-settings().max_examples // 2))
@given(seed=st.integers(0, 2**32))
def test_meaning_is_kept(seed: int) -> None:
    check(seed)


def test_most_are_raised() -> None:
    """What the generator writes is attention, but for a step here and there that is none."""
    seeds = range(24 if ALL_RUN else 14)
    count = sum(check(seed) for seed in seeds)
    assert 2 * count >= len(seeds)


def test_numbers_on_cpu() -> None:
    """Compiled as one module, as attn-compile does it by default."""
    seeds = thinned(range(12))
    functions = [random_written(seeded(seed), f"f{seed}", regular=True) for seed in seeds]
    vmfb = compile_text("\n".join(f.text() for f in functions), mode="cost")
    for seed, function in zip(seeds, functions, strict=True):
        inputs = function.inputs(np.random.default_rng(seed))
        with ir.Context() as context, np.errstate(all="ignore"):
            context.load_all_available_dialects()
            module = ir.Module.parse(function.text())
            wanted = interpret(module, inputs, function.name, absorbs=True)
        results = run_module(vmfb, inputs, function.name)
        tolerance = next((t for word, t in TOLERANCES if word in function.text()), 1e-5)
        for new, old in zip(results if len(wanted) > 1 else [results], wanted, strict=True):
            known = np.isfinite(old)
            error = rel_error(new[known], old[known]) if known.any() else 0.0
            assert error < tolerance, f"{function.name}:\n{function.text()}"
