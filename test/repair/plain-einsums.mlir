// Einsums of PyTorch and of ONNX that IREE imports wrong, or not, are other ops; those that it reads
// right stay.

// RUN: attn-opt %s --attn-plain-einsums --remarks 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt

// WHY-COUNT-12: is made of other ops: IREE's import fails on it, or joins its unknown dims
// WHY-NOT: is made of other ops

// CHECK-LABEL: func.func @linear(
// CHECK: %[[Y:.*]] = torch.aten.matmul %arg0, %arg1 : {{.*}} -> !torch.vtensor<[?,?,32],f32>
// CHECK-NEXT: return %[[Y]]
func.func @linear(%x: !torch.vtensor<[?,?,16],f32>, %w: !torch.vtensor<[16,32],f32>) -> !torch.vtensor<[?,?,32],f32> {
  %0 = torch.operator "onnx.Einsum"(%x, %w) {torch.onnx.equation = "...k,kn->...n"} : (!torch.vtensor<[?,?,16],f32>, !torch.vtensor<[16,32],f32>) -> !torch.vtensor<[?,?,32],f32>
  return %0 : !torch.vtensor<[?,?,32],f32>
}

// Heads and features are joined.
// CHECK-LABEL: func.func @out(
// CHECK: torch.aten.permute %arg0, {{.*}} -> !torch.vtensor<[?,?,2,4],f32>
// CHECK: torch.aten.flatten.using_ints {{.*}} -> !torch.vtensor<[?,?,8],f32>
// CHECK: torch.aten.flatten.using_ints %arg1, {{.*}} -> !torch.vtensor<[8,16],f32>
// CHECK: torch.aten.matmul {{.*}} -> !torch.vtensor<[?,?,16],f32>
func.func @out(%x: !torch.vtensor<[?,2,?,4],f32>, %w: !torch.vtensor<[2,4,16],f32>) -> !torch.vtensor<[?,?,16],f32> {
  %0 = torch.operator "onnx.Einsum"(%x, %w) {torch.onnx.equation = "bhne,hed->bnd"} : (!torch.vtensor<[?,2,?,4],f32>, !torch.vtensor<[2,4,16],f32>) -> !torch.vtensor<[?,?,16],f32>
  return %0 : !torch.vtensor<[?,?,16],f32>
}

// Two rows of unknown sizes beside a batch: the other operand has one of each.
// CHECK-LABEL: func.func @positions(
// CHECK: %[[K:.*]] = torch.aten.unsqueeze {{.*}} -> !torch.vtensor<[?,1,8,?],f32>
// CHECK: torch.aten.matmul %{{.*}}, %[[K]] : {{.*}} -> !torch.vtensor<[?,?,?,?],f32>
// CHECK: torch.aten.permute
func.func @positions(%q: !torch.vtensor<[?,?,?,8],f32>, %r: !torch.vtensor<[?,?,8],f32>) -> !torch.vtensor<[?,?,?,?],f32> {
  %e = torch.constant.str "bhid,ijd->bhij"
  %l = torch.prim.ListConstruct %q, %r : (!torch.vtensor<[?,?,?,8],f32>, !torch.vtensor<[?,?,8],f32>) -> !torch.list<vtensor>
  %n = torch.constant.none
  %0 = torch.aten.einsum %e, %l, %n : !torch.str, !torch.list<vtensor>, !torch.none -> !torch.vtensor<[?,?,?,?],f32>
  return %0 : !torch.vtensor<[?,?,?,?],f32>
}

// Several sums, all unknown.
// CHECK-LABEL: func.func @unknown(
// CHECK: torch.aten.flatten.using_ints {{.*}} -> !torch.vtensor<[?,?],f32>
// CHECK: torch.aten.matmul
func.func @unknown(%w: !torch.vtensor<[?,?,?],f32>, %v: !torch.vtensor<[?,?],f32>) -> !torch.vtensor<[?],f32> {
  %0 = torch.operator "onnx.Einsum"(%w, %v) {torch.onnx.equation = "abc,bc->a"} : (!torch.vtensor<[?,?,?],f32>, !torch.vtensor<[?,?],f32>) -> !torch.vtensor<[?],f32>
  return %0 : !torch.vtensor<[?],f32>
}

// No rows and no columns.
// CHECK-LABEL: func.func @dot(
// CHECK: torch.aten.mul.Tensor
// CHECK: torch.aten.sum.dim_IntList
func.func @dot(%x: !torch.vtensor<[?,?,8],f32>, %y: !torch.vtensor<[?,?,8],f32>) -> !torch.vtensor<[?,?],f32> {
  %0 = torch.operator "onnx.Einsum"(%x, %y) {torch.onnx.equation = "bnd, bnd -> bn"} : (!torch.vtensor<[?,?,8],f32>, !torch.vtensor<[?,?,8],f32>) -> !torch.vtensor<[?,?],f32>
  return %0 : !torch.vtensor<[?,?],f32>
}

// An equation that names no result.
// CHECK-LABEL: func.func @implicit(
// CHECK: torch.constant.str "bij,jk->bik"
// CHECK: torch.aten.einsum
func.func @implicit(%x: !torch.vtensor<[2,3,4],f32>, %y: !torch.vtensor<[4,5],f32>) -> !torch.vtensor<[2,3,5],f32> {
  %0 = torch.operator "onnx.Einsum"(%x, %y) {torch.onnx.equation = "bij,jk"} : (!torch.vtensor<[2,3,4],f32>, !torch.vtensor<[4,5],f32>) -> !torch.vtensor<[2,3,5],f32>
  return %0 : !torch.vtensor<[2,3,5],f32>
}

// Diagonals, sums of one operand, and orders.
// CHECK-LABEL: func.func @alone(
// CHECK: torch.aten.diagonal %arg0
// CHECK: torch.aten.sum.dim_IntList
// CHECK: torch.aten.permute %arg0
func.func @alone(%x: !torch.vtensor<[2,6,6],f32>) -> (!torch.vtensor<[6,2],f32>, !torch.vtensor<[2],f32>, !torch.vtensor<[6,2,6],f32>) {
  %l = torch.prim.ListConstruct %x : (!torch.vtensor<[2,6,6],f32>) -> !torch.list<vtensor>
  %n = torch.constant.none
  %e = torch.constant.str "bii->ib"
  %0 = torch.aten.einsum %e, %l, %n : !torch.str, !torch.list<vtensor>, !torch.none -> !torch.vtensor<[6,2],f32>
  %f = torch.constant.str "bij->b"
  %1 = torch.aten.einsum %f, %l, %n : !torch.str, !torch.list<vtensor>, !torch.none -> !torch.vtensor<[2],f32>
  %g = torch.constant.str "bij->jbi"
  %2 = torch.aten.einsum %g, %l, %n : !torch.str, !torch.list<vtensor>, !torch.none -> !torch.vtensor<[6,2,6],f32>
  return %0, %1, %2 : !torch.vtensor<[6,2],f32>, !torch.vtensor<[2],f32>, !torch.vtensor<[6,2,6],f32>
}

// A dim of one is dropped where another operand's is longer, and a dim of one operand is summed.
// CHECK-LABEL: func.func @units(
// CHECK: torch.aten.squeeze.dim %arg0
// CHECK: torch.aten.sum.dim_IntList %arg1
func.func @units(%x: !torch.vtensor<[3,1],f32>, %y: !torch.vtensor<[4,5],f32>) -> !torch.vtensor<[3,5],f32> {
  %0 = torch.operator "onnx.Einsum"(%x, %y) {torch.onnx.equation = "ij,jk->ik"} : (!torch.vtensor<[3,1],f32>, !torch.vtensor<[4,5],f32>) -> !torch.vtensor<[3,5],f32>
  return %0 : !torch.vtensor<[3,5],f32>
}

// Dots that stand for no dims are left out of the equation.
// CHECK-LABEL: func.func @dots(
// CHECK: torch.constant.str "bd,hde->bhe"
// CHECK: torch.aten.einsum
func.func @dots(%x: !torch.vtensor<[8,3],f32>, %y: !torch.vtensor<[2,3,4],f32>) -> !torch.vtensor<[8,2,4],f32> {
  %e = torch.constant.str "b...d,hde->bh...e"
  %l = torch.prim.ListConstruct %x, %y : (!torch.vtensor<[8,3],f32>, !torch.vtensor<[2,3,4],f32>) -> !torch.list<vtensor>
  %n = torch.constant.none
  %0 = torch.aten.einsum %e, %l, %n : !torch.str, !torch.list<vtensor>, !torch.none -> !torch.vtensor<[8,2,4],f32>
  return %0 : !torch.vtensor<[8,2,4],f32>
}

// Three: the states of a chunk.
// CHECK-LABEL: func.func @three(
// CHECK: torch.aten.mul.Tensor
// CHECK: torch.constant.str "bchln,bclhp->bchpn"
// CHECK: torch.aten.einsum
func.func @three(%b: !torch.vtensor<[2,3,4,5,6],f32>, %d: !torch.vtensor<[2,5,3,4],f32>, %x: !torch.vtensor<[2,3,4,5,7],f32>) -> !torch.vtensor<[2,3,5,7,6],f32> {
  %e = torch.constant.str "bclhn,bhcl,bclhp->bchpn"
  %l = torch.prim.ListConstruct %b, %d, %x : (!torch.vtensor<[2,3,4,5,6],f32>, !torch.vtensor<[2,5,3,4],f32>, !torch.vtensor<[2,3,4,5,7],f32>) -> !torch.list<vtensor>
  %n = torch.constant.none
  %0 = torch.aten.einsum %e, %l, %n : !torch.str, !torch.list<vtensor>, !torch.none -> !torch.vtensor<[2,3,5,7,6],f32>
  return %0 : !torch.vtensor<[2,3,5,7,6],f32>
}

// IREE joins one unknown size with known ones; other words are no equation of these tensors.
// CHECK-LABEL: func.func @stays(
// CHECK-COUNT-2: "onnx.Einsum"
// CHECK: return
func.func @stays(%q: !torch.vtensor<[?,2,?,8],f32>) -> (!torch.vtensor<[?,2,?,?],f32>, !torch.vtensor<[?,2],f32>) {
  %0 = torch.operator "onnx.Einsum"(%q, %q) {torch.onnx.equation = "bhid,bhjd->bhij"} : (!torch.vtensor<[?,2,?,8],f32>, !torch.vtensor<[?,2,?,8],f32>) -> !torch.vtensor<[?,2,?,?],f32>
  %1 = torch.operator "onnx.Einsum"(%q, %q) {torch.onnx.equation = "bhi,bhj->bh"} : (!torch.vtensor<[?,2,?,8],f32>, !torch.vtensor<[?,2,?,8],f32>) -> !torch.vtensor<[?,2],f32>
  return %0, %1 : !torch.vtensor<[?,2,?,?],f32>, !torch.vtensor<[?,2],f32>
}

// What has no known rank may have more dims than a number.
// CHECK-LABEL: func.func @unranked(
// CHECK: "onnx.Einsum"
func.func @unranked(%x: !torch.vtensor<*,f32>) -> !torch.vtensor<[2],f32> {
  %0 = torch.operator "onnx.Einsum"(%x, %x) {torch.onnx.equation = "...,...->..."} : (!torch.vtensor<*,f32>, !torch.vtensor<*,f32>) -> !torch.vtensor<[2],f32>
  return %0 : !torch.vtensor<[2],f32>
}
