// A loop round attention with a batch of one; IREE 3.13 refuses.
func.func @main(%a0: tensor<1x4x256xf32>) -> (tensor<1x4x256xf32>) {
  %v1 = arith.constant 0 : index
  %v2 = arith.constant 4 : index
  %v3 = arith.constant 1 : index
  %v5 = scf.for %iv5 = %v1 to %v2 step %v3 iter_args(%v4 = %a0) -> (tensor<1x4x256xf32>) {
  %v6 = tensor.expand_shape %v4 [[0], [1], [2, 3]] output_shape [1, 4, 4, 64] : tensor<1x4x256xf32> into tensor<1x4x4x64xf32>
  %v7 = tensor.empty() : tensor<1x4x4x64xf32>
  %v8 = linalg.transpose ins(%v6 : tensor<1x4x4x64xf32>) outs(%v7 : tensor<1x4x4x64xf32>) permutation = [0, 2, 1, 3]
  %v9 = tensor.expand_shape %v4 [[0], [1], [2, 3]] output_shape [1, 4, 4, 64] : tensor<1x4x256xf32> into tensor<1x4x4x64xf32>
  %v10 = tensor.empty() : tensor<1x4x4x64xf32>
  %v11 = linalg.transpose ins(%v9 : tensor<1x4x4x64xf32>) outs(%v10 : tensor<1x4x4x64xf32>) permutation = [0, 2, 1, 3]
  %v12 = tensor.expand_shape %v4 [[0], [1], [2, 3]] output_shape [1, 4, 4, 64] : tensor<1x4x256xf32> into tensor<1x4x4x64xf32>
  %v13 = tensor.empty() : tensor<1x4x4x64xf32>
  %v14 = linalg.transpose ins(%v12 : tensor<1x4x4x64xf32>) outs(%v13 : tensor<1x4x4x64xf32>) permutation = [0, 2, 1, 3]
  %v15 = arith.constant 1.250000000e-01 : f32
  %v116 = tensor.empty() : tensor<1x4x4x64xf32>
  %v117 = iree_linalg_ext.attention <indexing_maps = [affine_map<(b0, b1, m0, n0, k0, j0) -> (b0, b1, m0, k0)>, affine_map<(b0, b1, m0, n0, k0, j0) -> (b0, b1, j0, k0)>, affine_map<(b0, b1, m0, n0, k0, j0) -> (b0, b1, j0, n0)>, affine_map<(b0, b1, m0, n0, k0, j0) -> ()>, affine_map<(b0, b1, m0, n0, k0, j0) -> (b0, b1, m0, n0)>]> ins(%v8, %v11, %v14, %v15 : tensor<1x4x4x64xf32>, tensor<1x4x4x64xf32>, tensor<1x4x4x64xf32>, f32) outs(%v116 : tensor<1x4x4x64xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<1x4x4x64xf32>
  %v118 = tensor.empty() : tensor<1x4x4x64xf32>
  %v119 = linalg.transpose ins(%v117 : tensor<1x4x4x64xf32>) outs(%v118 : tensor<1x4x4x64xf32>) permutation = [0, 2, 1, 3]
  %v120 = tensor.collapse_shape %v119 [[0], [1], [2, 3]] : tensor<1x4x4x64xf32> into tensor<1x4x256xf32>
  %v121 = tensor.empty() : tensor<1x4x256xf32>
  %v122 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v120, %v4 : tensor<1x4x256xf32>, tensor<1x4x256xf32>) outs(%v121 : tensor<1x4x256xf32>) {
  ^bb0(%v123: f32, %v124: f32, %v125: f32):
  %v126 = arith.addf %v123, %v124 : f32
    linalg.yield %v126 : f32
  } -> tensor<1x4x256xf32>
    scf.yield %v122 : tensor<1x4x256xf32>
  }
  return %v5 : tensor<1x4x256xf32>
}
