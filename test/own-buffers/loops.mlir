// RUN: attn-opt %s --attn-own-buffers --split-input-file --report=%t.json | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.json
// WHY-COUNT-2: what it writes to stands outside, and is copied each time
// WHY-NOT: what it writes to

// What a loop writes to, from outside, is read last of all in it.
// CHECK-LABEL: func.func @outside(
// CHECK: %[[BASE:.*]] = linalg.transpose
// CHECK: scf.for
// CHECK: tensor.insert_slice %{{.*}} into %[[BASE]]
// CHECK: util.optimization_barrier %[[BASE]] : tensor<4x8xf32>
// CHECK-NEXT: scf.yield
func.func @outside(%a: tensor<8x4xf32>, %row: tensor<1x8xf32>) -> tensor<4x8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %empty = tensor.empty() : tensor<4x8xf32>
  %base = linalg.transpose ins(%a : tensor<8x4xf32>) outs(%empty : tensor<4x8xf32>) permutation = [1, 0]
  %r = scf.for %i = %c0 to %c4 step %c1 iter_args(%old = %base) -> (tensor<4x8xf32>) {
    %new = tensor.insert_slice %row into %base[%i, 0] [1, 8] [1, 1] : tensor<1x8xf32> into tensor<4x8xf32>
    scf.yield %new : tensor<4x8xf32>
  }
  return %r : tensor<4x8xf32>
}

// -----

// What a loop carries is its own, and so is what IREE makes anew.
// CHECK-LABEL: func.func @own(
// CHECK-NOT: util.optimization_barrier
// CHECK: return
func.func @own(%a: tensor<4x8xf32>, %row: tensor<1x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<4x8xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<4x8xf32>) -> tensor<4x8xf32>
  %r:2 = scf.for %i = %c0 to %c4 step %c1 iter_args(%old = %a, %last = %zeros) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
    %new = tensor.insert_slice %row into %old[%i, 0] [1, 8] [1, 1] : tensor<1x8xf32> into tensor<4x8xf32>
    %other = tensor.insert_slice %row into %zeros[%i, 0] [1, 8] [1, 1] : tensor<1x8xf32> into tensor<4x8xf32>
    scf.yield %new, %other : tensor<4x8xf32>, tensor<4x8xf32>
  }
  return %r#0, %r#1 : tensor<4x8xf32>, tensor<4x8xf32>
}

// -----

util.global private mutable @state : tensor<3xf32>
// What a branch writes to, from outside, is read last of all in it, if others read it, too.
// CHECK-LABEL: func.func @branches(
// CHECK: scf.if
// CHECK: %[[NEW:.*]] = tensor.insert_slice %{{.*}} into %arg0
// CHECK: util.global.store %[[NEW]], @state
// CHECK: util.optimization_barrier %arg0 : tensor<3xf32>
// CHECK: } else {
// CHECK: util.global.store %arg0, @state
func.func @branches(%x: tensor<3xf32>, %y: tensor<1xf32>, %c: i1) -> tensor<3xf32> {
  scf.if %c {
    %new = tensor.insert_slice %y into %x[2] [1] [1] : tensor<1xf32> into tensor<3xf32>
    util.global.store %new, @state : tensor<3xf32>
  } else {
    util.global.store %x, @state : tensor<3xf32>
  }
  %r = util.global.load @state : tensor<3xf32>
  return %r : tensor<3xf32>
}
