"""What kernels that read no tensor make is written into, and read elsewhere."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from helpers import compile_text, run_module

SAME = 'indexing_maps = [#m, #m], iterator_types = ["parallel"]'
INDEX = """    %i = linalg.index 0 : index
    %j = arith.index_cast %i : index to i32
    %f = arith.sitofp %j : i32 to f32
"""
# Two tables by one op, and two ops that IREE makes one kernel, or two.
ONE_OP = f"""  %a, %b = linalg.generic {{{SAME}}} outs(%e, %e : !t, !t) {{
  ^bb0(%o: f32, %p: f32):
{INDEX}    %g = math.exp %f : f32
    linalg.yield %f, %g : f32, f32
  }} -> (!t, !t)
"""
TWO_OPS = f"""  %a = linalg.generic {{{SAME.replace("#m, ", "")}}} outs(%e : !t) {{
  ^bb0(%o: f32):
{INDEX}    linalg.yield %f : f32
  }} -> !t
  %b = linalg.generic {{{SAME}}} ins(%a : !t) outs(%e : !t) {{
  ^bb0(%f: f32, %o: f32):
    %g = math.exp %f : f32
    linalg.yield %g : f32
  }} -> !t
"""
FUNCTION = """func.func @NAME(%n: index, %new: tensor<1xf32>) -> (!t, !t, !t) {
  %e = tensor.empty(%n) : !t
MADE  %s = tensor.insert_slice %new into %WRITTEN[1] [1] [1] : tensor<1xf32> into !t
  return %a, %b, %s : !t, !t, !t
}
"""
# Places of writes, with a mask that says which are done: what IREE makes when it loads the module.
MASKED = """func.func @masked(%new: tensor<1x2xf32>, %old: tensor<4x2xf32>) -> tensor<4x2xf32> {
  %zero = arith.constant 0 : i64
  %true = arith.constant true
  %e = tensor.empty() : tensor<1xi64>
  %b = tensor.empty() : tensor<1xi1>
  %at, %done = linalg.generic {SAME} outs(%e, %b : tensor<1xi64>, tensor<1xi1>) {
  ^bb0(%o: i64, %p: i1):
    linalg.yield %zero, %true : i64, i1
  } -> (tensor<1xi64>, tensor<1xi1>)
  %places = tensor.expand_shape %at [[0, 1]] output_shape [1, 1]
      : tensor<1xi64> into tensor<1x1xi64>
  %r = iree_linalg_ext.scatter dimension_map = [0] unique_indices(true)
      ins(%new, %places, %done : tensor<1x2xf32>, tensor<1x1xi64>, tensor<1xi1>)
      outs(%old : tensor<4x2xf32>) {
  ^bb0(%x: f32, %o: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<4x2xf32>
  return %r : tensor<4x2xf32>
}
""".replace("SAME", SAME)
TABLES = {"one_op": ONE_OP, "two_ops": TWO_OPS}


@cache
def compiled(level: str) -> bytes:
    text = "!t = tensor<?xf32>\n#m = affine_map<(d0) -> (d0)>\n" + MASKED
    for name, made in TABLES.items():
        for written in "ab":
            one = FUNCTION.replace("NAME", f"{name}_{written}").replace("MADE", made)
            text += one.replace("WRITTEN", written)
    return compile_text(text, mode="cost", flags=[f"--iree-opt-level={level}"])


@pytest.mark.parametrize("level", ["O0", "O2"])
def test_numbers(level: str) -> None:
    x = np.arange(5, dtype=np.float32)
    tables = {"a": x, "b": np.exp(x)}
    for name in TABLES:
        for written in "ab":
            results = run_module(
                compiled(level), [5, np.array([9], np.float32)], f"{name}_{written}"
            )
            wanted = tables[written].copy()
            wanted[1] = 9
            for result, one in zip(results, (*tables.values(), wanted), strict=True):
                np.testing.assert_allclose(result, one, rtol=1e-6)
    old = np.zeros((4, 2), np.float32)
    result = run_module(compiled(level), [np.ones((1, 2), np.float32), old], "masked")
    np.testing.assert_array_equal(result, [[1, 1], [0, 0], [0, 0], [0, 0]])
