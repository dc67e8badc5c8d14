// A number of keys that util.assume.int says something of.
func.func @main(%a0: tensor<3x4x576xf32>, %a1: tensor<3x?x576xf32>, %a2: tensor<?x192xf32>, %a3: f32) -> (tensor<4x192x3xf32>) {
  %v1 = arith.constant 1 : index
  %v2 = tensor.dim %a1, %v1 : tensor<3x?x576xf32>
  %v3 = util.assume.int %v2<umin = 16, umax = 131072, udiv = 16> : index
  %v4 = flow.tensor.tie_shape %a1 : tensor<3x?x576xf32>{%v3}
  %v5 = arith.constant 0 : index
  %v6 = tensor.dim %a2, %v5 : tensor<?x192xf32>
  %v107 = tensor.empty() : tensor<4x192x3xf32>
  %v108 = iree_linalg_ext.attention <indexing_maps = [affine_map<(b0, m0, n0, k0, j0) -> (b0, m0, k0)>, affine_map<(b0, m0, n0, k0, j0) -> (b0, j0, k0)>, affine_map<(b0, m0, n0, k0, j0) -> (j0, n0)>, affine_map<(b0, m0, n0, k0, j0) -> ()>, affine_map<(b0, m0, n0, k0, j0) -> (m0, n0, b0)>]> ins(%a0, %v4, %a2, %a3 : tensor<3x4x576xf32>, tensor<3x?x576xf32>, tensor<?x192xf32>, f32) outs(%v107 : tensor<4x192x3xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<4x192x3xf32>
  return %v108 : tensor<4x192x3xf32>
}
