"""Maxima of f16 that leave NaN out, in vector loops of ours and of IREE's."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from helpers import compile_text, rel_error, run_module, runs_here

from attnpass import Report

SOFTMAX = """
func.func @softmax_{name}(%x: tensor<{rows}x9xf16>) -> tensor<{rows}x9xf16> {{
  %c0 = arith.constant 0 : index
  %d = tensor.dim %x, %c0 : tensor<{rows}x9xf16>
  %e = tensor.empty({given}) : tensor<{rows}x9xf16>
  %r = linalg.softmax dimension(1) ins(%x : tensor<{rows}x9xf16>)
      outs(%e : tensor<{rows}x9xf16>) -> tensor<{rows}x9xf16>
  return %r : tensor<{rows}x9xf16>
}}
"""
# A maximum that LLVM narrows to f16, since that is computed in f32 which comes behind it.
BOUNDED = """
func.func @bounded(%x: tensor<5xf16>, %y: tensor<5xf16>) -> tensor<5xf16> {
  %e = tensor.empty() : tensor<5xf16>
  %r = linalg.map ins(%x, %y : tensor<5xf16>, tensor<5xf16>) outs(%e : tensor<5xf16>)
      (%a: f16, %b: f16, %o: f16) {
    %m = arith.maxnumf %a, %b : f16
    %t = math.absf %m : f16
    %l = math.log1p %t : f16
    linalg.yield %l : f16
  }
  return %r : tensor<5xf16>
}
"""


@cache
def compiled(cpu: str) -> bytes:
    """The program for a CPU, made without a fallback."""
    report = Report()
    text = SOFTMAX.format(name="known", rows=4, given="") + BOUNDED
    text += SOFTMAX.format(name="any", rows="?", given="%d")
    flags = [f"--iree-llvmcpu-target-cpu={cpu}"]
    program = compile_text(text, mode="cost", report=report, flags=flags)
    assert not report.events
    return program


@pytest.mark.parametrize("cpu", ["generic", "haswell"])
def test_numbers(cpu: str) -> None:
    if not runs_here(cpu):
        pytest.skip(f"needs a {cpu}")
    numbers = np.random.default_rng(0)
    for name, rows in (("known", 4), ("any", 1), ("any", 13)):
        x = numbers.standard_normal((rows, 9)).astype(np.float16)
        powers = np.exp(x.astype(np.float64))
        result = run_module(compiled(cpu), [x], f"softmax_{name}")
        assert rel_error(result, powers / powers.sum(-1, keepdims=True)) < 2e-3
    x, y = np.float16([1, np.nan, -2, np.nan, 3]), np.float16([2, 5, np.nan, np.nan, -4])
    result = run_module(compiled(cpu), [x, y], "bounded")
    wanted = np.log1p(np.abs(np.fmax(x, y).astype(np.float64)))
    np.testing.assert_allclose(result.astype(np.float64), wanted, rtol=2e-3)
