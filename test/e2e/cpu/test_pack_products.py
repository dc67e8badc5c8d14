"""attn-pack-products on llvm-cpu: right numbers from packed weights and from what stands behind.

All forms stand in one module: a compile for each level and size of registers.
"""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest
from helpers import compile_text, has_avx512, rel_error, run_module, runs_here

from attnpass import Report

DEPTH, COLUMNS = 256, 320
TYPES = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}
# Constant weights (columns, depth) that are repeated for two sequences, with a bias and x tanh(x)
# behind; weights (depth, columns) to whose product that is added. A caller reads the sum, and
# so does the difference from its rows' largest numbers. Attention is what the library is for.
MODULE = """
!R = tensor<2xHALFxCOLUMNSxf32>
!F = tensor<ROWSxCOLUMNSxf32>
!X = tensor<2xHALFxDEPTHxKIND>
!W = tensor<COLUMNSxDEPTHxKIND>
!C = tensor<DEPTHxCOLUMNSxKIND>
!B = tensor<COLUMNSxf32>
!M = tensor<2xHALFxf32>
!Q = tensor<2x8x16xf32>
#whole = affine_map<(i, j, k) -> (i, j, k)>
#column = affine_map<(i, j, k) -> (k)>
#row = affine_map<(i, j, k) -> (i, j)>
func.func @main(%q: !Q, %x: !X, %b: !B) -> (!Q, !R, !R) {
  %w = arith.constant dense<"0xNUMBERS"> : !W
  %zero = arith.constant 0.0 : f32
  %low = arith.constant -1.0e30 : f32
  %scale = arith.constant 0.25 : f32
  %qe = tensor.empty() : !Q
  %r = iree_linalg_ext.attention <indexing_maps = [
      affine_map<(b, m, n, d, k) -> (b, m, d)>, affine_map<(b, m, n, d, k) -> (b, k, d)>,
      affine_map<(b, m, n, d, k) -> (b, k, n)>, affine_map<(b, m, n, d, k) -> ()>,
      affine_map<(b, m, n, d, k) -> (b, m, n)>]> ins(%q, %q, %q, %scale : !Q, !Q, !Q, f32)
      outs(%qe : !Q) {
  ^bb0(%s: f32):
    iree_linalg_ext.yield %s : f32
  } -> !Q
  %te = tensor.empty() : !C
  %turned = linalg.transpose ins(%w : !W) outs(%te : !C) permutation = [1, 0]
  %ue = tensor.empty() : tensor<2xDEPTHxCOLUMNSxKIND>
  %each = linalg.broadcast ins(%turned : !C) outs(%ue : tensor<2xDEPTHxCOLUMNSxKIND>)
      dimensions = [0]
  %e = tensor.empty() : !R
  %f = linalg.fill ins(%zero : f32) outs(%e : !R) -> !R
  %p = linalg.batch_matmul ins(%x, %each : !X, tensor<2xDEPTHxCOLUMNSxKIND>) outs(%f : !R) -> !R
  %h = linalg.generic {indexing_maps = [#whole, #column, #whole],
      iterator_types = ["parallel", "parallel", "parallel"]} ins(%p, %b : !R, !B) outs(%e : !R) {
  ^bb0(%a: f32, %c: f32, %o: f32):
    %y = arith.addf %a, %c : f32
    linalg.yield %y : f32
  } -> !R
  %t = linalg.generic {indexing_maps = [#whole, #whole],
      iterator_types = ["parallel", "parallel", "parallel"]} ins(%h : !R) outs(%e : !R) {
  ^bb0(%a: f32, %o: f32):
    %y = math.tanh %a : f32
    linalg.yield %y : f32
  } -> !R
  %g = linalg.generic {indexing_maps = [#whole, #whole, #whole],
      iterator_types = ["parallel", "parallel", "parallel"]} ins(%h, %t : !R, !R) outs(%e : !R) {
  ^bb0(%a: f32, %c: f32, %o: f32):
    %y = arith.mulf %a, %c : f32
    linalg.yield %y : f32
  } -> !R
  %held = arith.constant dense<0.01> : !C
  %flat = tensor.collapse_shape %x [[0, 1], [2]] : !X into tensor<ROWSxDEPTHxKIND>
  %fe = tensor.empty() : !F
  %ff = linalg.fill ins(%zero : f32) outs(%fe : !F) -> !F
  %d = linalg.matmul ins(%flat, %held : tensor<ROWSxDEPTHxKIND>, !C) outs(%ff : !F) -> !F
  %de = tensor.expand_shape %d [[0, 1], [2]] output_shape [2, HALF, COLUMNS] : !F into !R
  %s = linalg.generic {indexing_maps = [#whole, #whole, #whole],
      iterator_types = ["parallel", "parallel", "parallel"]} ins(%g, %de : !R, !R) outs(%e : !R) {
  ^bb0(%a: f32, %c: f32, %o: f32):
    %y = arith.addf %a, %c : f32
    linalg.yield %y : f32
  } -> !R
  %me = tensor.empty() : !M
  %mf = linalg.fill ins(%low : f32) outs(%me : !M) -> !M
  %m = linalg.generic {indexing_maps = [#whole, #row],
      iterator_types = ["parallel", "parallel", "reduction"]} ins(%s : !R) outs(%mf : !M) {
  ^bb0(%a: f32, %o: f32):
    %y = arith.maximumf %a, %o : f32
    linalg.yield %y : f32
  } -> !M
  %n = linalg.generic {indexing_maps = [#whole, #row, #whole],
      iterator_types = ["parallel", "parallel", "parallel"]} ins(%s, %m : !R, !M) outs(%e : !R) {
  ^bb0(%a: f32, %c: f32, %o: f32):
    %y = arith.subf %a, %c : f32
    linalg.yield %y : f32
  } -> !R
  return %r, %s, %n : !Q, !R, !R
}
"""


def _module(rows: int, kind: str, weights: np.ndarray) -> str:
    words = {
        "NUMBERS": weights.tobytes().hex().upper(),
        "ROWS": rows,
        "HALF": rows // 2,
        "DEPTH": DEPTH,
        "COLUMNS": COLUMNS,
        "KIND": kind,
    }
    return re.sub(r"[A-Z]{4,}", lambda name: str(words[name[0]]), MODULE)


# Rows go 8, 6, 7, 2 and, with registers of 32 bytes, 6 at a time.
CASES = [
    ("host", "O0", 520, "f32"),
    ("host", "O2", 516, "f32"),
    ("host", "O3", 518, "f32"),
    ("host", "O2", 526, "f16"),
    ("haswell", "O2", 516, "bf16"),
]


@pytest.mark.parametrize(("cpu", "level", "rows", "kind"), CASES)
def test_numbers(cpu: str, level: str, rows: int, kind: str) -> None:
    report = Report()
    flags = [f"--iree-llvmcpu-target-cpu={cpu}", f"--iree-opt-level={level}"]
    random = np.random.default_rng(3)
    shapes = ((2, 8, 16), (2, rows // 2, DEPTH), (COLUMNS, DEPTH), (COLUMNS,))
    q, x, w, b = (random.standard_normal(shape, np.float32) for shape in shapes)
    x, w = (given.astype(TYPES[kind]) for given in (x, w))
    vmfb = compile_text(_module(rows, kind, w), mode="cost", flags=flags, report=report)
    packed = [record for record in report.found("fitted") if "weights" in record.reason]
    # Registers of 32 bytes take no 2 or 7 rows at a time, those of 16 none.
    fits = has_avx512() or (rows % 4 == 0 and (cpu == "haswell" or runs_here("haswell")))
    assert len(packed) == (2 if fits else 0)
    if not runs_here(cpu):
        return
    _, total, below = run_module(vmfb, [q, x, b])
    h = x.astype(np.float64) @ w.T.astype(np.float64) + b
    wanted = h * np.tanh(h) + (x.astype(np.float64) * TYPES[kind](0.01).astype(np.float64)).sum(
        -1, keepdims=True
    )
    assert rel_error(total, wanted) < 2e-6
    assert rel_error(below, wanted - wanted.max(-1, keepdims=True)) < 2e-6
