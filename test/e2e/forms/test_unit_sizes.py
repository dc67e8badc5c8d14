"""Attention whose dims of size one IREE folds away: it is compiled, to the right numbers."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import compile_and_run, rel_error

MODULE = """
func.func @main(%q: tensor<2x6x{d}xf32>, %k: tensor<2x{keys}x{d}xf32>,
    %v: tensor<2x{keys}x{width}xf32>) -> tensor<2x6x{width}xf32> {{
  %scale = arith.constant 0.5 : f32
  %e = tensor.empty() : tensor<2x6x{width}xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [
        affine_map<(b, m, n, k, j) -> (b, m, k)>, affine_map<(b, m, n, k, j) -> (b, j, k)>,
        affine_map<(b, m, n, k, j) -> (b, j, n)>, affine_map<(b, m, n, k, j) -> ()>,
        affine_map<(b, m, n, k, j) -> (b, m, n)>]>
      ins(%q, %k, %v, %scale : tensor<2x6x{d}xf32>, tensor<2x{keys}x{d}xf32>,
          tensor<2x{keys}x{width}xf32>, f32)
      outs(%e : tensor<2x6x{width}xf32>) {{
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  }} -> tensor<2x6x{width}xf32>
  return %r : tensor<2x6x{width}xf32>
}}
"""


@pytest.mark.parametrize(("keys", "d", "width"), [(1, 8, 8), (10, 1, 8), (10, 8, 1)])
def test_numbers(keys: int, d: int, width: int) -> None:
    generator = np.random.default_rng(0)
    shapes = (2, 6, d), (2, keys, d), (2, keys, width)
    q, k, v = (generator.standard_normal(shape).astype(np.float32) for shape in shapes)
    weights = np.exp(0.5 * np.einsum("bmd,bkd->bmk", q, k, dtype=np.float64))
    wanted = (weights / weights.sum(-1, keepdims=True)) @ v
    text = MODULE.format(keys=keys, d=d, width=width)
    assert rel_error(compile_and_run(text, [q, k, v], mode="cost"), wanted) < 1e-6
