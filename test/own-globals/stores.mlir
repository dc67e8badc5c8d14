// A global that gets what another holds, or, within an op, what stands outside, gets a copy. Behind an op within which one is stored, a
// function is called that seems to store in it; one that is stored at the top of functions is left.
// It is called in front, too, where one that is loaded within the op is stored there. Of two stores
// in a block within an op the last is left.

// RUN: attn-opt %s --attn-own-globals --remarks 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt
// WHY-COUNT-1: only the last of its stores to a global is left
// WHY-COUNT-4: a function is called beside ops within which it is loaded or stored
// WHY-COUNT-4: stores a copy: IREE 3.13 takes what another holds
// WHY-NOT: {{only the last|a function|stores a copy}}

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
    util.global.store %rows, @within : tensor<?x2xi8>
  }
  // CHECK: scf.if
  // CHECK: %[[ROWS:.*]] = flow.dispatch.region
  // CHECK: linalg.copy ins(%arg1 :
  // CHECK: util.global.store %[[ROWS]], @within
  // CHECK-NEXT: }
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

// CHECK-LABEL: func.func @front(
// CHECK: util.global.store %{{.*}}, @front_of_it
// CHECK-NEXT: util.call @__attn_store_front_of_it()
// CHECK-NEXT: scf.if
// CHECK-NEXT: util.global.load @front_of_it
// CHECK-NOT: util.call
// CHECK: return
util.global private mutable @front_of_it = #util.uninitialized : tensor<2xi8>
util.global private mutable @left = #util.uninitialized : tensor<2xi8>
func.func @front(%x: tensor<2xi8>, %is_first: i1) -> tensor<2xi8> {
  util.global.store %x, @front_of_it : tensor<2xi8>
  %y = scf.if %is_first -> tensor<2xi8> {
    %front = util.global.load @front_of_it : tensor<2xi8>
    %left = util.global.load @left : tensor<2xi8>
    %sum = arith.addi %front, %left : tensor<2xi8>
    scf.yield %sum : tensor<2xi8>
  } else {
    scf.yield %x : tensor<2xi8>
  }
  util.global.store %y, @left : tensor<2xi8>
  return %y : tensor<2xi8>
}

// What an op stores and also hands on is stored as a copy; what it only reads beside is not.
// CHECK-LABEL: func.func @handed(
// CHECK: scf.if
// CHECK: %[[SUM:.*]] = arith.addf
// CHECK: linalg.copy ins(%[[SUM]] :
// CHECK: util.global.store %{{.*}}, @first_of_two
// CHECK: %[[PRODUCT:.*]] = arith.mulf
// CHECK: util.global.store %[[PRODUCT]], @second_of_two
util.global private mutable @first_of_two = #util.uninitialized : tensor<2xf32>
util.global private mutable @second_of_two = #util.uninitialized : tensor<2xf32>
func.func @handed(%x: tensor<2xf32>, %c: i1) -> tensor<2xf32> {
  %r = scf.if %c -> tensor<2xf32> {
    %sum = arith.addf %x, %x : tensor<2xf32>
    util.global.store %sum, @first_of_two : tensor<2xf32>
    %product = arith.mulf %x, %x : tensor<2xf32>
    util.global.store %product, @second_of_two : tensor<2xf32>
    scf.yield %sum : tensor<2xf32>
  } else {
    scf.yield %x : tensor<2xf32>
  }
  return %r : tensor<2xf32>
}
