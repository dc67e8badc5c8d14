// Numbers that were kept out of kernels are constants for their launches; other barriers stay.

// RUN: attn-opt %s --attn-launch-constants --report=%t.json | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.json
// WHY: launches hand kernels 1 numbers
// WHY-NOT: launches hand

// CHECK-LABEL: func.func @lengths(
// CHECK: %[[ONE:.*]] = arith.constant 1
// CHECK: %[[OTHER:.*]] = util.optimization_barrier %[[ONE]]
// CHECK: return %[[ONE]], %[[OTHER]]
func.func @lengths() -> (i32, i32) {
  %c1 = arith.constant 1 : i32
  %0 = util.optimization_barrier {attnpass.launch_constant} %c1 : i32
  %1 = util.optimization_barrier %c1 : i32
  return %0, %1 : i32, i32
}
