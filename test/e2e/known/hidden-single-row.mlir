// A single row that sees no key.
func.func @main(%q: tensor<1x8xf32>, %k: tensor<3x8xf32>, %v: tensor<3x16xf32>, %mask: tensor<1x3xi1>) -> (tensor<1x16xf32>) {
  %scale = arith.constant 1.0 : f32
  %o = tensor.empty() : tensor<1x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [affine_map<(m, n, k, j) -> (m, k)>, affine_map<(m, n, k, j) -> (j, k)>, affine_map<(m, n, k, j) -> (j, n)>, affine_map<(m, n, k, j) -> ()>, affine_map<(m, n, k, j) -> (m, j)>, affine_map<(m, n, k, j) -> (m, n)>]> ins(%q, %k, %v, %scale, %mask : tensor<1x8xf32>, tensor<3x8xf32>, tensor<3x16xf32>, f32, tensor<1x3xi1>) outs(%o : tensor<1x16xf32>) {
    ^bb0(%s: f32):
      iree_linalg_ext.yield %s : f32
  } -> tensor<1x16xf32>
  return %r : tensor<1x16xf32>
}
