// IREE reads slices of a packed projection where they lie, if no heads are split behind them.
// V^T would need a launch of its own: refused.
// RUN: attn-opt %s --attn-propagate-layout=mode=always,operands=v --remarks 2>&1 | FileCheck %s

// CHECK: remark: value refused: V^T cannot be absorbed: linalg.batch_matmul at {{.*}} makes more than V, in one launch; a second one for V alone does not pay

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK-LABEL: func.func @packed(
// CHECK: linalg.batch_matmul
// CHECK-NOT: linalg.batch_matmul
// CHECK: iree_linalg_ext.attention
func.func @packed(%q: tensor<2x8x16xf32>, %x: tensor<2x32x24xf32>, %w: tensor<2x24x32xf32>) -> tensor<2x8x16xf32> {
  %z = arith.constant 0.0 : f32
  %pe = tensor.empty() : tensor<2x32x32xf32>
  %pf = linalg.fill ins(%z : f32) outs(%pe : tensor<2x32x32xf32>) -> tensor<2x32x32xf32>
  %p = linalg.batch_matmul ins(%x, %w : tensor<2x32x24xf32>, tensor<2x24x32xf32>) outs(%pf : tensor<2x32x32xf32>) -> tensor<2x32x32xf32>
  %k = tensor.extract_slice %p[0, 0, 0] [2, 32, 16] [1, 1, 1] : tensor<2x32x32xf32> to tensor<2x32x16xf32>
  %v = tensor.extract_slice %p[0, 0, 16] [2, 32, 16] [1, 1, 1] : tensor<2x32x32xf32> to tensor<2x32x16xf32>
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x8x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x8x16xf32>, tensor<2x32x16xf32>, tensor<2x32x16xf32>, f32) outs(%out : tensor<2x8x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x8x16xf32>
  return %r : tensor<2x8x16xf32>
}
