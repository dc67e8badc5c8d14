// RUN: attn-opt %s --attn-propagate-layout=mode=always,operands=v --split-input-file | FileCheck %s
// RUN: attn-opt %s --attn-propagate-layout=mode=always,operands=v --split-input-file --mlir-print-op-generic | attn-opt --split-input-file | FileCheck %s

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// Grouped queries over a cache: V^T cannot be had of an argument, but attention reads it
// past the repeat, which is gone. The group is a dim of Q, K and the result only.
// CHECK-DAG: #[[Q:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d2, d4)>
// CHECK-DAG: #[[V:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d5, d3)>
// CHECK-LABEL: func.func @cache(
// CHECK-SAME: %[[SRC:[a-z0-9]*]]: tensor<2x32x16xf32>)
// CHECK-NOT: linalg.generic
// CHECK: %[[R:.*]] = iree_linalg_ext.attention <indexing_maps = [#[[Q]], #{{.*}}, #[[V]], #{{.*}}, #{{.*}}]> ins(%{{[^,]*}}, %{{[^,]*}}, %[[SRC]],
// CHECK: tensor.collapse_shape %[[R]] {{\[\[}}0, 1], [2], [3]] : tensor<2x4x8x16xf32> into tensor<8x8x16xf32>
func.func @cache(%q: tensor<8x8x16xf32>, %k: tensor<8x32x16xf32>, %src: tensor<2x32x16xf32>) -> tensor<8x8x16xf32> {
  %be = tensor.empty() : tensor<2x4x32x16xf32>
  %b4 = linalg.generic {indexing_maps = [affine_map<(a, g, s, d) -> (a, s, d)>, affine_map<(a, g, s, d) -> (a, g, s, d)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%src : tensor<2x32x16xf32>) outs(%be : tensor<2x4x32x16xf32>) {
  ^bb0(%in: f32, %o: f32):
    linalg.yield %in : f32
  } -> tensor<2x4x32x16xf32>
  %v = tensor.collapse_shape %b4 [[0, 1], [2], [3]] : tensor<2x4x32x16xf32> into tensor<8x32x16xf32>
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

// Behind a projection both are had: V^T, and no repeat.
// CHECK-DAG: #[[V:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d3, d5)>
// CHECK-LABEL: func.func @projection(
// CHECK: %[[P:.*]] = linalg.batch_matmul {{.*}} outs(%{{.*}} : tensor<2x16x32xf32>)
// CHECK-NOT: linalg.generic
// CHECK: iree_linalg_ext.attention <indexing_maps = [#{{.*}}, #{{.*}}, #[[V]], #{{.*}}, #{{.*}}]> ins(%{{[^,]*}}, %{{[^,]*}}, %[[P]],
func.func @projection(%q: tensor<8x8x16xf32>, %k: tensor<8x32x16xf32>, %x: tensor<2x32x24xf32>, %w: tensor<2x24x16xf32>) -> tensor<8x8x16xf32> {
  %z = arith.constant 0.0 : f32
  %pe = tensor.empty() : tensor<2x32x16xf32>
  %pf = linalg.fill ins(%z : f32) outs(%pe : tensor<2x32x16xf32>) -> tensor<2x32x16xf32>
  %src = linalg.batch_matmul ins(%x, %w : tensor<2x32x24xf32>, tensor<2x24x16xf32>) outs(%pf : tensor<2x32x16xf32>) -> tensor<2x32x16xf32>
  %be = tensor.empty() : tensor<2x4x32x16xf32>
  %b4 = linalg.generic {indexing_maps = [affine_map<(a, g, s, d) -> (a, s, d)>, affine_map<(a, g, s, d) -> (a, g, s, d)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%src : tensor<2x32x16xf32>) outs(%be : tensor<2x4x32x16xf32>) {
  ^bb0(%in: f32, %o: f32):
    linalg.yield %in : f32
  } -> tensor<2x4x32x16xf32>
  %v = tensor.collapse_shape %b4 [[0, 1], [2], [3]] : tensor<2x4x32x16xf32> into tensor<8x32x16xf32>
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<8x8x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<8x8x16xf32>, tensor<8x32x16xf32>, tensor<8x32x16xf32>, f32) outs(%out : tensor<8x8x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<8x8x16xf32>
  return %r : tensor<8x8x16xf32>
}
