// f32, V transposed and dequantised: a linalg.contract below O2.
func.func @main(%a0: tensor<3x40x24x2xf32>, %a1: tensor<2x3x24x40xi8>, %a2: tensor<3xf32>, %a3: tensor<3x24x2x40xf32>, %a4: tensor<3x24x16x40xf32>, %a5: tensor<40x8xf32>) -> (tensor<3x24x16x8xf32>) {
  %v1 = tensor.empty() : tensor<2x3x24x40xf32>
  %v2 = linalg.transpose ins(%a0 : tensor<3x40x24x2xf32>) outs(%v1 : tensor<2x3x24x40xf32>) permutation = [3, 0, 2, 1]
  %v3 = tensor.empty() : tensor<2x3x24x40xf32>
  %v4 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d1)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%a1, %a2 : tensor<2x3x24x40xi8>, tensor<3xf32>) outs(%v3 : tensor<2x3x24x40xf32>) {
  ^bb0(%v5: i8, %v6: f32, %v7: f32):
  %v8 = arith.sitofp %v5 : i8 to f32
  %v9 = arith.constant 5.000000000e-02 : f32
  %v10 = arith.mulf %v8, %v9 : f32
  %v11 = arith.mulf %v10, %v6 : f32
    linalg.yield %v11 : f32
  } -> tensor<2x3x24x40xf32>
  %v12 = tensor.empty() : tensor<40x2x3x24xf32>
  %v13 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d2, d3, d1, d0)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%a3 : tensor<3x24x2x40xf32>) outs(%v12 : tensor<40x2x3x24xf32>) {
  ^bb0(%v14: f32, %v15: f32):
    linalg.yield %v14 : f32
  } -> tensor<40x2x3x24xf32>
  %v16 = arith.constant 1.581138830e-01 : f32
  %v117 = tensor.empty() : tensor<3x24x16x40xf32>
  %v118 = iree_linalg_ext.attention <indexing_maps = [affine_map<(b0, b1, m0, n0, k0, j0) -> (b0, b1, m0, k0)>, affine_map<(b0, b1, m0, n0, k0, j0) -> (k0, j0, b0, b1)>, affine_map<(b0, b1, m0, n0, k0, j0) -> (j0, b0, b1, n0)>, affine_map<(b0, b1, m0, n0, k0, j0) -> ()>, affine_map<(b0, b1, m0, n0, k0, j0) -> (b0, b1, m0, n0)>]> ins(%a4, %v13, %v4, %v16 : tensor<3x24x16x40xf32>, tensor<40x2x3x24xf32>, tensor<2x3x24x40xf32>, f32) outs(%v117 : tensor<3x24x16x40xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<3x24x16x40xf32>
  %v119 = arith.constant 0.000000000e+00 : f32
  %v120 = tensor.empty() : tensor<3x24x16x8xf32>
  %v121 = linalg.fill ins(%v119 : f32) outs(%v120 : tensor<3x24x16x8xf32>) -> tensor<3x24x16x8xf32>
  %v122 = linalg.contract indexing_maps = [affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3, d4) -> (d3, d4)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d4)>] ins(%v118, %a5 : tensor<3x24x16x40xf32>, tensor<40x8xf32>) outs(%v121 : tensor<3x24x16x8xf32>) -> tensor<3x24x16x8xf32>
  return %v122 : tensor<3x24x16x8xf32>
}
