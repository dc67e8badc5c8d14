// bf16, two k1 dims, keys known at run time only, no mask.
func.func @main(%a0: tensor<4x64x3xf32>, %a1: tensor<?x3x64xf32>, %a2: tensor<?x128xf32>, %a3: f32) -> (tensor<4x128xf32>) {
  %v1 = tensor.empty() : tensor<4x64x3xbf16>
  %v2 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%a0 : tensor<4x64x3xf32>) outs(%v1 : tensor<4x64x3xbf16>) {
  ^bb0(%v3: f32, %v4: bf16):
  %v5 = arith.truncf %v3 : f32 to bf16
    linalg.yield %v5 : bf16
  } -> tensor<4x64x3xbf16>
  %v6 = arith.constant 0 : index
  %v7 = tensor.dim %a1, %v6 : tensor<?x3x64xf32>
  %v8 = tensor.empty(%v7) : tensor<?x3x64xbf16>
  %v9 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%a1 : tensor<?x3x64xf32>) outs(%v8 : tensor<?x3x64xbf16>) {
  ^bb0(%v10: f32, %v11: bf16):
  %v12 = arith.truncf %v10 : f32 to bf16
    linalg.yield %v12 : bf16
  } -> tensor<?x3x64xbf16>
  %v13 = arith.constant 0 : index
  %v14 = tensor.dim %a2, %v13 : tensor<?x128xf32>
  %v15 = tensor.empty(%v14) : tensor<?x128xbf16>
  %v16 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%a2 : tensor<?x128xf32>) outs(%v15 : tensor<?x128xbf16>) {
  ^bb0(%v17: f32, %v18: bf16):
  %v19 = arith.truncf %v17 : f32 to bf16
    linalg.yield %v19 : bf16
  } -> tensor<?x128xbf16>
  %v120 = tensor.empty() : tensor<4x128xbf16>
  %v121 = iree_linalg_ext.attention <indexing_maps = [affine_map<(m0, n0, k0, k1, j0) -> (m0, k0, k1)>, affine_map<(m0, n0, k0, k1, j0) -> (j0, k1, k0)>, affine_map<(m0, n0, k0, k1, j0) -> (j0, n0)>, affine_map<(m0, n0, k0, k1, j0) -> ()>, affine_map<(m0, n0, k0, k1, j0) -> (m0, n0)>]> ins(%v2, %v9, %v16, %a3 : tensor<4x64x3xbf16>, tensor<?x3x64xbf16>, tensor<?x128xbf16>, f32) outs(%v120 : tensor<4x128xbf16>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<4x128xbf16>
  %v122 = tensor.empty() : tensor<4x128xf32>
  %v123 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%v121 : tensor<4x128xbf16>) outs(%v122 : tensor<4x128xf32>) {
  ^bb0(%v124: bf16, %v125: f32):
  %v126 = arith.extf %v124 : bf16 to f32
    linalg.yield %v126 : f32
  } -> tensor<4x128xf32>
  return %v123 : tensor<4x128xf32>
}
