// f16, 3 rows of 2 heads over 8 keys, head dims 576 and 1 to 16, the result (b, n, m).
func.func @main(%a0: tensor<2x3x576x1xf16>, %a1: tensor<2x8x576x1xf16>, %a2: tensor<2x8x16xf32>) -> (tensor<2x16x3xf32>) {
  %v1 = tensor.empty() : tensor<2x8x16xf16>
  %v2 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%a2 : tensor<2x8x16xf32>) outs(%v1 : tensor<2x8x16xf16>) {
  ^bb0(%v3: f32, %v4: f16):
  %v5 = arith.truncf %v3 : f32 to f16
    linalg.yield %v5 : f16
  } -> tensor<2x8x16xf16>
  %v6 = arith.constant 4.166666791e-02 : f32
  %v107 = tensor.empty() : tensor<2x16x3xf32>
  %v108 = iree_linalg_ext.attention <indexing_maps = [affine_map<(b0, k0, j0, k1, n0, m0) -> (b0, m0, k0, k1)>, affine_map<(b0, k0, j0, k1, n0, m0) -> (b0, j0, k0, k1)>, affine_map<(b0, k0, j0, k1, n0, m0) -> (b0, j0, n0)>, affine_map<(b0, k0, j0, k1, n0, m0) -> ()>, affine_map<(b0, k0, j0, k1, n0, m0) -> (b0, n0, m0)>]> ins(%a0, %a1, %v2, %v6 : tensor<2x3x576x1xf16>, tensor<2x8x576x1xf16>, tensor<2x8x16xf16>, f32) outs(%v107 : tensor<2x16x3xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x16x3xf32>
  return %v108 : tensor<2x16x3xf32>
}
