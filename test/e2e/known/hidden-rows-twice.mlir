// attn-hidden-rows changes this once, and nothing when it runs again.
#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#mask = affine_map<(b, m, n, k1, k2) -> (b, m, k2)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
func.func @f(%q: tensor<2x16x8xf32>, %k: tensor<2x24x8xf32>, %v: tensor<2x24x4xf32>, %mask: tensor<2x16x24xi1>) -> tensor<2x16x4xf32> {
  %scale = arith.constant 1.0 : f32
  %e = tensor.empty() : tensor<2x16x4xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #mask, #o]>
      ins(%q, %k, %v, %scale, %mask : tensor<2x16x8xf32>, tensor<2x24x8xf32>, tensor<2x24x4xf32>, f32, tensor<2x16x24xi1>) outs(%e : tensor<2x16x4xf32>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x16x4xf32>
  return %r : tensor<2x16x4xf32>
}
