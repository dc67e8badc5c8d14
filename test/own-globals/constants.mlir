// Where a module stores in globals, branches and loops hand on copies of constants, and what the
// host reads stands behind a barrier. Numbers that are all one stay, and so does a module without
// stores.

// RUN: attn-opt %s --attn-own-globals --split-input-file --report=%t.json | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.json
// WHY-COUNT-1: hands on copies of constants
// WHY-COUNT-1: reads behind a barrier
// WHY-NOT: {{hands on|reads behind}}

util.global private mutable @state = #util.uninitialized : tensor<2xf32>
// CHECK-LABEL: func.func @chosen(
// CHECK: %[[COUNT:.*]] = tensor.extract %arg1[]
// CHECK-NEXT: %[[BEHIND:.*]] = util.optimization_barrier %[[COUNT]] : i32
// CHECK: arith.cmpi slt, %[[BEHIND]]
// CHECK: scf.if
// CHECK: %[[KNOWN:.*]] = util.optimization_barrier %cst
// CHECK: %[[COPY:.*]] = flow.dispatch.region
// CHECK: linalg.copy ins(%[[KNOWN]] :
// CHECK: scf.yield %[[COPY]], %[[ONES:.*]] :
func.func @chosen(%x: tensor<2xf32>, %n: tensor<i32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %zero = arith.constant 0 : i32
  %numbers = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %ones = arith.constant dense<1.0> : tensor<2xf32>
  %was = util.global.load @state : tensor<2xf32>
  %count = tensor.extract %n[] : tensor<i32>
  %c = arith.cmpi slt, %count, %zero : i32
  %r:2 = scf.if %c -> (tensor<2xf32>, tensor<2xf32>) {
    scf.yield %numbers, %ones : tensor<2xf32>, tensor<2xf32>
  } else {
    scf.yield %was, %was : tensor<2xf32>, tensor<2xf32>
  }
  %next = arith.addf %x, %x : tensor<2xf32>
  util.global.store %next, @state : tensor<2xf32>
  return %r#0, %r#1 : tensor<2xf32>, tensor<2xf32>
}

// -----

// CHECK-LABEL: func.func @stored_nowhere(
// CHECK-NOT: util.optimization_barrier
// CHECK-NOT: linalg.copy
// CHECK: return
func.func @stored_nowhere(%x: tensor<2xf32>, %n: tensor<i32>) -> tensor<2xf32> {
  %zero = arith.constant 0 : i32
  %numbers = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %count = tensor.extract %n[] : tensor<i32>
  %c = arith.cmpi slt, %count, %zero : i32
  %r = scf.if %c -> tensor<2xf32> {
    scf.yield %numbers : tensor<2xf32>
  } else {
    scf.yield %x : tensor<2xf32>
  }
  return %r : tensor<2xf32>
}
