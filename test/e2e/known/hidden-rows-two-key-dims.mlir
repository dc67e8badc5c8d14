// A row that sees no key, of attention over two key dims.
func.func @main(%q: tensor<4x8xf32>, %k: tensor<2x3x8xf32>, %v: tensor<2x3x16xf32>, %mask: tensor<4x2x3xi1>) -> tensor<4x16xf32> {
  %scale = arith.constant 5.0e-01 : f32
  %o = tensor.empty() : tensor<4x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [affine_map<(m, n, k, i, j) -> (m, k)>, affine_map<(m, n, k, i, j) -> (i, j, k)>, affine_map<(m, n, k, i, j) -> (i, j, n)>, affine_map<(m, n, k, i, j) -> ()>, affine_map<(m, n, k, i, j) -> (m, i, j)>, affine_map<(m, n, k, i, j) -> (m, n)>]> ins(%q, %k, %v, %scale, %mask : tensor<4x8xf32>, tensor<2x3x8xf32>, tensor<2x3x16xf32>, f32, tensor<4x2x3xi1>) outs(%o : tensor<4x16xf32>) {
    ^bb0(%s: f32):
      iree_linalg_ext.yield %s : f32
  } -> tensor<4x16xf32>
  return %r : tensor<4x16xf32>
}
