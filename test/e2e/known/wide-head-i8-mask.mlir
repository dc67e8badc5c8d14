// A mask of i8 and a head dim of 256: IREE 3.13 is wrong on CPUs.
func.func @main(%a0: tensor<2x8x256xf32>, %a1: tensor<2x64x256xf32>, %a2: tensor<2x64x256xf32>, %a3: tensor<8x64xi8>) -> (tensor<2x8x256xf32>) {
  %v1 = arith.constant 4.166666667e-02 : f32
  %v102 = tensor.empty() : tensor<2x8x256xf32>
  %v103 = iree_linalg_ext.attention <indexing_maps = [affine_map<(b0, m0, n0, k0, j0) -> (b0, m0, k0)>, affine_map<(b0, m0, n0, k0, j0) -> (b0, j0, k0)>, affine_map<(b0, m0, n0, k0, j0) -> (b0, j0, n0)>, affine_map<(b0, m0, n0, k0, j0) -> ()>, affine_map<(b0, m0, n0, k0, j0) -> (m0, j0)>, affine_map<(b0, m0, n0, k0, j0) -> (b0, m0, n0)>]> ins(%a0, %a1, %a2, %v1, %a3 : tensor<2x8x256xf32>, tensor<2x64x256xf32>, tensor<2x64x256xf32>, f32, tensor<8x64xi8>) outs(%v102 : tensor<2x8x256xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x8x256xf32>
  return %v103 : tensor<2x8x256xf32>
}
