// A reshape to computed sizes joins and cuts dims where all but one of its unknown sizes are equal,
// and so that one, too; where the sizes do not say it, it stays.

// RUN: attn-opt %s --target=sm_80 --attn-match-reshapes | FileCheck %s

module attributes {hal.device.targets = [#hal.device.target<"cuda", [#hal.executable.target<"cuda", "cuda-nvptx-fb">]>]} {

// The rows are counted from all elements, as `view(1, -1, 32, 128)` does.
//
// CHECK-LABEL: func.func @heads(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<1x?x4096xf16>
// CHECK: %[[R:.*]] = tensor.dim %[[X]], %c1
// CHECK: tensor.expand_shape %[[X]] {{\[\[}}0], [1], [2, 3]] output_shape [1, %[[R]], 32, 128]
// CHECK-NOT: tensor.reshape
func.func @heads(%x: tensor<1x?x4096xf16>, %rows: index) -> tensor<1x?x32x128xf16> {
  %c1 = arith.constant 1 : index
  %c32 = arith.constant 32 : index
  %c128 = arith.constant 128 : index
  %shape = tensor.from_elements %c1, %rows, %c32, %c128 : tensor<4xindex>
  %r = tensor.reshape %x(%shape) : (tensor<1x?x4096xf16>, tensor<4xindex>) -> tensor<1x?x32x128xf16>
  return %r : tensor<1x?x32x128xf16>
}

// CHECK-LABEL: func.func @two(
// CHECK: tensor.expand_shape {{.*}} {{\[\[}}0], [1], [2, 3]]
func.func @two(%x: tensor<?x?x64xf16>, %other: index) -> tensor<?x?x4x16xf16> {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %c16 = arith.constant 16 : index
  %batch = tensor.dim %x, %c0 : tensor<?x?x64xf16>
  %shape = tensor.from_elements %batch, %other, %c4, %c16 : tensor<4xindex>
  %r = tensor.reshape %x(%shape) : (tensor<?x?x64xf16>, tensor<4xindex>) -> tensor<?x?x4x16xf16>
  return %r : tensor<?x?x4x16xf16>
}

// Heads joined, and a dim of size one gone.
//
// CHECK-LABEL: func.func @joined(
// CHECK: tensor.collapse_shape {{.*}} {{\[\[}}0, 1], [2, 3]]
func.func @joined(%x: tensor<1x?x4x16xf16>, %rows: index) -> tensor<?x64xf16> {
  %c64 = arith.constant 64 : index
  %shape = tensor.from_elements %rows, %c64 : tensor<2xindex>
  %r = tensor.reshape %x(%shape) : (tensor<1x?x4x16xf16>, tensor<2xindex>) -> tensor<?x64xf16>
  return %r : tensor<?x64xf16>
}

// Heads joined with an unknown batch, as `view(batch * 16, -1, 64)` does, where the rows are what
// all elements leave.
//
// CHECK-LABEL: func.func @batch(
// CHECK: tensor.collapse_shape {{.*}} {{\[\[}}0, 1], [2], [3]]
// CHECK-NOT: tensor.reshape
func.func @batch(%x: tensor<?x16x?x64xf16>) -> tensor<?x?x64xf16> {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %c16 = arith.constant 16 : i64
  %c64 = arith.constant 64 : i64
  %c1024 = arith.constant 1024 : i64
  %b = tensor.dim %x, %c0 : tensor<?x16x?x64xf16>
  %l = tensor.dim %x, %c2 : tensor<?x16x?x64xf16>
  %batch = arith.index_cast %b : index to i64
  %rows = arith.index_cast %l : index to i64
  %heads = arith.muli %batch, %c16 : i64
  %width = arith.muli %batch, %c1024 : i64
  %lines = arith.muli %heads, %rows : i64
  %all = arith.muli %lines, %c64 : i64
  %left = arith.divui %all, %width : i64
  %shape = tensor.from_elements %heads, %left, %c64 : tensor<3xi64>
  %r = tensor.reshape %x(%shape) : (tensor<?x16x?x64xf16>, tensor<3xi64>) -> tensor<?x?x64xf16>
  return %r : tensor<?x?x64xf16>
}

// A quotient that may not be whole.
//
// CHECK-LABEL: func.func @quotient(
// CHECK: tensor.reshape
func.func @quotient(%x: tensor<?x6x64xf16>) -> tensor<?x?x64xf16> {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %c6 = arith.constant 6 : index
  %b = tensor.dim %x, %c0 : tensor<?x6x64xf16>
  %all = arith.muli %b, %c6 : index
  %some = arith.divui %all, %c4 : index
  %c64 = arith.constant 64 : index
  %shape = tensor.from_elements %some, %c4, %c64 : tensor<3xindex>
  %r = tensor.reshape %x(%shape) : (tensor<?x6x64xf16>, tensor<3xindex>) -> tensor<?x?x64xf16>
  return %r : tensor<?x?x64xf16>
}

// Twice as many rows: nothing says how.
//
// CHECK-LABEL: func.func @halves(
// CHECK: tensor.reshape
func.func @halves(%x: tensor<?x64xf16>, %rows: index) -> tensor<?x32xf16> {
  %c32 = arith.constant 32 : index
  %shape = tensor.from_elements %rows, %c32 : tensor<2xindex>
  %r = tensor.reshape %x(%shape) : (tensor<?x64xf16>, tensor<2xindex>) -> tensor<?x32xf16>
  return %r : tensor<?x32xf16>
}

// Which of two is the batch is not known.
//
// CHECK-LABEL: func.func @unknown(
// CHECK: tensor.reshape
func.func @unknown(%x: tensor<?x?x64xf16>, %one: index, %other: index) -> tensor<?x?x4x16xf16> {
  %c4 = arith.constant 4 : index
  %c16 = arith.constant 16 : index
  %shape = tensor.from_elements %one, %other, %c4, %c16 : tensor<4xindex>
  %r = tensor.reshape %x(%shape) : (tensor<?x?x64xf16>, tensor<4xindex>) -> tensor<?x?x4x16xf16>
  return %r : tensor<?x?x4x16xf16>
}

}
