"""Products with weights that are widened from codes: on CPUs loops read the codes as they lie, for
few rows and for many, and numbers are right. All forms stand in one module."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import compile_text, rel_error, run_module

from attnpass import Report

ROWS, DEPTH, COLUMNS = 21, 264, 256
# Codes (columns, depth) with a scale a column, whose product is squared behind; codes (depth,
# columns) with a zero point and a scale a column, for all rows and for three; codes with a scale an
# element of the depth, whose widened numbers another product reads, too, times another scale.
MODULE = f"""
!X = tensor<?x{DEPTH}xf32>
!Few = tensor<3x{DEPTH}xf32>
!Deep = tensor<{COLUMNS}x{DEPTH}xi8>
!Wide = tensor<{DEPTH}x{COLUMNS}xi8>
!DeepWeights = tensor<{COLUMNS}x{DEPTH}xf32>
!WideWeights = tensor<{DEPTH}x{COLUMNS}xf32>
!Scale = tensor<{COLUMNS}xf32>
!Channel = tensor<{DEPTH}xf32>
!R = tensor<?x{COLUMNS}xf32>
!FewR = tensor<3x{COLUMNS}xf32>
#whole = affine_map<(i, j) -> (i, j)>
#first = affine_map<(i, j) -> (i)>
#last = affine_map<(i, j) -> (j)>
#left = affine_map<(m, n, k) -> (m, k)>
#turned = affine_map<(m, n, k) -> (n, k)>
#out = affine_map<(m, n, k) -> (m, n)>
func.func @main(%x: !X, %few: !Few, %deep: !Deep, %wide: !Wide, %scale: !Scale,
    %zero: !Scale, %channel: !Channel)
    -> (!R, !R, !FewR, !R, !FewR) {{
  %none = arith.constant 0.0 : f32
  %at = arith.constant 0 : index
  %n = tensor.dim %x, %at : !X
  %de = tensor.empty() : !DeepWeights
  %we = tensor.empty() : !WideWeights
  %re = tensor.empty(%n) : !R
  %rf = linalg.fill ins(%none : f32) outs(%re : !R) -> !R
  %fe = tensor.empty() : !FewR
  %ff = linalg.fill ins(%none : f32) outs(%fe : !FewR) -> !FewR
  %a = linalg.generic {{indexing_maps = [#whole, #first, #whole],
      iterator_types = ["parallel", "parallel"]}}
      ins(%deep, %scale : !Deep, !Scale) outs(%de : !DeepWeights) {{
  ^bb0(%c: i8, %s: f32, %o: f32):
    %w = arith.sitofp %c : i8 to f32
    %y = arith.mulf %w, %s : f32
    linalg.yield %y : f32
  }} -> !DeepWeights
  %p = linalg.matmul indexing_maps = [#left, #turned, #out]
      ins(%x, %a : !X, !DeepWeights) outs(%rf : !R) -> !R
  %squares = linalg.generic {{indexing_maps = [#whole, #last, #whole],
      iterator_types = ["parallel", "parallel"]}}
      ins(%p, %zero : !R, !Scale) outs(%re : !R) {{
  ^bb0(%c: f32, %z: f32, %o: f32):
    %w = arith.addf %c, %z : f32
    %y = arith.mulf %w, %w : f32
    linalg.yield %y : f32
  }} -> !R
  %b = linalg.generic {{indexing_maps = [#whole, #last, #last, #whole],
      iterator_types = ["parallel", "parallel"]}}
      ins(%wide, %scale, %zero : !Wide, !Scale, !Scale) outs(%we : !WideWeights) {{
  ^bb0(%c: i8, %s: f32, %z: f32, %o: f32):
    %w = arith.uitofp %c : i8 to f32
    %d = arith.subf %w, %z : f32
    %y = arith.mulf %d, %s : f32
    linalg.yield %y : f32
  }} -> !WideWeights
  %q = linalg.matmul ins(%x, %b : !X, !WideWeights) outs(%rf : !R) -> !R
  %qf = linalg.matmul ins(%few, %b : !Few, !WideWeights) outs(%ff : !FewR) -> !FewR
  %c1 = linalg.generic {{indexing_maps = [#whole, #whole],
      iterator_types = ["parallel", "parallel"]}}
      ins(%deep : !Deep) outs(%de : !DeepWeights) {{
  ^bb0(%c: i8, %o: f32):
    %w = arith.sitofp %c : i8 to f32
    linalg.yield %w : f32
  }} -> !DeepWeights
  %c2 = linalg.generic {{indexing_maps = [#whole, #last, #whole],
      iterator_types = ["parallel", "parallel"]}}
      ins(%c1, %channel : !DeepWeights, !Channel) outs(%de : !DeepWeights) {{
  ^bb0(%c: f32, %s: f32, %o: f32):
    %y = arith.mulf %c, %s : f32
    linalg.yield %y : f32
  }} -> !DeepWeights
  %t = linalg.matmul indexing_maps = [#left, #turned, #out]
      ins(%x, %c1 : !X, !DeepWeights) outs(%rf : !R) -> !R
  %tf = linalg.matmul indexing_maps = [#left, #turned, #out]
      ins(%few, %c2 : !Few, !DeepWeights) outs(%ff : !FewR) -> !FewR
  return %squares, %q, %qf, %t, %tf : !R, !R, !FewR, !R, !FewR
}}
"""


def _inputs() -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Arguments, and the results in float64."""
    random = np.random.default_rng(5)
    x, few = (random.standard_normal((rows, DEPTH)).astype(np.float32) for rows in (ROWS, 3))
    deep = random.integers(-128, 128, (COLUMNS, DEPTH)).astype(np.int8)
    wide = random.integers(0, 256, (DEPTH, COLUMNS)).astype(np.uint8)
    scale, zero = (random.uniform(0.5, top, COLUMNS).astype(np.float32) for top in (1, 200))
    channel = random.uniform(0.5, 1, DEPTH).astype(np.float32)
    given = [x, few, deep, wide.view(np.int8), scale, zero, channel]
    x, few, deep, wide, scale, zero, channel = (
        one.astype(np.float64) for one in (x, few, deep, wide, scale, zero, channel)
    )
    columns = (wide - zero) * scale
    wanted = [(x @ deep.T * scale + zero) ** 2, x @ columns, few @ columns]
    return given, [*wanted, x @ deep.T, few @ (deep * channel).T]


@pytest.mark.parametrize(("level", "cpu"), [("O0", "haswell"), ("O2", "haswell"), ("O3", "host")])
def test_numbers_of_widened_weights(level: str, cpu: str) -> None:
    report = Report()
    flags = [f"--iree-llvmcpu-target-cpu={cpu}", f"--iree-opt-level={level}"]
    vmfb = compile_text(MODULE, mode="cost", flags=flags, report=report)
    assert not report.found("fallback")
    if cpu == "haswell":
        read = [found for found in report.found("fitted") if "codes" in str(found.reason)]
        assert (len(read), len(report.found("loops"))) == (5, 5)
    given, wanted = _inputs()
    for result, exact in zip(run_module(vmfb, given), wanted, strict=True):
        assert rel_error(result, exact) < 3e-6
