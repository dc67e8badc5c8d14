// f32 with dims in the order m, n, k1, k2 and the result (n, m): lanes were laid for another order.
func.func @main(%a0: tensor<192x64xf32>, %a1: tensor<192x16xf32>, %a2: tensor<16x192xf32>, %a3: tensor<64x16xi1>) -> (tensor<192x64xf32>) {
  %v1 = arith.constant 7.216878235e-02 : f32
  %v102 = tensor.empty() : tensor<192x64xf32>
  %v103 = iree_linalg_ext.attention <indexing_maps = [affine_map<(m0, n0, k0, j0) -> (k0, m0)>, affine_map<(m0, n0, k0, j0) -> (k0, j0)>, affine_map<(m0, n0, k0, j0) -> (j0, n0)>, affine_map<(m0, n0, k0, j0) -> ()>, affine_map<(m0, n0, k0, j0) -> (m0, j0)>, affine_map<(m0, n0, k0, j0) -> (n0, m0)>]> ins(%a0, %a1, %a2, %v1, %a3 : tensor<192x64xf32>, tensor<192x16xf32>, tensor<16x192xf32>, f32, tensor<64x16xi1>) outs(%v102 : tensor<192x64xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<192x64xf32>
  return %v103 : tensor<192x64xf32>
}
