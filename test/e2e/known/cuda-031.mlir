// f32, head dim 40, V (k2, b, n), a mask (k2, m) of f16.
func.func @main(%a0: tensor<1x64x40xf32>, %a1: tensor<1x100x40xf32>, %a2: tensor<100x1x40xf32>, %a3: tensor<100x64xf16>) -> (tensor<1x64x40xf32>) {
  %v1 = arith.constant 1.581138819e-01 : f32
  %v102 = tensor.empty() : tensor<1x64x40xf32>
  %v103 = iree_linalg_ext.attention <indexing_maps = [affine_map<(b0, n0, j0, m0, k0) -> (b0, m0, k0)>, affine_map<(b0, n0, j0, m0, k0) -> (b0, j0, k0)>, affine_map<(b0, n0, j0, m0, k0) -> (j0, b0, n0)>, affine_map<(b0, n0, j0, m0, k0) -> ()>, affine_map<(b0, n0, j0, m0, k0) -> (j0, m0)>, affine_map<(b0, n0, j0, m0, k0) -> (b0, m0, n0)>]> ins(%a0, %a1, %a2, %v1, %a3 : tensor<1x64x40xf32>, tensor<1x100x40xf32>, tensor<100x1x40xf32>, f32, tensor<100x64xf16>) outs(%v102 : tensor<1x64x40xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<1x64x40xf32>
  return %v103 : tensor<1x64x40xf32>
}
