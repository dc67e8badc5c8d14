// GPT-2's eager attention on a batch padded on the left: keys hidden twice by the lowest number are
// -inf, and rows that see padding alone are not even.
func.func @main(%a0: tensor<2x8x16xf32>, %a1: tensor<2x8x16xf32>, %a2: tensor<2x8x16xf32>, %a3: tensor<8xf32>) -> (tensor<2x8x16xf32>) {
  %v1 = arith.constant 0.000000000e+00 : f32
  %v2 = tensor.empty() : tensor<2x8x8xf32>
  %v3 = linalg.fill ins(%v1 : f32) outs(%v2 : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %v4 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%a0, %a1 : tensor<2x8x16xf32>, tensor<2x8x16xf32>) outs(%v3 : tensor<2x8x8xf32>) {
  ^bb0(%v5: f32, %v6: f32, %v7: f32):
  %v8 = arith.mulf %v5, %v6 : f32
    %v9 = arith.addf %v8, %v7 : f32
    linalg.yield %v9 : f32
  } -> tensor<2x8x8xf32>
  %v10 = tensor.empty() : tensor<2x8x8xf32>
  %v11 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v4 : tensor<2x8x8xf32>) outs(%v10 : tensor<2x8x8xf32>) {
  ^bb0(%v12: f32, %v13: f32):
  %v14 = linalg.index 1 : index
  %v15 = linalg.index 2 : index
  %v16 = arith.cmpi sge, %v14, %v15 : index
  %v17 = arith.constant -3.402823466e+38 : f32
  %v18 = arith.select %v16, %v12, %v17 : f32
    linalg.yield %v18 : f32
  } -> tensor<2x8x8xf32>
  %v19 = tensor.empty() : tensor<2x8x8xf32>
  %v20 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v11, %a3 : tensor<2x8x8xf32>, tensor<8xf32>) outs(%v19 : tensor<2x8x8xf32>) {
  ^bb0(%v21: f32, %v22: f32, %v23: f32):
  %v24 = arith.addf %v21, %v22 : f32
    linalg.yield %v24 : f32
  } -> tensor<2x8x8xf32>
  %v25 = tensor.empty() : tensor<2x8x8xf32>
  %v26 = linalg.softmax dimension(2) ins(%v20 : tensor<2x8x8xf32>) outs(%v25 : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %v27 = arith.constant 0.000000000e+00 : f32
  %v28 = tensor.empty() : tensor<2x8x16xf32>
  %v29 = linalg.fill ins(%v27 : f32) outs(%v28 : tensor<2x8x16xf32>) -> tensor<2x8x16xf32>
  %v30 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d3, d2)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%v26, %a2 : tensor<2x8x8xf32>, tensor<2x8x16xf32>) outs(%v29 : tensor<2x8x16xf32>) {
  ^bb0(%v31: f32, %v32: f32, %v33: f32):
  %v34 = arith.mulf %v31, %v32 : f32
    %v35 = arith.addf %v34, %v33 : f32
    linalg.yield %v35 : f32
  } -> tensor<2x8x16xf32>
  return %v30 : tensor<2x8x16xf32>
}
