// What stands behind a loop reads what it began with behind a barrier. What a caller gives, what only
// the loop reads, and what is read before it, stay, and so does what a branch reads.

// RUN: attn-opt %s --attn-loop-starts --remarks 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt
// RUN: attn-opt %s --attn-loop-starts > %t.1 && attn-opt %s --attn-loop-starts --attn-loop-starts > %t.2 && diff %t.1 %t.2
// WHY-COUNT-2: what it begins with is read behind a barrier
// WHY-NOT: read behind

// CHECK-LABEL: func.func @behind(
// CHECK: %[[X:.*]] = arith.mulf
// CHECK: arith.subf %[[X]], %[[X]]
// CHECK: %[[Y:.*]] = scf.for {{.*}} iter_args(%{{.*}} = %[[X]])
// CHECK: %[[AGAIN:.*]] = util.optimization_barrier %[[X]] : tensor<?xf32>
// CHECK: arith.addf %[[Y]], %[[AGAIN]]
// CHECK: scf.if
// CHECK: scf.yield %[[AGAIN]]
func.func @behind(%a: tensor<?xf32>, %n: index, %go: i1) -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %x = arith.mulf %a, %a : tensor<?xf32>
  %before = arith.subf %x, %x : tensor<?xf32>
  %y = scf.for %i = %c0 to %n step %c1 iter_args(%b = %x) -> (tensor<?xf32>) {
    %c = arith.addf %b, %b : tensor<?xf32>
    scf.yield %c : tensor<?xf32>
  }
  %r = arith.addf %y, %x : tensor<?xf32>
  %q = scf.if %go -> (tensor<?xf32>) {
    scf.yield %x : tensor<?xf32>
  } else {
    scf.yield %y : tensor<?xf32>
  }
  return %r, %q, %before : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>
}

// CHECK-LABEL: func.func @of_a_while(
// CHECK: %[[X:.*]] = arith.mulf
// CHECK: %[[Y:.*]]:2 = scf.while (%{{.*}} = %arg1, %{{.*}} = %[[X]])
// CHECK: %[[AGAIN:.*]] = util.optimization_barrier %[[X]]
// CHECK: arith.addf %[[Y]]#1, %[[AGAIN]]
func.func @of_a_while(%a: tensor<4xf32>, %n: i32) -> tensor<4xf32> {
  %x = arith.mulf %a, %a : tensor<4xf32>
  %y:2 = scf.while (%k = %n, %b = %x) : (i32, tensor<4xf32>) -> (i32, tensor<4xf32>) {
    %c = arith.cmpi slt, %k, %n : i32
    scf.condition(%c) %k, %b : i32, tensor<4xf32>
  } do {
  ^bb0(%k: i32, %b: tensor<4xf32>):
    %c = arith.addf %b, %b : tensor<4xf32>
    scf.yield %k, %c : i32, tensor<4xf32>
  }
  %r = arith.addf %y#1, %x : tensor<4xf32>
  return %r : tensor<4xf32>
}

// CHECK-LABEL: func.func @stay(
// CHECK-NOT: util.optimization_barrier
func.func @stay(%a: tensor<4xf32>, %n: index, %go: i1) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %x = arith.mulf %a, %a : tensor<4xf32>
  %y = scf.for %i = %c0 to %n step %c1 iter_args(%b = %x) -> (tensor<4xf32>) {
    %c = arith.addf %b, %x : tensor<4xf32>
    scf.yield %c : tensor<4xf32>
  }
  %z = scf.for %i = %c0 to %n step %c1 iter_args(%b = %a) -> (tensor<4xf32>) {
    %c = arith.addf %b, %b : tensor<4xf32>
    scf.yield %c : tensor<4xf32>
  }
  %w = arith.subf %z, %a : tensor<4xf32>
  %v = scf.if %go -> (tensor<4xf32>) {
    scf.yield %w : tensor<4xf32>
  } else {
    scf.yield %y : tensor<4xf32>
  }
  %r = arith.addf %v, %w : tensor<4xf32>
  return %y, %z, %r : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
