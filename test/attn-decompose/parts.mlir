// RUN: attn-opt %s --attn-decompose="only=wrong target=llvm-cpu" --split-input-file --report=%t.json | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.json
// WHY: or known only at run time; 4096 MB of scores at a time
// WHY: IREE 3.13 fails on scores of f64

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// 12 heads with 1 GB of scores each: as many of them at a time as divide 12.
// CHECK-LABEL: func.func @known(
// CHECK-DAG: %[[LAST:.*]] = arith.constant 12 : index
// CHECK-DAG: %[[STEP:.*]] = arith.constant 4 : index
// CHECK: scf.for %[[AT:.*]] = %{{.*}} to %[[LAST]] step %[[STEP]] iter_args(%[[MADE:.*]] = %{{.*}})
// CHECK: %[[Q:.*]] = tensor.extract_slice %arg0[%[[AT]], 0, 0] [4, 16384, 192]
// CHECK: %[[K:.*]] = tensor.extract_slice %arg1[%[[AT]], 0, 0] [4, 16384, 192]
// CHECK: %[[V:.*]] = tensor.extract_slice %arg2[%[[AT]], 0, 0] [4, 16384, 64]
// CHECK: ins(%[[Q]], %[[K]] : {{.*}} outs(%{{.*}} : tensor<4x16384x16384xf32>)
// CHECK-NOT: iree_linalg_ext.attention
// CHECK: tensor.insert_slice %{{.*}} into %[[MADE]][%[[AT]], 0, 0] [4, 16384, 64]
func.func @known(%q: tensor<12x16384x192xf8E4M3FN>, %k: tensor<12x16384x192xf8E4M3FN>, %v: tensor<12x16384x64xf8E4M3FN>) -> tensor<12x16384x64xf32> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<12x16384x64xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<12x16384x192xf8E4M3FN>, tensor<12x16384x192xf8E4M3FN>, tensor<12x16384x64xf8E4M3FN>, f32) outs(%out : tensor<12x16384x64xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<12x16384x64xf32>
  return %r : tensor<12x16384x64xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// Heads of an unknown number: as many at a time as have 2^30 scores, the last time those that are
// left. A score's position is that among all.
// CHECK-LABEL: func.func @unknown(
// CHECK: %[[MOST:.*]] = arith.constant 256 : index
// CHECK: arith.minui %{{.*}}, %[[MOST]] : index
// CHECK: %[[STEP:.*]] = arith.maxui
// CHECK: scf.for %[[AT:.*]] = %{{.*}} to %{{.*}} step %[[STEP]] iter_args(
// CHECK: %[[LEFT:.*]] = arith.subi %{{.*}}, %[[AT]] : index
// CHECK: %[[HERE:.*]] = arith.minui %[[STEP]], %[[LEFT]] : index
// CHECK: %[[TIED:.*]] = flow.tensor.tie_shape
// CHECK: tensor.extract_slice %arg0[%[[AT]], 0, 0] [%[[HERE]], 2048, %{{.*}}] [1, 1, 1]
// CHECK: %[[HEAD:.*]] = linalg.index 0 : index
// CHECK: arith.addi %[[HEAD]], %[[AT]] : index
// CHECK-NOT: iree_linalg_ext.attention
// CHECK: tensor.insert_slice %{{.*}} into %[[TIED]][%[[AT]], 0, 0] [%[[HERE]], 2048, 64]
func.func @unknown(%q: tensor<?x2048x?xf32>, %k: tensor<?x2048x?xf32>, %v: tensor<?x2048x64xf32>) -> tensor<?x2048x64xf32> {
  %scale = arith.constant 0.25 : f32
  %c0 = arith.constant 0 : index
  %heads = tensor.dim %q, %c0 : tensor<?x2048x?xf32>
  %out = tensor.empty(%heads) : tensor<?x2048x64xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<?x2048x?xf32>, tensor<?x2048x?xf32>, tensor<?x2048x64xf32>, f32) outs(%out : tensor<?x2048x64xf32>) {
    ^bb0(%score: f32):
      %head = iree_linalg_ext.index 0 : index
      %int = arith.index_cast %head : index to i32
      %float = arith.sitofp %int : i32 to f32
      %x = arith.addf %score, %float : f32
      iree_linalg_ext.yield %x : f32
  } -> tensor<?x2048x64xf32>
  return %r : tensor<?x2048x64xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// What IREE computes in f32, its scores are of.
// CHECK-LABEL: func.func @doubles(
// CHECK-COUNT-1: iree_linalg_ext.attention
// CHECK-NOT: iree_linalg_ext.attention
func.func @doubles(%q: tensor<2x4x8xf64>, %k: tensor<2x5x8xf64>) -> (tensor<2x4x8xf64>, tensor<2x4x8xf64>) {
  %scale = arith.constant 0.25 : f64
  %e = tensor.empty() : tensor<2x4x8xf64>
  %0 = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %k, %scale : tensor<2x4x8xf64>, tensor<2x5x8xf64>, tensor<2x5x8xf64>, f64) outs(%e : tensor<2x4x8xf64>) {
  ^bb0(%x: f64):
    iree_linalg_ext.yield %x : f64
  } -> tensor<2x4x8xf64>
  %1 = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %k, %scale : tensor<2x4x8xf64>, tensor<2x5x8xf64>, tensor<2x5x8xf64>, f64) outs(%e : tensor<2x4x8xf64>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x4x8xf64>
  return %0, %1 : tensor<2x4x8xf64>, tensor<2x4x8xf64>
}
