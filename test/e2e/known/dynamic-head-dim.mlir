// A head dim known only at run time: IREE 3.13's own code for CPUs takes the softmax of partial scores.
#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
func.func @f(%q: tensor<2x16x?xf32>, %k: tensor<2x32x?xf32>, %v: tensor<2x32x16xf32>) -> tensor<2x16x16xf32> {
  %scale = arith.constant 1.0 : f32
  %e = tensor.empty() : tensor<2x16x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x16x?xf32>, tensor<2x32x?xf32>, tensor<2x32x16xf32>, f32) outs(%e : tensor<2x16x16xf32>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x16x16xf32>
  return %r : tensor<2x16x16xf32>
}
