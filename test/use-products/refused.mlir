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

// How far a batch's depth is to be filled up is not known.
// REMARK: stays IREE's own code: its depth are known only at run time
func.func @depth(%a: tensor<2x300x?xf16>, %w: tensor<2x?x520xf16>) -> tensor<2x300x520xf16> {
  %zero = arith.constant 0.0 : f16
  %e = tensor.empty() : tensor<2x300x520xf16>
  %f = linalg.fill ins(%zero : f16) outs(%e : tensor<2x300x520xf16>) -> tensor<2x300x520xf16>
  %p = linalg.batch_matmul ins(%a, %w : tensor<2x300x?xf16>, tensor<2x?x520xf16>) outs(%f : tensor<2x300x520xf16>) -> tensor<2x300x520xf16>
  return %p : tensor<2x300x520xf16>
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

// The depth of rows is outermost.
// REMARK: stays IREE's own code: its rows do not lie one behind the other
func.func @rows_by_depth(%a: tensor<4x64x296xf16>, %w: tensor<4x64x520xf16>) -> tensor<4x296x520xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x296x520xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x296x520xf32>) -> tensor<4x296x520xf32>
  %p = linalg.contract indexing_maps = [affine_map<(b, m, n, k) -> (b, k, m)>, affine_map<(b, m, n, k) -> (b, k, n)>, affine_map<(b, m, n, k) -> (b, m, n)>] ins(%a, %w : tensor<4x64x296xf16>, tensor<4x64x520xf16>) outs(%f : tensor<4x296x520xf32>) -> tensor<4x296x520xf32>
  return %p : tensor<4x296x520xf32>
}

// -----

// Neither dim of the weights is innermost: the batch is.
// REMARK: stays IREE's own code: neither the columns nor the depth of its weights lie side by side
func.func @batch_innermost(%a: tensor<8x300x64xf16>, %w: tensor<64x520x8xf16>) -> tensor<8x300x520xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x300x520xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x300x520xf32>) -> tensor<8x300x520xf32>
  %p = linalg.contract indexing_maps = [affine_map<(b, m, n, k) -> (b, m, k)>, affine_map<(b, m, n, k) -> (k, n, b)>, affine_map<(b, m, n, k) -> (b, m, n)>] ins(%a, %w : tensor<8x300x64xf16>, tensor<64x520x8xf16>) outs(%f : tensor<8x300x520xf32>) -> tensor<8x300x520xf32>
  return %p : tensor<8x300x520xf32>
}

// -----

// REMARK: stays IREE's own code: its batches lie in more than two dims
func.func @three_dims(%a: tensor<4x3x5x200x64xf16>, %w: tensor<5x4x3x520x64xf16>) -> tensor<3x5x4x200x520xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<3x5x4x200x520xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<3x5x4x200x520xf32>) -> tensor<3x5x4x200x520xf32>
  %p = linalg.contract indexing_maps = [affine_map<(x, y, z, m, n, k) -> (y, z, x, m, k)>, affine_map<(x, y, z, m, n, k) -> (x, y, z, n, k)>, affine_map<(x, y, z, m, n, k) -> (z, x, y, m, n)>] ins(%a, %w : tensor<4x3x5x200x64xf16>, tensor<5x4x3x520x64xf16>) outs(%f : tensor<3x5x4x200x520xf32>) -> tensor<3x5x4x200x520xf32>
  return %p : tensor<3x5x4x200x520xf32>
}

// -----

// REMARK: stays IREE's own code: it sums over 2 dims
func.func @two_depths(%a: tensor<300x8x64xf16>, %w: tensor<64x8x520xf16>) -> tensor<300x520xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<300x520xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<300x520xf32>) -> tensor<300x520xf32>
  %p = linalg.contract indexing_maps = [affine_map<(m, n, j, k) -> (m, j, k)>, affine_map<(m, n, j, k) -> (k, j, n)>, affine_map<(m, n, j, k) -> (m, n)>] ins(%a, %w : tensor<300x8x64xf16>, tensor<64x8x520xf16>) outs(%f : tensor<300x520xf32>) -> tensor<300x520xf32>
  return %p : tensor<300x520xf32>
}

// -----

// REMARK: stays IREE's own code: its last dim is not that of one operand's columns
func.func @batch_last(%a: tensor<8x300x64xf16>, %w: tensor<8x64xf16>) -> tensor<300x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<300x8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<300x8xf32>) -> tensor<300x8xf32>
  %p = linalg.contract indexing_maps = [affine_map<(b, m, k) -> (b, m, k)>, affine_map<(b, m, k) -> (b, k)>, affine_map<(b, m, k) -> (m, b)>] ins(%a, %w : tensor<8x300x64xf16>, tensor<8x64xf16>) outs(%f : tensor<300x8xf32>) -> tensor<300x8xf32>
  return %p : tensor<300x8xf32>
}

// -----

#w = affine_map<(m, n, k) -> (n, k)>
#a = affine_map<(m, n, k) -> (m, k)>
#r = affine_map<(m, n, k) -> (m, n)>

// A kernel would wait for what is never loaded.
// REMARK: stays IREE's own code: a size of it is 0: there is nothing to multiply
func.func @nothing(%a: tensor<300x0xf32>, %w: tensor<520x0xf32>) -> tensor<300x520xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<300x520xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<300x520xf32>) -> tensor<300x520xf32>
  %p = linalg.matmul indexing_maps = [#a, #w, #r] ins(%a, %w : tensor<300x0xf32>, tensor<520x0xf32>) outs(%f : tensor<300x520xf32>) -> tensor<300x520xf32>
  return %p : tensor<300x520xf32>
}
