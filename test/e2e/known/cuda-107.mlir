// f32, written out, dynamic keys: a linalg.contract below O2.
func.func @main(%a0: tensor<1x3x1x16xf32>, %a1: tensor<1x3x?x16xf32>, %a2: tensor<1x?x3x16xf32>, %a3: tensor<3x1x?xf32>) -> (tensor<1x1x3x16xf32>) {
  %v1 = arith.constant 2 : index
  %v2 = tensor.dim %a1, %v1 : tensor<1x3x?x16xf32>
  %v3 = arith.constant 1 : index
  %v4 = tensor.dim %a2, %v3 : tensor<1x?x3x16xf32>
  %v5 = tensor.empty(%v4) : tensor<1x3x?x16xf32>
  %v6 = linalg.transpose ins(%a2 : tensor<1x?x3x16xf32>) outs(%v5 : tensor<1x3x?x16xf32>) permutation = [0, 2, 1, 3]
  %v7 = tensor.empty() : tensor<1x3x1x16xf32>
  %v8 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%a0 : tensor<1x3x1x16xf32>) outs(%v7 : tensor<1x3x1x16xf32>) {
  ^bb0(%v9: f32, %v10: f32):
  %v11 = arith.constant 5.000000000e-01 : f32
  %v12 = arith.mulf %v9, %v11 : f32
    linalg.yield %v12 : f32
  } -> tensor<1x3x1x16xf32>
  %v13 = tensor.empty(%v2) : tensor<1x3x?x16xf32>
  %v14 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%a1 : tensor<1x3x?x16xf32>) outs(%v13 : tensor<1x3x?x16xf32>) {
  ^bb0(%v15: f32, %v16: f32):
  %v17 = arith.constant 5.000000000e-01 : f32
  %v18 = arith.mulf %v15, %v17 : f32
    linalg.yield %v18 : f32
  } -> tensor<1x3x?x16xf32>
  %v19 = tensor.empty(%v2) : tensor<1x3x16x?xf32>
  %v20 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d3, d2)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%v14 : tensor<1x3x?x16xf32>) outs(%v19 : tensor<1x3x16x?xf32>) {
  ^bb0(%v21: f32, %v22: f32):
    linalg.yield %v21 : f32
  } -> tensor<1x3x16x?xf32>
  %v23 = tensor.collapse_shape %v8 [[0, 1], [2], [3]] : tensor<1x3x1x16xf32> into tensor<3x1x16xf32>
  %v24 = tensor.collapse_shape %v20 [[0, 1], [2], [3]] : tensor<1x3x16x?xf32> into tensor<3x16x?xf32>
  %v25 = arith.constant 0.000000000e+00 : f32
  %v26 = tensor.empty(%v2) : tensor<3x1x?xf32>
  %v27 = linalg.fill ins(%v25 : f32) outs(%v26 : tensor<3x1x?xf32>) -> tensor<3x1x?xf32>
  %v28 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d3, d2)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%v23, %v24 : tensor<3x1x16xf32>, tensor<3x16x?xf32>) outs(%v27 : tensor<3x1x?xf32>) {
  ^bb0(%v29: f32, %v30: f32, %v31: f32):
  %v32 = arith.mulf %v29, %v30 : f32
    %v33 = arith.addf %v32, %v31 : f32
    linalg.yield %v33 : f32
  } -> tensor<3x1x?xf32>
  %v34 = tensor.expand_shape %v28 [[0, 1], [2], [3]] output_shape [1, 3, 1, %v2] : tensor<3x1x?xf32> into tensor<1x3x1x?xf32>
  %v35 = arith.constant 2 : index
  %v36 = tensor.dim %a3, %v35 : tensor<3x1x?xf32>
  %v37 = util.assume.int %v36<umin = 16, umax = 4096, udiv = 16> : index
  %v38 = flow.tensor.tie_shape %a3 : tensor<3x1x?xf32>{%v37}
  %v39 = tensor.empty(%v2) : tensor<1x3x1x?xf32>
  %v40 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%v34, %v38 : tensor<1x3x1x?xf32>, tensor<3x1x?xf32>) outs(%v39 : tensor<1x3x1x?xf32>) {
  ^bb0(%v41: f32, %v42: f32, %v43: f32):
  %v44 = arith.addf %v41, %v42 : f32
    linalg.yield %v44 : f32
  } -> tensor<1x3x1x?xf32>
  %v45 = arith.constant 0xFF800000 : f32
  %v46 = tensor.empty(%v2) : tensor<1x3x?xf32>
  %v47 = linalg.fill ins(%v45 : f32) outs(%v46 : tensor<1x3x?xf32>) -> tensor<1x3x?xf32>
  %v48 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>], iterator_types = ["parallel", "parallel", "reduction", "parallel"]} ins(%v40 : tensor<1x3x1x?xf32>) outs(%v47 : tensor<1x3x?xf32>) {
  ^bb0(%v49: f32, %v50: f32):
    %v51 = arith.maximumf %v49, %v50 : f32
    linalg.yield %v51 : f32
  } -> tensor<1x3x?xf32>
  %v52 = tensor.expand_shape %v48 [[0], [1, 2], [3]] output_shape [1, 3, 1, %v2] : tensor<1x3x?xf32> into tensor<1x3x1x?xf32>
  %v53 = tensor.empty(%v2) : tensor<1x3x1x?xf32>
  %v54 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, 0, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%v40, %v52 : tensor<1x3x1x?xf32>, tensor<1x3x1x?xf32>) outs(%v53 : tensor<1x3x1x?xf32>) {
  ^bb0(%v55: f32, %v56: f32, %v57: f32):
  %v58 = arith.subf %v55, %v56 : f32
    linalg.yield %v58 : f32
  } -> tensor<1x3x1x?xf32>
  %v59 = tensor.empty(%v2) : tensor<1x3x1x?xf32>
  %v60 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%v54 : tensor<1x3x1x?xf32>) outs(%v59 : tensor<1x3x1x?xf32>) {
  ^bb0(%v61: f32, %v62: f32):
  %v63 = math.exp %v61 : f32
    linalg.yield %v63 : f32
  } -> tensor<1x3x1x?xf32>
  %v64 = arith.constant 0.000000000e+00 : f32
  %v65 = tensor.empty() : tensor<1x3x1xf32>
  %v66 = linalg.fill ins(%v64 : f32) outs(%v65 : tensor<1x3x1xf32>) -> tensor<1x3x1xf32>
  %v67 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%v60 : tensor<1x3x1x?xf32>) outs(%v66 : tensor<1x3x1xf32>) {
  ^bb0(%v68: f32, %v69: f32):
    %v70 = arith.addf %v68, %v69 : f32
    linalg.yield %v70 : f32
  } -> tensor<1x3x1xf32>
  %v71 = tensor.expand_shape %v67 [[0], [1], [2, 3]] output_shape [1, 3, 1, 1] : tensor<1x3x1xf32> into tensor<1x3x1x1xf32>
  %v72 = tensor.empty(%v2) : tensor<1x3x1x?xf32>
  %v73 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, 0)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%v60, %v71 : tensor<1x3x1x?xf32>, tensor<1x3x1x1xf32>) outs(%v72 : tensor<1x3x1x?xf32>) {
  ^bb0(%v74: f32, %v75: f32, %v76: f32):
  %v77 = arith.divf %v74, %v75 : f32
    linalg.yield %v77 : f32
  } -> tensor<1x3x1x?xf32>
  %v78 = tensor.empty(%v4) : tensor<1x3x16x?xf32>
  %v79 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d3, d2)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%v6 : tensor<1x3x?x16xf32>) outs(%v78 : tensor<1x3x16x?xf32>) {
  ^bb0(%v80: f32, %v81: f32):
    linalg.yield %v80 : f32
  } -> tensor<1x3x16x?xf32>
  %v82 = arith.constant 0.000000000e+00 : f32
  %v83 = tensor.empty() : tensor<1x3x1x16xf32>
  %v84 = linalg.fill ins(%v82 : f32) outs(%v83 : tensor<1x3x1x16xf32>) -> tensor<1x3x1x16xf32>
  %v85 = linalg.contract indexing_maps = [affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d4, d3)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d4)>] ins(%v73, %v79 : tensor<1x3x1x?xf32>, tensor<1x3x16x?xf32>) outs(%v84 : tensor<1x3x1x16xf32>) -> tensor<1x3x1x16xf32>
  %v86 = tensor.empty() : tensor<1x1x3x16xf32>
  %v87 = linalg.transpose ins(%v85 : tensor<1x3x1x16xf32>) outs(%v86 : tensor<1x1x3x16xf32>) permutation = [0, 2, 1, 3]
  return %v87 : tensor<1x1x3x16xf32>
}
