"""Integers and masks that become bf16 link on CPUs, and are rounded to the nearest."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from helpers import CPU, run_module

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


@pytest.mark.parametrize("level", ["O0", "O2", "O3"])
@pytest.mark.parametrize(
    ("kind", "op", "dtype"),
    [("i1", "uitofp", np.bool_), ("i8", "sitofp", np.int8), ("i32", "sitofp", np.int32)],
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
