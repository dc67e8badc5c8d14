// A head dim that is in query, key, value and output (no k1, no n): legal, and left alone.
#q = affine_map<(b, m, k2, d) -> (b, m, d)>
#k = affine_map<(b, m, k2, d) -> (b, k2, d)>
#s = affine_map<(b, m, k2, d) -> ()>
#r = affine_map<(b, m, k2, d) -> (b, m)>
func.func @shared(%q: tensor<2x16x8xf32>, %k: tensor<2x24x8xf32>, %v: tensor<2x24x8xf32>, %o: tensor<2x16x8xf32>, %max: tensor<2x16xf32>, %sum: tensor<2x16xf32>) -> (tensor<2x16x8xf32>, tensor<2x16xf32>, tensor<2x16xf32>) {
  %scale = arith.constant 0.25 : f32
  %r:3 = iree_linalg_ext.online_attention <indexing_maps = [#q, #k, #k, #s, #q, #r, #r]>
      ins(%q, %k, %v, %scale : tensor<2x16x8xf32>, tensor<2x24x8xf32>, tensor<2x24x8xf32>, f32)
      outs(%o, %max, %sum : tensor<2x16x8xf32>, tensor<2x16xf32>, tensor<2x16xf32>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x16x8xf32>, tensor<2x16xf32>, tensor<2x16xf32>
  return %r#0, %r#1, %r#2 : tensor<2x16x8xf32>, tensor<2x16xf32>, tensor<2x16xf32>
}
