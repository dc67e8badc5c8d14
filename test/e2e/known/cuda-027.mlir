// f32, head dim 72, two key dims, a mask of i8, which IREE 3.13 misreads.
func.func @main(%a0: tensor<16x2x576xf32>, %a1: tensor<8x5x576x2xf32>, %a2: tensor<8x72x5xf32>, %a3: tensor<5x16x8xi8>) -> (tensor<16x72xf32>) {
  %v1 = arith.constant 2.946278267e-02 : f32
  %v102 = tensor.empty() : tensor<16x72xf32>
  %v103 = iree_linalg_ext.attention <indexing_maps = [affine_map<(m0, n0, k0, k1, j0, j1) -> (m0, k1, k0)>, affine_map<(m0, n0, k0, k1, j0, j1) -> (j0, j1, k0, k1)>, affine_map<(m0, n0, k0, k1, j0, j1) -> (j0, n0, j1)>, affine_map<(m0, n0, k0, k1, j0, j1) -> ()>, affine_map<(m0, n0, k0, k1, j0, j1) -> (j1, m0, j0)>, affine_map<(m0, n0, k0, k1, j0, j1) -> (m0, n0)>]> ins(%a0, %a1, %a2, %v1, %a3 : tensor<16x2x576xf32>, tensor<8x5x576x2xf32>, tensor<8x72x5xf32>, f32, tensor<5x16x8xi8>) outs(%v102 : tensor<16x72xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<16x72xf32>
  return %v103 : tensor<16x72xf32>
}
