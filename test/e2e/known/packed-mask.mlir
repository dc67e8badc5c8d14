// A mask of i1 packed 8 to a byte, over a number of keys that 8 does not divide.
#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#mask = affine_map<(b, m, n, k1, k2) -> (b, m, k2)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
func.func @packed(%q: tensor<2x16x16xf32>, %k: tensor<2x36x16xf32>, %v: tensor<2x36x16xf32>, %bytes: tensor<144xi8>) -> tensor<2x16x16xf32> {
  %scale = arith.constant 0.25 : f32
  %mask = flow.tensor.bitcast %bytes : tensor<144xi8> -> tensor<2x16x36xi1, #iree_encoding.packed_storage>
  %out = tensor.empty() : tensor<2x16x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #mask, #o]>
      ins(%q, %k, %v, %scale, %mask : tensor<2x16x16xf32>, tensor<2x36x16xf32>, tensor<2x36x16xf32>, f32, tensor<2x16x36xi1, #iree_encoding.packed_storage>)
      outs(%out : tensor<2x16x16xf32>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x16x16xf32>
  return %r : tensor<2x16x16xf32>
}
