// Writes of StableHLO become scatters of rows by one index each, with a mask where an index may lie
// outside. Bodies of several ops, and sizes known only at run time, are left to IREE.

// RUN: attn-opt %s --attn-bounded-scatters --split-input-file --report=%t.json | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.json
// WHY: is a scatter of rows by one index; what lies outside is left out
// WHY: is a scatter of rows by one index"
// WHY-NOT: is a scatter of rows

// `cache.at[:, :, at].set(new)`.
// CHECK-LABEL: func.func @heads(
// CHECK: %[[ROWS:.*]] = tensor.collapse_shape %arg0 {{\[\[}}0, 1, 2], [3]] : tensor<2x3x16x8xf32> into tensor<96x8xf32>
// CHECK: %[[NEW:.*]] = tensor.collapse_shape %arg1 {{\[\[}}0, 1, 2], [3]] : tensor<2x3x4x8xf32> into tensor<24x8xf32>
// CHECK: %[[MADE:.*]]:2 = linalg.generic {{.*}} outs(%{{.*}}, %{{.*}} : tensor<2x3x4xi64>, tensor<2x3x4xi1>)
// CHECK: %[[FIRST:.*]] = tensor.extract %arg2
// CHECK: arith.cmpi ult
// CHECK: iree_linalg_ext.scatter dimension_map = [0] unique_indices(false) ins(%[[NEW]], %{{.*}}, %{{.*}} : tensor<24x8xf32>, tensor<24x1xi64>, tensor<24xi1>) outs(%[[ROWS]] :
// CHECK: iree_linalg_ext.yield
func.func @heads(%cache: tensor<2x3x16x8xf32>, %new: tensor<2x3x4x8xf32>, %at: tensor<4x1xi32>) -> tensor<2x3x16x8xf32> {
  %r = "stablehlo.scatter"(%cache, %at, %new) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0, 1, 3], inserted_window_dims = [2], scatter_dims_to_operand_dims = [2], index_vector_dim = 1>, unique_indices = false}> ({
  ^bb0(%old: tensor<f32>, %one: tensor<f32>):
    stablehlo.return %one : tensor<f32>
  }) : (tensor<2x3x16x8xf32>, tensor<4x1xi32>, tensor<2x3x4x8xf32>) -> tensor<2x3x16x8xf32>
  return %r : tensor<2x3x16x8xf32>
}

// -----

// `vmap` of `dynamic_update_slice`, whose places are clamped: no mask.
// CHECK-LABEL: func.func @sequences(
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<2x3x1xi64>)
// CHECK-NOT: arith.cmpi
// CHECK: iree_linalg_ext.scatter dimension_map = [0] unique_indices(true) ins(%{{.*}}, %{{.*}} : tensor<6x8xf32>, tensor<6x1xi64>) outs(%{{.*}} : tensor<96x8xf32>)
// CHECK: arith.addf
func.func @sequences(%cache: tensor<2x3x16x8xf32>, %new: tensor<2x3x1x8xf32>, %at: tensor<2x1xi32>) -> tensor<2x3x16x8xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %zeros = stablehlo.broadcast_in_dim %zero, dims = [] : (tensor<i32>) -> tensor<2x1xi32>
  %all = stablehlo.concatenate %zeros, %at, %zeros, dim = 1 : (tensor<2x1xi32>, tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x3xi32>
  %ends = stablehlo.constant dense<[0, 15, 0]> : tensor<3xi32>
  %largest = stablehlo.constant dense<2147483647> : tensor<3xi32>
  %most = stablehlo.minimum %ends, %largest : tensor<3xi32>
  %low = stablehlo.broadcast_in_dim %zero, dims = [] : (tensor<i32>) -> tensor<2x3xi32>
  %high = stablehlo.broadcast_in_dim %most, dims = [1] : (tensor<3xi32>) -> tensor<2x3xi32>
  %places = stablehlo.clamp %low, %all, %high : tensor<2x3xi32>
  %r = "stablehlo.scatter"(%cache, %places, %new) <{indices_are_sorted = true, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1, 2, 3], input_batching_dims = [0], scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [1, 2, 3], index_vector_dim = 1>, unique_indices = true}> ({
  ^bb0(%old: tensor<f32>, %one: tensor<f32>):
    %sum = stablehlo.add %old, %one : tensor<f32>
    stablehlo.return %sum : tensor<f32>
  }) : (tensor<2x3x16x8xf32>, tensor<2x3xi32>, tensor<2x3x1x8xf32>) -> tensor<2x3x16x8xf32>
  return %r : tensor<2x3x16x8xf32>
}

// -----

// CHECK-LABEL: func.func @kept(
// CHECK: "stablehlo.scatter"
// CHECK: "stablehlo.scatter"
func.func @kept(%cache: tensor<16x8xf32>, %new: tensor<4x8xf32>, %at: tensor<4x1xi32>, %rows: tensor<?x8xf32>) -> (tensor<16x8xf32>, tensor<?x8xf32>) {
  %r = "stablehlo.scatter"(%cache, %at, %new) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
  ^bb0(%old: tensor<f32>, %one: tensor<f32>):
    %twice = stablehlo.add %one, %one : tensor<f32>
    %sum = stablehlo.add %old, %twice : tensor<f32>
    stablehlo.return %sum : tensor<f32>
  }) : (tensor<16x8xf32>, tensor<4x1xi32>, tensor<4x8xf32>) -> tensor<16x8xf32>
  %s = "stablehlo.scatter"(%rows, %at, %new) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
  ^bb0(%old: tensor<f32>, %one: tensor<f32>):
    stablehlo.return %one : tensor<f32>
  }) : (tensor<?x8xf32>, tensor<4x1xi32>, tensor<4x8xf32>) -> tensor<?x8xf32>
  return %r, %s : tensor<16x8xf32>, tensor<?x8xf32>
}
