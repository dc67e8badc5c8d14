"""attn-normal-form: masks of integers and of packed bits, in numbers, on llvm-cpu."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from helpers import compile_text, rel_error, run_module

ROWS, KEYS, HEAD = 9, 36, 16
PACKED = "i1, #iree_encoding.packed_storage"
# Of wide heads IREE's own code for such masks is wrong.
TYPES = {"i8": "i8", "i32": "i32", "packed": PACKED}
HEADS = {"narrow": HEAD, "wide": 288}


def attention(name: str, kind: str, head: int) -> str:
    """A function of Q, K, V and the mask's bytes or integers."""
    mask = f"tensor<{ROWS}x{KEYS}x{kind}>"
    given, made = (mask, "%given") if kind != PACKED else (f"tensor<{-(-ROWS * KEYS // 8)}xi8>", "")
    cast = f"%mask = flow.tensor.bitcast %given : {given} -> {mask}" if not made else ""
    q, k, v = (f"tensor<2x{size}x{head}xf32>" for size in (ROWS, KEYS, KEYS))
    return f"""
func.func @{name}(%q: {q}, %k: {k}, %v: {v}, %given: {given}) -> {q} {{
  {cast}
  %scale = arith.constant 0.25 : f32
  %e = tensor.empty() : {q}
  %r = iree_linalg_ext.attention <indexing_maps = [affine_map<(b, m, n, k1, k2) -> (b, m, k1)>,
      affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>, affine_map<(b, m, n, k1, k2) -> (b, k2, n)>,
      affine_map<(b, m, n, k1, k2) -> ()>, affine_map<(b, m, n, k1, k2) -> (m, k2)>,
      affine_map<(b, m, n, k1, k2) -> (b, m, n)>]>
      ins(%q, %k, %v, %scale, {made or "%mask"} : {q}, {k}, {v}, f32, {mask}) outs(%e : {q}) {{
    ^bb0(%x: f32):
      iree_linalg_ext.yield %x : f32
  }} -> {q}
  return %r : {q}
}}
"""


@cache
def compiled(cpu: str) -> bytes:
    text = "".join(
        attention(f"{name}_{width}", kind, head)
        for name, kind in TYPES.items()
        for width, head in HEADS.items()
    )
    return compile_text(text, mode="cost", flags=[f"--iree-llvmcpu-target-cpu={cpu}"])


@pytest.mark.parametrize("cpu", ["generic", "host"])
@pytest.mark.parametrize("width", HEADS)
@pytest.mark.parametrize("name", TYPES)
def test_masks(name: str, width: str, cpu: str) -> None:
    random = np.random.default_rng(7)
    q, k, v = (
        random.standard_normal((2, size, HEADS[width])).astype(np.float32)
        for size in (ROWS, KEYS, KEYS)
    )
    seen = random.random((ROWS, KEYS)) < 0.6
    seen[:, 0] = True
    seen[3] = False
    # Other bits than the lowest say nothing.
    kind = np.int32 if name == "i32" else np.int8
    mask = (seen + 2 * random.integers(-60, 60, seen.shape)).astype(kind)
    if name == "packed":
        mask = np.packbits(seen, bitorder="little").view(np.int8)
    scores = np.einsum("bmd,bkd->bmk", q.astype(np.float64), k) * 0.25
    weights = np.where(seen, np.exp(scores - scores.max(-1, keepdims=True)), 0)
    weights /= np.maximum(weights.sum(-1, keepdims=True), 1e-300)
    got = run_module(compiled(cpu), [q, k, v, mask], f"{name}_{width}")
    assert rel_error(got, weights @ v.astype(np.float64)) < 2e-6
