// RUN: attn-opt %s --attn-propagate-layout=mode=always,operands=v --split-input-file | FileCheck %s
// RUN: attn-opt %s --attn-propagate-layout=mode=always,operands=v --split-input-file --mlir-print-op-generic | attn-opt --split-input-file | FileCheck %s

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// Two attentions share V: one projection serves both, computed once.
// CHECK-LABEL: func.func @shared(
// CHECK: %[[P:.*]] = linalg.batch_matmul {{.*}} outs(%{{.*}} : tensor<2x16x32xf32>)
// CHECK-NOT: linalg.batch_matmul
// CHECK: iree_linalg_ext.attention {{.*}} ins(%{{[^,]*}}, %{{[^,]*}}, %[[P]],
// CHECK: iree_linalg_ext.attention {{.*}} ins(%{{[^,]*}}, %{{[^,]*}}, %[[P]],
func.func @shared(%q: tensor<2x8x16xf32>, %k: tensor<2x32x16xf32>, %x: tensor<2x32x24xf32>, %w: tensor<2x24x16xf32>) -> (tensor<2x8x16xf32>, tensor<2x8x16xf32>) {
  %z = arith.constant 0.0 : f32
  %pe = tensor.empty() : tensor<2x32x16xf32>
  %pf = linalg.fill ins(%z : f32) outs(%pe : tensor<2x32x16xf32>) -> tensor<2x32x16xf32>
  %p = linalg.batch_matmul ins(%x, %w : tensor<2x32x24xf32>, tensor<2x24x16xf32>) outs(%pf : tensor<2x32x16xf32>) -> tensor<2x32x16xf32>
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x8x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %p, %scale : tensor<2x8x16xf32>, tensor<2x32x16xf32>, tensor<2x32x16xf32>, f32) outs(%out : tensor<2x8x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x8x16xf32>
  %t = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %p, %scale : tensor<2x8x16xf32>, tensor<2x32x16xf32>, tensor<2x32x16xf32>, f32) outs(%out : tensor<2x8x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x8x16xf32>
  return %r, %t : tensor<2x8x16xf32>, tensor<2x8x16xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// V is returned as it is (a cache): a copy for that would have to be paid, so nothing changes.
// CHECK-LABEL: func.func @returned(
// CHECK: %[[P:.*]] = linalg.batch_matmul ins(%{{.*}}, %{{.*}} : tensor<2x32x24xf32>, tensor<2x24x16xf32>)
// CHECK-NOT: linalg.batch_matmul
// CHECK: return %{{.*}}, %[[P]]
func.func @returned(%q: tensor<2x8x16xf32>, %k: tensor<2x32x16xf32>, %x: tensor<2x32x24xf32>, %w: tensor<2x24x16xf32>) -> (tensor<2x8x16xf32>, tensor<2x32x16xf32>) {
  %z = arith.constant 0.0 : f32
  %pe = tensor.empty() : tensor<2x32x16xf32>
  %pf = linalg.fill ins(%z : f32) outs(%pe : tensor<2x32x16xf32>) -> tensor<2x32x16xf32>
  %p = linalg.batch_matmul ins(%x, %w : tensor<2x32x24xf32>, tensor<2x24x16xf32>) outs(%pf : tensor<2x32x16xf32>) -> tensor<2x32x16xf32>
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x8x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %p, %scale : tensor<2x8x16xf32>, tensor<2x32x16xf32>, tensor<2x32x16xf32>, f32) outs(%out : tensor<2x8x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x8x16xf32>
  return %r, %p : tensor<2x8x16xf32>, tensor<2x32x16xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// The cache is a transpose of the projection, a copy anyway: it is made from V^T instead.
// CHECK-LABEL: func.func @cache(
// CHECK: %[[P:.*]] = linalg.batch_matmul {{.*}} outs(%{{.*}} : tensor<2x16x32xf32>)
// CHECK-NOT: linalg.batch_matmul
// CHECK-DAG: %[[B:.*]] = linalg.transpose ins(%[[P]] : tensor<2x16x32xf32>) outs(%{{.*}} : tensor<2x32x16xf32>) permutation = [0, 2, 1]
// CHECK-DAG: %[[C:.*]] = linalg.transpose ins(%[[B]] : tensor<2x32x16xf32>) outs(%{{.*}} : tensor<32x2x16xf32>) permutation = [1, 0, 2]
// CHECK: iree_linalg_ext.attention {{.*}} ins(%{{[^,]*}}, %{{[^,]*}}, %[[P]],
// CHECK: return %{{.*}}, %[[C]]
func.func @cache(%q: tensor<2x8x16xf32>, %k: tensor<2x32x16xf32>, %x: tensor<2x32x24xf32>, %w: tensor<2x24x16xf32>) -> (tensor<2x8x16xf32>, tensor<32x2x16xf32>) {
  %z = arith.constant 0.0 : f32
  %pe = tensor.empty() : tensor<2x32x16xf32>
  %pf = linalg.fill ins(%z : f32) outs(%pe : tensor<2x32x16xf32>) -> tensor<2x32x16xf32>
  %p = linalg.batch_matmul ins(%x, %w : tensor<2x32x24xf32>, tensor<2x24x16xf32>) outs(%pf : tensor<2x32x16xf32>) -> tensor<2x32x16xf32>
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x8x16xf32>
  %ce = tensor.empty() : tensor<32x2x16xf32>
  %c = linalg.transpose ins(%p : tensor<2x32x16xf32>) outs(%ce : tensor<32x2x16xf32>) permutation = [1, 0, 2]
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %p, %scale : tensor<2x8x16xf32>, tensor<2x32x16xf32>, tensor<2x32x16xf32>, f32) outs(%out : tensor<2x8x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x8x16xf32>
  return %r, %c : tensor<2x8x16xf32>, tensor<32x2x16xf32>
}

// -----

// Rows of V are cut in three at a size that is computed behind the first other reader of V.
// CHECK-LABEL: func.func @late_size(
// CHECK: %[[SIZE:.*]] = arith.divui
// CHECK: linalg.contract
// CHECK: linalg.transpose
func.func @late_size(%x: tensor<6x?x2xf32>, %w: tensor<6x2x8xf32>, %q: tensor<6x?x4x16xf32>, %k: tensor<6x?x3x16xf32>) -> (tensor<6x?x4x8xf32>, tensor<?x6x8xf32>) {
  %c1 = arith.constant 1 : index
  %size = tensor.dim %x, %c1 : tensor<6x?x2xf32>
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty(%size) : tensor<6x?x8xf32>
  %fill = linalg.fill ins(%zero : f32) outs(%empty : tensor<6x?x8xf32>) -> tensor<6x?x8xf32>
  %v = linalg.batch_matmul ins(%x, %w : tensor<6x?x2xf32>, tensor<6x2x8xf32>) outs(%fill : tensor<6x?x8xf32>) -> tensor<6x?x8xf32>
  %other = tensor.empty(%size) : tensor<?x6x8xf32>
  %turned = linalg.transpose ins(%v : tensor<6x?x8xf32>) outs(%other : tensor<?x6x8xf32>) permutation = [1, 0, 2]
  %c3 = arith.constant 3 : index
  %part = arith.divui %size, %c3 : index
  %cut = tensor.expand_shape %v [[0], [1, 2], [3]] output_shape [6, %part, 3, 8] : tensor<6x?x8xf32> into tensor<6x?x3x8xf32>
  %scale = arith.constant 0.25 : f32
  %init = tensor.empty(%part) : tensor<6x?x4x8xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [affine_map<(a, b, m, n, k1, k2) -> (a, b, m, k1)>, affine_map<(a, b, m, n, k1, k2) -> (a, b, k2, k1)>, affine_map<(a, b, m, n, k1, k2) -> (a, b, k2, n)>, affine_map<(a, b, m, n, k1, k2) -> ()>, affine_map<(a, b, m, n, k1, k2) -> (a, b, m, n)>]> ins(%q, %k, %cut, %scale : tensor<6x?x4x16xf32>, tensor<6x?x3x16xf32>, tensor<6x?x3x8xf32>, f32) outs(%init : tensor<6x?x4x8xf32>) {
  ^bb0(%score: f32):
    iree_linalg_ext.yield %score : f32
  } -> tensor<6x?x4x8xf32>
  return %r, %turned : tensor<6x?x4x8xf32>, tensor<?x6x8xf32>
}
