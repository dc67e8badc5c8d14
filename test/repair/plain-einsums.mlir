// Einsums of ONNX that join dims of unknown sizes are MatMuls; those that IREE reads right stay.

// RUN: attn-opt %s --attn-plain-einsums --remarks 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt

// WHY-COUNT-5: is a MatMul: IREE's import joins unknown dims of an einsum
// WHY-NOT: is a MatMul

// CHECK-LABEL: func.func @linear(
// CHECK-NEXT: %[[Y:.*]] = torch.operator "onnx.MatMul"(%arg0, %arg1) : {{.*}} -> !torch.vtensor<[?,?,32],f32>
// CHECK-NEXT: return %[[Y]]
func.func @linear(%x: !torch.vtensor<[?,?,16],f32>, %w: !torch.vtensor<[16,32],f32>) -> !torch.vtensor<[?,?,32],f32> {
  %0 = torch.operator "onnx.Einsum"(%x, %w) {torch.onnx.equation = "...k,kn->...n"} : (!torch.vtensor<[?,?,16],f32>, !torch.vtensor<[16,32],f32>) -> !torch.vtensor<[?,?,32],f32>
  return %0 : !torch.vtensor<[?,?,32],f32>
}

// Heads and features, which are known, are joined.
// CHECK-LABEL: func.func @out(
// CHECK: "onnx.Transpose"(%arg0) {torch.onnx.perm = [0 : si64, 2 : si64, 1 : si64, 3 : si64]}
// CHECK: dense<[0, 0, 8]>
// CHECK: dense<[8, 16]>
// CHECK: "onnx.MatMul"{{.*}} -> !torch.vtensor<[?,?,16],f32>
func.func @out(%x: !torch.vtensor<[?,2,?,4],f32>, %w: !torch.vtensor<[2,4,16],f32>) -> !torch.vtensor<[?,?,16],f32> {
  %0 = torch.operator "onnx.Einsum"(%x, %w) {torch.onnx.equation = "bhne,hed->bnd"} : (!torch.vtensor<[?,2,?,4],f32>, !torch.vtensor<[2,4,16],f32>) -> !torch.vtensor<[?,?,16],f32>
  return %0 : !torch.vtensor<[?,?,16],f32>
}

// Two rows of unknown sizes beside a batch: the other operand has one of each.
// CHECK-LABEL: func.func @positions(
// CHECK: %[[K:.*]] = torch.operator "onnx.Unsqueeze"{{.*}} -> !torch.vtensor<[?,1,8,?],f32>
// CHECK: "onnx.MatMul"(%{{.*}}, %[[K]]) : {{.*}} -> !torch.vtensor<[?,?,?,?],f32>
// CHECK: "onnx.Transpose"{{.*}} {torch.onnx.perm = [1 : si64, 2 : si64, 0 : si64, 3 : si64]}
func.func @positions(%q: !torch.vtensor<[?,?,?,8],f32>, %r: !torch.vtensor<[?,?,8],f32>) -> !torch.vtensor<[?,?,?,?],f32> {
  %0 = torch.operator "onnx.Einsum"(%q, %r) {torch.onnx.equation = "bhid,ijd->bhij"} : (!torch.vtensor<[?,?,?,8],f32>, !torch.vtensor<[?,?,8],f32>) -> !torch.vtensor<[?,?,?,?],f32>
  return %0 : !torch.vtensor<[?,?,?,?],f32>
}

// No rows and no columns.
// CHECK-LABEL: func.func @dot(
// CHECK-COUNT-2: "onnx.Squeeze"
func.func @dot(%x: !torch.vtensor<[?,?,8],f32>, %y: !torch.vtensor<[?,?,8],f32>) -> !torch.vtensor<[?,?],f32> {
  %0 = torch.operator "onnx.Einsum"(%x, %y) {torch.onnx.equation = "bnd, bnd -> bn"} : (!torch.vtensor<[?,?,8],f32>, !torch.vtensor<[?,?,8],f32>) -> !torch.vtensor<[?,?],f32>
  return %0 : !torch.vtensor<[?,?],f32>
}

// An equation that names no result.
// CHECK-LABEL: func.func @implicit(
// CHECK: "onnx.MatMul"
func.func @implicit(%x: !torch.vtensor<[2,3,4],f32>, %y: !torch.vtensor<[4,5],f32>) -> !torch.vtensor<[2,3,5],f32> {
  %0 = torch.operator "onnx.Einsum"(%x, %y) {torch.onnx.equation = "bij,jk"} : (!torch.vtensor<[2,3,4],f32>, !torch.vtensor<[4,5],f32>) -> !torch.vtensor<[2,3,5],f32>
  return %0 : !torch.vtensor<[2,3,5],f32>
}

// IREE joins one unknown size with known ones; columns and sums of unknown sizes have no reshape;
// a dim of one operand is summed.
// CHECK-LABEL: func.func @stays(
// CHECK-COUNT-3: "onnx.Einsum"
// CHECK-NOT: "onnx.MatMul"
func.func @stays(%q: !torch.vtensor<[?,2,?,8],f32>, %w: !torch.vtensor<[?,?,?],f32>, %v: !torch.vtensor<[?,?],f32>) -> (!torch.vtensor<[?,2,?,?],f32>, !torch.vtensor<[?],f32>, !torch.vtensor<[?],f32>) {
  %0 = torch.operator "onnx.Einsum"(%q, %q) {torch.onnx.equation = "bhid,bhjd->bhij"} : (!torch.vtensor<[?,2,?,8],f32>, !torch.vtensor<[?,2,?,8],f32>) -> !torch.vtensor<[?,2,?,?],f32>
  %1 = torch.operator "onnx.Einsum"(%w, %v) {torch.onnx.equation = "abc,bc->a"} : (!torch.vtensor<[?,?,?],f32>, !torch.vtensor<[?,?],f32>) -> !torch.vtensor<[?],f32>
  %2 = torch.operator "onnx.Einsum"(%w, %v) {torch.onnx.equation = "abc,ad->a"} : (!torch.vtensor<[?,?,?],f32>, !torch.vtensor<[?,?],f32>) -> !torch.vtensor<[?],f32>
  return %0, %1, %2 : !torch.vtensor<[?,2,?,?],f32>, !torch.vtensor<[?],f32>, !torch.vtensor<[?],f32>
}
