// A barrier stands behind each op that computes a tensor; fills, views and ops on scalars get none,
// and run twice the pass adds nothing.

// RUN: attn-opt %s --attn-keep-apart | FileCheck %s
// RUN: attn-opt %s --attn-keep-apart > %t.1 && attn-opt %s --attn-keep-apart --attn-keep-apart > %t.2 && diff %t.1 %t.2

// CHECK-LABEL: func.func @chain(
// CHECK: %[[SIZE:.*]] = tensor.dim %arg0
// CHECK: %[[FILL:.*]] = linalg.fill
// CHECK-NOT: compute_barrier
// CHECK: %[[SUM:.*]] = linalg.generic {{.*}} outs(%[[FILL]] :
// CHECK: %[[STORED:.*]] = iree_tensor_ext.compute_barrier.start %[[SUM]] : tensor<?xf32>{%{{.*}}} -> tensor<?xf32>
// CHECK: %[[ADDED:.*]] = arith.addf %[[STORED]], %[[STORED]] : tensor<?xf32>
// CHECK: %[[AGAIN:.*]] = iree_tensor_ext.compute_barrier.start %[[ADDED]]
// CHECK: %[[PART:.*]] = tensor.extract_slice %[[AGAIN]]
// CHECK: %[[LAST:.*]] = iree_tensor_ext.compute_barrier.start %[[PART]] : tensor<4xf32>
// CHECK: %[[VIEW:.*]] = tensor.expand_shape %[[LAST]]
// CHECK: return %[[VIEW]]
func.func @chain(%x: tensor<?x8xf32>) -> tensor<2x2xf32> {
  %zero = arith.constant 0.0 : f32
  %none = arith.constant 0 : index
  %size = tensor.dim %x, %none : tensor<?x8xf32>
  %empty = tensor.empty(%size) : tensor<?xf32>
  %start = linalg.fill ins(%zero : f32) outs(%empty : tensor<?xf32>) -> tensor<?xf32>
  %sum = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a)>], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<?x8xf32>) outs(%start : tensor<?xf32>) {
  ^bb0(%one: f32, %old: f32):
    %new = arith.addf %old, %one : f32
    linalg.yield %new : f32
  } -> tensor<?xf32>
  %added = arith.addf %sum, %sum : tensor<?xf32>
  %part = tensor.extract_slice %added[0] [4] [1] : tensor<?xf32> to tensor<4xf32>
  %view = tensor.expand_shape %part [[0, 1]] output_shape [2, 2] : tensor<4xf32> into tensor<2x2xf32>
  return %view : tensor<2x2xf32>
}

// A result that nothing reads needs none.
// CHECK-LABEL: func.func @unread(
// CHECK-NOT: compute_barrier
func.func @unread(%x: tensor<4xf32>) -> tensor<4xf32> {
  %added = arith.addf %x, %x : tensor<4xf32>
  return %x : tensor<4xf32>
}
