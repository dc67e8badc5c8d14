"""Scales of any sign in front of the precompiled kernels, which take those above zero: the same
numbers by the query and the scale that a kernel would get."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from helpers import compile_and_run, rel_error
from iree.compiler import ir

from attnpass.attention.facts import find
from attnpass.ir import Builder
from attnpass.kernels.hopper.scale import magnitude, signed_query

MODULE = """
func.func @main(%q: tensor<2x6x8xf32>, %k: tensor<2x10x8xf32>, %v: tensor<2x10x8xf32>{argument})
    -> tensor<2x6x8xf32> {{
  {constant}
  %e = tensor.empty() : tensor<2x6x8xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [
        affine_map<(b, m, n, k, j) -> (b, m, k)>, affine_map<(b, m, n, k, j) -> (b, j, k)>,
        affine_map<(b, m, n, k, j) -> (b, j, n)>, affine_map<(b, m, n, k, j) -> ()>,
        affine_map<(b, m, n, k, j) -> (b, m, n)>]>
      ins(%q, %k, %v, %scale : tensor<2x6x8xf32>, tensor<2x10x8xf32>, tensor<2x10x8xf32>, f32)
      outs(%e : tensor<2x6x8xf32>) {{
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  }} -> tensor<2x6x8xf32>
  return %r : tensor<2x6x8xf32>
}}
"""


def rewritten(text: str) -> str:
    with ir.Context() as context, ir.Location.unknown():
        context.load_all_available_dialects()
        module = ir.Module.parse(text)
        (facts,) = find(module.operation)
        build, scale = Builder(facts.op), facts.value("scale")
        facts.op.operands[0] = signed_query(build, facts.value("query"), scale)
        facts.op.operands[3] = magnitude(build, scale)
        assert module.operation.verify()
        return str(module)


@pytest.mark.parametrize(
    ("scale", "constant"), [(0.5, True), (-0.5, True), (0.5, False), (-0.5, False), (0.0, False)]
)
def test_scale(scale: float, constant: bool) -> None:
    text = MODULE.format(
        argument="" if constant else ", %scale: f32",
        constant=f"%scale = arith.constant {scale} : f32" if constant else "",
    )
    generator = np.random.default_rng(0)
    shapes = (2, 6, 8), (2, 10, 8), (2, 10, 8)
    q, k, v = (generator.standard_normal(shape).astype(np.float32) for shape in shapes)
    scores = scale * np.einsum("bmd,bkd->bmk", q, k, dtype=np.float64)
    weights = np.exp(scores)
    wanted = (weights / weights.sum(-1, keepdims=True)) @ v
    given = [q, k, v] if constant else [q, k, v, scale]
    new = rewritten(text)
    assert ("negf" in new) == (scale < 0 or not constant)
    assert rel_error(compile_and_run(new, given), wanted) < 1e-6


NARROW = """
func.func @main(%bits: tensor<256xi8>) -> tensor<256xf32> {
  %e = tensor.empty() : tensor<256xf8E4M3FN>
  %x = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]} ins(%bits : tensor<256xi8>) outs(%e : tensor<256xf8E4M3FN>) {
  ^bb0(%b: i8, %o: f8E4M3FN):
    %y = arith.bitcast %b : i8 to f8E4M3FN
    linalg.yield %y : f8E4M3FN
  } -> tensor<256xf8E4M3FN>
  %r = arith.extf %x : tensor<256xf8E4M3FN> to tensor<256xf32>
  return %r : tensor<256xf32>
}
"""


def test_eight_bits() -> None:
    """Every number of 8 bits, negated by its sign bit; NaN is left out, which IREE widens to a
    number on CPUs."""
    with ir.Context() as context, ir.Location.unknown():
        context.load_all_available_dialects()
        module = ir.Module.parse(NARROW)
        widen = list(module.body.operations[0].regions[0].blocks[0].operations)[-2].operation
        build = Builder(widen)
        below = build.constant_float(-1.0, ir.F32Type.get())
        widen.operands[0] = signed_query(build, widen.operands[0], below)
        text = str(module)
    bits = np.arange(256, dtype=np.uint8)
    wanted = -bits.view(ml_dtypes.float8_e4m3fn).astype(np.float32)
    got = compile_and_run(text, [bits.view(np.int8)])
    np.testing.assert_array_equal(got[bits % 128 != 127], wanted[bits % 128 != 127])
