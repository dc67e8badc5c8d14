// RUN: attn-opt %s --attn-propagate-layout=mode=always,operands=v --split-input-file | FileCheck %s
// RUN: attn-opt %s --attn-propagate-layout=mode=always,operands=v --split-input-file --mlir-print-op-generic | attn-opt --split-input-file | FileCheck %s

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// V out of a packed projection: its columns are computed alone, transposed, and the old
// product is narrowed to what K needs. That is a launch more, and a copy of V's columns, whose
// heads are split, less.
// CHECK-LABEL: func.func @packed(
// CHECK-SAME: %[[X:[a-z0-9]*]]: tensor<2x32x24xf32>, %[[W:[a-z0-9]*]]: tensor<2x24x32xf32>)
// CHECK-DAG: %[[WK:.*]] = tensor.extract_slice %[[W]][0, 0, 0] [2, 24, 16] [1, 1, 1]
// CHECK-DAG: %[[WV:.*]] = tensor.extract_slice %[[W]][0, 0, 16] [2, 24, 16] [1, 1, 1]
// CHECK-DAG: linalg.batch_matmul {{.*}} ins(%[[WV]], %[[X]] : tensor<2x24x16xf32>, tensor<2x32x24xf32>) outs(%{{.*}} : tensor<2x16x32xf32>)
// CHECK-DAG: linalg.batch_matmul ins(%[[X]], %[[WK]] : tensor<2x32x24xf32>, tensor<2x24x16xf32>) outs(%{{.*}} : tensor<2x32x16xf32>)
// CHECK-NOT: tensor<2x32x32xf32>
// CHECK: iree_linalg_ext.attention
func.func @packed(%q: tensor<4x8x8xf32>, %x: tensor<2x32x24xf32>, %w: tensor<2x24x32xf32>) -> tensor<4x8x8xf32> {
  %z = arith.constant 0.0 : f32
  %pe = tensor.empty() : tensor<2x32x32xf32>
  %pf = linalg.fill ins(%z : f32) outs(%pe : tensor<2x32x32xf32>) -> tensor<2x32x32xf32>
  %p = linalg.batch_matmul ins(%x, %w : tensor<2x32x24xf32>, tensor<2x24x32xf32>) outs(%pf : tensor<2x32x32xf32>) -> tensor<2x32x32xf32>
  %ks = tensor.extract_slice %p[0, 0, 0] [2, 32, 16] [1, 1, 1] : tensor<2x32x32xf32> to tensor<2x32x16xf32>
  %vs = tensor.extract_slice %p[0, 0, 16] [2, 32, 16] [1, 1, 1] : tensor<2x32x32xf32> to tensor<2x32x16xf32>
  %k4 = tensor.expand_shape %ks [[0], [1], [2, 3]] output_shape [2, 32, 2, 8] : tensor<2x32x16xf32> into tensor<2x32x2x8xf32>
  %v4 = tensor.expand_shape %vs [[0], [1], [2, 3]] output_shape [2, 32, 2, 8] : tensor<2x32x16xf32> into tensor<2x32x2x8xf32>
  %te = tensor.empty() : tensor<2x2x32x8xf32>
  %kt = linalg.transpose ins(%k4 : tensor<2x32x2x8xf32>) outs(%te : tensor<2x2x32x8xf32>) permutation = [0, 2, 1, 3]
  %vt = linalg.transpose ins(%v4 : tensor<2x32x2x8xf32>) outs(%te : tensor<2x2x32x8xf32>) permutation = [0, 2, 1, 3]
  %k = tensor.collapse_shape %kt [[0, 1], [2], [3]] : tensor<2x2x32x8xf32> into tensor<4x32x8xf32>
  %v = tensor.collapse_shape %vt [[0, 1], [2], [3]] : tensor<2x2x32x8xf32> into tensor<4x32x8xf32>
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<4x8x8xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<4x8x8xf32>, tensor<4x32x8xf32>, tensor<4x32x8xf32>, f32) outs(%out : tensor<4x8x8xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<4x8x8xf32>
  return %r : tensor<4x8x8xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// A slice that drops a unit dim, of an inner factor of the projection's columns: the product
// is made without the unit dim.
// CHECK-LABEL: func.func @inner(
// CHECK: %[[WE:.*]] = tensor.expand_shape %{{.*}} {{\[\[}}0], [1], [2, 3]] output_shape [2, 24, 16, 3]
// CHECK: %[[WS:.*]] = tensor.extract_slice %[[WE]][0, 0, 0, 2] [2, 24, 16, 1] [1, 1, 1, 1]
// CHECK: %[[WC:.*]] = tensor.collapse_shape %[[WS]] {{.*}} into tensor<2x24x16xf32>
// CHECK: linalg.batch_matmul {{.*}} ins(%[[WC]], %{{.*}} : tensor<2x24x16xf32>, tensor<2x32x24xf32>) outs(%{{.*}} : tensor<2x16x32xf32>)
// CHECK-NOT: linalg.transpose
// CHECK: return
func.func @inner(%q: tensor<2x8x16xf32>, %k: tensor<2x32x16xf32>, %x: tensor<2x32x24xf32>, %w: tensor<2x24x48xf32>) -> tensor<2x8x16xf32> {
  %z = arith.constant 0.0 : f32
  %pe = tensor.empty() : tensor<2x32x48xf32>
  %pf = linalg.fill ins(%z : f32) outs(%pe : tensor<2x32x48xf32>) -> tensor<2x32x48xf32>
  %p = linalg.batch_matmul ins(%x, %w : tensor<2x32x24xf32>, tensor<2x24x48xf32>) outs(%pf : tensor<2x32x48xf32>) -> tensor<2x32x48xf32>
  %x4 = tensor.expand_shape %p [[0], [1], [2, 3]] output_shape [2, 32, 16, 3] : tensor<2x32x48xf32> into tensor<2x32x16x3xf32>
  %v = tensor.extract_slice %x4[0, 0, 0, 2] [2, 32, 16, 1] [1, 1, 1, 1] : tensor<2x32x16x3xf32> to tensor<2x32x16xf32>
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x8x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x8x16xf32>, tensor<2x32x16xf32>, tensor<2x32x16xf32>, f32) outs(%out : tensor<2x8x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x8x16xf32>
  return %r : tensor<2x8x16xf32>
}
