// A bias behind a select of -1e4: it orders the keys of a row whose keys are all hidden.
func.func @main(%a0: tensor<4x8xf32>, %a1: tensor<6x8xf32>, %a2: tensor<6x8xf32>, %a3: tensor<4x6xi1>, %a4: tensor<4x6xf32>) -> (tensor<4x8xf32>) {
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
  %v11 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%v4, %a3 : tensor<4x6xf32>, tensor<4x6xi1>) outs(%v10 : tensor<4x6xf32>) {
  ^bb0(%v12: f32, %v13: i1, %v14: f32):
  %v15 = arith.constant -1.000000000e+04 : f32
  %v16 = arith.select %v13, %v12, %v15 : f32
    linalg.yield %v16 : f32
  } -> tensor<4x6xf32>
  %v17 = tensor.empty() : tensor<4x6xf32>
  %v18 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%v11, %a4 : tensor<4x6xf32>, tensor<4x6xf32>) outs(%v17 : tensor<4x6xf32>) {
  ^bb0(%v19: f32, %v20: f32, %v21: f32):
  %v22 = arith.addf %v19, %v20 : f32
    linalg.yield %v22 : f32
  } -> tensor<4x6xf32>
  %v23 = tensor.empty() : tensor<4x6xf32>
  %v24 = linalg.softmax dimension(1) ins(%v18 : tensor<4x6xf32>) outs(%v23 : tensor<4x6xf32>) -> tensor<4x6xf32>
  %v25 = arith.constant 0.000000000e+00 : f32
  %v26 = tensor.empty() : tensor<4x8xf32>
  %v27 = linalg.fill ins(%v25 : f32) outs(%v26 : tensor<4x8xf32>) -> tensor<4x8xf32>
  %v28 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%v24, %a2 : tensor<4x6xf32>, tensor<6x8xf32>) outs(%v27 : tensor<4x8xf32>) {
  ^bb0(%v29: f32, %v30: f32, %v31: f32):
  %v32 = arith.mulf %v29, %v30 : f32
    %v33 = arith.addf %v32, %v31 : f32
    linalg.yield %v33 : f32
  } -> tensor<4x8xf32>
  return %v28 : tensor<4x8xf32>
}
