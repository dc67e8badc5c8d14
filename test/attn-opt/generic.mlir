// The generic form reads back as the same module, with weights held as resources.

// RUN: attn-opt %s -o %t.first
// RUN: attn-opt %s --mlir-print-op-generic | attn-opt -o %t.again
// RUN: diff %t.first %t.again
// RUN: attn-opt %s --mlir-print-op-generic | FileCheck %s --check-prefix=GENERIC
// RUN: attn-opt %s --mlir-print-debuginfo --cse | FileCheck %s --check-prefix=WEIGHTS

// GENERIC: "builtin.module"() ({
// GENERIC: "func.func"()
// GENERIC: dense_resource<weights>
// GENERIC: weights: "0x040000000000803F000000400000404000008040"

// WEIGHTS: arith.constant dense_resource<weights> : tensor<2x2xf32> loc(
// WEIGHTS: weights: "0x040000000000803F000000400000404000008040"
func.func @weights() -> tensor<2x2xf32> {
  %w = arith.constant dense_resource<weights> : tensor<2x2xf32>
  return %w : tensor<2x2xf32>
}

{-#
  dialect_resources: {
    builtin: {
      weights: "0x040000000000803F000000400000404000008040"
    }
  }
#-}
