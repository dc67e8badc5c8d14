// V^T that only a transpose in front of attention makes: IREE would fold the transpose back
// into attention, so the producer is asked for the layout. Where nothing can absorb it, V
// stays as it is.
// RUN: attn-opt %s --attn-propagate-layout=mode=always --remarks 2>&1 | FileCheck %s

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, n, k2)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK-DAG: remark: value absorbed: k2 innermost in V, absorbed by linalg.batch_matmul
// CHECK-DAG: remark: value kept: k2 is innermost in V already

// CHECK-LABEL: func.func @projection
// CHECK-NOT: linalg.transpose
// CHECK: %[[V:.+]] = linalg.batch_matmul {{.*}} -> tensor<2x16x32xf32>
// CHECK: iree_linalg_ext.attention {{.*}} ins(%{{[^,]+}}, %{{[^,]+}}, %[[V]],
func.func @projection(%q: tensor<2x8x16xf32>, %k: tensor<2x32x16xf32>, %x: tensor<2x32x24xf32>, %w: tensor<2x24x16xf32>) -> tensor<2x8x16xf32> {
  %z = arith.constant 0.0 : f32
  %pe = tensor.empty() : tensor<2x32x16xf32>
  %pf = linalg.fill ins(%z : f32) outs(%pe : tensor<2x32x16xf32>) -> tensor<2x32x16xf32>
  %p = linalg.batch_matmul ins(%x, %w : tensor<2x32x24xf32>, tensor<2x24x16xf32>) outs(%pf : tensor<2x32x16xf32>) -> tensor<2x32x16xf32>
  %te = tensor.empty() : tensor<2x16x32xf32>
  %t = linalg.transpose ins(%p : tensor<2x32x16xf32>) outs(%te : tensor<2x16x32xf32>) permutation = [0, 2, 1]
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x8x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %t, %scale : tensor<2x8x16xf32>, tensor<2x32x16xf32>, tensor<2x16x32xf32>, f32) outs(%out : tensor<2x8x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x8x16xf32>
  return %r : tensor<2x8x16xf32>
}

// CHECK-LABEL: func.func @argument
// CHECK: %[[T:.+]] = linalg.transpose
// CHECK: iree_linalg_ext.attention {{.*}} ins(%{{[^,]+}}, %{{[^,]+}}, %[[T]],
func.func @argument(%q: tensor<2x8x16xf32>, %k: tensor<2x32x16xf32>, %p: tensor<2x32x16xf32>) -> tensor<2x8x16xf32> {
  %te = tensor.empty() : tensor<2x16x32xf32>
  %t = linalg.transpose ins(%p : tensor<2x32x16xf32>) outs(%te : tensor<2x16x32xf32>) permutation = [0, 2, 1]
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x8x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %t, %scale : tensor<2x8x16xf32>, tensor<2x32x16xf32>, tensor<2x16x32xf32>, f32) outs(%out : tensor<2x8x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x8x16xf32>
  return %r : tensor<2x8x16xf32>
}
