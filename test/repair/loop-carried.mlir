// The condition and the body of a `while` take like values: what only one of them takes the other
// takes, too. Tensors of any size are alike. A loop whose body takes what has no number stays.

// RUN: attn-opt %s --attn-loop-carried --remarks 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt
// RUN: attn-opt %s --attn-loop-carried > %t.1 && attn-opt %s --attn-loop-carried --attn-loop-carried > %t.2 && diff %t.1 %t.2
// WHY-COUNT-2: its condition and its body take like values
// WHY-NOT: take like values

// CHECK-LABEL: func.func @its_condition(
// CHECK: %[[R:.*]]:2 = scf.while (%[[GO:.*]] = %arg1, %[[X:.*]] = %arg0) : (i1, tensor<4xf32>) -> (i1, tensor<4xf32>) {
// CHECK: %[[OWN:.*]] = util.optimization_barrier %[[GO]] : i1
// CHECK: scf.condition(%[[GO]]) %[[OWN]], %[[X]] : i1, tensor<4xf32>
// CHECK: ^bb0(%[[UNREAD:.*]]: i1, %[[A:.*]]: tensor<4xf32>):
// CHECK: arith.addf %[[A]], %[[A]]
// CHECK: util.optimization_barrier %[[UNREAD]] : i1
// CHECK: scf.yield %arg2, %{{.*}} : i1, tensor<4xf32>
// CHECK: return %[[R]]#1
func.func @its_condition(%x: tensor<4xf32>, %go: i1, %again: i1) -> tensor<4xf32> {
  %r = scf.while (%c = %go, %a = %x) : (i1, tensor<4xf32>) -> tensor<4xf32> {
    scf.condition(%c) %a : tensor<4xf32>
  } do {
  ^bb0(%a: tensor<4xf32>):
    %b = arith.addf %a, %a : tensor<4xf32>
    scf.yield %again, %b : i1, tensor<4xf32>
  }
  return %r : tensor<4xf32>
}

// CHECK-LABEL: func.func @made_there(
// CHECK: %[[EMPTY:.*]] = flow.tensor.empty : tensor<?xf32>{%{{.*}}}
// CHECK: scf.while (%[[I:.*]] = %arg1, %[[NONE:.*]] = %[[EMPTY]]) : (i32, tensor<?xf32>) -> (i32, tensor<?xf32>) {
// CHECK: util.optimization_barrier %[[NONE]]
// CHECK: scf.condition({{.*}}) %[[I]], %arg0 : i32, tensor<?xf32>
// CHECK: ^bb0(%[[J:.*]]: i32, %[[T:.*]]: tensor<?xf32>):
// CHECK: scf.yield %{{.*}}, %[[T]] : i32, tensor<?xf32>
func.func @made_there(%x: tensor<?xf32>, %n: i32) -> tensor<?xf32> {
  %r:2 = scf.while (%i = %n) : (i32) -> (i32, tensor<?xf32>) {
    %c = arith.cmpi slt, %i, %n : i32
    scf.condition(%c) %i, %x : i32, tensor<?xf32>
  } do {
  ^bb0(%i: i32, %t: tensor<?xf32>):
    %k = arith.addi %i, %i : i32
    scf.yield %k : i32
  }
  return %r#1 : tensor<?xf32>
}

// CHECK-LABEL: func.func @alike(
// CHECK: scf.while (%{{.*}} = %arg0) : (tensor<4xf32>) -> tensor<2xf32>
func.func @alike(%x: tensor<4xf32>, %y: tensor<2xf32>, %go: i1) -> tensor<2xf32> {
  %r = scf.while (%a = %x) : (tensor<4xf32>) -> tensor<2xf32> {
    scf.condition(%go) %y : tensor<2xf32>
  } do {
  ^bb0(%b: tensor<2xf32>):
    scf.yield %x : tensor<4xf32>
  }
  return %r : tensor<2xf32>
}

// CHECK-LABEL: func.func @no_number(
// CHECK: scf.while (%{{.*}} = %arg0) : (i32) -> (i32, !hal.buffer_view)
func.func @no_number(%n: i32, %view: !hal.buffer_view, %go: i1) -> !hal.buffer_view {
  %r:2 = scf.while (%i = %n) : (i32) -> (i32, !hal.buffer_view) {
    scf.condition(%go) %i, %view : i32, !hal.buffer_view
  } do {
  ^bb0(%i: i32, %b: !hal.buffer_view):
    scf.yield %i : i32
  }
  return %r#1 : !hal.buffer_view
}
