"""Attention written out as products and a softmax, as JAX writes it, becomes an op that computes
the same."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from decomposed import CASES, in_order, inputs, program, reference
from helpers import compile_and_run, compile_text, rel_error, renamed, run_module, symbol
from iree.compiler import ir

import attnpass
from attnpass import Report
from attnpass.pipeline import default_pipeline


@cache
def compiled(cap: bool) -> tuple[bytes, Report]:
    """The cases with a soft-cap, or those without one."""
    passes = default_pipeline("cost", configure=True, hardware_exp2=False, shared_memory=False)
    if cap:
        # On CPUs it is faster as it is.
        passes = passes.replace("attn-raise", "attn-raise{mode=always}")
    here = {name: case for name, case in CASES.items() if bool(case.cap) == cap}
    text = "".join(renamed(program(case), symbol(name)) for name, case in here.items())
    report = Report()
    return compile_text(text, mode="cost", pipeline=passes, report=report), report


@pytest.mark.parametrize("name", CASES)
def test_written_out(name: str) -> None:
    case = CASES[name]
    given = inputs(case)
    vmfb, report = compiled(bool(case.cap))
    got = run_module(vmfb, list(in_order(given)), symbol(name))
    (record,) = (one for one in report.attentions if one.function == symbol(name))
    if not case.sink:
        assert record.element_types["output"] == case.kind
    wanted = reference(case, given)
    assert not np.isnan(got).any()
    assert rel_error(got, wanted) < (2e-3 if case.kind == "f16" else 2e-6)


# Scores in f16, as eager models in f16 are exported: the scale and what hides keys are numbers that
# are rounded beside them, one to f16, one to infinity.
ROUNDED_NUMBERS = """
#all = affine_map<(b, m, k) -> (b, m, k)>
#seen = affine_map<(b, m, k) -> (m, k)>
func.func @main(%q: tensor<2x6x24xf16>, %k: tensor<2x24x5xf16>, %v: tensor<2x5x24xf16>,
                %seen: tensor<6x5xi1>) -> tensor<2x6x24xf16> {
  %zero = arith.constant 0.0 : f32
  %scale = arith.constant 0.20412415 : f32
  %lowest = arith.constant -3.40282347E+38 : f32
  %e = tensor.empty() : tensor<2x6x5xf32>
  %eh = tensor.empty() : tensor<2x6x5xf16>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x6x24xf16>, tensor<2x24x5xf16>)
      outs(%s0 : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %masked = linalg.generic {indexing_maps = [#all, #seen, #all],
      iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%s, %seen : tensor<2x6x5xf32>, tensor<6x5xi1>) outs(%eh : tensor<2x6x5xf16>) {
  ^bb0(%x: f32, %shown: i1, %o: f16):
    %y = arith.truncf %x : f32 to f16
    %c = arith.truncf %scale : f32 to f16
    %z = arith.mulf %y, %c : f16
    %low = arith.truncf %lowest : f32 to f16
    %r = arith.select %shown, %z, %low : f16
    linalg.yield %r : f16
  } -> tensor<2x6x5xf16>
  %w = linalg.softmax dimension(2) ins(%masked : tensor<2x6x5xf16>)
      outs(%eh : tensor<2x6x5xf16>) -> tensor<2x6x5xf16>
  %eo = tensor.empty() : tensor<2x6x24xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%eo : tensor<2x6x24xf32>) -> tensor<2x6x24xf32>
  %r = linalg.batch_matmul ins(%w, %v : tensor<2x6x5xf16>, tensor<2x5x24xf16>)
      outs(%o0 : tensor<2x6x24xf32>) -> tensor<2x6x24xf32>
  %en = tensor.empty() : tensor<2x6x24xf16>
  %h = linalg.generic {indexing_maps = [#all, #all],
      iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%r : tensor<2x6x24xf32>) outs(%en : tensor<2x6x24xf16>) {
  ^bb0(%x: f32, %o: f16):
    %y = arith.truncf %x : f32 to f16
    linalg.yield %y : f16
  } -> tensor<2x6x24xf16>
  return %h : tensor<2x6x24xf16>
}
"""


def test_numbers_rounded_beside_scores() -> None:
    rng = np.random.default_rng(0)
    shapes = ((2, 6, 24), (2, 24, 5), (2, 5, 24))
    query, key, value = (rng.standard_normal(shape).astype(np.float16) for shape in shapes)
    seen = rng.random((6, 5)) > 0.5
    seen[:, 1] = True
    report = Report()
    inputs = [query, key, value, seen]
    got = compile_and_run(ROUNDED_NUMBERS, inputs, mode="cost", report=report)
    assert len(report.attentions) == 1, report.records
    scores = query.astype(np.float64) @ key.astype(np.float64) * 24**-0.5
    weights = np.exp(np.where(seen, scores, -np.inf))
    wanted = weights / weights.sum(-1, keepdims=True) @ value.astype(np.float64)
    assert rel_error(got, wanted) < 1e-3


def test_two_products_are_one_of_a_longer_head_dim() -> None:
    text = (Path(__file__).parents[2] / "raise" / "joined.mlir").read_text()
    rng = np.random.default_rng(0)
    shapes = ((2, 4, 16), (2, 4, 4), (2, 8, 16), (2, 8, 4), (2, 8))
    query, place, cache, places, mask = (
        rng.standard_normal(shape).astype(np.float32) for shape in shapes
    )
    scores = np.einsum("bmd,bnd->bmn", query, cache) + np.einsum("bmd,bnd->bmn", place, places)
    for part, name, given in (
        (0, "latents", [query, place, cache, places]),
        (1, "masked", [query, place, cache, places, mask]),
    ):
        with ir.Context() as context:
            context.load_all_available_dialects()
            raised = ir.Module.parse(text.split("// -----")[part])
            attnpass.run(raised, "builtin.module(attn-raise)", target="sm_90")
        assert str(raised).count("tensor.concat") == 2
        added = scores / 4 + (mask[:, None] if name == "masked" else 0)
        weights = np.exp(added.astype(np.float64))
        wanted = weights / weights.sum(-1, keepdims=True) @ cache.astype(np.float64)
        assert rel_error(compile_and_run(str(raised), given, function=name), wanted) < 2e-6
