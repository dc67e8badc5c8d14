// Q, K and V that repeat keys, a part of rows or of a head dim, or what no other operand has, go
// behind a barrier; the groups of grouped queries stay repeats.

// RUN: attn-opt %s --attn-join-dims --split-input-file --report=%t.json | FileCheck %s
// RUN: attn-opt %s --attn-join-dims,attn-join-dims --split-input-file | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.json
// WHY: its value repeats keys, a part of a dim, or what no other operand has, and is put in memory
// WHY: its key repeats keys
// WHY-NOT: repeats keys

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
#read = affine_map<(b, k, n, r) -> (b, k, n)>
#written = affine_map<(b, k, n, r) -> (b, k, n, r)>

// CHECK-LABEL: func.func @head_dim(
// CHECK: %[[JOINED:.*]] = tensor.collapse_shape
// CHECK-NEXT: tensor.empty
// CHECK-NEXT: %[[V:.*]] = iree_tensor_ext.compute_barrier.start %[[JOINED]]
// CHECK-NOT: compute_barrier
// CHECK: iree_linalg_ext.attention {{.*}} ins(%arg0, %arg1, %[[V]], %{{.*}}
func.func @head_dim(%q: tensor<4x3x8xf32>, %k: tensor<4x6x8xf32>, %v: tensor<4x6x4xf32>) -> tensor<4x3x8xf32> {
  %scale = arith.constant 0.25 : f32
  %e = tensor.empty() : tensor<4x6x4x2xf32>
  %r = linalg.generic {indexing_maps = [#read, #written], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%v : tensor<4x6x4xf32>) outs(%e : tensor<4x6x4x2xf32>) {
  ^bb0(%x: f32, %y: f32):
    linalg.yield %x : f32
  } -> tensor<4x6x4x2xf32>
  %value = tensor.collapse_shape %r [[0], [1], [2, 3]] : tensor<4x6x4x2xf32> into tensor<4x6x8xf32>
  %out = tensor.empty() : tensor<4x3x8xf32>
  %a = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %value, %scale : tensor<4x3x8xf32>, tensor<4x6x8xf32>, tensor<4x6x8xf32>, f32) outs(%out : tensor<4x3x8xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<4x3x8xf32>
  return %a : tensor<4x3x8xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
#read = affine_map<(h, r, k, d) -> (h, k, d)>
#written = affine_map<(h, r, k, d) -> (h, r, k, d)>

// CHECK-LABEL: func.func @groups(
// CHECK-NOT: compute_barrier
// CHECK: return
func.func @groups(%q: tensor<4x3x8xf32>, %k: tensor<2x6x8xf32>, %v: tensor<4x6x8xf32>) -> tensor<4x3x8xf32> {
  %scale = arith.constant 0.25 : f32
  %e = tensor.empty() : tensor<2x2x6x8xf32>
  %r = linalg.generic {indexing_maps = [#read, #written], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%k : tensor<2x6x8xf32>) outs(%e : tensor<2x2x6x8xf32>) {
  ^bb0(%x: f32, %y: f32):
    linalg.yield %x : f32
  } -> tensor<2x2x6x8xf32>
  %key = tensor.collapse_shape %r [[0, 1], [2], [3]] : tensor<2x2x6x8xf32> into tensor<4x6x8xf32>
  %out = tensor.empty() : tensor<4x3x8xf32>
  %a = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %key, %v, %scale : tensor<4x3x8xf32>, tensor<4x6x8xf32>, tensor<4x6x8xf32>, f32) outs(%out : tensor<4x3x8xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<4x3x8xf32>
  return %a : tensor<4x3x8xf32>
}

// -----

#q = affine_map<(m, n, d, k1, k2) -> (m, d)>
#k = affine_map<(m, n, d, k1, k2) -> (k1, k2, d)>
#v = affine_map<(m, n, d, k1, k2) -> (k1, k2, n)>
#s = affine_map<(m, n, d, k1, k2) -> ()>
#o = affine_map<(m, n, d, k1, k2) -> (m, n)>

// CHECK-LABEL: func.func @keys(
// CHECK: %[[REPEATED:.*]] = linalg.generic
// CHECK: %[[K:.*]] = iree_tensor_ext.compute_barrier.start %[[REPEATED]]
// CHECK: iree_linalg_ext.attention {{.*}} ins(%arg0, %[[K]], %arg2, %{{.*}}
func.func @keys(%q: tensor<3x8xf32>, %k: tensor<2x8xf32>, %v: tensor<6x2x8xf32>) -> tensor<3x8xf32> {
  %scale = arith.constant 0.25 : f32
  %e = tensor.empty() : tensor<6x2x8xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(a, b, d) -> (b, d)>, affine_map<(a, b, d) -> (a, b, d)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%k : tensor<2x8xf32>) outs(%e : tensor<6x2x8xf32>) {
  ^bb0(%x: f32, %y: f32):
    linalg.yield %x : f32
  } -> tensor<6x2x8xf32>
  %out = tensor.empty() : tensor<3x8xf32>
  %a = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %r, %v, %scale : tensor<3x8xf32>, tensor<6x2x8xf32>, tensor<6x2x8xf32>, f32) outs(%out : tensor<3x8xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<3x8xf32>
  return %a : tensor<3x8xf32>
}
