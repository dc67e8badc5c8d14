"""Two layers of attention under one mask, which hides every key of some rows."""

from __future__ import annotations

import numpy as np
from helpers import MAPS

BATCH, LENGTH, WIDTH = 2, 40, 16
PADDED = 11

# Two layers: what attention gives is Q, K and V of the next.
LAYERS = (
    MAPS
    + """
#ij = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#m = affine_map<(b, m, n, k1, k2) -> (b, m, k2)>
!x = tensor<BxLx16xf32>
!m = tensor<BxLxLxKIND>
func.func @layer(%x: !x, %mask: !m) -> !x attributes {inlining_policy = #util.inline.always} {
  %scale = arith.constant 0.25 : f32
  SIZES
  %e = tensor.empty(DYNAMIC) : !x
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #m, #o]>
      ins(%x, %x, %x, %scale, %mask : !x, !x, !x, f32, !m) outs(%e : !x) {
  ^bb0(%y: f32):
    iree_linalg_ext.yield %y : f32
  } -> !x
  return %r : !x
}
func.func @main(%x: !x, %mask: !m) -> !x {
  %a = func.call @layer(%x, %mask) : (!x, !m) -> !x
  %b = func.call @layer(%a, %mask) : (!x, !m) -> !x
  return %b : !x
}
"""
)


def program(kind: str, dynamic: bool) -> str:
    sizes = ""
    if dynamic:
        sizes = """%c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n0 = tensor.dim %x, %c0 : !x
  %n1 = tensor.dim %x, %c1 : !x"""
    text = LAYERS.replace("func.func @layer", "func.func private @layer")
    text = text.replace("SIZES", sizes).replace("DYNAMIC", "%n0, %n1" if dynamic else "")
    text = text.replace("BxLxLx", "?x?x?x" if dynamic else f"{BATCH}x{LENGTH}x{LENGTH}x")
    text = text.replace("BxLx16", "?x?x16" if dynamic else f"{BATCH}x{LENGTH}x16")
    return text.replace("KIND", kind)


def seen() -> np.ndarray:
    """A causal batch, padded on the left in its second sequence."""
    causal = np.tril(np.ones((LENGTH, LENGTH), bool))
    return np.stack([causal, causal & (np.arange(LENGTH) >= PADDED)])


def layer(x: np.ndarray, shown: np.ndarray) -> np.ndarray:
    """The layer in float64."""
    scores = np.where(shown, 0.25 * (x @ x.transpose(0, 2, 1)), -np.inf)
    some = shown.any(-1, keepdims=True)
    largest = np.where(some, scores.max(-1, keepdims=True), 0)
    weights = np.exp(scores - largest)
    return weights @ x / np.where(some, weights.sum(-1, keepdims=True), 1)
