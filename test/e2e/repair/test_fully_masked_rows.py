"""Rows whose mask hides every key: 0 as PyTorch defines it, and no NaN for the next layer."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import compile_and_run, pairwise
from two_layers import BATCH, LENGTH, PADDED, WIDTH, layer, program, seen


@pytest.mark.parametrize(
    ("kind", "dynamic", "vectorized"), pairwise(["i1", "f32"], [False, True], [False, True])
)
def test_two_layers(kind: str, dynamic: bool, vectorized: bool) -> None:
    x = np.random.default_rng(0).standard_normal((BATCH, LENGTH, WIDTH)).astype(np.float32)
    shown = seen()
    mask = shown if kind == "i1" else np.where(shown, 0, -np.inf).astype(np.float32)
    got = compile_and_run(program(kind, dynamic), [x, mask], mode="cost", configure=vectorized)
    wanted = layer(layer(x.astype(np.float64), shown), shown)
    np.testing.assert_array_equal(got[1, :PADDED], 0)
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


LOWEST = float(np.finfo(np.float32).min)
# A mask as exporters write it, of what is seen.
LOWEST_MASK = """
func.func private @lowest(%seen: tensor<BxLxLxi1>) -> !m {
  %zero = arith.constant 0.0 : f32
  %low = arith.constant -3.40282347E+38 : f32
  %e = tensor.empty() : !m
  %r = linalg.generic {indexing_maps = [#ij, #ij],
                       iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%seen : tensor<BxLxLxi1>) outs(%e : !m) {
  ^bb0(%c: i1, %o: f32):
    %x = arith.select %c, %zero, %low : f32
    linalg.yield %x : f32
  } -> !m
  return %r : !m
}
func.func @main(%x: !x, %seen: tensor<BxLxLxi1>) -> !x {
  %mask = func.call @lowest(%seen) : (tensor<BxLxLxi1>) -> !m
  %r = func.call @layers(%x, %mask) : (!x, !m) -> !x
  return %r : !x
}
"""


def lowest_program(inside: bool) -> str:
    """Two layers under a mask of 0 and the lowest number, given or made of what is seen."""
    text = program("f32", False)
    if not inside:
        return text
    text = text.replace("func.func @main", "func.func private @layers")
    return text + LOWEST_MASK.replace("BxLxLx", f"{BATCH}x{LENGTH}x{LENGTH}x")


def lowest_inputs(inside: bool) -> tuple[list[np.ndarray], np.ndarray]:
    """Inputs of lowest_program and the right result."""
    x = np.random.default_rng(0).standard_normal((BATCH, LENGTH, WIDTH)).astype(np.float32)
    shown = seen()
    # A row of nothing but the lowest number is the mean of V.
    wanted = x.astype(np.float64)
    for _ in range(2):
        mean = wanted.mean(1, keepdims=True)
        wanted = np.where(shown.any(-1, keepdims=True), layer(wanted, shown), mean)
    return [x, shown if inside else np.where(shown, 0, LOWEST).astype(np.float32)], wanted


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("vectorized", [False, True])
def test_keys_hidden_by_the_lowest_number(inside: bool, vectorized: bool) -> None:
    inputs, wanted = lowest_inputs(inside)
    got = compile_and_run(lowest_program(inside), inputs, mode="cost", configure=vectorized)
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)
