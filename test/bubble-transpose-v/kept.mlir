// RUN: attn-opt %s --attn-bubble-transpose-v --remarks --verify-diagnostics

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#vt = affine_map<(b, m, n, k1, k2) -> (b, n, k2)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

func.func @transposed(%q: tensor<2x16x8xf32>, %k: tensor<2x32x8xf32>, %v: tensor<2x8x32xf32>) -> tensor<2x16x8xf32> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x16x8xf32>
  // expected-remark @below {{value kept: k2 is innermost in V already}}
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #vt, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x16x8xf32>, tensor<2x32x8xf32>, tensor<2x8x32xf32>, f32) outs(%out : tensor<2x16x8xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x16x8xf32>
  return %r : tensor<2x16x8xf32>
}
