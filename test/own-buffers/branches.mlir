// A branch or a loop hands on a copy of what has other users, or a caller holds, or it hands on
// twice, where that is written in place behind it. What it makes, or nobody writes to, stays.

// RUN: attn-opt %s --attn-own-buffers --split-input-file --report=%t.json | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.json
// WHY-COUNT-2: hands on copies of what others read
// WHY-NOT: hands on copies

// CHECK-LABEL: func.func @written(
// CHECK: %[[SUM:.*]] = arith.addf
// CHECK: scf.if
// CHECK: %[[COPY:.*]] = flow.dispatch.region
// CHECK: linalg.copy ins(%[[SUM]] :
// CHECK: scf.yield %[[COPY]], %[[SUM]]
// CHECK: } else {
// CHECK: %[[OWN:.*]] = arith.negf
// CHECK-NEXT: scf.yield %[[OWN]], %[[SUM]]
func.func @written(%x: tensor<4xf32>, %y: tensor<1xf32>, %c: i1) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %sum = arith.addf %x, %x : tensor<4xf32>
  %r:2 = scf.if %c -> (tensor<4xf32>, tensor<4xf32>) {
    scf.yield %sum, %sum : tensor<4xf32>, tensor<4xf32>
  } else {
    %own = arith.negf %sum : tensor<4xf32>
    scf.yield %own, %sum : tensor<4xf32>, tensor<4xf32>
  }
  %new = tensor.insert_slice %y into %r#0[1] [1] [1] : tensor<1xf32> into tensor<4xf32>
  return %new, %r#1, %sum : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// A loop behind the branch writes; what only the branch reads is its own.
// CHECK-LABEL: func.func @carried(
// CHECK: %[[SUM:.*]] = arith.addf
// CHECK: %[[PRODUCT:.*]] = arith.mulf
// CHECK: scf.if
// CHECK: %[[COPY:.*]] = flow.dispatch.region
// CHECK: scf.yield %[[COPY]] :
// CHECK: } else {
// CHECK-NEXT: scf.yield %[[PRODUCT]] :
func.func @carried(%x: tensor<4xf32>, %y: tensor<1xf32>, %c: i1) -> (tensor<4xf32>, tensor<4xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %sum = arith.addf %x, %x : tensor<4xf32>
  %product = arith.mulf %x, %x : tensor<4xf32>
  %r = scf.if %c -> tensor<4xf32> {
    scf.yield %sum : tensor<4xf32>
  } else {
    scf.yield %product : tensor<4xf32>
  }
  %new = scf.for %i = %c0 to %c4 step %c1 iter_args(%old = %r) -> tensor<4xf32> {
    %next = tensor.insert_slice %y into %old[%i] [1] [1] : tensor<1xf32> into tensor<4xf32>
    scf.yield %next : tensor<4xf32>
  }
  return %new, %sum : tensor<4xf32>, tensor<4xf32>
}

// -----

// CHECK-LABEL: func.func @read(
// CHECK-NOT: linalg.copy
// CHECK: return
func.func @read(%x: tensor<4xf32>, %c: i1) -> (tensor<4xf32>, tensor<4xf32>) {
  %sum = arith.addf %x, %x : tensor<4xf32>
  %r = scf.if %c -> tensor<4xf32> {
    scf.yield %sum : tensor<4xf32>
  } else {
    scf.yield %x : tensor<4xf32>
  }
  %new = arith.mulf %r, %r : tensor<4xf32>
  return %new, %sum : tensor<4xf32>, tensor<4xf32>
}
