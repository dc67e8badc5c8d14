"""Attention that IREE gives more subgroups along the keys than lanes there, on CUDA."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from gpu_module import lower, run_gpu_module

import attnpass

ROWS, HEADS, WIDTH, KEYS = 16, 4, 64, 32
ATTENTION = """
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
FLAGS = ["--iree-hal-target-device=cuda", "--compile-to=executable-configurations"]


@pytest.mark.parametrize("machine", ["sm_80", "sm_90"])
@pytest.mark.parametrize("element", ["bf16", "f16"])
def test_numbers(element: str, machine: str) -> None:
    flags = [*FLAGS, f"--iree-cuda-target={machine}"]
    source = ATTENTION.replace("TYPE", element)
    text = attnpass.compile_str(source, mode="never", extra_args=flags)
    assert text is not None
    kind = {"bf16": ml_dtypes.bfloat16, "f16": np.float16}[element]
    shapes = [(ROWS, WIDTH, 2, HEADS), (WIDTH, HEADS, KEYS, 2), (HEADS, KEYS, WIDTH)]
    random = np.random.default_rng(0)
    inputs = [random.standard_normal(shape).astype(kind) for shape in shapes]
    (got,) = run_gpu_module(lower(text.decode()), inputs)
    q, k, v = (each.astype(np.float64) for each in inputs)
    weights = np.exp(np.einsum("mdch,dhjc->hmj", q, k) * 0.25)
    wanted = np.einsum("hmj,hjn->mnh", weights / weights.sum(-1, keepdims=True), v)
    error = np.linalg.norm(got.astype(np.float64) - wanted) / np.linalg.norm(wanted)
    assert error < 2e-2
