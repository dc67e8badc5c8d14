"""Random producer chains in front of attention keep their meaning under every pass.

Most examples are run in numpy, before and after; some are compiled for llvm-cpu, many in one
module, and run. ATTNPASS_EXAMPLES=<count> asks for more examples than the few of each run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from helpers import compile_text, rel_error, run_module
from hypothesis import example, given, settings
from hypothesis import strategies as st
from interpreter import interpret
from iree.compiler import ir
from random_modules import random_function, seeded

import attnpass
from attnpass.attention.facts import AttentionFacts, find
from attnpass.machines import named_target
from attnpass.report.records import Report
from bench.device import several

LAYOUT = "attn-propagate-layout"
PIPELINES = [
    f"{LAYOUT}{{mode=always}}",
    f"{LAYOUT}{{mode=always operands=v,k,q,mask}}",
    f"{LAYOUT}{{mode=cost operands=v,k,q,mask target=sm_80}}",
    f"{LAYOUT}{{mode=cost target=llvm-cpu}}",
    f"{LAYOUT}{{mode=never operands=v,k,q,mask}}",
    "attn-bubble-transpose-v,attn-fuse-transpose,attn-fold-transpose",
    "attn-fuse-transpose",
    "attn-fold-transpose{through-reshapes=true}",
]
OFF = "--iree-global-opt-enable-attention-v-transpose=false"
SEEDS = st.integers(0, 2**32)


def rewritten(module: ir.Module, pipeline: str) -> Report:
    """Runs the pipeline, which verifies; checks that a report without a change left none."""
    before = str(module)
    report = attnpass.run(module, pipeline)
    done = [o.decision for a in report.attentions for o in a.operands]
    changing = {"absorbed", "folded"} & set(done) or "bubble" in pipeline
    assert changing or str(module) == before, "refused or kept, yet the module changed"
    return report


# Its V is cut at a size that is computed behind another reader of V.
@example(seed=121)
@given(seed=SEEDS)
def test_meaning_is_kept(seed: int) -> None:
    function = random_function(seeded(seed))
    inputs = function.inputs(np.random.default_rng(seed))
    with ir.Context() as context:
        context.load_all_available_dialects()
        wanted = interpret(ir.Module.parse(function.text()), inputs)
        for pipeline in PIPELINES:
            module = ir.Module.parse(function.text())
            rewritten(module, pipeline)
            for facts in find(module.operation):
                check_roles(facts)
            same(interpret(module, inputs), wanted, pipeline)


def same(got: Sequence[np.ndarray], wanted: Sequence[np.ndarray], pipeline: str) -> None:
    """The rewrites reorder sums at most."""
    for new, old in zip(got, wanted, strict=True):
        np.testing.assert_allclose(new, old, rtol=1e-9, atol=1e-9, err_msg=pipeline)


def check_roles(facts: AttentionFacts) -> None:
    """Each dim is named by the operands that its role needs: IREE classifies dims by that."""
    query, key, value, output = (
        set(facts.map_of(name)) for name in ("query", "key", "value", "output")
    )
    assert facts.m and set(facts.m) <= query & output
    assert facts.k1 and set(facts.k1) <= query & key
    assert facts.k2 and set(facts.k2) <= key & value
    assert facts.n and set(facts.n) <= value & output


@settings(max_examples=-(-settings().max_examples // 2))
@given(seed=SEEDS)
def test_a_second_run_is_sound(seed: int) -> None:
    function = random_function(seeded(seed))
    inputs = function.inputs(np.random.default_rng(seed))
    with ir.Context() as context:
        context.load_all_available_dialects()
        module = ir.Module.parse(function.text())
        wanted = interpret(module, inputs)
        for pipeline in PIPELINES:
            rewritten(module, pipeline)
        same(interpret(module, inputs), wanted, "all of them, one after the other")


@settings(max_examples=-(-settings().max_examples // 2))
@given(seed=SEEDS)
def test_generic_form_round_trips(seed: int) -> None:
    with ir.Context() as context:
        context.load_all_available_dialects()
        module = ir.Module.parse(random_function(seeded(seed)).text())
        attnpass.run(module, PIPELINES[1])
        generic = module.operation.get_asm(print_generic_op_form=True)
        assert str(ir.Module.parse(generic)) == str(module)


# Seeds of random functions that IREE 3.13 compiles for llvm-cpu without our passes, to right
# numbers. There are others: attention with one query row and one column of V, and a scatter
# that is read twice, which comes out wrong.
COMPILED = range(12)


def test_numbers_on_cpu() -> None:
    """The functions in turn through three pipelines, then compiled by IREE as one module;
    test_fuzz.py does so with attn-compile."""
    turns = [PIPELINES[0], PIPELINES[1], PIPELINES[5]]
    functions = [random_function(seeded(seed), f"f{seed}", regular=True) for seed in COMPILED]
    texts = []
    with ir.Context() as context:
        context.load_all_available_dialects()
        for number, function in enumerate(functions):
            module = ir.Module.parse(function.text())
            rewritten(module, turns[number % len(turns)])
            texts.append(module.body.operations[0].get_asm(use_local_scope=True))
        vmfb = compile_text("\n".join(texts), flags=[OFF])
        for seed, function in zip(COMPILED, functions, strict=True):
            inputs = function.inputs(np.random.default_rng(seed))
            wanted = interpret(ir.Module.parse(function.text()), inputs, function.name)
            got = several(run_module(vmfb, inputs, function.name))
            tolerance = 2e-2 if "f16" in function.text() else 1e-5
            for new, old in zip(got, wanted, strict=True):
                assert rel_error(new, old) < tolerance, f"{function.name}:\n{function.text()}"


@pytest.mark.parametrize("part", [0, 1])
def test_a_value_in_two_layouts_keeps_its_meaning(
    part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """V^T is taken although V is read as it is, too; small, with launches that cost nothing. The
    interpreter computes exactly, whatever the type."""
    target = dataclasses.replace(named_target("sm_89"), launch_seconds=0.0, bytes_per_second=1e18)
    monkeypatch.setattr("attnpass.machines.named_target", lambda name: target)
    path = Path(__file__).parents[2] / "propagate-layout" / "both-layouts.mlir"
    text = path.read_text().split("// -----")[part]
    text = text.replace("2048", "24").replace("x128x", "x80x")
    generator = np.random.default_rng(part)
    with ir.Context() as context:
        context.load_all_available_dialects()
        module = ir.Module.parse(text)
        function = module.body.operations[0]
        shapes = [
            ir.RankedTensorType(x.type).shape for x in function.regions[0].blocks[0].arguments
        ]
        inputs = [generator.standard_normal(shape) for shape in shapes]
        name = ir.StringAttr(function.attributes["sym_name"]).value
        wanted = interpret(module, inputs, name)
        report = rewritten(module, f"{LAYOUT}{{target=sm_89}}")
        assert report.attentions[0].operands[0].decision == "absorbed"
        same(interpret(module, inputs, name), wanted, "cost")
