// IREE's own diagnostics come through with their places; of a split file every chunk is
// compiled, and one bad chunk means no output.

// RUN: rm -f %t
// RUN: not attn-compile %s %cpu --split-input-file --compile-to=flow -o %t 2>&1 | FileCheck %s
// RUN: not ls %t

// CHECK-NOT: Traceback
// CHECK: diagnostics.mlir:18:10: error: use of undeclared SSA value name
// CHECK: diagnostics.mlir:22:3: error: {{.*}}no_such_dialect
// CHECK-NOT: error

func.func @good(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
// -----
func.func @bad(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %y : tensor<4xf32>
}
// -----
func.func @worse(%x: tensor<4xf32>) -> tensor<4xf32> {
  no_such_dialect.op
  return %x : tensor<4xf32>
}
