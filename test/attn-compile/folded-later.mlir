// JAX's einsum projections, whose result a transpose brings into attention's order: below O2 IREE
// folds that transpose into attention after planning, and the report says so.

// RUN: attn-compile %s %cpu --iree-opt-level=O0 --compile-to=flow -o %t.mlir --attn-summary 2>&1 | FileCheck %s --check-prefix=O0
// RUN: attn-compile %s %cpu --compile-to=flow -o %t.mlir --attn-summary 2>&1 | FileCheck %s --check-prefix=O2

// O0: level O0
// O0: key kept: k1 is innermost already
// O0: key folded: IREE has folded a transpose in front of attention since: the innermost dim of the key is k2, no longer k1
// O0: value folded: IREE has folded a transpose in front of attention since: the innermost dim of the value is k2, no longer n
// O2: level O2
// O2-NOT: IREE has folded

module @jit_f attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2x16x32xf32>, %arg1: tensor<32x4x8xf32>, %arg2: tensor<32x4x8xf32>, %arg3: tensor<32x4x8xf32>) -> (tensor<2x4x16x8xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.dot_general %arg1, %arg0, contracting_dims = [0] x [2], precision = [DEFAULT, DEFAULT] : (tensor<32x4x8xf32>, tensor<2x16x32xf32>) -> tensor<4x8x2x16xf32>
    %1 = stablehlo.transpose %0, dims = [2, 0, 3, 1] : (tensor<4x8x2x16xf32>) -> tensor<2x4x16x8xf32>
    %2 = stablehlo.dot_general %arg2, %arg0, contracting_dims = [0] x [2], precision = [DEFAULT, DEFAULT] : (tensor<32x4x8xf32>, tensor<2x16x32xf32>) -> tensor<4x8x2x16xf32>
    %3 = stablehlo.transpose %2, dims = [2, 0, 3, 1] : (tensor<4x8x2x16xf32>) -> tensor<2x4x16x8xf32>
    %4 = stablehlo.dot_general %arg3, %arg0, contracting_dims = [0] x [2], precision = [DEFAULT, DEFAULT] : (tensor<32x4x8xf32>, tensor<2x16x32xf32>) -> tensor<4x8x2x16xf32>
    %5 = stablehlo.transpose %4, dims = [2, 0, 3, 1] : (tensor<4x8x2x16xf32>) -> tensor<2x4x16x8xf32>
    %cst = stablehlo.constant dense<0.353553385> : tensor<f32>
    %6 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x4x16x8xf32>
    %7 = stablehlo.multiply %1, %6 : tensor<2x4x16x8xf32>
    %8 = stablehlo.dot_general %7, %3, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>) -> tensor<2x4x16x16xf32>
    %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %9 = stablehlo.reduce(%8 init: %cst_0) applies stablehlo.maximum across dimensions = [3] : (tensor<2x4x16x16xf32>, tensor<f32>) -> tensor<2x4x16xf32>
    %cst_1 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %10 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<2x4x16xf32>
    %11 = stablehlo.maximum %10, %9 : tensor<2x4x16xf32>
    %12 = stablehlo.broadcast_in_dim %11, dims = [0, 1, 2] : (tensor<2x4x16xf32>) -> tensor<2x4x16x1xf32>
    %13 = stablehlo.broadcast_in_dim %12, dims = [0, 1, 2, 3] : (tensor<2x4x16x1xf32>) -> tensor<2x4x16x16xf32>
    %14 = stablehlo.subtract %8, %13 : tensor<2x4x16x16xf32>
    %15 = stablehlo.exponential %14 : tensor<2x4x16x16xf32>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %16 = stablehlo.reduce(%15 init: %cst_2) applies stablehlo.add across dimensions = [3] : (tensor<2x4x16x16xf32>, tensor<f32>) -> tensor<2x4x16xf32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [0, 1, 2] : (tensor<2x4x16xf32>) -> tensor<2x4x16x1xf32>
    %18 = stablehlo.broadcast_in_dim %17, dims = [0, 1, 2, 3] : (tensor<2x4x16x1xf32>) -> tensor<2x4x16x16xf32>
    %19 = stablehlo.divide %15, %18 : tensor<2x4x16x16xf32>
    %20 = stablehlo.dot_general %19, %5, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<2x4x16x16xf32>, tensor<2x4x16x8xf32>) -> tensor<2x4x16x8xf32>
    return %20 : tensor<2x4x16x8xf32>
  }
}
