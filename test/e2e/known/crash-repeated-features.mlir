// IREE 3.13 crashes: V's head dim is a repeat, collapsed (b, j, 2x4 -> 8).
func.func @main(%a0: tensor<4x3x8xf32>, %a1: tensor<4x6x8xf32>, %a2: tensor<4x6x4xf32>) -> (tensor<4x3x8xf32>) {
  %v1 = tensor.empty() : tensor<4x6x4x2xf32>
  %v2 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%a2 : tensor<4x6x4xf32>) outs(%v1 : tensor<4x6x4x2xf32>) {
  ^bb0(%v3: f32, %v4: f32):
    linalg.yield %v3 : f32
  } -> tensor<4x6x4x2xf32>
  %v5 = tensor.collapse_shape %v2 [[0], [1], [2, 3]] : tensor<4x6x4x2xf32> into tensor<4x6x8xf32>
  %v6 = arith.constant 3.000000000e-01 : f32
  %v107 = tensor.empty() : tensor<4x3x8xf32>
  %v108 = iree_linalg_ext.attention <indexing_maps = [affine_map<(b0, m0, n0, k0, j0) -> (b0, m0, k0)>, affine_map<(b0, m0, n0, k0, j0) -> (b0, j0, k0)>, affine_map<(b0, m0, n0, k0, j0) -> (b0, j0, n0)>, affine_map<(b0, m0, n0, k0, j0) -> ()>, affine_map<(b0, m0, n0, k0, j0) -> (b0, m0, n0)>]> ins(%a0, %a1, %v5, %v6 : tensor<4x3x8xf32>, tensor<4x6x8xf32>, tensor<4x6x8xf32>, f32) outs(%v107 : tensor<4x3x8xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<4x3x8xf32>
  return %v108 : tensor<4x3x8xf32>
}
