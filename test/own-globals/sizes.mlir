// The sizes of a global of unknown size that is stored within an op are kept in globals beside it;
// those of one that is stored at the top of functions are left.

// RUN: attn-opt %s --attn-own-globals --remarks 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt
// WHY-COUNT-1: its sizes are kept beside it
// WHY-NOT: its sizes are kept

// CHECK: util.global private mutable @__attn_size_0_rows = 1 : index
// CHECK: util.global private mutable @__attn_size_2_rows = 1 : index
// CHECK-NOT: @__attn_size_1_rows
// CHECK: util.global private mutable @rows = #util.uninitialized
// CHECK-NOT: @__attn_size_0_top
util.global private mutable @rows = #util.uninitialized : tensor<?x2x?xf32>
util.global private mutable @top = #util.uninitialized : tensor<?xf32>
// CHECK-LABEL: func.func @main(
// CHECK: %[[ROWS:.*]] = util.global.load @rows
// CHECK: %[[FIRST:.*]] = util.global.load @__attn_size_0_rows : index
// CHECK: %[[LAST:.*]] = util.global.load @__attn_size_2_rows : index
// CHECK: %[[TIED:.*]] = flow.tensor.tie_shape %[[ROWS]] : tensor<?x2x?xf32>{%[[FIRST]], %[[LAST]]}
// CHECK: scf.if
// CHECK: %[[D0:.*]] = tensor.dim %arg0, %c0
// CHECK: util.global.store %[[D0]], @__attn_size_0_rows
// CHECK: %[[D2:.*]] = tensor.dim %arg0, %c2
// CHECK: util.global.store %[[D2]], @__attn_size_2_rows
// CHECK: util.global.store %{{.*}}, @rows
// CHECK: return %[[TIED]]
func.func @main(%x: tensor<?x2x?xf32>, %y: tensor<?xf32>, %c: i1) -> tensor<?x2x?xf32> {
  %was = util.global.load @rows : tensor<?x2x?xf32>
  scf.if %c {
    util.global.store %x, @rows : tensor<?x2x?xf32>
  }
  util.global.store %y, @top : tensor<?xf32>
  return %was : tensor<?x2x?xf32>
}
