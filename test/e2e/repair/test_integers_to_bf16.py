"""Integers and masks that become bf16 link on CPUs, and are rounded to the nearest."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from helpers import CPU, rel_error, run_module

import attnpass

TEXT = """
#x = affine_map<(i) -> (i)>
func.func @main(%x: tensor<SIZExTYPE>) -> tensor<SIZExbf16> {
  %e = tensor.empty() : tensor<SIZExbf16>
  %r = linalg.generic {indexing_maps = [#x, #x], iterator_types = ["parallel"]}
      ins(%x : tensor<SIZExTYPE>) outs(%e : tensor<SIZExbf16>) {
    ^bb0(%i: TYPE, %o: bf16):
      %f = arith.OP %i : TYPE to bf16
      linalg.yield %f : bf16
  } -> tensor<SIZExbf16>
  return %r : tensor<SIZExbf16>
}
"""
# Some lie halfway between two of bf16, which has 8 bits.
NUMBERS = [0, 1, -1, 127, -128, 257, 259, -259, 261, 65537, 2**31 - 1, -(2**31), 16777217]


@pytest.mark.parametrize(
    ("kind", "op", "dtype", "level"),
    [
        ("i1", "uitofp", np.bool_, "O0"),
        ("i8", "sitofp", np.int8, "O2"),
        ("i32", "sitofp", np.int32, "O3"),
    ],
)
def test_integers_to_bf16(kind: str, op: str, dtype: type, level: str) -> None:
    x = np.array(NUMBERS).astype(dtype)
    text = TEXT.replace("SIZE", str(len(x))).replace("TYPE", kind).replace("OP", op)
    program = attnpass.compile_str(text, extra_args=[*CPU, f"--iree-opt-level={level}"])
    assert program
    got = run_module(program, [x])
    np.testing.assert_array_equal(
        got.astype(np.float64), x.astype(np.float32).astype(ml_dtypes.bfloat16).astype(np.float64)
    )


ATTENTION = """
func.func @main(%q: tensor<2xROWSx32xbf16>, %k: tensor<2x40x32xbf16>, %c: tensor<2x40x32xi8>)
    -> tensor<2xROWSx32xbf16> {
  %scale = arith.constant 0.177 : bf16
  %e = tensor.empty() : tensor<2x40x32xbf16>
  %v = linalg.generic {indexing_maps = [affine_map<(b, k, n) -> (b, k, n)>,
      affine_map<(b, k, n) -> (b, k, n)>], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%c : tensor<2x40x32xi8>) outs(%e : tensor<2x40x32xbf16>) {
    ^bb0(%i: i8, %o: bf16):
      %f = arith.sitofp %i : i8 to bf16
      linalg.yield %f : bf16
  } -> tensor<2x40x32xbf16>
  %z = tensor.empty() : tensor<2xROWSx32xbf16>
  %r = iree_linalg_ext.attention <indexing_maps = [
      affine_map<(b, m, n, k, d) -> (b, m, d)>, affine_map<(b, m, n, k, d) -> (b, k, d)>,
      affine_map<(b, m, n, k, d) -> (b, k, n)>, affine_map<(b, m, n, k, d) -> ()>,
      affine_map<(b, m, n, k, d) -> (b, m, n)>]>
      ins(%q, %k, %v, %scale : tensor<2xROWSx32xbf16>, tensor<2x40x32xbf16>,
          tensor<2x40x32xbf16>, bf16) outs(%z : tensor<2xROWSx32xbf16>) {
    ^bb0(%s: f32):
      iree_linalg_ext.yield %s : f32
  } -> tensor<2xROWSx32xbf16>
  return %r : tensor<2xROWSx32xbf16>
}
"""


@pytest.mark.parametrize(("rows", "level"), [(1, "O0"), (64, "O2"), (1, "O3"), (64, "O3")])
def test_codes_of_attention(rows: int, level: str) -> None:
    """Loops over codes, and what widens them in memory, of few rows and of many."""
    rng = np.random.default_rng(0)
    q, k = (rng.standard_normal((2, n, 32)).astype(ml_dtypes.bfloat16) for n in (rows, 40))
    codes = rng.integers(-100, 100, (2, 40, 32)).astype(np.int8)
    text = ATTENTION.replace("ROWS", str(rows))
    report = attnpass.Report()
    flags = [*CPU, f"--iree-opt-level={level}"]
    program = attnpass.compile_str(text, extra_args=flags, report=report)
    assert program
    assert not report.found("fallback")
    scores = 0.177 * q.astype(float) @ k.astype(float).transpose(0, 2, 1)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    wanted = weights / weights.sum(-1, keepdims=True) @ codes.astype(float)
    assert rel_error(run_module(program, [q, k, codes]), wanted) < 1e-2


def test_evaluated() -> None:
    """IREE computes a table of bf16 and maxima of f16, which only constants reach, at once."""
    text = """
    #x = affine_map<(i) -> (i)>
    func.func @main(%x: tensor<512xf32>) -> (tensor<512xf32>, tensor<4xf16>) {
      %c = arith.constant dense<[1.0, -2.0, 0x7E00, 5.0]> : tensor<4xf16>
      %low = arith.constant 2.0 : f16
      %eb = tensor.empty() : tensor<512xbf16>
      %s = linalg.generic {indexing_maps = [#x], iterator_types = ["parallel"]}
          outs(%eb : tensor<512xbf16>) {
        ^bb0(%o: bf16):
          %j = linalg.index 0 : index
          %k = arith.index_cast %j : index to i64
          %f = arith.sitofp %k : i64 to bf16
          %r = math.sqrt %f : bf16
          linalg.yield %r : bf16
      } -> tensor<512xbf16>
      %e = tensor.empty() : tensor<512xf32>
      %y = linalg.generic {indexing_maps = [#x, #x, #x], iterator_types = ["parallel"]}
          ins(%x, %s : tensor<512xf32>, tensor<512xbf16>) outs(%e : tensor<512xf32>) {
        ^bb0(%a: f32, %b: bf16, %o: f32):
          %w = arith.extf %b : bf16 to f32
          %r = arith.addf %a, %w : f32
          linalg.yield %r : f32
      } -> tensor<512xf32>
      %ef = tensor.empty() : tensor<4xf16>
      %m = linalg.generic {indexing_maps = [#x, #x], iterator_types = ["parallel"]}
          ins(%c : tensor<4xf16>) outs(%ef : tensor<4xf16>) {
        ^bb0(%a: f16, %o: f16):
          %r = arith.maxnumf %a, %low : f16
          linalg.yield %r : f16
      } -> tensor<4xf16>
      return %y, %m : tensor<512xf32>, tensor<4xf16>
    }"""
    report = attnpass.Report()
    program = attnpass.compile_str(text, extra_args=CPU, report=report)
    assert program
    assert not [event for event in report.events if event.kind == "fallback"]
    x = np.zeros(512, np.float32)
    roots, maxima = run_module(program, [x])
    assert rel_error(roots, np.sqrt(np.arange(512.0))) < 1e-2
    np.testing.assert_array_equal(maxima, np.array([2, 2, 2, 5], np.float16))
