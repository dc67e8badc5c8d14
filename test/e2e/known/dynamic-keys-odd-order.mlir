// Dynamic keys and a mask of i8, dims in an odd order; IREE 3.13 refuses.
func.func @main(%a0: tensor<7x1x32xf32>, %a1: tensor<7x?x32xf32>, %a2: tensor<7x?x32xf32>, %a3: tensor<1x?xi8>) -> (tensor<7x1x32xf32>) {
  %v1 = arith.constant 1 : index
  %v2 = tensor.dim %a1, %v1 : tensor<7x?x32xf32>
  %v3 = arith.constant 1 : index
  %v4 = tensor.dim %a2, %v3 : tensor<7x?x32xf32>
  %v5 = arith.constant 1 : index
  %v6 = tensor.dim %a3, %v5 : tensor<1x?xi8>
  %v7 = arith.constant 1.767766953e-01 : f32
  %v108 = tensor.empty() : tensor<7x1x32xf32>
  %v109 = iree_linalg_ext.attention <indexing_maps = [affine_map<(k0, j0, m0, b0, n0) -> (b0, m0, k0)>, affine_map<(k0, j0, m0, b0, n0) -> (b0, j0, k0)>, affine_map<(k0, j0, m0, b0, n0) -> (b0, j0, n0)>, affine_map<(k0, j0, m0, b0, n0) -> ()>, affine_map<(k0, j0, m0, b0, n0) -> (m0, j0)>, affine_map<(k0, j0, m0, b0, n0) -> (b0, m0, n0)>]> ins(%a0, %a1, %a2, %v7, %a3 : tensor<7x1x32xf32>, tensor<7x?x32xf32>, tensor<7x?x32xf32>, f32, tensor<1x?xi8>) outs(%v108 : tensor<7x1x32xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<7x1x32xf32>
  return %v109 : tensor<7x1x32xf32>
}
