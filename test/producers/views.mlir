// RUN: attn-opt %s --attn-propagate-layout=mode=always,operands=v --split-input-file | FileCheck %s
// RUN: attn-opt %s --attn-propagate-layout=mode=always,operands=v --split-input-file --mlir-print-op-generic | attn-opt --split-input-file | FileCheck %s

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// Heads are split, transposed and collapsed: [2, 32, 64] -> (b, s, h, d) -> (b h, s, d). V^T
// is (b, h d, s) of the projection: nothing but reshapes is left.
// CHECK-LABEL: func.func @heads(
// CHECK: %[[P:.*]] = linalg.batch_matmul {{.*}} outs(%{{.*}} : tensor<2x64x32xf32>)
// CHECK: %[[E:.*]] = tensor.expand_shape %[[P]] {{\[\[}}0], [1, 2], [3]] output_shape [2, 4, 16, 32]
// CHECK: %[[C:.*]] = tensor.collapse_shape %[[E]] {{\[\[}}0, 1], [2], [3]] : tensor<2x4x16x32xf32> into tensor<8x16x32xf32>
// CHECK-NOT: linalg.transpose
// CHECK: iree_linalg_ext.attention {{.*}} ins(%{{[^,]*}}, %{{[^,]*}}, %[[C]],
func.func @heads(%q: tensor<8x8x16xf32>, %k: tensor<8x32x16xf32>, %x: tensor<2x32x24xf32>, %w: tensor<2x24x64xf32>) -> tensor<8x8x16xf32> {
  %z = arith.constant 0.0 : f32
  %pe = tensor.empty() : tensor<2x32x64xf32>
  %pf = linalg.fill ins(%z : f32) outs(%pe : tensor<2x32x64xf32>) -> tensor<2x32x64xf32>
  %p = linalg.batch_matmul ins(%x, %w : tensor<2x32x24xf32>, tensor<2x24x64xf32>) outs(%pf : tensor<2x32x64xf32>) -> tensor<2x32x64xf32>
  %x4 = tensor.expand_shape %p [[0], [1], [2, 3]] output_shape [2, 32, 4, 16] : tensor<2x32x64xf32> into tensor<2x32x4x16xf32>
  %te = tensor.empty() : tensor<2x4x32x16xf32>
  %t = linalg.transpose ins(%x4 : tensor<2x32x4x16xf32>) outs(%te : tensor<2x4x32x16xf32>) permutation = [0, 2, 1, 3]
  %v = tensor.collapse_shape %t [[0, 1], [2], [3]] : tensor<2x4x32x16xf32> into tensor<8x32x16xf32>
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<8x8x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<8x8x16xf32>, tensor<8x32x16xf32>, tensor<8x32x16xf32>, f32) outs(%out : tensor<8x8x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<8x8x16xf32>
  return %r : tensor<8x8x16xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// Sizes known only at run time, by tensor.reshape: they are matched by where they come from.
// CHECK-LABEL: func.func @dynamic(
// CHECK: linalg.batch_matmul {{.*}} outs(%{{.*}} : tensor<?x64x?xf32>)
// CHECK-NOT: linalg.transpose
// CHECK: iree_linalg_ext.attention
func.func @dynamic(%q: tensor<?x8x16xf32>, %k: tensor<?x?x16xf32>, %x: tensor<?x?x24xf32>, %w: tensor<?x24x64xf32>, %b: index, %s: index, %bh: index) -> tensor<?x8x16xf32> {
  %z = arith.constant 0.0 : f32
  %c4 = arith.constant 4 : index
  %c16 = arith.constant 16 : index
  %pe = tensor.empty(%b, %s) : tensor<?x?x64xf32>
  %pf = linalg.fill ins(%z : f32) outs(%pe : tensor<?x?x64xf32>) -> tensor<?x?x64xf32>
  %p = linalg.batch_matmul ins(%x, %w : tensor<?x?x24xf32>, tensor<?x24x64xf32>) outs(%pf : tensor<?x?x64xf32>) -> tensor<?x?x64xf32>
  %shape = tensor.from_elements %b, %s, %c4, %c16 : tensor<4xindex>
  %x4 = tensor.reshape %p(%shape) : (tensor<?x?x64xf32>, tensor<4xindex>) -> tensor<?x?x4x16xf32>
  %te = tensor.empty(%b, %s) : tensor<?x4x?x16xf32>
  %t = linalg.transpose ins(%x4 : tensor<?x?x4x16xf32>) outs(%te : tensor<?x4x?x16xf32>) permutation = [0, 2, 1, 3]
  %v = tensor.collapse_shape %t [[0, 1], [2], [3]] : tensor<?x4x?x16xf32> into tensor<?x?x16xf32>
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty(%bh) : tensor<?x8x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<?x8x16xf32>, tensor<?x?x16xf32>, tensor<?x?x16xf32>, f32) outs(%out : tensor<?x8x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<?x8x16xf32>
  return %r : tensor<?x8x16xf32>
}
