// 8-bit operands and a head dim of 256: IREE 3.13's own code for CPUs is wrong.
func.func @main(%q: tensor<3x16x256xf8E4M3FN>, %k: tensor<3x33x256xf8E4M3FN>, %v: tensor<3x33x40xf8E4M3FN>) -> tensor<3x16x40xf32> {
  %scale = arith.constant 6.25e-02 : f32
  %o = tensor.empty() : tensor<3x16x40xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [affine_map<(b, m, n, k, j) -> (b, m, k)>, affine_map<(b, m, n, k, j) -> (b, j, k)>, affine_map<(b, m, n, k, j) -> (b, j, n)>, affine_map<(b, m, n, k, j) -> ()>, affine_map<(b, m, n, k, j) -> (b, m, n)>]> ins(%q, %k, %v, %scale : tensor<3x16x256xf8E4M3FN>, tensor<3x33x256xf8E4M3FN>, tensor<3x33x40xf8E4M3FN>, f32) outs(%o : tensor<3x16x40xf32>) {
    ^bb0(%s: f32):
      iree_linalg_ext.yield %s : f32
  } -> tensor<3x16x40xf32>
  return %r : tensor<3x16x40xf32>
}
