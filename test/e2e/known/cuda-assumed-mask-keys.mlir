// A mask whose number of keys util.assume.int says something of; IREE 3.13 refuses.
func.func @main(%a0: tensor<?x1x72xf16>, %a1: tensor<1x2x1x72xf16>, %a2: tensor<?x1x72xf32>, %a3: tensor<?xi8>) -> (tensor<1x2x1x72xf16>) {
  %v1 = arith.constant 0 : index
  %v2 = tensor.dim %a0, %v1 : tensor<?x1x72xf16>
  %v3 = arith.constant 0 : index
  %v4 = tensor.dim %a2, %v3 : tensor<?x1x72xf32>
  %v5 = tensor.empty(%v4) : tensor<?x1x72xf16>
  %v6 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%a2 : tensor<?x1x72xf32>) outs(%v5 : tensor<?x1x72xf16>) {
  ^bb0(%v7: f32, %v8: f16):
  %v9 = arith.truncf %v7 : f32 to f16
    linalg.yield %v9 : f16
  } -> tensor<?x1x72xf16>
  %v10 = arith.constant 0 : index
  %v11 = tensor.dim %a3, %v10 : tensor<?xi8>
  %v12 = util.assume.int %v11<umin = 16, umax = 131072, udiv = 16> : index
  %v13 = flow.tensor.tie_shape %a3 : tensor<?xi8>{%v12}
  %v14 = arith.constant 1.178511302e-01 : f32
  %v115 = tensor.empty() : tensor<1x2x1x72xf16>
  %v116 = iree_linalg_ext.attention <indexing_maps = [affine_map<(b1, m1, m0, n0, k0, j0) -> (b1, m1, m0, k0)>, affine_map<(b1, m1, m0, n0, k0, j0) -> (j0, b1, k0)>, affine_map<(b1, m1, m0, n0, k0, j0) -> (j0, b1, n0)>, affine_map<(b1, m1, m0, n0, k0, j0) -> ()>, affine_map<(b1, m1, m0, n0, k0, j0) -> (j0)>, affine_map<(b1, m1, m0, n0, k0, j0) -> (b1, m1, m0, n0)>]> ins(%a1, %a0, %v6, %v14, %v13 : tensor<1x2x1x72xf16>, tensor<?x1x72xf16>, tensor<?x1x72xf16>, f32, tensor<?xi8>) outs(%v115 : tensor<1x2x1x72xf16>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<1x2x1x72xf16>
  return %v116 : tensor<1x2x1x72xf16>
}
