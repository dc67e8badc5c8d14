// Products of many rows read constant weights from tiles, and elementwise ops behind them stand on tiles, too.

// RUN: attn-opt %s --attn-pack-products | FileCheck %s

#whole = affine_map<(i, j, k) -> (i, j, k)>
#column = affine_map<(i, j, k) -> (k)>
#row = affine_map<(i, j, k) -> (i, j)>
module attributes {hal.device.targets = [#hal.device.target<"local", [#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {cpu = "znver4", native_vector_size = 64 : i64}>]> : !hal.device]} {
util.global private @shared = #util.uninitialized : tensor<512x256xf32>
util.global private @held = #util.uninitialized : tensor<512x256xf32>
util.global private mutable @written : tensor<512x256xf32>

// Weights as (columns, depth), repeated for each sequence; a bias and a sum behind, which an argument joins.
// CHECK-LABEL: func.func @linear(
// CHECK-SAME: %[[X:.*]]: tensor<2x512x256xf32>, %[[B:.*]]: tensor<512xf32>, %[[R:.*]]: tensor<2x512x512xf32>
// CHECK-DAG: %[[W:.*]] = util.global.load @shared
// CHECK-DAG: %[[ROWS:.*]] = tensor.collapse_shape %[[X]] {{\[\[}}0, 1], [2]] : tensor<2x512x256xf32> into tensor<1024x256xf32>
// CHECK-DAG: %[[PACKED:.*]] = linalg.pack %[[W]] outer_dims_perm = [0, 1] inner_dims_pos = [0, 1] inner_tiles = [32, 1] into {{.*}} -> tensor<16x256x32x1xf32>
// CHECK-DAG: %[[TILES:.*]] = tensor.collapse_shape %[[PACKED]] {{.*}} into tensor<16x256x32xf32>
// CHECK: %[[SUMS:.*]] = linalg.generic {{.*}} ins(%[[ROWS]], %[[TILES]] : {{.*}} attrs = {{.*}}compilation_info{{.*}} {
// CHECK: -> tensor<1024x16x32xf32>
// CHECK: linalg.generic {{.*}} ins(%[[SUMS]], {{.*}} : tensor<1024x16x32xf32>, tensor<16x32xf32>)
// CHECK: linalg.generic
// CHECK: %[[MATRIX:.*]] = tensor.collapse_shape {{.*}} into tensor<1024x512xf32>
// CHECK: iree_tensor_ext.compute_barrier.start %[[MATRIX]]
// CHECK-NOT: linalg.batch_matmul
func.func @linear(%x: tensor<2x512x256xf32>, %b: tensor<512xf32>, %residual: tensor<2x512x512xf32>) -> tensor<2x512x512xf32> {
  %zero = arith.constant 0.0 : f32
  %w = util.global.load @shared : tensor<512x256xf32>
  %t = tensor.empty() : tensor<256x512xf32>
  %turned = linalg.transpose ins(%w : tensor<512x256xf32>) outs(%t : tensor<256x512xf32>) permutation = [1, 0]
  %u = tensor.empty() : tensor<2x256x512xf32>
  %each = linalg.broadcast ins(%turned : tensor<256x512xf32>) outs(%u : tensor<2x256x512xf32>) dimensions = [0]
  %e = tensor.empty() : tensor<2x512x512xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2x512x512xf32>) -> tensor<2x512x512xf32>
  %p = linalg.batch_matmul ins(%x, %each : tensor<2x512x256xf32>, tensor<2x256x512xf32>) outs(%f : tensor<2x512x512xf32>) -> tensor<2x512x512xf32>
  %s = linalg.generic {indexing_maps = [#whole, #column, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%p, %b : tensor<2x512x512xf32>, tensor<512xf32>) outs(%e : tensor<2x512x512xf32>) {
  ^bb0(%a: f32, %c: f32, %o: f32):
    %r = arith.addf %a, %c : f32
    linalg.yield %r : f32
  } -> tensor<2x512x512xf32>
  %r = linalg.generic {indexing_maps = [#whole, #whole, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%residual, %s : tensor<2x512x512xf32>, tensor<2x512x512xf32>) outs(%e : tensor<2x512x512xf32>) {
  ^bb0(%a: f32, %c: f32, %o: f32):
    %r = arith.addf %a, %c : f32
    linalg.yield %r : f32
  } -> tensor<2x512x512xf32>
  return %r : tensor<2x512x512xf32>
}

// What is divided by a number a row stays behind.
// CHECK-LABEL: func.func @constant(
// CHECK: linalg.pack {{.*}} outer_dims_perm = [1, 0] inner_dims_pos = [1, 0] inner_tiles = [32, 1] into {{.*}} -> tensor<8x512x32x1xf32>
// CHECK: iree_tensor_ext.compute_barrier.start
// CHECK-NOT: linalg.matmul
func.func @constant(%x: tensor<256x512xf32>, %norms: tensor<1x256xf32>) -> tensor<1x256x256xf32> {
  %zero = arith.constant 0.0 : f32
  %w = util.global.load @held : tensor<512x256xf32>
  %e = tensor.empty() : tensor<256x256xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<256x256xf32>) -> tensor<256x256xf32>
  %p = linalg.matmul ins(%x, %w : tensor<256x512xf32>, tensor<512x256xf32>) outs(%f : tensor<256x256xf32>) -> tensor<256x256xf32>
  %v = tensor.expand_shape %p [[0, 1], [2]] output_shape [1, 256, 256] : tensor<256x256xf32> into tensor<1x256x256xf32>
  %u = tensor.empty() : tensor<1x256x256xf32>
  %r = linalg.generic {indexing_maps = [#whole, #row, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v, %norms : tensor<1x256x256xf32>, tensor<1x256xf32>) outs(%u : tensor<1x256x256xf32>) {
  ^bb0(%a: f32, %c: f32, %o: f32):
    %r = arith.divf %a, %c : f32
    linalg.yield %r : f32
  } -> tensor<1x256x256xf32>
  return %r : tensor<1x256x256xf32>
}
}
