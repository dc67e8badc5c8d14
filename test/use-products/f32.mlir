// Products of f32: each of three products of tensor cores, in tiles of 128 or 64 columns, or with
// workgroups that divide the depth where there are few tiles; few rows are left to IREE.

// RUN: attn-opt %s --attn-use-products="target=sm_90 mode=cost" --split-input-file --remarks > %t.mlir 2> %t.txt
// RUN: FileCheck %s < %t.mlir
// RUN: FileCheck %s --check-prefix=REMARK < %t.txt
// RUN: attn-opt %s --attn-use-products="target=sm_90 mode=never" --split-input-file | FileCheck %s --check-prefix=NEVER

// NEVER-NOT: hal.dispatch.extern

#w = affine_map<(m, n, k) -> (n, k)>
#a = affine_map<(m, n, k) -> (m, k)>
#r = affine_map<(m, n, k) -> (m, n)>

// CHECK-LABEL: func.func @many(
// CHECK: hal.dispatch.extern "product_f32_tile128_clamp_general_wide"[%c132, %c1]
// REMARK: product_f32_tile128_clamp_general_wide: about {{[0-9]+}} us instead of
func.func @many(%a: tensor<2048x1024xf32>, %w: tensor<4096x1024xf32>) -> tensor<2048x4096xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2048x4096xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2048x4096xf32>) -> tensor<2048x4096xf32>
  %p = linalg.matmul indexing_maps = [#a, #w, #r] ins(%a, %w : tensor<2048x1024xf32>, tensor<4096x1024xf32>) outs(%f : tensor<2048x4096xf32>) -> tensor<2048x4096xf32>
  return %p : tensor<2048x4096xf32>
}

// -----

// Weights as (k, n), a bias, ReLU and a residual; 64 columns, so that all units have a tile.
#id = affine_map<(m, n) -> (m, n)>
#column = affine_map<(m, n) -> (n)>
// CHECK-LABEL: func.func @behind(
// CHECK: hal.dispatch.extern "product_f32_tile64_kn_clamp_general_wide"
// CHECK-NOT: linalg.generic
// REMARK: product_f32_tile64_kn_clamp_general_wide: {{.*}}, with a bias and ReLU and a residual
func.func @behind(%a: tensor<1024x1024xf32>, %w: tensor<1024x1024xf32>, %b: tensor<1024xf32>, %x: tensor<1024x1024xf32>) -> tensor<1024x1024xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1024x1024xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  %p = linalg.matmul ins(%a, %w : tensor<1024x1024xf32>, tensor<1024x1024xf32>) outs(%f : tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  %g = linalg.generic {indexing_maps = [#id, #column, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%p, %b, %x : tensor<1024x1024xf32>, tensor<1024xf32>, tensor<1024x1024xf32>) outs(%e : tensor<1024x1024xf32>) {
  ^bb0(%i: f32, %j: f32, %r: f32, %o: f32):
    %s = arith.addf %i, %j : f32
    %m = arith.maximumf %s, %zero : f32
    %t = arith.addf %m, %r : f32
    linalg.yield %t : f32
  } -> tensor<1024x1024xf32>
  return %g : tensor<1024x1024xf32>
}

// -----

#w = affine_map<(m, n, k) -> (n, k)>
#a = affine_map<(m, n, k) -> (m, k)>
#r = affine_map<(m, n, k) -> (m, n)>

// 24 tiles: four workgroups for each.
// CHECK-LABEL: func.func @deep(
// CHECK: hal.dispatch.extern "product_f32_tile128_by4_clamp_general_wide"[%c96, %c1]
func.func @deep(%a: tensor<512x3072xf32>, %w: tensor<768x3072xf32>) -> tensor<512x768xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<512x768xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<512x768xf32>) -> tensor<512x768xf32>
  %p = linalg.matmul indexing_maps = [#a, #w, #r] ins(%a, %w : tensor<512x3072xf32>, tensor<768x3072xf32>) outs(%f : tensor<512x768xf32>) -> tensor<512x768xf32>
  return %p : tensor<512x768xf32>
}

// -----

#w = affine_map<(m, n, k) -> (n, k)>
#a = affine_map<(m, n, k) -> (m, k)>
#r = affine_map<(m, n, k) -> (m, n)>

// Any number of rows; a depth that 4 does not divide is filled up.
// CHECK-LABEL: func.func @unknown(
// CHECK: tensor<1024x1368xf32>
// CHECK: hal.dispatch.extern "product_f32_tile{{[0-9]+}}_clamp_general_wide"
// REMARK: product_f32_tile{{.*}} their number is known only at run time
func.func @unknown(%a: tensor<?x1365xf32>, %w: tensor<1024x1365xf32>) -> tensor<?x1024xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %m = tensor.dim %a, %c0 : tensor<?x1365xf32>
  %e = tensor.empty(%m) : tensor<?x1024xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?x1024xf32>) -> tensor<?x1024xf32>
  %p = linalg.matmul indexing_maps = [#a, #w, #r] ins(%a, %w : tensor<?x1365xf32>, tensor<1024x1365xf32>) outs(%f : tensor<?x1024xf32>) -> tensor<?x1024xf32>
  return %p : tensor<?x1024xf32>
}

// -----

// CHECK-LABEL: func.func @batch(
// CHECK: hal.dispatch.extern "product_f32_batched_tile{{[0-9]+}}_kn_clamp_general_wide"
func.func @batch(%a: tensor<16x512x512xf32>, %w: tensor<16x512x512xf32>) -> tensor<16x512x512xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<16x512x512xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<16x512x512xf32>) -> tensor<16x512x512xf32>
  %p = linalg.batch_matmul ins(%a, %w : tensor<16x512x512xf32>, tensor<16x512x512xf32>) outs(%f : tensor<16x512x512xf32>) -> tensor<16x512x512xf32>
  return %p : tensor<16x512x512xf32>
}

// -----

#w = affine_map<(m, n, k) -> (n, k)>
#a = affine_map<(m, n, k) -> (m, k)>
#r = affine_map<(m, n, k) -> (m, n)>

// A step's rows: IREE reads the weights once, as fast as memory.
// CHECK-LABEL: func.func @step(
// CHECK-NOT: hal.dispatch.extern
// REMARK: stays IREE's own code: {{.*}}no win
func.func @step(%a: tensor<4x1024xf32>, %w: tensor<1024x1024xf32>) -> tensor<4x1024xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x1024xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x1024xf32>) -> tensor<4x1024xf32>
  %p = linalg.matmul indexing_maps = [#a, #w, #r] ins(%a, %w : tensor<4x1024xf32>, tensor<1024x1024xf32>) outs(%f : tensor<4x1024xf32>) -> tensor<4x1024xf32>
  return %p : tensor<4x1024xf32>
}
