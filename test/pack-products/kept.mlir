// Products that read their weights as they lie.

// RUN: attn-opt %s --attn-pack-products --split-input-file | FileCheck %s

#whole = affine_map<(i, j, k) -> (i, j, k)>
#column = affine_map<(i, j, k) -> (k)>
#row = affine_map<(i, j, k) -> (i, j)>
module attributes {hal.device.targets = [#hal.device.target<"local", [#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {cpu = "znver4", native_vector_size = 64 : i64}>]> : !hal.device]} {
util.global private @square = #util.uninitialized : tensor<512x512xf32>
util.global private @odd = #util.uninitialized : tensor<512x500xf32>
util.global private @halves = #util.uninitialized : tensor<512x512xf16>
util.global private @two = #util.uninitialized : tensor<2x512x512xf32>
util.global private @tiny = #util.uninitialized : tensor<64x64xf32>
util.global private @held = #util.uninitialized : tensor<512x256xf32>
util.global private mutable @written : tensor<512x256xf32>

// Weights that are no constants would be copied in each call.
// CHECK-LABEL: func.func @argument(
// CHECK-NOT: linalg.pack
// CHECK: return
func.func @argument(%x: tensor<1024x512xf32>, %w: tensor<512x512xf32>, %f: tensor<1024x512xf32>) -> tensor<1024x512xf32> {
  %zero = arith.constant 0.0 : f32
  %i = linalg.fill ins(%zero : f32) outs(%f : tensor<1024x512xf32>) -> tensor<1024x512xf32>
  %p = linalg.matmul ins(%x, %w : tensor<1024x512xf32>, tensor<512x512xf32>) outs(%i : tensor<1024x512xf32>) -> tensor<1024x512xf32>
  return %p : tensor<1024x512xf32>
}

// Too few rows to copy weights for.
// CHECK-LABEL: func.func @few_rows(
// CHECK-NOT: linalg.pack
// CHECK: return
func.func @few_rows(%x: tensor<48x512xf32>, %f: tensor<48x512xf32>) -> tensor<48x512xf32> {
  %w = util.global.load @square : tensor<512x512xf32>
  %zero = arith.constant 0.0 : f32
  %i = linalg.fill ins(%zero : f32) outs(%f : tensor<48x512xf32>) -> tensor<48x512xf32>
  %p = linalg.matmul ins(%x, %w : tensor<48x512xf32>, tensor<512x512xf32>) outs(%i : tensor<48x512xf32>) -> tensor<48x512xf32>
  return %p : tensor<48x512xf32>
}

// Columns that are no whole tiles.
// CHECK-LABEL: func.func @odd_columns(
// CHECK-NOT: linalg.pack
// CHECK: return
func.func @odd_columns(%x: tensor<1024x512xf32>, %f: tensor<1024x500xf32>) -> tensor<1024x500xf32> {
  %w = util.global.load @odd : tensor<512x500xf32>
  %zero = arith.constant 0.0 : f32
  %i = linalg.fill ins(%zero : f32) outs(%f : tensor<1024x500xf32>) -> tensor<1024x500xf32>
  %p = linalg.matmul ins(%x, %w : tensor<1024x512xf32>, tensor<512x500xf32>) outs(%i : tensor<1024x500xf32>) -> tensor<1024x500xf32>
  return %p : tensor<1024x500xf32>
}

// Rows of an unknown number.
// CHECK-LABEL: func.func @unknown_rows(
// CHECK-NOT: linalg.pack
// CHECK: return
func.func @unknown_rows(%x: tensor<?x512xf32>, %f: tensor<?x512xf32>) -> tensor<?x512xf32> {
  %w = util.global.load @square : tensor<512x512xf32>
  %zero = arith.constant 0.0 : f32
  %i = linalg.fill ins(%zero : f32) outs(%f : tensor<?x512xf32>) -> tensor<?x512xf32>
  %p = linalg.matmul ins(%x, %w : tensor<?x512xf32>, tensor<512x512xf32>) outs(%i : tensor<?x512xf32>) -> tensor<?x512xf32>
  return %p : tensor<?x512xf32>
}

// Sums in f16 are another type's.
// CHECK-LABEL: func.func @half(
// CHECK-NOT: linalg.pack
// CHECK: return
func.func @half(%x: tensor<1024x512xf16>, %f: tensor<1024x512xf16>) -> tensor<1024x512xf16> {
  %w = util.global.load @halves : tensor<512x512xf16>
  %zero = arith.constant 0.0 : f16
  %i = linalg.fill ins(%zero : f16) outs(%f : tensor<1024x512xf16>) -> tensor<1024x512xf16>
  %p = linalg.matmul ins(%x, %w : tensor<1024x512xf16>, tensor<512x512xf16>) outs(%i : tensor<1024x512xf16>) -> tensor<1024x512xf16>
  return %p : tensor<1024x512xf16>
}

// Weights of its own for each of two.
// CHECK-LABEL: func.func @batches(
// CHECK-NOT: linalg.pack
// CHECK: return
func.func @batches(%x: tensor<2x1024x512xf32>, %f: tensor<2x1024x512xf32>) -> tensor<2x1024x512xf32> {
  %w = util.global.load @two : tensor<2x512x512xf32>
  %zero = arith.constant 0.0 : f32
  %i = linalg.fill ins(%zero : f32) outs(%f : tensor<2x1024x512xf32>) -> tensor<2x1024x512xf32>
  %p = linalg.batch_matmul ins(%x, %w : tensor<2x1024x512xf32>, tensor<2x512x512xf32>) outs(%i : tensor<2x1024x512xf32>) -> tensor<2x1024x512xf32>
  return %p : tensor<2x1024x512xf32>
}

// A sum that starts somewhere.
// CHECK-LABEL: func.func @added(
// CHECK-NOT: linalg.pack
// CHECK: return
func.func @added(%x: tensor<1024x512xf32>, %f: tensor<1024x512xf32>) -> tensor<1024x512xf32> {
  %w = util.global.load @square : tensor<512x512xf32>
  %zero = arith.constant 0.0 : f32
  %p = linalg.matmul ins(%x, %w : tensor<1024x512xf32>, tensor<512x512xf32>) outs(%f : tensor<1024x512xf32>) -> tensor<1024x512xf32>
  return %p : tensor<1024x512xf32>
}

// Too small.
// CHECK-LABEL: func.func @small(
// CHECK-NOT: linalg.pack
// CHECK: return
func.func @small(%x: tensor<512x64xf32>, %f: tensor<512x64xf32>) -> tensor<512x64xf32> {
  %w = util.global.load @tiny : tensor<64x64xf32>
  %zero = arith.constant 0.0 : f32
  %i = linalg.fill ins(%zero : f32) outs(%f : tensor<512x64xf32>) -> tensor<512x64xf32>
  %p = linalg.matmul ins(%x, %w : tensor<512x64xf32>, tensor<64x64xf32>) outs(%i : tensor<512x64xf32>) -> tensor<512x64xf32>
  return %p : tensor<512x64xf32>
}

// A cache that is written may change in each call.
// CHECK-LABEL: func.func @changing(
// CHECK-NOT: linalg.pack
// CHECK: return
func.func @changing(%x: tensor<256x512xf32>, %f: tensor<256x256xf32>) -> tensor<256x256xf32> {
  %zero = arith.constant 0.0 : f32
  %w = util.global.load @written : tensor<512x256xf32>
  %i = linalg.fill ins(%zero : f32) outs(%f : tensor<256x256xf32>) -> tensor<256x256xf32>
  %p = linalg.matmul ins(%x, %w : tensor<256x512xf32>, tensor<512x256xf32>) outs(%i : tensor<256x256xf32>) -> tensor<256x256xf32>
  return %p : tensor<256x256xf32>
}
}

// -----

// Registers of 16 bytes were not measured.
#whole = affine_map<(i, j, k) -> (i, j, k)>
#column = affine_map<(i, j, k) -> (k)>
#row = affine_map<(i, j, k) -> (i, j)>
module attributes {hal.device.targets = [#hal.device.target<"local", [#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {cpu = "znver4", native_vector_size = 16 : i64}>]> : !hal.device]} {
util.global private @square = #util.uninitialized : tensor<512x512xf32>
util.global private @held = #util.uninitialized : tensor<512x256xf32>
util.global private mutable @written : tensor<512x256xf32>

// CHECK-LABEL: func.func @narrow(
// CHECK-NOT: linalg.pack
// CHECK: return
func.func @narrow(%x: tensor<1024x512xf32>, %f: tensor<1024x512xf32>) -> tensor<1024x512xf32> {
  %w = util.global.load @square : tensor<512x512xf32>
  %zero = arith.constant 0.0 : f32
  %i = linalg.fill ins(%zero : f32) outs(%f : tensor<1024x512xf32>) -> tensor<1024x512xf32>
  %p = linalg.matmul ins(%x, %w : tensor<1024x512xf32>, tensor<512x512xf32>) outs(%i : tensor<1024x512xf32>) -> tensor<1024x512xf32>
  return %p : tensor<1024x512xf32>
}
}

// -----

// A product of two vectors is one number.
#depth = affine_map<(k) -> (k)>
#none = affine_map<(k) -> ()>
module attributes {hal.device.targets = [#hal.device.target<"local", [#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {cpu = "znver4", native_vector_size = 64 : i64}>]> : !hal.device]} {
util.global private @vector = #util.uninitialized : tensor<512xf32>

// CHECK-LABEL: func.func @number(
// CHECK-NOT: linalg.pack
// CHECK: return
func.func @number(%x: tensor<512xf32>, %f: tensor<f32>) -> tensor<f32> {
  %w = util.global.load @vector : tensor<512xf32>
  %zero = arith.constant 0.0 : f32
  %i = linalg.fill ins(%zero : f32) outs(%f : tensor<f32>) -> tensor<f32>
  %p = linalg.contract indexing_maps = [#depth, #depth, #none] ins(%x, %w : tensor<512xf32>, tensor<512xf32>) outs(%i : tensor<f32>) -> tensor<f32>
  return %p : tensor<f32>
}
}
