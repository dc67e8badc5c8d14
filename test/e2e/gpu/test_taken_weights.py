"""Kernels of few rows times weights that are taken by index, those for GPUs interpreted in numpy:
both layouts, and indices that count from the end."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from gpu_module import lower, run_gpu_module
from helpers import compile_text, rel_error, run_module

import attnpass
from attnpass import Report

CUDA = ("--iree-hal-target-device=cuda", "--iree-cuda-target=sm_90", "--iree-opt-level=O2")
_EXPERTS, _TOKENS, _CHOSEN, _COLUMNS, _DEPTH = 5, 3, 2, 128, 256


def _text(by_columns: bool, tokens: int) -> str:
    """`einsum("td,tkdh->tkh", x, weights[chosen])`, weights (d, h), or (h, d) if `by_columns`."""
    sizes = (_COLUMNS, _DEPTH) if by_columns else (_DEPTH, _COLUMNS)
    lie = "n, k" if by_columns else "k, n"
    weights = f"tensor<{_EXPERTS}x{sizes[0]}x{sizes[1]}xf16>"
    chosen = f"tensor<{tokens}x{_CHOSEN}xi64>"
    taken = f"tensor<{tokens}x{_CHOSEN}x{sizes[0]}x{sizes[1]}xf16>"
    rows, out = f"tensor<{tokens}x{_DEPTH}xf16>", f"tensor<{tokens}x{_CHOSEN}x{_COLUMNS}xf32>"
    four = 'iterator_types = ["parallel", "parallel", "parallel"'
    first = "0" if tokens == 1 else "a"
    return f"""
func.func @main(%w: {weights}, %at: {chosen}, %x: {rows}) -> {out} {{
  %none = arith.constant 0 : i64
  %count = arith.constant {_EXPERTS} : i64
  %zero = arith.constant 0.0 : f32
  %space = tensor.empty() : {taken}
  %g = linalg.generic {{indexing_maps = [affine_map<(a, b, c, d) -> ({first}, b)>,
      affine_map<(a, b, c, d) -> (a, b, c, d)>], {four}, "parallel"]}}
      ins(%at : {chosen}) outs(%space : {taken}) {{
  ^bb0(%i: i64, %o: f16):
    %below = arith.cmpi slt, %i, %none : i64
    %moved = arith.addi %i, %count : i64
    %from = arith.select %below, %moved, %i : i64
    %r = arith.index_cast %from : i64 to index
    %c = linalg.index 2 : index
    %d = linalg.index 3 : index
    %v = tensor.extract %w[%r, %c, %d] : {weights}
    linalg.yield %v : f16
  }} -> {taken}
  %e = tensor.empty() : {out}
  %f = linalg.fill ins(%zero : f32) outs(%e : {out}) -> {out}
  %p = linalg.generic {{indexing_maps = [affine_map<(t, e, n, k) -> (t, k)>,
      affine_map<(t, e, n, k) -> (t, e, {lie})>, affine_map<(t, e, n, k) -> (t, e, n)>],
      {four}, "reduction"]}} ins(%x, %g : {rows}, {taken}) outs(%f : {out}) {{
  ^bb0(%a: f16, %b: f16, %o: f32):
    %u = arith.extf %a : f16 to f32
    %v = arith.extf %b : f16 to f32
    %m = arith.mulf %u, %v : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  }} -> {out}
  return %p : {out}
}}"""


@pytest.mark.parametrize("tokens", [1, _TOKENS])
@pytest.mark.parametrize("by_columns", [True, False], ids=["nk", "kn"])
def test_taken_weights(by_columns: bool, tokens: int) -> None:
    report = Report()
    flags = [*CUDA, "--compile-to=executable-configurations"]
    binary = attnpass.compile_str(_text(by_columns, tokens), extra_args=flags, report=report)
    assert "takes its weights as rows of a gather" in report.to_text()
    assert by_columns or "is configured" in report.to_text()
    assert binary is not None
    text = binary.decode() if isinstance(binary, bytes) else binary
    assert _error(by_columns, tokens, lambda given: run_gpu_module(lower(text), given)[0]) < 1e-3


@pytest.mark.parametrize("by_columns", [True, False], ids=["nk", "kn"])
def test_on_a_cpu(by_columns: bool) -> None:
    report = Report()
    binary = compile_text(_text(by_columns, _TOKENS), mode="cost", report=report)
    assert "takes its weights as rows of a gather" in report.to_text()
    assert _error(by_columns, _TOKENS, lambda given: run_module(binary, given)) < 1e-3


def _error(by_columns: bool, tokens: int, run: Callable[[list[np.ndarray]], np.ndarray]) -> float:
    random = np.random.default_rng(0)
    shape = (_EXPERTS, _DEPTH, _COLUMNS)
    weights = random.standard_normal(shape).astype(np.float16)
    x = random.standard_normal((tokens, _DEPTH)).astype(np.float16)
    chosen = np.array([[3, -1], [0, 2], [-5, 3]])[:tokens]
    given = weights.swapaxes(1, 2).copy() if by_columns else weights
    wide = weights.astype(np.float64)
    wanted = np.einsum("td,tkdh->tkh", x.astype(np.float64), wide[chosen])
    return rel_error(run([given, chosen, x]), wanted)
