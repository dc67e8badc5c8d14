// f16, written out, dynamic rows and keys, a temperature behind the softmax.
func.func @main(%a0: tensor<2x1x16x4xf16>, %a1: tensor<2x16x1x16xf32>, %a2: tensor<2x1x16x16xf32>) -> (tensor<16x8xf16>) {
  %v1 = tensor.empty() : tensor<2x1x4x16xf16>
  %v2 = linalg.transpose ins(%a0 : tensor<2x1x16x4xf16>) outs(%v1 : tensor<2x1x4x16xf16>) permutation = [0, 1, 3, 2]
  %v3 = tensor.empty() : tensor<2x16x1x16xf16>
  %v4 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%a1 : tensor<2x16x1x16xf32>) outs(%v3 : tensor<2x16x1x16xf16>) {
  ^bb0(%v5: f32, %v6: f16):
  %v7 = arith.truncf %v5 : f32 to f16
    linalg.yield %v7 : f16
  } -> tensor<2x16x1x16xf16>
  %v8 = tensor.empty() : tensor<2x1x16x16xf16>
  %v9 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d2, d1, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%v4 : tensor<2x16x1x16xf16>) outs(%v8 : tensor<2x1x16x16xf16>) {
  ^bb0(%v10: f16, %v11: f16):
    linalg.yield %v10 : f16
  } -> tensor<2x1x16x16xf16>
  %v12 = tensor.empty() : tensor<2x1x16x16xf16>
  %v13 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%a2 : tensor<2x1x16x16xf32>) outs(%v12 : tensor<2x1x16x16xf16>) {
  ^bb0(%v14: f32, %v15: f16):
  %v16 = arith.truncf %v14 : f32 to f16
    linalg.yield %v16 : f16
  } -> tensor<2x1x16x16xf16>
  %v17 = arith.constant 0.000000000e+00 : f32
  %v18 = tensor.empty() : tensor<2x1x4x16xf32>
  %v19 = linalg.fill ins(%v17 : f32) outs(%v18 : tensor<2x1x4x16xf32>) -> tensor<2x1x4x16xf32>
  %v20 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d4)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d3, d4)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]} ins(%v2, %v9 : tensor<2x1x4x16xf16>, tensor<2x1x16x16xf16>) outs(%v19 : tensor<2x1x4x16xf32>) {
  ^bb0(%v21: f16, %v22: f16, %v23: f32):
  %v24 = arith.extf %v21 : f16 to f32
  %v25 = arith.extf %v22 : f16 to f32
  %v26 = arith.mulf %v24, %v25 : f32
    %v27 = arith.addf %v26, %v23 : f32
    linalg.yield %v27 : f32
  } -> tensor<2x1x4x16xf32>
  %v28 = tensor.empty() : tensor<2x1x4x16xf32>
  %v29 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%v20 : tensor<2x1x4x16xf32>) outs(%v28 : tensor<2x1x4x16xf32>) {
  ^bb0(%v30: f32, %v31: f32):
  %v32 = arith.constant 2.500000000e-01 : f32
  %v33 = arith.mulf %v30, %v32 : f32
    linalg.yield %v33 : f32
  } -> tensor<2x1x4x16xf32>
  %v34 = arith.constant 0xFF800000 : f32
  %v35 = tensor.empty() : tensor<2x1x4xf32>
  %v36 = linalg.fill ins(%v34 : f32) outs(%v35 : tensor<2x1x4xf32>) -> tensor<2x1x4xf32>
  %v37 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%v29 : tensor<2x1x4x16xf32>) outs(%v36 : tensor<2x1x4xf32>) {
  ^bb0(%v38: f32, %v39: f32):
    %v40 = arith.maximumf %v38, %v39 : f32
    linalg.yield %v40 : f32
  } -> tensor<2x1x4xf32>
  %v41 = tensor.expand_shape %v37 [[0], [1], [2, 3]] output_shape [2, 1, 4, 1] : tensor<2x1x4xf32> into tensor<2x1x4x1xf32>
  %v42 = tensor.empty() : tensor<2x1x4x16xf32>
  %v43 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, 0)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%v29, %v41 : tensor<2x1x4x16xf32>, tensor<2x1x4x1xf32>) outs(%v42 : tensor<2x1x4x16xf32>) {
  ^bb0(%v44: f32, %v45: f32, %v46: f32):
  %v47 = arith.subf %v44, %v45 : f32
    linalg.yield %v47 : f32
  } -> tensor<2x1x4x16xf32>
  %v48 = tensor.empty() : tensor<2x1x4x16xf32>
  %v49 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%v43 : tensor<2x1x4x16xf32>) outs(%v48 : tensor<2x1x4x16xf32>) {
  ^bb0(%v50: f32, %v51: f32):
  %v52 = math.exp %v50 : f32
    linalg.yield %v52 : f32
  } -> tensor<2x1x4x16xf32>
  %v53 = arith.constant 0.000000000e+00 : f32
  %v54 = tensor.empty() : tensor<2x1x4xf32>
  %v55 = linalg.fill ins(%v53 : f32) outs(%v54 : tensor<2x1x4xf32>) -> tensor<2x1x4xf32>
  %v56 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%v49 : tensor<2x1x4x16xf32>) outs(%v55 : tensor<2x1x4xf32>) {
  ^bb0(%v57: f32, %v58: f32):
    %v59 = arith.addf %v57, %v58 : f32
    linalg.yield %v59 : f32
  } -> tensor<2x1x4xf32>
  %v60 = tensor.empty() : tensor<2x1x4xf32>
  %v61 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v56 : tensor<2x1x4xf32>) outs(%v60 : tensor<2x1x4xf32>) {
  ^bb0(%v62: f32, %v63: f32):
  %v64 = arith.constant 1.000000000e+00 : f32
  %v65 = arith.divf %v64, %v62 : f32
    linalg.yield %v65 : f32
  } -> tensor<2x1x4xf32>
  %v66 = tensor.empty() : tensor<2x1x4x16xf32>
  %v67 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%v49, %v61 : tensor<2x1x4x16xf32>, tensor<2x1x4xf32>) outs(%v66 : tensor<2x1x4x16xf32>) {
  ^bb0(%v68: f32, %v69: f32, %v70: f32):
  %v71 = arith.mulf %v68, %v69 : f32
    linalg.yield %v71 : f32
  } -> tensor<2x1x4x16xf32>
  %v72 = tensor.empty() : tensor<2x1x4x16xf32>
  %v73 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%v67 : tensor<2x1x4x16xf32>) outs(%v72 : tensor<2x1x4x16xf32>) {
  ^bb0(%v74: f32, %v75: f32):
  %v76 = arith.constant 1.700000000e+00 : f32
  %v77 = arith.mulf %v74, %v76 : f32
    linalg.yield %v77 : f32
  } -> tensor<2x1x4x16xf32>
  %v78 = tensor.empty() : tensor<2x1x4x16xf16>
  %v79 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%v73 : tensor<2x1x4x16xf32>) outs(%v78 : tensor<2x1x4x16xf16>) {
  ^bb0(%v80: f32, %v81: f16):
  %v82 = arith.truncf %v80 : f32 to f16
    linalg.yield %v82 : f16
  } -> tensor<2x1x4x16xf16>
  %v83 = arith.constant 0.000000000e+00 : f32
  %v84 = tensor.empty() : tensor<2x1x4x16xf32>
  %v85 = linalg.fill ins(%v83 : f32) outs(%v84 : tensor<2x1x4x16xf32>) -> tensor<2x1x4x16xf32>
  %v86 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d3, d4)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d4)>], iterator_types = ["parallel", "parallel", "parallel", "reduction", "parallel"]} ins(%v79, %v13 : tensor<2x1x4x16xf16>, tensor<2x1x16x16xf16>) outs(%v85 : tensor<2x1x4x16xf32>) {
  ^bb0(%v87: f16, %v88: f16, %v89: f32):
  %v90 = arith.extf %v87 : f16 to f32
  %v91 = arith.extf %v88 : f16 to f32
  %v92 = arith.mulf %v90, %v91 : f32
    %v93 = arith.addf %v92, %v89 : f32
    linalg.yield %v93 : f32
  } -> tensor<2x1x4x16xf32>
  %v94 = tensor.empty() : tensor<2x1x4x16xf16>
  %v95 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%v86 : tensor<2x1x4x16xf32>) outs(%v94 : tensor<2x1x4x16xf16>) {
  ^bb0(%v96: f32, %v97: f16):
  %v98 = arith.truncf %v96 : f32 to f16
    linalg.yield %v98 : f16
  } -> tensor<2x1x4x16xf16>
  %v99 = tensor.empty() : tensor<2x4x1x16xf16>
  %v100 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d2, d1, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%v95 : tensor<2x1x4x16xf16>) outs(%v99 : tensor<2x4x1x16xf16>) {
  ^bb0(%v101: f16, %v102: f16):
    linalg.yield %v101 : f16
  } -> tensor<2x4x1x16xf16>
  %v103 = tensor.collapse_shape %v100 [[0], [1], [2, 3]] : tensor<2x4x1x16xf16> into tensor<2x4x16xf16>
  %v104 = tensor.empty() : tensor<16x2x4xf16>
  %v105 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d2, d0, d1)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v103 : tensor<2x4x16xf16>) outs(%v104 : tensor<16x2x4xf16>) {
  ^bb0(%v106: f16, %v107: f16):
    linalg.yield %v106 : f16
  } -> tensor<16x2x4xf16>
  %v108 = tensor.collapse_shape %v105 [[0], [1, 2]] : tensor<16x2x4xf16> into tensor<16x8xf16>
  return %v108 : tensor<16x8xf16>
}
