// RUN: attn-opt %s --attn-propagate-layout=mode=always,operands=v --split-input-file --remarks --verify-diagnostics
// RUN: attn-opt %s --split-input-file > %t.0 && attn-opt %s --attn-propagate-layout=mode=always,operands=v --split-input-file > %t.1 && diff %t.0 %t.1

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

func.func @mask(%q: tensor<2x8x16xf32>, %k: tensor<2x32x16xf32>, %t: tensor<64x16xf32>, %i: tensor<2x32xi64>, %m: tensor<2x32xi1>) -> tensor<2x8x16xf32> {
  %e = tensor.empty() : tensor<2x32x16xf32>
  %v = iree_linalg_ext.gather dimension_map = [0] ins(%t, %i, %m : tensor<64x16xf32>, tensor<2x32xi64>, tensor<2x32xi1>) outs(%e : tensor<2x32x16xf32>) -> tensor<2x32x16xf32>
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x8x16xf32>
  // expected-remark @below {{value refused: V^T cannot be absorbed: its mask leaves it no other order of its dims}}
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x8x16xf32>, tensor<2x32x16xf32>, tensor<2x32x16xf32>, f32) outs(%out : tensor<2x8x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x8x16xf32>
  return %r : tensor<2x8x16xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

func.func @update(%q: tensor<2x8x16xf32>, %k: tensor<2x32x16xf32>, %u: tensor<5x16xf32>, %i: tensor<5x2xi64>) -> tensor<2x8x16xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x32x16xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<2x32x16xf32>) -> tensor<2x32x16xf32>
  %v = iree_linalg_ext.scatter dimension_map = [0, 1] unique_indices(true) ins(%u, %i : tensor<5x16xf32>, tensor<5x2xi64>) outs(%f : tensor<2x32x16xf32>) {
  ^bb0(%new: f32, %old: f32):
    iree_linalg_ext.yield %new : f32
  } -> tensor<2x32x16xf32>
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x8x16xf32>
  // expected-remark @below {{value refused: V^T cannot be absorbed: a dim of the slices that it moves would go before an indexed dim}}
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x8x16xf32>, tensor<2x32x16xf32>, tensor<2x32x16xf32>, f32) outs(%out : tensor<2x8x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x8x16xf32>
  return %r : tensor<2x8x16xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// Rows of a table: the dim of the slices would go before an indexed one, which takes a copy.
func.func @rows(%q: tensor<2x8x16xf32>, %k: tensor<2x32x16xf32>, %t: tensor<64x16xf32>, %i: tensor<2x32xi64>) -> tensor<2x8x16xf32> {
  %e = tensor.empty() : tensor<2x32x16xf32>
  %v = iree_linalg_ext.gather dimension_map = [0] ins(%t, %i : tensor<64x16xf32>, tensor<2x32xi64>) outs(%e : tensor<2x32x16xf32>) -> tensor<2x32x16xf32>
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x8x16xf32>
  // expected-remark @below {{value kept: V stays as it is: V^T cannot be absorbed whole, it takes 1 more launch(es)}}
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x8x16xf32>, tensor<2x32x16xf32>, tensor<2x32x16xf32>, f32) outs(%out : tensor<2x8x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x8x16xf32>
  return %r : tensor<2x8x16xf32>
}
