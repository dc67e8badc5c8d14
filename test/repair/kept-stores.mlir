// What a global gets of a global is stored behind a barrier; what is computed is stored as it is.

// RUN: attn-opt %s --attn-kept-stores --remarks 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt
// WHY-COUNT-1: stores what is behind a barrier
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
