// A mask over the head dim: no pass of ours understands it, and the module compiles.
#q = affine_map<(m, n, k2, k1) -> (m, k1)>
#k = affine_map<(m, n, k2, k1) -> (k2, k1)>
#v = affine_map<(m, n, k2, k1) -> (k2, n)>
#s = affine_map<(m, n, k2, k1) -> ()>
#o = affine_map<(m, n, k2, k1) -> (m, n)>
func.func @f(%q: tensor<16x8xf16>, %k: tensor<24x8xf16>, %v: tensor<24x32xf16>, %mask: tensor<24x8xi1>) -> tensor<16x32xf16> {
  %scale = arith.constant 1.0 : f16
  %e = tensor.empty() : tensor<16x32xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #k, #o]>
      ins(%q, %k, %v, %scale, %mask : tensor<16x8xf16>, tensor<24x8xf16>, tensor<24x32xf16>, f16, tensor<24x8xi1>) outs(%e : tensor<16x32xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<16x32xf16>
  return %r : tensor<16x32xf16>
}
