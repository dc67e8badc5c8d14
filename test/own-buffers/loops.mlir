// RUN: attn-opt %s --attn-own-buffers --split-input-file --report=%t.json | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.json
// WHY: what it writes to stands outside, and is copied each time
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

// What a `while` hands to its body is read there, last of all; what the body reads itself stays.
// CHECK-LABEL: func.func @handed(
// CHECK: ^bb0(%[[I:.*]]: i32, %[[UNREAD:.*]]: tensor<4xf32>, %[[READ:.*]]: tensor<4xf32>):
// CHECK: util.optimization_barrier %[[UNREAD]] : tensor<4xf32>
// CHECK-NOT: util.optimization_barrier
func.func @handed(%x: tensor<4xf32>, %n: i32) -> (tensor<4xf32>, tensor<4xf32>) {
  %r:3 = scf.while (%i = %n, %a = %x, %b = %x) : (i32, tensor<4xf32>, tensor<4xf32>) -> (i32, tensor<4xf32>, tensor<4xf32>) {
    %q = arith.cmpi slt, %i, %n : i32
    scf.condition(%q) %i, %a, %b : i32, tensor<4xf32>, tensor<4xf32>
  } do {
  ^bb0(%i: i32, %a: tensor<4xf32>, %b: tensor<4xf32>):
    %k = arith.addi %i, %i : i32
    %c = arith.addf %b, %b : tensor<4xf32>
    scf.yield %k, %x, %c : i32, tensor<4xf32>, tensor<4xf32>
  }
  return %r#1, %r#2 : tensor<4xf32>, tensor<4xf32>
}
