"""Sums over several dims on CUDA: IREE takes the dims of both factors by their places."""

from __future__ import annotations

import dataclasses
import random

import numpy as np
import pytest
from attention_form import Form
from gpu_module import lowered, run_gpu_module
from helpers import rel_error
from vector_products import error_of

from attnpass.report.records import Report

CUDA = ("--iree-hal-target-device=cuda", "--iree-cuda-target=sm_90")
TOLERANCE = {"f32": 3e-4, "f16": 5e-3, "bf16": 2e-2}
SMALL = (("d", 4), ("e", 8), ("h", 2), ("m", 3), ("k", 8), ("l", 4), ("n", 8), ("b", 2))
FORMS = {
    "second_factor": Form("bmde", "bked"),
    "apart": Form("dbem", "ekbd", "nbk", "mbn"),
    "three_dims": Form("bmdeh", "bkhed"),
    "of_16_bits": Form("bdem", "bked", kinds=("f16",) * 4, sizes=(("d", 4), ("e", 64))),
    "rows_of_unknown_number": Form("bmde", "bked", dynamic="m"),
    "mask": Form("bmde", "bked", mask="mk", mask_kind="f32"),
    "two_key_dims": Form("bmde", "bkled", "blkn"),
}
# Of unknown sizes, rows or columns of products among them.
UNKNOWN = {
    "all": Form("bhmd", "bhkd", "bhkn", "bhmn", dynamic="bmdk"),
    "transposed": Form("bdhmg", "bhkd", "bhkn", "nghbm", dynamic="hmdk"),
    "two_head_dims": Form("bhmed", "dbhke", "kbnh", "bhmn", dynamic="bmd"),
}


@pytest.mark.parametrize("seed", range(20))
def test_what_iree_makes_of_a_product(seed: int) -> None:
    choices = random.Random(seed)
    dims = ["".join(choices.sample(one, len(one))) for one in ("abxz", "abyz", "xyz", "abxyz")]
    given = ["".join(choices.sample(one, len(one))) for one in dims[:3]]
    assert error_of(dims, dims[:3]) < 1e-6
    assert error_of(dims, given) < 1e-6


@pytest.mark.parametrize("hardware_exp2", [True, False])
@pytest.mark.parametrize("name", FORMS)
def test_attention(name: str, hardware_exp2: bool) -> None:
    form, report = FORMS[name], Report()
    form = dataclasses.replace(form, sizes=(*SMALL, *form.sizes))
    module = lowered(form.text("main"), CUDA, report=report, hardware_exp2=hardware_exp2)
    assert ("ex2.approx" in str(module)) == hardware_exp2
    (result,) = run_gpu_module(module, form.arguments())
    assert rel_error(result, form.wanted()[0]) < TOLERANCE[form.kinds[0]]
    assert not report.events
    assert any("transposed in registers" in record.reason for record in report.found("repaired"))


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("name", UNKNOWN)
def test_head_dims_of_unknown_size(name: str, kind: str) -> None:
    sizes = (("b", 2), ("h", 2), ("m", 3), ("g", 2), ("k", 8), ("n", 8), ("d", 6), ("e", 16))
    form = dataclasses.replace(UNKNOWN[name], kinds=(kind,) * 4, sizes=sizes)
    report = Report()
    module = lowered(form.text("main"), CUDA, report=report)
    (result,) = run_gpu_module(module, form.arguments())
    assert rel_error(result, form.wanted()[0]) < TOLERANCE[kind]
    assert not report.events
    assert any("one thread's" in record.reason for record in report.found("repaired"))


QUANTISED = """
func.func @main(%q: tensor<?x3x32xf32>, %k: tensor<3x32x3xf32>, %bytes: tensor<3x?xi8>, %factor: tensor<f32>) -> tensor<?x?xf32> {
  %scale = arith.constant 0.125 : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %rows = tensor.dim %q, %c0 : tensor<?x3x32xf32>
  %width = tensor.dim %bytes, %c1 : tensor<3x?xi8>
  %qe = tensor.empty(%rows) : tensor<32x?x3xf32>
  %qt = linalg.transpose ins(%q : tensor<?x3x32xf32>) outs(%qe : tensor<32x?x3xf32>) permutation = [2, 0, 1]
  %ve = tensor.empty(%width) : tensor<3x?xf32>
  %v = linalg.generic {indexing_maps = [affine_map<(k, n) -> (k, n)>, affine_map<(k, n) -> ()>, affine_map<(k, n) -> (k, n)>], iterator_types = ["parallel", "parallel"]} ins(%bytes, %factor : tensor<3x?xi8>, tensor<f32>) outs(%ve : tensor<3x?xf32>) {
  ^bb0(%a: i8, %b: f32, %o: f32):
    %f = arith.sitofp %a : i8 to f32
    %p = arith.mulf %f, %b : f32
    linalg.yield %p : f32
  } -> tensor<3x?xf32>
  %e = tensor.empty(%rows, %width) : tensor<?x?xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [affine_map<(m, d, e, k, n) -> (d, m, e)>, affine_map<(m, d, e, k, n) -> (k, d, e)>, affine_map<(m, d, e, k, n) -> (k, n)>, affine_map<(m, d, e, k, n) -> ()>, affine_map<(m, d, e, k, n) -> (m, n)>]> ins(%qt, %k, %v, %scale : tensor<32x?x3xf32>, tensor<3x32x3xf32>, tensor<3x?xf32>, f32) outs(%e : tensor<?x?xf32>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}
"""  # noqa: E501


@pytest.mark.parametrize(("rows", "width"), [(1, 32), (5, 24)])
def test_transposed_queries_of_unknown_sizes(rows: int, width: int) -> None:
    rng = np.random.default_rng(rows)
    q, k = (rng.standard_normal(shape, np.float32) for shape in ((rows, 3, 32), (3, 32, 3)))
    v, factor = rng.integers(-9, 9, (3, width)).astype(np.int8), np.array(0.25, np.float32)
    (got,) = run_gpu_module(lowered(QUANTISED, CUDA), [q, k, v, factor])
    scores = np.einsum("med,kde->mk", q.astype(np.float64), k) * 0.125
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    assert rel_error(got, weights @ (v * 0.25)) < TOLERANCE["f32"]
