// RUN: attn-opt %s --attn-use-products="target=sm_90 mode=always" --split-input-file --remarks > %t.mlir 2> %t.txt
// RUN: FileCheck %s < %t.mlir
// RUN: FileCheck %s --check-prefix=REMARK < %t.txt

// Products of 8-bit operands: scales in front of the sum or behind it are the kernel's.

// Scales of rows and columns behind the sums: flags 1 + 4 + 8 + 64.
// CHECK-LABEL: func.func @direct(
// CHECK: arith.index_cast %c77 : index to i32
// CHECK: hal.dispatch.extern "product_f8E4M3FN_bf16_tile128_clamp_general"[{{.*}}(%{{.*}}%arg0, %arg1, %arg4, %arg3, %{{.*}}, %arg0)
// CHECK-NOT: linalg
// REMARK: product_f8E4M3FN_bf16_tile128_clamp_general: {{.*}}, with a scale of rows and a scale of columns and a bias
func.func @direct(%a: tensor<300x64xf8E4M3FN>, %w: tensor<264x64xf8E4M3FN>, %sa: tensor<300x1xf32>, %sb: tensor<264xf32>, %b: tensor<264xbf16>) -> tensor<300x264xbf16> {
  %z = arith.constant 0.0 : f32
  %e32 = tensor.empty() : tensor<300x264xf32>
  %e16 = tensor.empty() : tensor<300x264xbf16>
  %f32 = linalg.fill ins(%z : f32) outs(%e32 : tensor<300x264xf32>) -> tensor<300x264xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %w : tensor<300x64xf8E4M3FN>, tensor<264x64xf8E4M3FN>) outs(%f32 : tensor<300x264xf32>) {
  ^bb0(%x: f8E4M3FN, %y: f8E4M3FN, %s: f32):
    %xe = arith.extf %x : f8E4M3FN to f32
    %ye = arith.extf %y : f8E4M3FN to f32
    %mu = arith.mulf %xe, %ye : f32
    %ad = arith.addf %s, %mu : f32
    linalg.yield %ad : f32
  } -> tensor<300x264xf32>
  %qsar = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, 0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%p, %sa : tensor<300x264xf32>, tensor<300x1xf32>) outs(%e32 : tensor<300x264xf32>) {
  ^bb0(%x0: f32, %x1: f32, %out: f32):
    %t = arith.mulf %x0, %x1 : f32
    linalg.yield %t : f32
  } -> tensor<300x264xf32>
  %qsbc = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%qsar, %sb : tensor<300x264xf32>, tensor<264xf32>) outs(%e32 : tensor<300x264xf32>) {
  ^bb0(%x0: f32, %x1: f32, %out: f32):
    %t = arith.mulf %x0, %x1 : f32
    linalg.yield %t : f32
  } -> tensor<300x264xf32>
  %n = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%qsbc : tensor<300x264xf32>) outs(%e16 : tensor<300x264xbf16>) {
  ^bb0(%x0: f32, %out: bf16):
    %t = arith.truncf %x0 : f32 to bf16
    linalg.yield %t : bf16
  } -> tensor<300x264xbf16>
  %nb = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%n, %b : tensor<300x264xbf16>, tensor<264xbf16>) outs(%e16 : tensor<300x264xbf16>) {
  ^bb0(%x0: bf16, %x1: bf16, %out: bf16):
    %t = arith.addf %x0, %x1 : bf16
    linalg.yield %t : bf16
  } -> tensor<300x264xbf16>
  return %nb : tensor<300x264xbf16>
}

// -----

// Both operands widened to f32 and scaled, by one number each: flags 4 + 8 + 64 + 128 + 256.
// CHECK-LABEL: func.func @front(
// CHECK: arith.index_cast %c460 : index to i32
// CHECK: hal.dispatch.extern "product_f8E4M3FN_f16_tile128_clamp_general"[{{.*}}(%{{.*}}%arg0, %arg1, %arg0, %arg3, %arg2, %arg0)
// CHECK-NOT: linalg
// REMARK: product_f8E4M3FN_f16_tile128_clamp_general: {{.*}}, with a scale and a scale
func.func @front(%a: tensor<300x64xf8E4M3FN>, %w: tensor<264x64xf8E4M3FN>, %sa: tensor<f32>, %sb: tensor<f32>) -> tensor<300x264xf16> {
  %z = arith.constant 0.0 : f32
  %e32 = tensor.empty() : tensor<300x264xf32>
  %e16 = tensor.empty() : tensor<300x264xf16>
  %f32 = linalg.fill ins(%z : f32) outs(%e32 : tensor<300x264xf32>) -> tensor<300x264xf32>
  %ea = tensor.empty() : tensor<300x64xf32>
  %ew = tensor.empty() : tensor<264x64xf32>
  %a32 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> ()>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%a, %sa : tensor<300x64xf8E4M3FN>, tensor<f32>) outs(%ea : tensor<300x64xf32>) {
  ^bb0(%x0: f8E4M3FN, %x1: f32, %out: f32):
    %t0 = arith.extf %x0 : f8E4M3FN to f32
    %v = arith.mulf %t0, %x1 : f32
    linalg.yield %v : f32
  } -> tensor<300x64xf32>
  %w32 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> ()>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%w, %sb : tensor<264x64xf8E4M3FN>, tensor<f32>) outs(%ew : tensor<264x64xf32>) {
  ^bb0(%x0: f8E4M3FN, %x1: f32, %out: f32):
    %t0 = arith.extf %x0 : f8E4M3FN to f32
    %v = arith.mulf %x1, %t0 : f32
    linalg.yield %v : f32
  } -> tensor<264x64xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a32, %w32 : tensor<300x64xf32>, tensor<264x64xf32>) outs(%f32 : tensor<300x264xf32>) {
  ^bb0(%x: f32, %y: f32, %s: f32):
    %mu = arith.mulf %x, %y : f32
    %ad = arith.addf %s, %mu : f32
    linalg.yield %ad : f32
  } -> tensor<300x264xf32>
  %n = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%p : tensor<300x264xf32>) outs(%e16 : tensor<300x264xf16>) {
  ^bb0(%x0: f32, %out: f16):
    %t = arith.truncf %x0 : f32 to f16
    linalg.yield %t : f16
  } -> tensor<300x264xf16>
  return %n : tensor<300x264xf16>
}

// -----

// Widened to bf16; weights (k, n) are turned, in 8 bits.
// CHECK-LABEL: func.func @turned(
// CHECK: linalg.transpose ins(%arg1 : tensor<64x264xf8E4M3FN>)
// CHECK: arith.index_cast %c12 : index to i32
// CHECK: hal.dispatch.extern "product_f8E4M3FN_bf16_tile128_clamp_general"[
// CHECK-NOT: linalg
// REMARK: product_f8E4M3FN_bf16_tile128_clamp_general: {{.*}}, with a scale of columns, its weights turned from (k, n) to (n, k) first
func.func @turned(%a: tensor<300x64xf8E4M3FN>, %w: tensor<64x264xf8E4M3FN>, %sb: tensor<264xf32>) -> tensor<300x264xbf16> {
  %z = arith.constant 0.0 : f32
  %e32 = tensor.empty() : tensor<300x264xf32>
  %e16 = tensor.empty() : tensor<300x264xbf16>
  %f32 = linalg.fill ins(%z : f32) outs(%e32 : tensor<300x264xf32>) -> tensor<300x264xf32>
  %ea = tensor.empty() : tensor<300x64xbf16>
  %ew = tensor.empty() : tensor<64x264xbf16>
  %a32 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%a : tensor<300x64xf8E4M3FN>) outs(%ea : tensor<300x64xbf16>) {
  ^bb0(%x0: f8E4M3FN, %out: bf16):
    %t0 = arith.extf %x0 : f8E4M3FN to bf16
    linalg.yield %t0 : bf16
  } -> tensor<300x64xbf16>
  %w32 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%w : tensor<64x264xf8E4M3FN>) outs(%ew : tensor<64x264xbf16>) {
  ^bb0(%x0: f8E4M3FN, %out: bf16):
    %t0 = arith.extf %x0 : f8E4M3FN to bf16
    linalg.yield %t0 : bf16
  } -> tensor<64x264xbf16>
  %p = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a32, %w32 : tensor<300x64xbf16>, tensor<64x264xbf16>) outs(%f32 : tensor<300x264xf32>) {
  ^bb0(%x: bf16, %y: bf16, %s: f32):
    %xe = arith.extf %x : bf16 to f32
    %ye = arith.extf %y : bf16 to f32
    %mu = arith.mulf %xe, %ye : f32
    %ad = arith.addf %s, %mu : f32
    linalg.yield %ad : f32
  } -> tensor<300x264xf32>
  %qsbc = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%p, %sb : tensor<300x264xf32>, tensor<264xf32>) outs(%e32 : tensor<300x264xf32>) {
  ^bb0(%x0: f32, %x1: f32, %out: f32):
    %t = arith.mulf %x0, %x1 : f32
    linalg.yield %t : f32
  } -> tensor<300x264xf32>
  %n = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%qsbc : tensor<300x264xf32>) outs(%e16 : tensor<300x264xbf16>) {
  ^bb0(%x0: f32, %out: bf16):
    %t = arith.truncf %x0 : f32 to bf16
    linalg.yield %t : bf16
  } -> tensor<300x264xbf16>
  return %n : tensor<300x264xbf16>
}

// -----

// A scale for each element of the depth stays in the sum: a product of f32.
// CHECK-LABEL: func.func @depth(
// CHECK: hal.dispatch.extern "product_f32_tile64_clamp_general_wide"
func.func @depth(%a: tensor<300x64xf8E4M3FN>, %w: tensor<264x64xf8E4M3FN>, %sb: tensor<64xf32>) -> tensor<300x264xbf16> {
  %z = arith.constant 0.0 : f32
  %e32 = tensor.empty() : tensor<300x264xf32>
  %e16 = tensor.empty() : tensor<300x264xbf16>
  %f32 = linalg.fill ins(%z : f32) outs(%e32 : tensor<300x264xf32>) -> tensor<300x264xf32>
  %ea = tensor.empty() : tensor<300x64xf32>
  %ew = tensor.empty() : tensor<264x64xf32>
  %a32 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%a : tensor<300x64xf8E4M3FN>) outs(%ea : tensor<300x64xf32>) {
  ^bb0(%x0: f8E4M3FN, %out: f32):
    %t0 = arith.extf %x0 : f8E4M3FN to f32
    linalg.yield %t0 : f32
  } -> tensor<300x64xf32>
  %w32 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%w, %sb : tensor<264x64xf8E4M3FN>, tensor<64xf32>) outs(%ew : tensor<264x64xf32>) {
  ^bb0(%x0: f8E4M3FN, %x1: f32, %out: f32):
    %t0 = arith.extf %x0 : f8E4M3FN to f32
    %v = arith.mulf %x1, %t0 : f32
    linalg.yield %v : f32
  } -> tensor<264x64xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a32, %w32 : tensor<300x64xf32>, tensor<264x64xf32>) outs(%f32 : tensor<300x264xf32>) {
  ^bb0(%x: f32, %y: f32, %s: f32):
    %mu = arith.mulf %x, %y : f32
    %ad = arith.addf %s, %mu : f32
    linalg.yield %ad : f32
  } -> tensor<300x264xf32>
  %n = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%p : tensor<300x264xf32>) outs(%e16 : tensor<300x264xbf16>) {
  ^bb0(%x0: f32, %out: bf16):
    %t = arith.truncf %x0 : f32 to bf16
    linalg.yield %t : bf16
  } -> tensor<300x264xbf16>
  return %n : tensor<300x264xbf16>
}

// -----

// CHECK-LABEL: func.func @deep(
// CHECK-NOT: hal.dispatch.extern
// REMARK: stays IREE's own code: its depth (72) must be a multiple of 16
func.func @deep(%a: tensor<300x72xf8E4M3FN>, %w: tensor<264x72xf8E4M3FN>) -> tensor<300x264xbf16> {
  %z = arith.constant 0.0 : f32
  %e32 = tensor.empty() : tensor<300x264xf32>
  %e16 = tensor.empty() : tensor<300x264xbf16>
  %f32 = linalg.fill ins(%z : f32) outs(%e32 : tensor<300x264xf32>) -> tensor<300x264xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %w : tensor<300x72xf8E4M3FN>, tensor<264x72xf8E4M3FN>) outs(%f32 : tensor<300x264xf32>) {
  ^bb0(%x: f8E4M3FN, %y: f8E4M3FN, %s: f32):
    %xe = arith.extf %x : f8E4M3FN to f32
    %ye = arith.extf %y : f8E4M3FN to f32
    %mu = arith.mulf %xe, %ye : f32
    %ad = arith.addf %s, %mu : f32
    linalg.yield %ad : f32
  } -> tensor<300x264xf32>
  %n = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%p : tensor<300x264xf32>) outs(%e16 : tensor<300x264xbf16>) {
  ^bb0(%x0: f32, %out: bf16):
    %t = arith.truncf %x0 : f32 to bf16
    linalg.yield %t : bf16
  } -> tensor<300x264xbf16>
  return %n : tensor<300x264xbf16>
}
