// RUN: attn-opt %s --attn-propagate-layout=mode=always,operands=v --split-input-file | FileCheck %s
// RUN: attn-opt %s --attn-propagate-layout=mode=always,operands=v --split-input-file --mlir-print-op-generic | attn-opt --split-input-file | FileCheck %s

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// Pages of a constant cache: the slices are transposed in the source.
// CHECK-LABEL: func.func @slices(
// CHECK: arith.constant dense<1.500000e+00> : tensor<64x16x32xf32>
// CHECK: iree_linalg_ext.gather dimension_map = [0] ins(%{{.*}}, %{{.*}} : tensor<64x16x32xf32>, tensor<2xi32>) outs(%{{.*}} : tensor<2x16x32xf32>)
func.func @slices(%q: tensor<2x8x16xf32>, %k: tensor<2x32x16xf32>, %i: tensor<2xi32>) -> tensor<2x8x16xf32> {
  %c = arith.constant dense<1.5> : tensor<64x32x16xf32>
  %e = tensor.empty() : tensor<2x32x16xf32>
  %v = iree_linalg_ext.gather dimension_map = [0] ins(%c, %i : tensor<64x32x16xf32>, tensor<2xi32>) outs(%e : tensor<2x32x16xf32>) -> tensor<2x32x16xf32>
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x8x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x8x16xf32>, tensor<2x32x16xf32>, tensor<2x32x16xf32>, f32) outs(%out : tensor<2x8x16xf32>) {
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

// A static cache: where the elements go is said by dimension_map.
// CHECK-LABEL: func.func @scatter(
// CHECK: linalg.fill {{.*}} -> tensor<2x16x32xf32>
// CHECK: iree_linalg_ext.scatter dimension_map = [0, 2, 1] unique_indices(true) ins(%{{.*}}, %{{.*}} : tensor<5xf32>, tensor<5x3xi64>) outs(%{{.*}} : tensor<2x16x32xf32>)
func.func @scatter(%q: tensor<2x8x16xf32>, %k: tensor<2x32x16xf32>, %u: tensor<5xf32>, %i: tensor<5x3xi64>) -> tensor<2x8x16xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x32x16xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<2x32x16xf32>) -> tensor<2x32x16xf32>
  %v = iree_linalg_ext.scatter dimension_map = [0, 1, 2] unique_indices(true) ins(%u, %i : tensor<5xf32>, tensor<5x3xi64>) outs(%f : tensor<2x32x16xf32>) {
  ^bb0(%new: f32, %old: f32):
    iree_linalg_ext.yield %new : f32
  } -> tensor<2x32x16xf32>
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x8x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x8x16xf32>, tensor<2x32x16xf32>, tensor<2x32x16xf32>, f32) outs(%out : tensor<2x8x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x8x16xf32>
  return %r : tensor<2x8x16xf32>
}
