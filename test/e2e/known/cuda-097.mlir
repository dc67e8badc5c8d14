// f32, dynamic keys, a mask of i8 a key.
func.func @main(%a0: tensor<?x2x192xf32>, %a1: tensor<2x8x4x192xf32>, %a2: tensor<?x24xf32>, %a3: tensor<24x2x192xf32>, %a4: tensor<?xi8>) -> (tensor<2x8x4x192xf32>) {
  %v1 = arith.constant 0 : index
  %v2 = tensor.dim %a0, %v1 : tensor<?x2x192xf32>
  %v3 = arith.constant 0 : index
  %v4 = tensor.dim %a2, %v3 : tensor<?x24xf32>
  %v5 = tensor.empty(%v4) : tensor<?x24xf32>
  %v6 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%a2 : tensor<?x24xf32>) outs(%v5 : tensor<?x24xf32>) {
  ^bb0(%v7: f32, %v8: f32):
  %v9 = arith.constant 2.500000000e-01 : f32
  %v10 = arith.mulf %v7, %v9 : f32
    linalg.yield %v10 : f32
  } -> tensor<?x24xf32>
  %v11 = arith.constant 0.000000000e+00 : f32
  %v12 = tensor.empty(%v4) : tensor<?x2x192xf32>
  %v13 = linalg.fill ins(%v11 : f32) outs(%v12 : tensor<?x2x192xf32>) -> tensor<?x2x192xf32>
  %v14 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d3)>, affine_map<(d0, d1, d2, d3) -> (d3, d1, d2)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%v6, %a3 : tensor<?x24xf32>, tensor<24x2x192xf32>) outs(%v13 : tensor<?x2x192xf32>) {
  ^bb0(%v15: f32, %v16: f32, %v17: f32):
  %v18 = arith.mulf %v15, %v16 : f32
    %v19 = arith.addf %v18, %v17 : f32
    linalg.yield %v19 : f32
  } -> tensor<?x2x192xf32>
  %v20 = arith.constant 0 : index
  %v21 = tensor.dim %a4, %v20 : tensor<?xi8>
  %v22 = arith.constant 7.216878365e-02 : f32
  %v123 = tensor.empty() : tensor<2x8x4x192xf32>
  %v124 = iree_linalg_ext.attention <indexing_maps = [affine_map<(b1, m1, m0, n0, k0, j0) -> (b1, m1, m0, k0)>, affine_map<(b1, m1, m0, n0, k0, j0) -> (j0, b1, k0)>, affine_map<(b1, m1, m0, n0, k0, j0) -> (j0, b1, n0)>, affine_map<(b1, m1, m0, n0, k0, j0) -> ()>, affine_map<(b1, m1, m0, n0, k0, j0) -> (j0)>, affine_map<(b1, m1, m0, n0, k0, j0) -> (b1, m1, m0, n0)>]> ins(%a1, %a0, %v14, %v22, %a4 : tensor<2x8x4x192xf32>, tensor<?x2x192xf32>, tensor<?x2x192xf32>, f32, tensor<?xi8>) outs(%v123 : tensor<2x8x4x192xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x8x4x192xf32>
  return %v124 : tensor<2x8x4x192xf32>
}
