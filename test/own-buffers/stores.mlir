// A global that gets what another holds gets a copy. Behind an op within which one is stored, a
// function is called that seems to store in it; one that is stored at the top of functions is left.

// RUN: attn-opt %s --attn-own-buffers --remarks 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt
// WHY-COUNT-1: a function is called where it may have been stored
// WHY-COUNT-1: stores a copy: IREE 3.13 takes the global
// WHY-NOT: {{a function|stores a copy}}

// CHECK: util.global private mutable @within : tensor<?x2xi8>
// CHECK-NEXT: util.func private @__attn_store_within() attributes {inlining_policy = #util.inline.never}
// CHECK: %[[FALSE:.*]] = arith.constant false
// CHECK: %[[NEVER:.*]] = util.optimization_barrier %[[FALSE]]
// CHECK: cf.cond_br %[[NEVER]], ^[[STORE:.*]], ^[[END:.*]]
// CHECK: ^[[STORE]]:
// CHECK: %[[ZEROS:.*]] = linalg.fill
// CHECK: util.global.store %[[ZEROS]], @within
// CHECK-NEXT: cf.br ^[[END]]
// CHECK: ^[[END]]:
// CHECK-NEXT: util.return
// CHECK-NOT: util.func
util.global private mutable @within : tensor<?x2xi8>
util.global private mutable @last = dense<0> : tensor<2xi8>
util.global private mutable @now = #util.uninitialized : tensor<2xi8>
func.func @main(%x: tensor<2xi8>, %rows: tensor<?x2xi8>, %is_first: i1) -> tensor<2xi8> {
  scf.if %is_first {
    util.global.store %rows, @within : tensor<?x2xi8>
  }
  // CHECK: scf.if
  // CHECK: util.global.store %{{.*}}, @within
  // CHECK: }
  // CHECK: util.call @__attn_store_within()
  // CHECK: %[[NOW:.*]] = util.global.load @now
  // CHECK: %[[COPY:.*]] = flow.dispatch.region
  // CHECK: linalg.copy ins(%[[NOW]] :
  // CHECK: util.global.store %[[COPY]], @last
  // CHECK: util.global.store %{{.*}}, @now
  %now = util.global.load @now : tensor<2xi8>
  %behind = util.optimization_barrier %now : tensor<2xi8>
  util.global.store %behind, @last : tensor<2xi8>
  %sum = arith.addi %now, %x : tensor<2xi8>
  util.global.store %sum, @now : tensor<2xi8>
  return %sum : tensor<2xi8>
}
