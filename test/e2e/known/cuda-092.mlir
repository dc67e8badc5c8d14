// f32, written out, dynamic rows and keys: a linalg.contract below O2.
func.func @main(%a0: tensor<2x6x?x64xf32>, %a1: tensor<2x3x64x?xf32>, %a2: tensor<2x?x3x64xf32>, %a3: tensor<?x?xi1>) -> (tensor<2x6x?x64xf32>) {
  %v1 = arith.constant 2 : index
  %v2 = tensor.dim %a0, %v1 : tensor<2x6x?x64xf32>
  %v3 = arith.constant 3 : index
  %v4 = tensor.dim %a1, %v3 : tensor<2x3x64x?xf32>
  %v5 = tensor.empty(%v4) : tensor<2x3x?x64xf32>
  %v6 = linalg.transpose ins(%a1 : tensor<2x3x64x?xf32>) outs(%v5 : tensor<2x3x?x64xf32>) permutation = [0, 1, 3, 2]
  %v7 = arith.constant 1 : index
  %v8 = tensor.dim %a2, %v7 : tensor<2x?x3x64xf32>
  %v9 = tensor.empty(%v8) : tensor<2x3x?x64xf32>
  %v10 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d2, d1, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%a2 : tensor<2x?x3x64xf32>) outs(%v9 : tensor<2x3x?x64xf32>) {
  ^bb0(%v11: f32, %v12: f32):
    linalg.yield %v11 : f32
  } -> tensor<2x3x?x64xf32>
  %v13 = tensor.empty(%v4) : tensor<2x3x2x?x64xf32>
  %v14 = linalg.broadcast ins(%v6 : tensor<2x3x?x64xf32>) outs(%v13 : tensor<2x3x2x?x64xf32>) dimensions = [2]
  %v15 = tensor.collapse_shape %v14 [[0], [1, 2], [3], [4]] : tensor<2x3x2x?x64xf32> into tensor<2x6x?x64xf32>
  %v16 = tensor.empty(%v8) : tensor<2x3x2x?x64xf32>
  %v17 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d3, d4)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%v10 : tensor<2x3x?x64xf32>) outs(%v16 : tensor<2x3x2x?x64xf32>) {
  ^bb0(%v18: f32, %v19: f32):
    linalg.yield %v18 : f32
  } -> tensor<2x3x2x?x64xf32>
  %v20 = tensor.collapse_shape %v17 [[0], [1, 2], [3], [4]] : tensor<2x3x2x?x64xf32> into tensor<2x6x?x64xf32>
  %v21 = tensor.empty(%v2) : tensor<2x6x?x64xf32>
  %v22 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%a0 : tensor<2x6x?x64xf32>) outs(%v21 : tensor<2x6x?x64xf32>) {
  ^bb0(%v23: f32, %v24: f32):
  %v25 = arith.constant 1.250000000e-01 : f32
  %v26 = arith.mulf %v23, %v25 : f32
    linalg.yield %v26 : f32
  } -> tensor<2x6x?x64xf32>
  %v27 = tensor.empty(%v4) : tensor<2x6x64x?xf32>
  %v28 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d3, d2)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%v15 : tensor<2x6x?x64xf32>) outs(%v27 : tensor<2x6x64x?xf32>) {
  ^bb0(%v29: f32, %v30: f32):
    linalg.yield %v29 : f32
  } -> tensor<2x6x64x?xf32>
  %v31 = arith.constant 0.000000000e+00 : f32
  %v32 = tensor.empty(%v2, %v4) : tensor<2x6x?x?xf32>
  %v33 = linalg.fill ins(%v31 : f32) outs(%v32 : tensor<2x6x?x?xf32>) -> tensor<2x6x?x?xf32>
  %v34 = linalg.contract indexing_maps = [affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d4)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d4, d3)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3)>] ins(%v22, %v28 : tensor<2x6x?x64xf32>, tensor<2x6x64x?xf32>) outs(%v33 : tensor<2x6x?x?xf32>) -> tensor<2x6x?x?xf32>
  %v35 = arith.constant 0 : index
  %v36 = tensor.dim %a3, %v35 : tensor<?x?xi1>
  %v37 = arith.constant 1 : index
  %v38 = tensor.dim %a3, %v37 : tensor<?x?xi1>
  %v39 = arith.constant -1.000000000e+04 : f32
  %v40 = tensor.empty(%v2, %v4) : tensor<2x6x?x?xf32>
  %v41 = linalg.fill ins(%v39 : f32) outs(%v40 : tensor<2x6x?x?xf32>) -> tensor<2x6x?x?xf32>
  %v42 = tensor.empty(%v2, %v4) : tensor<2x6x?x?xf32>
  %v43 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%v34, %v41, %a3 : tensor<2x6x?x?xf32>, tensor<2x6x?x?xf32>, tensor<?x?xi1>) outs(%v42 : tensor<2x6x?x?xf32>) {
  ^bb0(%v44: f32, %v45: f32, %v46: i1, %v47: f32):
  %v48 = arith.select %v46, %v44, %v45 : f32
    linalg.yield %v48 : f32
  } -> tensor<2x6x?x?xf32>
  %v49 = arith.constant 0xFF800000 : f32
  %v50 = tensor.empty(%v2) : tensor<2x6x?xf32>
  %v51 = linalg.fill ins(%v49 : f32) outs(%v50 : tensor<2x6x?xf32>) -> tensor<2x6x?xf32>
  %v52 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%v43 : tensor<2x6x?x?xf32>) outs(%v51 : tensor<2x6x?xf32>) {
  ^bb0(%v53: f32, %v54: f32):
    %v55 = arith.maximumf %v53, %v54 : f32
    linalg.yield %v55 : f32
  } -> tensor<2x6x?xf32>
  %v56 = arith.constant 1 : index
  %v57 = arith.divui %v2, %v56 : index
  %v58 = tensor.expand_shape %v52 [[0], [1], [2, 3]] output_shape [2, 6, %v57, 1] : tensor<2x6x?xf32> into tensor<2x6x?x1xf32>
  %v59 = tensor.empty(%v2, %v4) : tensor<2x6x?x?xf32>
  %v60 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, 0)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%v43, %v58 : tensor<2x6x?x?xf32>, tensor<2x6x?x1xf32>) outs(%v59 : tensor<2x6x?x?xf32>) {
  ^bb0(%v61: f32, %v62: f32, %v63: f32):
  %v64 = arith.subf %v61, %v62 : f32
  %v65 = math.exp %v64 : f32
    linalg.yield %v65 : f32
  } -> tensor<2x6x?x?xf32>
  %v66 = tensor.empty(%v2, %v4) : tensor<2x6x?x?xf32>
  %v67 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%v60 : tensor<2x6x?x?xf32>) outs(%v66 : tensor<2x6x?x?xf32>) {
  ^bb0(%v68: f32, %v69: f32):
  %v70 = arith.constant 1.250000000e-01 : f32
  %v71 = arith.mulf %v68, %v70 : f32
    linalg.yield %v71 : f32
  } -> tensor<2x6x?x?xf32>
  %v72 = arith.constant 0.000000000e+00 : f32
  %v73 = tensor.empty(%v2) : tensor<2x6x?x64xf32>
  %v74 = linalg.fill ins(%v72 : f32) outs(%v73 : tensor<2x6x?x64xf32>) -> tensor<2x6x?x64xf32>
  %v75 = linalg.contract indexing_maps = [affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d3, d4)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d4)>] ins(%v67, %v20 : tensor<2x6x?x?xf32>, tensor<2x6x?x64xf32>) outs(%v74 : tensor<2x6x?x64xf32>) -> tensor<2x6x?x64xf32>
  return %v75 : tensor<2x6x?x64xf32>
}
