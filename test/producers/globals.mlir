// RUN: attn-opt %s --attn-propagate-layout=mode=always,operands=v --split-input-file | FileCheck %s
// RUN: attn-opt %s --attn-propagate-layout=mode=always,operands=v --split-input-file --mlir-print-op-generic | attn-opt --split-input-file | FileCheck %s

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// The initial value is transposed here; two functions load it.
// CHECK: util.global private @dense = dense<{{.*}}1.000000e+00, 4.000000e+00], [2.000000e+00, 5.000000e+00], [3.000000e+00, 6.000000e+00]{{.*}}> : tensor<3x2xf32>
util.global private @dense = dense<[[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]]> : tensor<1x2x3xf32>
// CHECK: util.global private @splat = dense<1.{{.*}}> : tensor<3x2xbf16>
util.global private @splat = dense<1.0> : tensor<1x2x3xbf16>
// CHECK-LABEL: func.func @first(
// CHECK: %[[V:.*]] = util.global.load @dense : tensor<3x2xf32>
// CHECK-NOT: linalg.transpose
// CHECK: iree_linalg_ext.attention
func.func @first(%q: tensor<1x4x3xf32>, %k: tensor<1x2x3xf32>) -> tensor<1x4x3xf32> {
  %v = util.global.load @dense : tensor<1x2x3xf32>
  %rscale = arith.constant 0.25 : f32
  %rout = tensor.empty() : tensor<1x4x3xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %rscale : tensor<1x4x3xf32>, tensor<1x2x3xf32>, tensor<1x2x3xf32>, f32) outs(%rout : tensor<1x4x3xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<1x4x3xf32>
  return %r : tensor<1x4x3xf32>
}

// CHECK-LABEL: func.func @second(
// CHECK: util.global.load @dense : tensor<3x2xf32>
func.func @second(%q: tensor<1x4x3xf32>, %k: tensor<1x2x3xf32>) -> tensor<1x4x3xf32> {
  %v = util.global.load @dense : tensor<1x2x3xf32>
  %rscale = arith.constant 0.25 : f32
  %rout = tensor.empty() : tensor<1x4x3xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %rscale : tensor<1x4x3xf32>, tensor<1x2x3xf32>, tensor<1x2x3xf32>, f32) outs(%rout : tensor<1x4x3xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<1x4x3xf32>
  return %r : tensor<1x4x3xf32>
}

// CHECK-LABEL: func.func @narrow(
// CHECK: util.global.load @splat : tensor<3x2xbf16>
func.func @narrow(%q: tensor<1x4x3xbf16>, %k: tensor<1x2x3xbf16>) -> tensor<1x4x3xbf16> {
  %v = util.global.load @splat : tensor<1x2x3xbf16>
  %rscale = arith.constant 0.25 : bf16
  %rout = tensor.empty() : tensor<1x4x3xbf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %rscale : tensor<1x4x3xbf16>, tensor<1x2x3xbf16>, tensor<1x2x3xbf16>, bf16) outs(%rout : tensor<1x4x3xbf16>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<1x4x3xbf16>
  return %r : tensor<1x4x3xbf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// A cache: loaded, changed, stored, and read by another function.
// CHECK: util.global private mutable @cache = #util.uninitialized : tensor<3x4xf32>
util.global private mutable @cache = #util.uninitialized : tensor<1x4x3xf32>
// CHECK-LABEL: func.func @step(
// CHECK: %[[OLD:.*]] = util.global.load @cache : tensor<3x4xf32>
// CHECK: %[[NEW:.*]] = tensor.insert_slice %{{.*}} into %{{.*}}[{{.*}}]
// CHECK: util.global.store %{{.*}}, @cache : tensor<3x4xf32>
func.func @step(%q: tensor<1x4x3xf32>, %k: tensor<1x4x3xf32>, %x: tensor<1x1x5xf32>, %w: tensor<1x5x3xf32>, %at: index) -> tensor<1x4x3xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x1x3xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<1x1x3xf32>) -> tensor<1x1x3xf32>
  %p = linalg.batch_matmul ins(%x, %w : tensor<1x1x5xf32>, tensor<1x5x3xf32>) outs(%f : tensor<1x1x3xf32>) -> tensor<1x1x3xf32>
  %old = util.global.load @cache : tensor<1x4x3xf32>
  %v = tensor.insert_slice %p into %old[0, %at, 0] [1, 1, 3] [1, 1, 1] : tensor<1x1x3xf32> into tensor<1x4x3xf32>
  util.global.store %v, @cache : tensor<1x4x3xf32>
  %rscale = arith.constant 0.25 : f32
  %rout = tensor.empty() : tensor<1x4x3xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %rscale : tensor<1x4x3xf32>, tensor<1x4x3xf32>, tensor<1x4x3xf32>, f32) outs(%rout : tensor<1x4x3xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<1x4x3xf32>
  return %r : tensor<1x4x3xf32>
}
// CHECK-LABEL: func.func @read(
// CHECK: util.global.load @cache : tensor<3x4xf32>
// CHECK-NOT: linalg.transpose
// CHECK: return
func.func @read(%q: tensor<1x4x3xf32>, %k: tensor<1x4x3xf32>) -> tensor<1x4x3xf32> {
  %v = util.global.load @cache : tensor<1x4x3xf32>
  %rscale = arith.constant 0.25 : f32
  %rout = tensor.empty() : tensor<1x4x3xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %rscale : tensor<1x4x3xf32>, tensor<1x4x3xf32>, tensor<1x4x3xf32>, f32) outs(%rout : tensor<1x4x3xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<1x4x3xf32>
  return %r : tensor<1x4x3xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// An initializer stores what it computes, a constant here.
// CHECK: util.global private @late : tensor<3x2xf32>
util.global private @late : tensor<1x2x3xf32>
// CHECK: util.initializer
// CHECK: %[[C:.*]] = arith.constant dense<2.{{.*}}> : tensor<3x2xf32>
// CHECK: util.global.store %[[C]], @late : tensor<3x2xf32>
util.initializer {
  %0 = arith.constant dense<2.0> : tensor<1x2x3xf32>
  util.global.store %0, @late : tensor<1x2x3xf32>
  util.return
}
func.func @main(%q: tensor<1x4x3xf32>, %k: tensor<1x2x3xf32>) -> tensor<1x4x3xf32> {
  %v = util.global.load @late : tensor<1x2x3xf32>
  %rscale = arith.constant 0.25 : f32
  %rout = tensor.empty() : tensor<1x4x3xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %rscale : tensor<1x4x3xf32>, tensor<1x2x3xf32>, tensor<1x2x3xf32>, f32) outs(%rout : tensor<1x4x3xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<1x4x3xf32>
  return %r : tensor<1x4x3xf32>
}
