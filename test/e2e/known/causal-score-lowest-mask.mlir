// Causal as a score function, and a float mask that hides padding on the left by the lowest f32:
// log2(e) makes it -inf. Rows 0 and 1 of sequence 1 see no key.
func.func @main(%a0: tensor<2x6x8xf32>, %a1: tensor<2x6x8xf32>, %a2: tensor<2x6x8xf32>, %a3: tensor<2x6x6xf32>) -> (tensor<2x6x8xf32>) {
  %v1 = arith.constant 3.000000000e-01 : f32
  %v102 = tensor.empty() : tensor<2x6x8xf32>
  %v103 = iree_linalg_ext.attention <indexing_maps = [affine_map<(b0, m0, n0, k0, j0) -> (b0, m0, k0)>, affine_map<(b0, m0, n0, k0, j0) -> (b0, j0, k0)>, affine_map<(b0, m0, n0, k0, j0) -> (b0, j0, n0)>, affine_map<(b0, m0, n0, k0, j0) -> ()>, affine_map<(b0, m0, n0, k0, j0) -> (b0, m0, j0)>, affine_map<(b0, m0, n0, k0, j0) -> (b0, m0, n0)>]> ins(%a0, %a1, %a2, %v1, %a3 : tensor<2x6x8xf32>, tensor<2x6x8xf32>, tensor<2x6x8xf32>, f32, tensor<2x6x6xf32>) outs(%v102 : tensor<2x6x8xf32>) {
    ^bb0(%score: f32):
    %v100002 = iree_linalg_ext.index 1 : index
  %v100003 = arith.index_cast %v100002 : index to i32
    %v100004 = iree_linalg_ext.index 4 : index
  %v100005 = arith.index_cast %v100004 : index to i32
  %v100006 = arith.cmpi sge, %v100003, %v100005 : i32
  %v100007 = arith.constant 0xFF800000 : f32
  %v100008 = arith.select %v100006, %score, %v100007 : f32
      iree_linalg_ext.yield %v100008 : f32
  } -> tensor<2x6x8xf32>
  return %v103 : tensor<2x6x8xf32>
}
