// A mutable global that is stored to begins in an initializer: of what is stored only constants may
// be left, as where the others are in functions that nobody calls. One that is never stored to stays,
// and so does a parameter.

// RUN: attn-opt %s --attn-own-globals --remarks 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt
// WHY-COUNT-3: it begins in an initializer: IREE 3.13 forgets how a global begins
// WHY-NOT: begins

// CHECK: util.global private mutable @is_full : tensor<2xi8>
// CHECK-NEXT: util.initializer
// CHECK: %[[START:.*]] = arith.constant dense<[0, 1]> : tensor<2xi8>
// CHECK: util.global.store %[[START]], @is_full
util.global private mutable @is_full = dense<[0, 1]> : tensor<2xi8>
// CHECK: util.global private mutable @weights = dense<
util.global private mutable @weights = dense<[3, 4]> : tensor<2xi8>
// CHECK: util.global private mutable @given : tensor<2xi8>
// CHECK-NEXT: util.initializer
util.global private mutable @given = dense<[5, 6]> : tensor<2xi8>
// CHECK: util.global private mutable @counts : tensor<2xi8>
// CHECK-NEXT: util.initializer
util.global private mutable @counts = dense<[7, 8]> : tensor<2xi8>
// CHECK: util.global private mutable @parameter = #flow.parameter.named<
util.global private mutable @parameter = #flow.parameter.named<"model"::"given"> : tensor<2xi8>
// CHECK: util.global private mutable @unwritten = #util.uninitialized
util.global private mutable @unwritten = #util.uninitialized : tensor<2xi8>
func.func @main(%x: tensor<2xi8>) -> tensor<2xi8> {
  %was = util.global.load @is_full : tensor<2xi8>
  %w = util.global.load @weights : tensor<2xi8>
  %full = arith.addi %w, %w : tensor<2xi8>
  util.global.store %full, @is_full : tensor<2xi8>
  util.global.store %full, @parameter : tensor<2xi8>
  util.global.store %full, @unwritten : tensor<2xi8>
  util.global.store %x, @given : tensor<2xi8>
  %c = util.global.load @counts : tensor<2xi8>
  %next = arith.addi %c, %w : tensor<2xi8>
  util.global.store %next, @counts : tensor<2xi8>
  return %was : tensor<2xi8>
}
