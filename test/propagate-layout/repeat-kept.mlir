// RUN: attn-opt %s --attn-propagate-layout=mode=always,operands=v --remarks --verify-diagnostics -o - | FileCheck %s

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// The caller reads the repeated values too: the repeat is made all the same, nothing is saved
// by reading past it, and V^T of the projection would take a copy.
// CHECK-LABEL: func.func @main(
// CHECK: linalg.batch_matmul ins(%arg2, %arg3 : tensor<2x32x24xf32>, tensor<2x24x16xf32>)
// CHECK-NOT: linalg.transpose
// CHECK: iree_linalg_ext.attention {{.*}} tensor<8x32x16xf32>, f32)
func.func @main(%q: tensor<8x8x16xf32>, %k: tensor<8x32x16xf32>, %x: tensor<2x32x24xf32>, %w: tensor<2x24x16xf32>) -> (tensor<8x8x16xf32>, tensor<8x32x16xf32>) {
  %z = arith.constant 0.0 : f32
  %pe = tensor.empty() : tensor<2x32x16xf32>
  %pf = linalg.fill ins(%z : f32) outs(%pe : tensor<2x32x16xf32>) -> tensor<2x32x16xf32>
  %p = linalg.batch_matmul ins(%x, %w : tensor<2x32x24xf32>, tensor<2x24x16xf32>) outs(%pf : tensor<2x32x16xf32>) -> tensor<2x32x16xf32>
  %be = tensor.empty() : tensor<2x4x32x16xf32>
  %b = linalg.broadcast ins(%p : tensor<2x32x16xf32>) outs(%be : tensor<2x4x32x16xf32>) dimensions = [1]
  %v = tensor.collapse_shape %b [[0, 1], [2], [3]] : tensor<2x4x32x16xf32> into tensor<8x32x16xf32>
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<8x8x16xf32>
  // expected-remark @below {{value refused: V^T cannot be absorbed: others read}}
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<8x8x16xf32>, tensor<8x32x16xf32>, tensor<8x32x16xf32>, f32) outs(%out : tensor<8x8x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<8x8x16xf32>
  return %r, %v : tensor<8x8x16xf32>, tensor<8x32x16xf32>
}
