// A choice among several cases that gives something is one choice between two in the other; one
// that gives nothing stays.

// RUN: attn-opt %s --attn-plain-switches --remarks 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt
// WHY-COUNT-2: asks for one case after the other: IREE 3.13 has no program for it
// WHY-NOT: asks for

// CHECK-LABEL: func.func @three(
// CHECK: %[[IS_7:.*]] = arith.cmpi eq, %arg1, %c7
// CHECK: %[[R:.*]]:2 = scf.if %[[IS_7]] -> (tensor<2xf32>, index)
// CHECK-NEXT: scf.yield %arg0, %arg1
// CHECK: } else {
// CHECK: %[[IS_3:.*]] = arith.cmpi eq, %arg1, %c3
// CHECK: %[[INNER:.*]]:2 = scf.if %[[IS_3]]
// CHECK-NEXT: %[[SUM:.*]] = arith.addf
// CHECK-NEXT: scf.yield %[[SUM]], %arg1
// CHECK: } else {
// The default holds another, of one case.
// CHECK: scf.if
// CHECK: scf.yield %[[INNER]]#0, %[[INNER]]#1
// CHECK: return %[[R]]#0, %[[R]]#1
func.func @three(%x: tensor<2xf32>, %n: index) -> (tensor<2xf32>, index) {
  %r:2 = scf.index_switch %n -> tensor<2xf32>, index
  case 7 {
    scf.yield %x, %n : tensor<2xf32>, index
  }
  case 3 {
    %y = arith.addf %x, %x : tensor<2xf32>
    scf.yield %y, %n : tensor<2xf32>, index
  }
  default {
    %z = scf.index_switch %n -> tensor<2xf32>
    case 1 {
      %y = arith.negf %x : tensor<2xf32>
      scf.yield %y : tensor<2xf32>
    }
    default {
      scf.yield %x : tensor<2xf32>
    }
    scf.yield %z, %n : tensor<2xf32>, index
  }
  return %r#0, %r#1 : tensor<2xf32>, index
}

// CHECK-LABEL: func.func @nothing(
// CHECK: scf.index_switch
util.global private mutable @state = #util.uninitialized : tensor<2xf32>
func.func @nothing(%x: tensor<2xf32>, %n: index) {
  scf.index_switch %n
  case 1 {
    util.global.store %x, @state : tensor<2xf32>
    scf.yield
  }
  default {
    scf.yield
  }
  return
}
