// What a global gets of a global, or of a branch, a loop or a function that may hand one on, is stored
// behind a barrier; what is computed, or given by a caller from outside, is stored as it is.

// RUN: attn-opt %s --attn-kept-stores --remarks 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt
// WHY-COUNT-4: stores what is behind a barrier
// WHY-NOT: stores what

util.global private mutable @last = dense<0> : tensor<2xi8>
util.global private mutable @now = dense<1> : tensor<2xi8>
// CHECK-LABEL: func.func @main(
func.func @main(%x: tensor<2xi8>) -> tensor<2xi8> {
  // CHECK: %[[NOW:.*]] = util.global.load @now
  // CHECK: %[[BEHIND:.*]] = util.optimization_barrier %[[NOW]]
  // CHECK: util.global.store %[[BEHIND]], @last
  // CHECK: %[[SUM:.*]] = arith.addi %[[NOW]]
  // CHECK: util.global.store %[[SUM]], @now
  %now = util.global.load @now : tensor<2xi8>
  util.global.store %now, @last : tensor<2xi8>
  %sum = arith.addi %now, %x : tensor<2xi8>
  util.global.store %sum, @now : tensor<2xi8>
  return %sum : tensor<2xi8>
}

// CHECK-LABEL: func.func private @kept(
func.func private @kept(%x: tensor<2xi8>) -> tensor<2xi8> {
  // CHECK: %[[BEHIND:.*]] = util.optimization_barrier %arg0
  // CHECK: util.global.store %[[BEHIND]], @last
  util.global.store %x, @last : tensor<2xi8>
  return %x : tensor<2xi8>
}

// CHECK-LABEL: func.func @handed_on(
func.func @handed_on(%x: tensor<2xi8>, %n: index) -> tensor<2xi8> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  // CHECK: util.global.store %arg0, @last
  util.global.store %x, @last : tensor<2xi8>
  %now = util.global.load @now : tensor<2xi8>
  // CHECK: scf.for {{.*}} iter_args(%[[CARRIED:.*]] =
  // CHECK: %[[SAME:.*]] = util.optimization_barrier %[[CARRIED]]
  // CHECK: util.global.store %[[SAME]], @now
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%a = %now) -> (tensor<2xi8>) {
    util.global.store %x, @now : tensor<2xi8>
    util.global.store %a, @now : tensor<2xi8>
    scf.yield %a : tensor<2xi8>
  }
  // CHECK: %[[CALLED:.*]] = call @kept
  // CHECK: %[[ITS:.*]] = util.optimization_barrier %[[CALLED]]
  // CHECK: util.global.store %[[ITS]], @now
  %k = call @kept(%r) : (tensor<2xi8>) -> tensor<2xi8>
  util.global.store %k, @now : tensor<2xi8>
  return %k : tensor<2xi8>
}
