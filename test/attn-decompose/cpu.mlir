// RUN: attn-opt %s --attn-decompose=target=llvm-cpu --split-input-file | FileCheck %s

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#vt = affine_map<(b, m, n, k1, k2) -> (b, n, k2)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#w = affine_map<(b, m, n, k1, k2) -> (b, m, k2)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// Two contractions, the scale between them, and a softmax over the keys.
// CHECK-LABEL: func.func @plain(
// CHECK-NOT: attention
// CHECK: linalg.generic {{.*}} ins(%arg0, %arg1 : tensor<2x64x272xf32>, tensor<2x96x272xf32>) outs({{.*}} : tensor<2x64x96xf32>)
// CHECK: arith.mulf {{.*}}, %cst
// CHECK: linalg.softmax dimension(2)
// CHECK: linalg.generic {{.*}} ins({{.*}}, %arg2 : tensor<2x64x96xf32>, tensor<2x96x272xf32>) outs({{.*}} : tensor<2x64x272xf32>)
func.func @plain(%q: tensor<2x64x272xf32>, %k: tensor<2x96x272xf32>, %v: tensor<2x96x272xf32>) -> tensor<2x64x272xf32> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x64x272xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x64x272xf32>, tensor<2x96x272xf32>, tensor<2x96x272xf32>, f32) outs(%out : tensor<2x64x272xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x64x272xf32>
  return %r : tensor<2x64x272xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#vt = affine_map<(b, m, n, k1, k2) -> (b, n, k2)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#w = affine_map<(b, m, n, k1, k2) -> (b, m, k2)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// A boolean mask selects; V keeps its layout.
// CHECK-LABEL: func.func @masked(
// CHECK-NOT: attention
// CHECK: arith.select
// CHECK: linalg.softmax
// CHECK: linalg.generic {{.*}} ins({{.*}}, %arg2 : tensor<2x64x96xf32>, tensor<2x272x96xf32>)
func.func @masked(%q: tensor<2x64x272xf32>, %k: tensor<2x96x272xf32>, %v: tensor<2x272x96xf32>, %mask: tensor<2x64x96xi1>) -> tensor<2x64x272xf32> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x64x272xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #vt, #s, #w, #o]>
      ins(%q, %k, %v, %scale, %mask : tensor<2x64x272xf32>, tensor<2x96x272xf32>, tensor<2x272x96xf32>, f32, tensor<2x64x96xi1>) outs(%out : tensor<2x64x272xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x64x272xf32>
  return %r : tensor<2x64x272xf32>
}
