"""Rows that are taken by index are added to attention's result, on CPUs."""

from __future__ import annotations

import numpy as np
from helpers import MAPS, compile_text, rel_error, run_module

from attnpass import Report

TEXT = f"""{MAPS}
func.func @main(%q: tensor<2x8x16xf32>, %k: tensor<2x32x16xf32>, %v: tensor<2x32x16xf32>,
    %table: tensor<9x16xf32>, %at: tensor<8xi32>) -> tensor<2x8x16xf32> {{
  %scale = arith.constant 0.25 : f32
  %e = tensor.empty() : tensor<2x8x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale
      : tensor<2x8x16xf32>, tensor<2x32x16xf32>, tensor<2x32x16xf32>, f32)
      outs(%e : tensor<2x8x16xf32>) {{
    ^bb0(%y: f32):
      iree_linalg_ext.yield %y : f32
  }} -> tensor<2x8x16xf32>
  %s = linalg.generic {{indexing_maps = [affine_map<(b, m, n) -> (b, m, n)>,
      affine_map<(b, m, n) -> (m)>, affine_map<(b, m, n) -> (b, m, n)>],
      iterator_types = ["parallel", "parallel", "parallel"]}}
      ins(%r, %at : tensor<2x8x16xf32>, tensor<8xi32>) outs(%e : tensor<2x8x16xf32>) {{
  ^bb0(%a: f32, %row: i32, %out: f32):
    %i = arith.index_cast %row : i32 to index
    %j = linalg.index 2 : index
    %x = tensor.extract %table[%i, %j] : tensor<9x16xf32>
    %w = arith.addf %a, %x : f32
    linalg.yield %w : f32
  }} -> tensor<2x8x16xf32>
  return %s : tensor<2x8x16xf32>
}}"""


def test_numbers() -> None:
    report, numbers = Report(), np.random.default_rng(0)
    shapes = [(2, 8, 16), (2, 32, 16), (2, 32, 16), (9, 16)]
    q, k, v, table = (numbers.standard_normal(shape).astype(np.float32) for shape in shapes)
    at = np.array([3, 0, 8, 8, 1, 2, 7, 5], np.int32)
    got = run_module(compile_text(TEXT, mode="cost", report=report), [q, k, v, table, at])
    scores = np.einsum("bmd,bkd->bmk", q.astype(np.float64), k) / 4
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    assert rel_error(got, np.einsum("bmk,bkn->bmn", weights, v) + table[at]) < 2e-5
    # Its configuration was kept.
    assert not report.events
