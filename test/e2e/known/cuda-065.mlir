// bf16 online attention, dynamic keys, a mask (k2, b, m), dims in the order b, k1, k2, n, m.
func.func @main(%a0: tensor<4x64x8xf32>, %a1: tensor<4x8x?xf32>, %a2: tensor<4x8x?xf32>, %a3: f32, %a4: tensor<?x4x64xf32>) -> (tensor<4x64x8xf32>) {
  %v1 = tensor.empty() : tensor<4x64x8xbf16>
  %v2 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%a0 : tensor<4x64x8xf32>) outs(%v1 : tensor<4x64x8xbf16>) {
  ^bb0(%v3: f32, %v4: bf16):
  %v5 = arith.truncf %v3 : f32 to bf16
    linalg.yield %v5 : bf16
  } -> tensor<4x64x8xbf16>
  %v6 = arith.constant 2 : index
  %v7 = tensor.dim %a1, %v6 : tensor<4x8x?xf32>
  %v8 = tensor.empty(%v7) : tensor<4x8x?xbf16>
  %v9 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%a1 : tensor<4x8x?xf32>) outs(%v8 : tensor<4x8x?xbf16>) {
  ^bb0(%v10: f32, %v11: bf16):
  %v12 = arith.truncf %v10 : f32 to bf16
    linalg.yield %v12 : bf16
  } -> tensor<4x8x?xbf16>
  %v13 = arith.constant 2 : index
  %v14 = tensor.dim %a2, %v13 : tensor<4x8x?xf32>
  %v15 = tensor.empty(%v14) : tensor<4x8x?xbf16>
  %v16 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%a2 : tensor<4x8x?xf32>) outs(%v15 : tensor<4x8x?xbf16>) {
  ^bb0(%v17: f32, %v18: bf16):
  %v19 = arith.truncf %v17 : f32 to bf16
    linalg.yield %v19 : bf16
  } -> tensor<4x8x?xbf16>
  %v20 = arith.constant 0 : index
  %v21 = tensor.dim %a4, %v20 : tensor<?x4x64xf32>
  %v122 = arith.constant 0.000000000e+00 : f32
  %v123 = tensor.empty() : tensor<4x64x8xf32>
  %v124 = linalg.fill ins(%v122 : f32) outs(%v123 : tensor<4x64x8xf32>) -> tensor<4x64x8xf32>
  %v125 = arith.constant -3.402823466e+38 : f32
  %v126 = tensor.empty() : tensor<4x64xf32>
  %v127 = linalg.fill ins(%v125 : f32) outs(%v126 : tensor<4x64xf32>) -> tensor<4x64xf32>
  %v128 = arith.constant 0.000000000e+00 : f32
  %v129 = tensor.empty() : tensor<4x64xf32>
  %v130 = linalg.fill ins(%v128 : f32) outs(%v129 : tensor<4x64xf32>) -> tensor<4x64xf32>
  %v131:3 = iree_linalg_ext.online_attention <indexing_maps = [affine_map<(b0, k0, j0, n0, m0) -> (b0, m0, k0)>, affine_map<(b0, k0, j0, n0, m0) -> (b0, k0, j0)>, affine_map<(b0, k0, j0, n0, m0) -> (b0, n0, j0)>, affine_map<(b0, k0, j0, n0, m0) -> ()>, affine_map<(b0, k0, j0, n0, m0) -> (j0, b0, m0)>, affine_map<(b0, k0, j0, n0, m0) -> (b0, m0, n0)>, affine_map<(b0, k0, j0, n0, m0) -> (b0, m0)>, affine_map<(b0, k0, j0, n0, m0) -> (b0, m0)>]> ins(%v2, %v9, %v16, %a3, %a4 : tensor<4x64x8xbf16>, tensor<4x8x?xbf16>, tensor<4x8x?xbf16>, f32, tensor<?x4x64xf32>) outs(%v124, %v127, %v130 : tensor<4x64x8xf32>, tensor<4x64xf32>, tensor<4x64xf32>) {
    ^bb0(%score: f32):
  %v100022 = arith.constant 1.804000000e+01 : f32
  %v100023 = arith.addf %score, %v100022 : f32
      iree_linalg_ext.yield %v100023 : f32
  } -> tensor<4x64x8xf32>, tensor<4x64xf32>, tensor<4x64xf32>
  %v132 = tensor.empty() : tensor<4x64x8xbf16>
  %v133 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v131#0, %v131#2 : tensor<4x64x8xf32>, tensor<4x64xf32>) outs(%v132 : tensor<4x64x8xbf16>) {
  ^bb0(%v134: f32, %v135: f32, %v136: bf16):
  %v137 = arith.divf %v134, %v135 : f32
  %v138 = arith.truncf %v137 : f32 to bf16
    linalg.yield %v138 : bf16
  } -> tensor<4x64x8xbf16>
  %v139 = tensor.empty() : tensor<4x64x8xf32>
  %v140 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v133 : tensor<4x64x8xbf16>) outs(%v139 : tensor<4x64x8xf32>) {
  ^bb0(%v141: bf16, %v142: f32):
  %v143 = arith.extf %v141 : bf16 to f32
    linalg.yield %v143 : f32
  } -> tensor<4x64x8xf32>
  return %v140 : tensor<4x64x8xf32>
}
