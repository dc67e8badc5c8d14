// RUN: attn-opt %s --attn-propagate-layout=mode=always,operands=v --split-input-file --remarks --verify-diagnostics

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// V repeated along its keys: without that dim attention would lose its keys.
func.func @keys(%q: tensor<2x8x16xf32>, %k: tensor<2x32x16xf32>, %src: tensor<2x16xf32>) -> tensor<2x8x16xf32> {
  %be = tensor.empty() : tensor<2x32x16xf32>
  %v = linalg.generic {indexing_maps = [affine_map<(a, s, d) -> (a, d)>, affine_map<(a, s, d) -> (a, s, d)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%src : tensor<2x16xf32>) outs(%be : tensor<2x32x16xf32>) {
  ^bb0(%in: f32, %o: f32):
    linalg.yield %in : f32
  } -> tensor<2x32x16xf32>
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x8x16xf32>
  // expected-remark @below {{value absorbed: k2 innermost in V, absorbed by linalg.generic}}
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

// A configured attention keeps its rank.
func.func @configured(%q: tensor<8x8x16xf32>, %k: tensor<8x32x16xf32>, %src: tensor<2x32x16xf32>) -> tensor<8x8x16xf32> {
  %be = tensor.empty() : tensor<2x4x32x16xf32>
  %b4 = linalg.generic {indexing_maps = [affine_map<(a, g, s, d) -> (a, s, d)>, affine_map<(a, g, s, d) -> (a, g, s, d)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%src : tensor<2x32x16xf32>) outs(%be : tensor<2x4x32x16xf32>) {
  ^bb0(%in: f32, %o: f32):
    linalg.yield %in : f32
  } -> tensor<2x4x32x16xf32>
  %v = tensor.collapse_shape %b4 [[0, 1], [2], [3]] : tensor<2x4x32x16xf32> into tensor<8x32x16xf32>
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<8x8x16xf32>
  // expected-remark @below {{value absorbed: k2 innermost in V, absorbed by linalg.generic}}
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> {lowering_config = "mine"}
      ins(%q, %k, %v, %scale : tensor<8x8x16xf32>, tensor<8x32x16xf32>, tensor<8x32x16xf32>, f32) outs(%out : tensor<8x8x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<8x8x16xf32>
  return %r : tensor<8x8x16xf32>
}
