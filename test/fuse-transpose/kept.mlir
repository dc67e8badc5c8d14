// RUN: attn-opt %s --attn-fuse-transpose --split-input-file | FileCheck %s
// RUN: attn-opt %s --attn-fuse-transpose --split-input-file --remarks --verify-diagnostics

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
#vt = affine_map<(b, m, n, k1, k2) -> (b, n, k2)>
// CHECK-LABEL: func.func @argument
// CHECK: linalg.transpose
func.func @argument(%q: tensor<2x8x16xf32>, %k: tensor<2x32x16xf32>, %p: tensor<2x32x16xf32>) -> tensor<2x8x16xf32> {
  %te = tensor.empty() : tensor<2x16x32xf32>
  %t = linalg.transpose ins(%p : tensor<2x32x16xf32>) outs(%te : tensor<2x16x32xf32>) permutation = [0, 2, 1]
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x8x16xf32>
  // expected-remark @below {{value refused: the transpose cannot be absorbed: it is an argument of @argument, which is public and keeps its signature}}
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #vt, #s, #o]>
      ins(%q, %k, %t, %scale : tensor<2x8x16xf32>, tensor<2x32x16xf32>, tensor<2x16x32xf32>, f32) outs(%out : tensor<2x8x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x8x16xf32>
  return %r : tensor<2x8x16xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
#vt = affine_map<(b, m, n, k1, k2) -> (b, n, k2)>
// CHECK-LABEL: func.func @returned
// CHECK: linalg.transpose
func.func @returned(%q: tensor<2x8x16xf32>, %k: tensor<2x32x16xf32>, %x: tensor<2x32x24xf32>, %w: tensor<2x24x16xf32>) -> (tensor<2x8x16xf32>, tensor<2x32x16xf32>) {
  %z = arith.constant 0.0 : f32
  %pe = tensor.empty() : tensor<2x32x16xf32>
  %pf = linalg.fill ins(%z : f32) outs(%pe : tensor<2x32x16xf32>) -> tensor<2x32x16xf32>
  %p = linalg.batch_matmul ins(%x, %w : tensor<2x32x24xf32>, tensor<2x24x16xf32>) outs(%pf : tensor<2x32x16xf32>) -> tensor<2x32x16xf32>
  %te = tensor.empty() : tensor<2x16x32xf32>
  %t = linalg.transpose ins(%p : tensor<2x32x16xf32>) outs(%te : tensor<2x16x32xf32>) permutation = [0, 2, 1]
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x8x16xf32>
  // expected-remark @below {{value refused: others read what makes it; a copy for them would be needed}}
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #vt, #s, #o]>
      ins(%q, %k, %t, %scale : tensor<2x8x16xf32>, tensor<2x32x16xf32>, tensor<2x16x32xf32>, f32) outs(%out : tensor<2x8x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x8x16xf32>
  return %r, %p : tensor<2x8x16xf32>, tensor<2x32x16xf32>
}
