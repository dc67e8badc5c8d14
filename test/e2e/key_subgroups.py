"""Attention that IREE gives more subgroups along the keys than lanes there, on CUDA."""

from __future__ import annotations

from collections.abc import Sequence

import ml_dtypes
import numpy as np

ROWS, HEADS, WIDTH, KEYS = 16, 4, 64, 32
_TEXT = """
#q = affine_map<(d0, d1, d2, d3, d4, d5) -> (d1, d0, d2, d5)>
#k = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d5, d4, d2)>
#v = affine_map<(d0, d1, d2, d3, d4, d5) -> (d5, d4, d3)>
#s = affine_map<(d0, d1, d2, d3, d4, d5) -> ()>
#o = affine_map<(d0, d1, d2, d3, d4, d5) -> (d1, d3, d5)>
!q = tensor<16x64x2x4xTYPE>
!k = tensor<64x4x32x2xTYPE>
!v = tensor<4x32x64xTYPE>
!o = tensor<16x64x4xTYPE>
func.func @main(%q: !q, %k: !k, %v: !v) -> !o {
  %scale = arith.constant 0.25 : TYPE
  %e = tensor.empty() : !o
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : !q, !k, !v, TYPE) outs(%e : !o) {
  ^bb0(%score: f32):
    iree_linalg_ext.yield %score : f32
  } -> !o
  return %r : !o
}
"""


def attention(element: str) -> str:
    """`main` of Q, K and V of an element type."""
    return _TEXT.replace("TYPE", element)


def inputs(element: str) -> list[np.ndarray]:
    kind = {"bf16": ml_dtypes.bfloat16, "f16": np.float16}[element]
    shapes = [(ROWS, WIDTH, 2, HEADS), (WIDTH, HEADS, KEYS, 2), (HEADS, KEYS, WIDTH)]
    random = np.random.default_rng(0)
    return [random.standard_normal(shape).astype(kind) for shape in shapes]


def wanted(given: Sequence[np.ndarray]) -> np.ndarray:
    q, k, v = (each.astype(np.float64) for each in given)
    weights = np.exp(np.einsum("mdch,dhjc->hmj", q, k) * 0.25)
    return np.einsum("hmj,hjn->mnh", weights / weights.sum(-1, keepdims=True), v)
