"""Numbers of f16 below its normal ones are right on a CPU without F16C, in loops of ours, too."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import CPU, MAPS, compile_text, rel_error, run_module, runs_here

import attnpass

TEXT = """
#x = affine_map<(i) -> (i)>
func.func @main(%x: tensor<?xf32>, %h: tensor<?xf16>) -> (tensor<?xf16>, tensor<?xf16>) {
  %zero = arith.constant 0 : index
  %n = tensor.dim %x, %zero : tensor<?xf32>
  %third = arith.constant 0.3 : f16
  %e = tensor.empty(%n) : tensor<?xf16>
  %r:2 = linalg.generic {indexing_maps = [#x, #x, #x, #x], iterator_types = ["parallel"]}
      ins(%x, %h : tensor<?xf32>, tensor<?xf16>) outs(%e, %e : tensor<?xf16>, tensor<?xf16>) {
    ^bb0(%a: f32, %b: f16, %o: f16, %p: f16):
      %s = arith.truncf %a : f32 to f16
      %t = arith.mulf %b, %third : f16
      linalg.yield %s, %t : f16, f16
  } -> (tensor<?xf16>, tensor<?xf16>)
  return %r#0, %r#1 : tensor<?xf16>, tensor<?xf16>
}
"""


@pytest.mark.parametrize("level", ["O0", "O3"])
def test_small_halves(level: str) -> None:
    program = attnpass.compile_str(TEXT, extra_args=[*CPU, f"--iree-opt-level={level}"])
    assert program
    near = 2.0**-14 + np.arange(-40, 40) * 2.0**-27
    halfway = (np.arange(60) + 0.5) * 2.0**-24
    rest = [0.0, 1e-40, 3e-8, 1.0, 65519, 65520, 1e9, np.inf, np.nan]
    x = np.float32([*near, *halfway, *rest])
    x = np.concatenate([x, -x])
    with np.errstate(over="ignore"):
        half = x.astype(np.float16)
    cast, scaled = run_module(program, [x, half])
    np.testing.assert_array_equal(
        cast.view(np.uint16)[~np.isnan(x)], half.view(np.uint16)[~np.isnan(x)]
    )
    assert np.isnan(cast[np.isnan(x)]).all()
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(scaled, half * np.float16(0.3))


def test_small_values_of_attention() -> None:
    kind = "tensor<2x40x16xf16>"
    text = f"""{MAPS}
    func.func @main(%q: {kind}, %k: {kind}, %v: {kind}) -> {kind} {{
      %scale = arith.constant 0.25 : f16
      %e = tensor.empty() : {kind}
      %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
          ins(%q, %k, %v, %scale : {kind}, {kind}, {kind}, f16) outs(%e : {kind}) {{
        ^bb0(%s: f32):
          iree_linalg_ext.yield %s : f32
      }} -> {kind}
      return %r : {kind}
    }}"""
    rng = np.random.default_rng(3)
    q, k, v = (rng.standard_normal((2, 40, 16)) for _ in range(3))
    given = [q.astype(np.float16), k.astype(np.float16), (v * 1e-4).astype(np.float16)]
    program = attnpass.compile_str(text, extra_args=CPU)
    assert program
    q, k, v = (one.astype(np.float64) for one in given)
    scores = 0.25 * q @ k.transpose(0, 2, 1)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    wanted = weights / weights.sum(-1, keepdims=True) @ v
    assert rel_error(run_module(program, given), wanted) < 5e-3


@pytest.mark.parametrize("cpu", ["generic", "haswell"])
def test_halves_of_doubles(cpu: str) -> None:
    """Rounded once, also where f32 would round to what is halfway between two of them."""
    if not runs_here(cpu):
        pytest.skip(f"needs a {cpu}")
    text = """
    func.func @main(%x: tensor<?xf64>) -> tensor<?xf16> {
      %zero = arith.constant 0 : index
      %n = tensor.dim %x, %zero : tensor<?xf64>
      %e = tensor.empty(%n) : tensor<?xf16>
      %r = linalg.map ins(%x : tensor<?xf64>) outs(%e : tensor<?xf16>) (%a: f64, %o: f16) {
        %h = arith.truncf %a : f64 to f16
        linalg.yield %h : f16
      }
      return %r : tensor<?xf16>
    }"""
    flags = [f"--iree-llvmcpu-target-cpu={cpu}", "--iree-input-demote-f64-to-f32=false"]
    halfway = np.concatenate([(np.arange(60) + 0.5) * 2.0**-24, 1 + (np.arange(9) + 0.5) / 1024])
    near = [halfway * (1 + sign * 2.0**-40) for sign in (-1, 0, 1)]
    rest = [0.0, 1e-310, 1e-40, 3e-8, 1.0, 65519.99, 65520, 1e9, 1e300, np.inf, np.nan]
    x = np.concatenate([*near, rest])
    x = np.concatenate([x, -x])
    with np.errstate(over="ignore"):
        wanted = x.astype(np.float16)
    got = run_module(compile_text(text, mode="cost", flags=flags), [x])
    number = ~np.isnan(x)
    np.testing.assert_array_equal(got.view(np.uint16)[number], wanted.view(np.uint16)[number])
    assert np.isnan(got[~number]).all()
