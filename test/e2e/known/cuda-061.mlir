// f32 decode of latent attention, head dim 576, 6 rows, 318 keys, a mask of i8, a score function.
func.func @main(%a0: tensor<318x2x576xf32>, %a1: tensor<2x2x3x576xf32>, %a2: tensor<2x3x318xi8>) -> (tensor<2x2x3x576xf32>) {
  %v1 = tensor.extract_slice %a0[0, 0, 0] [318, 2, 576] [1, 1, 1] : tensor<318x2x576xf32> to tensor<318x2x576xf32>
  %v2 = arith.constant 4.166666667e-02 : f32
  %v103 = tensor.empty() : tensor<2x2x3x576xf32>
  %v104 = iree_linalg_ext.attention <indexing_maps = [affine_map<(b1, m1, m0, n0, k0, j0) -> (b1, m1, m0, k0)>, affine_map<(b1, m1, m0, n0, k0, j0) -> (j0, b1, k0)>, affine_map<(b1, m1, m0, n0, k0, j0) -> (j0, b1, n0)>, affine_map<(b1, m1, m0, n0, k0, j0) -> ()>, affine_map<(b1, m1, m0, n0, k0, j0) -> (b1, m0, j0)>, affine_map<(b1, m1, m0, n0, k0, j0) -> (b1, m1, m0, n0)>]> ins(%a1, %a0, %v1, %v2, %a2 : tensor<2x2x3x576xf32>, tensor<318x2x576xf32>, tensor<318x2x576xf32>, f32, tensor<2x3x318xi8>) outs(%v103 : tensor<2x2x3x576xf32>) {
    ^bb0(%score: f32):
  %v100003 = arith.constant 5.660000000e+00 : f32
  %v100004 = arith.addf %score, %v100003 : f32
      iree_linalg_ext.yield %v100004 : f32
  } -> tensor<2x2x3x576xf32>
  return %v104 : tensor<2x2x3x576xf32>
}
