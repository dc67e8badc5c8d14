// RUN: attn-opt %s --attn-propagate-layout=mode=always,operands=v --split-input-file --remarks --verify-diagnostics
// RUN: attn-opt %s --split-input-file > %t.0 && attn-opt %s --attn-propagate-layout=mode=always,operands=v --split-input-file > %t.1 && diff %t.0 %t.1

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

func.func @uneven(%q: tensor<36x8x16xf32>, %k: tensor<36x32x16xf32>, %x: tensor<6x32x4x24xf32>, %w: tensor<6x24x16xf32>) -> tensor<36x8x16xf32> {
  %t0 = tensor.collapse_shape %x [[0, 1, 2, 3]] : tensor<6x32x4x24xf32> into tensor<18432xf32>
  %v = tensor.expand_shape %t0 [[0, 1, 2]] output_shape [36, 32, 16] : tensor<18432xf32> into tensor<36x32x16xf32>
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<36x8x16xf32>
  // expected-remark @below {{value refused: V^T cannot be absorbed: the collapsed dims cannot be cut as the layout needs}}
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<36x8x16xf32>, tensor<36x32x16xf32>, tensor<36x32x16xf32>, f32) outs(%out : tensor<36x8x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<36x8x16xf32>
  return %r : tensor<36x8x16xf32>
}
