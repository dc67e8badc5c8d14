// RUN: attn-opt %s --attn-use-products="target=sm_90 mode=always" --split-input-file --remarks > %t.mlir 2> %t.txt
// RUN: FileCheck %s < %t.mlir
// RUN: FileCheck %s --check-prefix=REMARK < %t.txt
// RUN: attn-opt %s --attn-use-products="target=sm_80 mode=always" --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=OLDER

// What is left to IREE, and why.
// CHECK-NOT: hal.dispatch.extern
// OLDER: the kernels need sm_90; the target is

#w = affine_map<(m, n, k) -> (n, k)>
#a = affine_map<(m, n, k) -> (m, k)>
#r = affine_map<(m, n, k) -> (m, n)>

// REMARK: stays IREE's own code: its depth (60) must be a multiple of 8
func.func @depth(%a: tensor<300x60xf16>, %w: tensor<520x60xf16>) -> tensor<300x520xf16> {
  %zero = arith.constant 0.0 : f16
  %e = tensor.empty() : tensor<300x520xf16>
  %f = linalg.fill ins(%zero : f16) outs(%e : tensor<300x520xf16>) -> tensor<300x520xf16>
  %p = linalg.matmul indexing_maps = [#a, #w, #r] ins(%a, %w : tensor<300x60xf16>, tensor<520x60xf16>) outs(%f : tensor<300x520xf16>) -> tensor<300x520xf16>
  return %p : tensor<300x520xf16>
}

// -----

#w = affine_map<(m, n, k) -> (n, k)>
#a = affine_map<(m, n, k) -> (m, k)>
#r = affine_map<(m, n, k) -> (m, n)>

// REMARK: stays IREE's own code: it is added to a tensor
func.func @added(%a: tensor<300x64xf16>, %w: tensor<520x64xf16>, %f: tensor<300x520xf16>) -> tensor<300x520xf16> {
  %p = linalg.matmul indexing_maps = [#a, #w, #r] ins(%a, %w : tensor<300x64xf16>, tensor<520x64xf16>) outs(%f : tensor<300x520xf16>) -> tensor<300x520xf16>
  return %p : tensor<300x520xf16>
}

// -----

// Both operands differ from one product of the batch to the next.
// REMARK: stays IREE's own code: it is a batch of products, each with its own weights
func.func @batch(%a: tensor<2x300x64xf16>, %w: tensor<2x64x520xf16>) -> tensor<2x300x520xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x300x520xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2x300x520xf32>) -> tensor<2x300x520xf32>
  %p = linalg.batch_matmul ins(%a, %w : tensor<2x300x64xf16>, tensor<2x64x520xf16>) outs(%f : tensor<2x300x520xf32>) -> tensor<2x300x520xf32>
  return %p : tensor<2x300x520xf32>
}

// -----

#w = affine_map<(m, n, k) -> (n, k)>
#a = affine_map<(m, n, k) -> (m, k)>
#r = affine_map<(m, n, k) -> (m, n)>
#id = affine_map<(i, j) -> (i, j)>

// Weights alone are widened: the rows have more bits than a kernel reads.
// REMARK: stays IREE's own code: there are no kernels for f32 times f16
func.func @half_widened(%a: tensor<300x64xf32>, %w: tensor<520x64xf16>) -> tensor<300x520xf32> {
  %zero = arith.constant 0.0 : f32
  %ew = tensor.empty() : tensor<520x64xf32>
  %wide = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%w : tensor<520x64xf16>) outs(%ew : tensor<520x64xf32>) {
  ^bb0(%i: f16, %o: f32):
    %t = arith.extf %i : f16 to f32
    linalg.yield %t : f32
  } -> tensor<520x64xf32>
  %e = tensor.empty() : tensor<300x520xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<300x520xf32>) -> tensor<300x520xf32>
  %p = linalg.matmul indexing_maps = [#a, #w, #r] ins(%a, %wide : tensor<300x64xf32>, tensor<520x64xf32>) outs(%f : tensor<300x520xf32>) -> tensor<300x520xf32>
  return %p : tensor<300x520xf32>
}

// -----

#w = affine_map<(m, n, k) -> (n, k)>
#a = affine_map<(m, n, k) -> (m, k)>
#r = affine_map<(m, n, k) -> (m, n)>
#id = affine_map<(m, n) -> (m, n)>
#column = affine_map<(m, n) -> (n)>

// A sigmoid that is neither SiLU's nor GELU's, in front of the rounding.
// REMARK: stays IREE's own code: its result is f32 and not f16, and a kernel does nothing of what stands behind it
func.func @quick(%a: tensor<300x64xf16>, %w: tensor<520x64xf16>, %b: tensor<520xf16>) -> tensor<300x520xf16> {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %half = arith.constant 0.5 : f32
  %small = arith.constant 0.044715 : f32
  %root = arith.constant 0.70710678 : f32
  %bent = arith.constant 0.7978845608 : f32
  %twice = arith.constant 1.5957691216 : f32
  %e32 = tensor.empty() : tensor<300x520xf32>
  %e = tensor.empty() : tensor<300x520xf16>
  %f = linalg.fill ins(%zero : f32) outs(%e32 : tensor<300x520xf32>) -> tensor<300x520xf32>
  %p = linalg.matmul indexing_maps = [#a, #w, #r] ins(%a, %w : tensor<300x64xf16>, tensor<520x64xf16>) outs(%f : tensor<300x520xf32>) -> tensor<300x520xf32>
  %g = linalg.generic {indexing_maps = [#id, #column, #id], iterator_types = ["parallel", "parallel"]} ins(%p, %b : tensor<300x520xf32>, tensor<520xf16>) outs(%e : tensor<300x520xf16>) {
  ^bb0(%i: f32, %j: f16, %o: f16):
    %wide = arith.extf %j : f16 to f32
    %x = arith.addf %i, %wide : f32
    %c = arith.mulf %x, %twice : f32
    %n = arith.negf %c : f32
    %h = math.exp %n : f32
    %s = arith.addf %h, %one : f32
    %y = arith.divf %x, %s : f32
    %t = arith.truncf %y : f32 to f16
    linalg.yield %t : f16
  } -> tensor<300x520xf16>
  return %g : tensor<300x520xf16>
}

// -----

#w = affine_map<(m, n, k) -> (n, k)>
#a = affine_map<(m, n, k) -> (m, k)>
#r = affine_map<(m, n, k) -> (m, n)>
#id = affine_map<(m, n) -> (m, n)>
#column = affine_map<(m, n) -> (n)>

// A cube of another weight.
// REMARK: stays IREE's own code: its result is f32 and not f16, and a kernel does nothing of what stands behind it
func.func @bent_more(%a: tensor<300x64xf16>, %w: tensor<520x64xf16>, %b: tensor<520xf16>) -> tensor<300x520xf16> {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %half = arith.constant 0.5 : f32
  %small = arith.constant 0.044715 : f32
  %root = arith.constant 0.70710678 : f32
  %bent = arith.constant 0.7978845608 : f32
  %twice = arith.constant 1.5957691216 : f32
  %e32 = tensor.empty() : tensor<300x520xf32>
  %e = tensor.empty() : tensor<300x520xf16>
  %f = linalg.fill ins(%zero : f32) outs(%e32 : tensor<300x520xf32>) -> tensor<300x520xf32>
  %p = linalg.matmul indexing_maps = [#a, #w, #r] ins(%a, %w : tensor<300x64xf16>, tensor<520x64xf16>) outs(%f : tensor<300x520xf32>) -> tensor<300x520xf32>
  %g = linalg.generic {indexing_maps = [#id, #column, #id], iterator_types = ["parallel", "parallel"]} ins(%p, %b : tensor<300x520xf32>, tensor<520xf16>) outs(%e : tensor<300x520xf16>) {
  ^bb0(%i: f32, %j: f16, %o: f16):
    %wide = arith.extf %j : f16 to f32
    %x = arith.addf %i, %wide : f32
    %sq = arith.mulf %x, %x : f32
    %cube = arith.mulf %sq, %x : f32
    %q = arith.mulf %cube, %root : f32
    %u = arith.addf %x, %q : f32
    %c = arith.mulf %u, %twice : f32
    %n = arith.negf %c : f32
    %h = math.exp %n : f32
    %s = arith.addf %h, %one : f32
    %y = arith.divf %x, %s : f32
    %t = arith.truncf %y : f32 to f16
    linalg.yield %t : f16
  } -> tensor<300x520xf16>
  return %g : tensor<300x520xf16>
}
