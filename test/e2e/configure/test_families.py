# ruff: noqa: E501  (MLIR lines)
"""V's chains of whole model families, shrunk: absorbed, with the same numbers."""

from __future__ import annotations

from functools import partial

import pytest
from helpers import MAPS
from interpreter import meaning

from attnpass.driver.testing import check, decisions

# Attention over 8 heads of 16 rows, keys and columns: what follows each chain.
ATTEND = """\
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<8x16x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<8x16x16xf32>, tensor<8x16x16xf32>, tensor<8x16x16xf32>, f32) outs(%out : tensor<8x16x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<8x16x16xf32>
  return %r : tensor<8x16x16xf32>
}
"""

# Latent attention: K and V are slices of one projection's inner factor.
LATENT = """\
func.func @main(%q: tensor<8x16x16xf32>, %x: tensor<2x16x24xf32>, %w: tensor<2x24x128xf32>) -> tensor<8x16x16xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x16x128xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<2x16x128xf32>) -> tensor<2x16x128xf32>
  %p = linalg.batch_matmul ins(%x, %w : tensor<2x16x24xf32>, tensor<2x24x128xf32>) outs(%f : tensor<2x16x128xf32>) -> tensor<2x16x128xf32>
  %x4 = tensor.expand_shape %p [[0],[1],[2,3]] output_shape [2,16,4,32] : tensor<2x16x128xf32> into tensor<2x16x4x32xf32>
  %te = tensor.empty() : tensor<2x4x16x32xf32>
  %t = linalg.transpose ins(%x4 : tensor<2x16x4x32xf32>) outs(%te : tensor<2x4x16x32xf32>) permutation=[0,2,1,3]
  %k4 = tensor.extract_slice %t[0,0,0,0][2,4,16,16][1,1,1,1] : tensor<2x4x16x32xf32> to tensor<2x4x16x16xf32>
  %v4 = tensor.extract_slice %t[0,0,0,16][2,4,16,16][1,1,1,1] : tensor<2x4x16x32xf32> to tensor<2x4x16x16xf32>
  %k = tensor.collapse_shape %k4 [[0,1],[2],[3]] : tensor<2x4x16x16xf32> into tensor<8x16x16xf32>
  %v = tensor.collapse_shape %v4 [[0,1],[2],[3]] : tensor<2x4x16x16xf32> into tensor<8x16x16xf32>
"""

# torch.nn.MultiheadAttention: a transpose of rank five, slices of its leading dim.
PACKED = """\
func.func @main(%x: tensor<16x2x24xf32>, %w: tensor<16x24x192xf32>, %c: tensor<192xf32>) -> tensor<8x16x16xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<16x2x192xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<16x2x192xf32>) -> tensor<16x2x192xf32>
  %p0 = linalg.batch_matmul ins(%x, %w : tensor<16x2x24xf32>, tensor<16x24x192xf32>) outs(%f : tensor<16x2x192xf32>) -> tensor<16x2x192xf32>
  %p = linalg.generic {indexing_maps=[affine_map<(a,b,c)->(a,b,c)>,affine_map<(a,b,c)->(c)>,affine_map<(a,b,c)->(a,b,c)>], iterator_types=["parallel","parallel","parallel"]} ins(%p0,%c : tensor<16x2x192xf32>, tensor<192xf32>) outs(%e : tensor<16x2x192xf32>) {
   ^bb0(%i: f32, %j: f32, %o: f32):
    %a = arith.addf %i, %j : f32
    linalg.yield %a : f32 } -> tensor<16x2x192xf32>
  %x5 = tensor.expand_shape %p [[0,1],[2],[3,4]] output_shape [1,16,2,3,64] : tensor<16x2x192xf32> into tensor<1x16x2x3x64xf32>
  %te = tensor.empty() : tensor<3x16x2x1x64xf32>
  %t = linalg.transpose ins(%x5 : tensor<1x16x2x3x64xf32>) outs(%te : tensor<3x16x2x1x64xf32>) permutation=[3,1,2,0,4]
  %tc = tensor.collapse_shape %t [[0],[1],[2],[3,4]] : tensor<3x16x2x1x64xf32> into tensor<3x16x2x64xf32>
  %qs = tensor.extract_slice %tc[0,0,0,0][1,16,2,64][1,1,1,1] : tensor<3x16x2x64xf32> to tensor<1x16x2x64xf32>
  %qc = tensor.collapse_shape %qs [[0,1],[2,3]] : tensor<1x16x2x64xf32> into tensor<16x128xf32>
  %qx = tensor.expand_shape %qc [[0],[1,2]] output_shape [16,8,16] : tensor<16x128xf32> into tensor<16x8x16xf32>
  %qe = tensor.empty() : tensor<8x16x16xf32>
  %q = linalg.transpose ins(%qx : tensor<16x8x16xf32>) outs(%qe : tensor<8x16x16xf32>) permutation=[1,0,2]
  %ks = tensor.extract_slice %tc[1,0,0,0][1,16,2,64][1,1,1,1] : tensor<3x16x2x64xf32> to tensor<1x16x2x64xf32>
  %kc = tensor.collapse_shape %ks [[0,1],[2,3]] : tensor<1x16x2x64xf32> into tensor<16x128xf32>
  %kx = tensor.expand_shape %kc [[0],[1,2]] output_shape [16,8,16] : tensor<16x128xf32> into tensor<16x8x16xf32>
  %ke = tensor.empty() : tensor<8x16x16xf32>
  %k = linalg.transpose ins(%kx : tensor<16x8x16xf32>) outs(%ke : tensor<8x16x16xf32>) permutation=[1,0,2]
  %vs = tensor.extract_slice %tc[2,0,0,0][1,16,2,64][1,1,1,1] : tensor<3x16x2x64xf32> to tensor<1x16x2x64xf32>
  %vc = tensor.collapse_shape %vs [[0,1],[2,3]] : tensor<1x16x2x64xf32> into tensor<16x128xf32>
  %vx = tensor.expand_shape %vc [[0],[1,2]] output_shape [16,8,16] : tensor<16x128xf32> into tensor<16x8x16xf32>
  %ve = tensor.empty() : tensor<8x16x16xf32>
  %v = linalg.transpose ins(%vx : tensor<16x8x16xf32>) outs(%ve : tensor<8x16x16xf32>) permutation=[1,0,2]
"""

# Multi-query attention behind a gather that reads packed columns.
GATHERED = """\
func.func @main(%q: tensor<8x16x16xf32>, %k: tensor<8x16x16xf32>, %t: tensor<2x16x48xf32>) -> tensor<8x16x16xf32> {
  %e = tensor.empty() : tensor<2x16x16xf32>
  %g = linalg.generic {indexing_maps=[affine_map<(a,b,c)->(a,b,c)>], iterator_types=["parallel","parallel","parallel"]} outs(%e : tensor<2x16x16xf32>) {
   ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %l = linalg.index 2 : index
    %c32 = arith.constant 32 : index
    %l2 = arith.addi %l, %c32 : index
    %x = tensor.extract %t[%i, %j, %l2] : tensor<2x16x48xf32>
    linalg.yield %x : f32 } -> tensor<2x16x16xf32>
  %be = tensor.empty() : tensor<2x4x16x16xf32>
  %b4 = linalg.generic {indexing_maps = [affine_map<(a, g, s, d) -> (a, s, d)>, affine_map<(a, g, s, d) -> (a, g, s, d)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%g : tensor<2x16x16xf32>) outs(%be : tensor<2x4x16x16xf32>) {
  ^bb0(%in: f32, %o: f32):
    linalg.yield %in : f32
  } -> tensor<2x4x16x16xf32>
  %v = tensor.collapse_shape %b4 [[0, 1], [2], [3]] : tensor<2x4x16x16xf32> into tensor<8x16x16xf32>
"""


# Grouped queries whose heads are repeated by index, as a table or an index computation says.
REPEATED = """\
func.func @main(%q: tensor<8x16x16xf32>, %k: tensor<8x16x16xf32>, %x: tensor<2x16x24xf32>, %w: tensor<2x24x32xf32>) -> tensor<8x16x16xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x16x32xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<2x16x32xf32>) -> tensor<2x16x32xf32>
  %p = linalg.batch_matmul ins(%x, %w : tensor<2x16x24xf32>, tensor<2x24x32xf32>) outs(%f : tensor<2x16x32xf32>) -> tensor<2x16x32xf32>
  %x4 = tensor.expand_shape %p [[0],[1],[2,3]] output_shape [2,16,2,16] : tensor<2x16x32xf32> into tensor<2x16x2x16xf32>
  %be = tensor.empty() : tensor<2x4x16x16xf32>
  %b4 = linalg.generic {indexing_maps = [affine_map<(a, h, s, d) -> (a, h, s, d)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} outs(%be : tensor<2x4x16x16xf32>) {
  ^bb0(%o: f32):
    %a = linalg.index 0 : index
    %h = linalg.index 1 : index
    %s = linalg.index 2 : index
    %d = linalg.index 3 : index
    %two = arith.constant 2 : index
    %g = arith.INDEX %h, %two : index
    %x0 = tensor.extract %x4[%a, %s, %g, %d] : tensor<2x16x2x16xf32>
    linalg.yield %x0 : f32
  } -> tensor<2x4x16x16xf32>
  %v = tensor.collapse_shape %b4 [[0, 1], [2], [3]] : tensor<2x4x16x16xf32> into tensor<8x16x16xf32>
"""


FAMILIES = {
    "latent": LATENT,
    "packed": PACKED,
    "gathered": GATHERED,
    "repeated by index": REPEATED.replace("INDEX", "divui"),
    "tiled by index": REPEATED.replace("INDEX", "remui"),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_always_absorbs(name: str) -> None:
    text = MAPS + FAMILIES[name] + ATTEND
    report = check(text, reference=partial(meaning, text))
    assert decisions(report) == ["absorbed"]


@pytest.mark.parametrize("name", FAMILIES)
def test_a_cpu_keeps_v_in_its_order(name: str) -> None:
    text = MAPS + FAMILIES[name] + ATTEND
    report = check(text, mode="cost", reference=partial(meaning, text))
    (value,) = (r for r in report.attentions[0].operands if r.operand == "value")
    assert value.decision in ("kept", "folded")
    assert "V^T costs loops of many rows" in value.reason
