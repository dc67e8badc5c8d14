// f32, dequantised V, a reduction, a softmax: IREE 3.13's kernel of a linalg.contract is wrong below O2.
func.func @main(%a0: tensor<40x16x8x3xf32>, %a1: tensor<40x16x8xi8>, %a2: tensor<8xf32>, %a3: tensor<40x16x40xf32>, %a4: tensor<40x3x1x40xf32>, %a5: tensor<1x16xi1>, %a6: tensor<40x32xf32>) -> (tensor<3x8x1x32xf32>) {
  %v1 = arith.constant 0.000000000e+00 : f32
  %v2 = tensor.empty() : tensor<40x16x8xf32>
  %v3 = linalg.fill ins(%v1 : f32) outs(%v2 : tensor<40x16x8xf32>) -> tensor<40x16x8xf32>
  %v4 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%a0 : tensor<40x16x8x3xf32>) outs(%v3 : tensor<40x16x8xf32>) {
  ^bb0(%v5: f32, %v6: f32):
    %v7 = arith.addf %v5, %v6 : f32
    linalg.yield %v7 : f32
  } -> tensor<40x16x8xf32>
  %v8 = tensor.empty() : tensor<40x16x8xf32>
  %v9 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v4 : tensor<40x16x8xf32>) outs(%v8 : tensor<40x16x8xf32>) {
  ^bb0(%v10: f32, %v11: f32):
  %v12 = arith.constant 5.773502692e-01 : f32
  %v13 = arith.mulf %v10, %v12 : f32
    linalg.yield %v13 : f32
  } -> tensor<40x16x8xf32>
  %v14 = tensor.empty() : tensor<40x16x8xf32>
  %v15 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%a1, %a2 : tensor<40x16x8xi8>, tensor<8xf32>) outs(%v14 : tensor<40x16x8xf32>) {
  ^bb0(%v16: i8, %v17: f32, %v18: f32):
  %v19 = arith.sitofp %v16 : i8 to f32
  %v20 = arith.constant 5.000000000e-02 : f32
  %v21 = arith.mulf %v19, %v20 : f32
  %v22 = arith.mulf %v21, %v17 : f32
    linalg.yield %v22 : f32
  } -> tensor<40x16x8xf32>
  %v23 = tensor.empty() : tensor<40x16x8xf32>
  %v24 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v15, %v9 : tensor<40x16x8xf32>, tensor<40x16x8xf32>) outs(%v23 : tensor<40x16x8xf32>) {
  ^bb0(%v25: f32, %v26: f32, %v27: f32):
  %v28 = arith.addf %v25, %v26 : f32
    linalg.yield %v28 : f32
  } -> tensor<40x16x8xf32>
  %v29 = tensor.empty() : tensor<40x16x8xf32>
  %v30 = linalg.softmax dimension(2) ins(%v24 : tensor<40x16x8xf32>) outs(%v29 : tensor<40x16x8xf32>) -> tensor<40x16x8xf32>
  %v31 = tensor.empty() : tensor<40x16x8xf32>
  %v32 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v30 : tensor<40x16x8xf32>) outs(%v31 : tensor<40x16x8xf32>) {
  ^bb0(%v33: f32, %v34: f32):
  %v35 = arith.constant 4.000000000e+00 : f32
  %v36 = arith.mulf %v33, %v35 : f32
    linalg.yield %v36 : f32
  } -> tensor<40x16x8xf32>
  %v37 = arith.constant 1.581138830e-01 : f32
  %v138 = tensor.empty() : tensor<3x8x1x40xf32>
  %v139 = iree_linalg_ext.attention <indexing_maps = [affine_map<(b0, m1, m0, n0, k0, j0) -> (b0, m1, m0, k0)>, affine_map<(b0, m1, m0, n0, k0, j0) -> (k0, j0, b0)>, affine_map<(b0, m1, m0, n0, k0, j0) -> (b0, j0, n0)>, affine_map<(b0, m1, m0, n0, k0, j0) -> ()>, affine_map<(b0, m1, m0, n0, k0, j0) -> (m0, j0)>, affine_map<(b0, m1, m0, n0, k0, j0) -> (m1, n0, m0, b0)>]> ins(%a4, %a3, %v32, %v37, %a5 : tensor<40x3x1x40xf32>, tensor<40x16x40xf32>, tensor<40x16x8xf32>, f32, tensor<1x16xi1>) outs(%v138 : tensor<3x8x1x40xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<3x8x1x40xf32>
  %v140 = arith.constant 0.000000000e+00 : f32
  %v141 = tensor.empty() : tensor<3x8x1x32xf32>
  %v142 = linalg.fill ins(%v140 : f32) outs(%v141 : tensor<3x8x1x32xf32>) -> tensor<3x8x1x32xf32>
  %v143 = linalg.contract indexing_maps = [affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3, d4) -> (d3, d4)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d4)>] ins(%v139, %a6 : tensor<3x8x1x40xf32>, tensor<40x32xf32>) outs(%v142 : tensor<3x8x1x32xf32>) -> tensor<3x8x1x32xf32>
  return %v143 : tensor<3x8x1x32xf32>
}
