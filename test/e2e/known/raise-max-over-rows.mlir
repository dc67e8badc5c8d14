// A near miss: the maximum is taken over the rows.
func.func @main(%a0: tensor<4x8xf32>, %a1: tensor<6x8xf32>, %a2: tensor<6x8xf32>, %a3: tensor<6xi1>) -> (tensor<4x8xf32>) {
  %v1 = arith.constant 0.000000000e+00 : f32
  %v2 = tensor.empty() : tensor<4x6xf32>
  %v3 = linalg.fill ins(%v1 : f32) outs(%v2 : tensor<4x6xf32>) -> tensor<4x6xf32>
  %v4 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a0, %a1 : tensor<4x8xf32>, tensor<6x8xf32>) outs(%v3 : tensor<4x6xf32>) {
  ^bb0(%v5: f32, %v6: f32, %v7: f32):
  %v8 = arith.mulf %v5, %v6 : f32
    %v9 = arith.addf %v8, %v7 : f32
    linalg.yield %v9 : f32
  } -> tensor<4x6xf32>
  %v10 = tensor.empty() : tensor<4x6xf32>
  %v11 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%v4, %a3 : tensor<4x6xf32>, tensor<6xi1>) outs(%v10 : tensor<4x6xf32>) {
  ^bb0(%v12: f32, %v13: i1, %v14: f32):
  %v15 = arith.constant -3.402823466e+38 : f32
  %v16 = arith.select %v13, %v12, %v15 : f32
    linalg.yield %v16 : f32
  } -> tensor<4x6xf32>
  %v17 = arith.constant -3.402823466e+38 : f32
  %v18 = tensor.empty() : tensor<6xf32>
  %v19 = linalg.fill ins(%v17 : f32) outs(%v18 : tensor<6xf32>) -> tensor<6xf32>
  %v20 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>], iterator_types = ["reduction", "parallel"]} ins(%v11 : tensor<4x6xf32>) outs(%v19 : tensor<6xf32>) {
  ^bb0(%v21: f32, %v22: f32):
    %v23 = arith.maximumf %v21, %v22 : f32
    linalg.yield %v23 : f32
  } -> tensor<6xf32>
  %v24 = tensor.empty() : tensor<4x6xf32>
  %v25 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%v11, %v20 : tensor<4x6xf32>, tensor<6xf32>) outs(%v24 : tensor<4x6xf32>) {
  ^bb0(%v26: f32, %v27: f32, %v28: f32):
  %v29 = arith.subf %v26, %v27 : f32
  %v30 = math.exp %v29 : f32
    linalg.yield %v30 : f32
  } -> tensor<4x6xf32>
  %v31 = arith.constant 0.000000000e+00 : f32
  %v32 = tensor.empty() : tensor<4xf32>
  %v33 = linalg.fill ins(%v31 : f32) outs(%v32 : tensor<4xf32>) -> tensor<4xf32>
  %v34 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%v25 : tensor<4x6xf32>) outs(%v33 : tensor<4xf32>) {
  ^bb0(%v35: f32, %v36: f32):
    %v37 = arith.addf %v35, %v36 : f32
    linalg.yield %v37 : f32
  } -> tensor<4xf32>
  %v38 = tensor.empty() : tensor<4x6xf32>
  %v39 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%v25, %v34 : tensor<4x6xf32>, tensor<4xf32>) outs(%v38 : tensor<4x6xf32>) {
  ^bb0(%v40: f32, %v41: f32, %v42: f32):
  %v43 = arith.divf %v40, %v41 : f32
    linalg.yield %v43 : f32
  } -> tensor<4x6xf32>
  %v44 = arith.constant 0.000000000e+00 : f32
  %v45 = tensor.empty() : tensor<4x8xf32>
  %v46 = linalg.fill ins(%v44 : f32) outs(%v45 : tensor<4x8xf32>) -> tensor<4x8xf32>
  %v47 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%v39, %a2 : tensor<4x6xf32>, tensor<6x8xf32>) outs(%v46 : tensor<4x8xf32>) {
  ^bb0(%v48: f32, %v49: f32, %v50: f32):
  %v51 = arith.mulf %v48, %v49 : f32
    %v52 = arith.addf %v51, %v50 : f32
    linalg.yield %v52 : f32
  } -> tensor<4x8xf32>
  return %v47 : tensor<4x8xf32>
}
