// f32, head dim 40, a mask of i1, several batch dims, dims in an odd order, a soft-cap.
func.func @main(%a0: tensor<1x2x2x16x40xf32>, %a1: tensor<1x2x100x1x40xf32>, %a2: tensor<1x1x100x2x40xf32>, %a3: tensor<1x2x1x100xi1>) -> (tensor<1x2x2x16x40xf32>) {
  %v1 = arith.constant 5.850213766e-02 : f32
  %v102 = tensor.empty() : tensor<1x2x2x16x40xf32>
  %v103 = iree_linalg_ext.attention <indexing_maps = [affine_map<(j1, b1, j0, b2, b0, n0, m0, k0) -> (b0, b1, b2, m0, k0)>, affine_map<(j1, b1, j0, b2, b0, n0, m0, k0) -> (b0, b1, j0, j1, k0)>, affine_map<(j1, b1, j0, b2, b0, n0, m0, k0) -> (j1, b0, j0, b1, n0)>, affine_map<(j1, b1, j0, b2, b0, n0, m0, k0) -> ()>, affine_map<(j1, b1, j0, b2, b0, n0, m0, k0) -> (b0, b2, j1, j0)>, affine_map<(j1, b1, j0, b2, b0, n0, m0, k0) -> (b0, b1, b2, m0, n0)>]> ins(%a0, %a1, %a2, %v1, %a3 : tensor<1x2x2x16x40xf32>, tensor<1x2x100x1x40xf32>, tensor<1x1x100x2x40xf32>, f32, tensor<1x2x1x100xi1>) outs(%v102 : tensor<1x2x2x16x40xf32>) {
    ^bb0(%score: f32):
  %v100002 = arith.constant 1.343000000e+01 : f32
  %v100003 = arith.divf %score, %v100002 : f32
  %v100004 = math.tanh %v100003 : f32
  %v100005 = arith.constant 1.343000000e+01 : f32
  %v100006 = arith.mulf %v100004, %v100005 : f32
      iree_linalg_ext.yield %v100006 : f32
  } -> tensor<1x2x2x16x40xf32>
  return %v103 : tensor<1x2x2x16x40xf32>
}
