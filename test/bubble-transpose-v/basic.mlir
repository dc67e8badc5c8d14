// RUN: attn-opt %s --attn-bubble-transpose-v --split-input-file | FileCheck %s
// RUN: attn-opt %s --attn-bubble-transpose-v --attn-fold-transpose --split-input-file | FileCheck %s --check-prefix=BACK
// RUN: attn-opt %s --attn-bubble-transpose-v --split-input-file --mlir-print-op-generic | attn-opt --split-input-file | FileCheck %s

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK: affine_map<(d0, d1, d2, d3, d4) -> (d0, d2, d4)>
// CHECK-LABEL: func.func @argument
// CHECK: %[[T:.*]] = linalg.transpose ins(%{{.*}} : tensor<2x32x8xf32>) outs(%{{.*}} : tensor<2x8x32xf32>) permutation = [0, 2, 1]
// CHECK: iree_linalg_ext.attention
// CHECK-SAME: ins(%{{[^,]*}}, %{{[^,]*}}, %[[T]], %{{.*}} : tensor<2x16x8xf32>, tensor<2x32x8xf32>, tensor<2x8x32xf32>, f32)
// BACK-LABEL: func.func @argument(
// BACK-SAME: %{{.*}}, %{{.*}}, %[[V:.*]]: tensor<2x32x8xf32>)
// BACK-NOT: linalg.transpose
// BACK: iree_linalg_ext.attention <indexing_maps = [#map, #map1, #map2, #map3, #map4]> ins(%{{[^,]*}}, %{{[^,]*}}, %[[V]], %{{.*}}
func.func @argument(%q: tensor<2x16x8xf32>, %k: tensor<2x32x8xf32>, %v: tensor<2x32x8xf32>) -> tensor<2x16x8xf32> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x16x8xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x16x8xf32>, tensor<2x32x8xf32>, tensor<2x32x8xf32>, f32) outs(%out : tensor<2x16x8xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x16x8xf32>
  return %r : tensor<2x16x8xf32>
}

// -----

// Dynamic keys and a [keys, batch, head] V of any element type, in util.func.

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (k2, b, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK: affine_map<(d0, d1, d2, d3, d4) -> (d0, d2, d4)>
// CHECK-LABEL: util.func public @dynamic
// CHECK: %[[D:.*]] = tensor.dim %{{.*}}, %{{.*}} : tensor<?x2x8xf16>
// CHECK: %[[E:.*]] = tensor.empty(%[[D]]) : tensor<2x8x?xf16>
// CHECK: linalg.transpose ins(%{{.*}} : tensor<?x2x8xf16>) outs(%[[E]] : tensor<2x8x?xf16>) permutation = [1, 2, 0]
// BACK-LABEL: util.func public @dynamic
// BACK-NOT: linalg.transpose
// BACK: iree_linalg_ext.attention
util.func public @dynamic(%q: tensor<2x16x8xf16>, %k: tensor<2x?x8xf16>, %v: tensor<?x2x8xf16>) -> tensor<2x16x8xf16> {
  %scale = arith.constant 0.25 : f16
  %out = tensor.empty() : tensor<2x16x8xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x16x8xf16>, tensor<2x?x8xf16>, tensor<?x2x8xf16>, f16) outs(%out : tensor<2x16x8xf16>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x16x8xf16>
  util.return %r : tensor<2x16x8xf16>
}
