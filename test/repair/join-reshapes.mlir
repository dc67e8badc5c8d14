// Reshapes of ONNX to `[-1, n]` join dims of unknown sizes in two steps; those that IREE reads right
// stay.

// RUN: attn-opt %s --attn-join-reshapes --remarks 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt

// WHY-COUNT-3: is two reshapes: IREE's import pairs unknown dims with others
// WHY-NOT: is two reshapes

// What is known behind the unknown dims is joined first.
// CHECK-LABEL: func.func @heads(
// CHECK: %[[FIRST:.*]] = torch.operator "onnx.Constant"() {torch.onnx.value = dense<[0, 0, 32]> : tensor<3xsi64>}
// CHECK: %[[ROWS:.*]] = torch.operator "onnx.Reshape"(%arg0, %[[FIRST]]) : {{.*}} -> !torch.vtensor<[?,?,32],f32>
// CHECK: torch.operator "onnx.Reshape"(%[[ROWS]], %{{.*}}) {torch.onnx.allowzero = 1 : si64} : {{.*}} -> !torch.vtensor<[?,32],f32>
func.func @heads(%x: !torch.vtensor<[?,?,4,8],f32>) -> !torch.vtensor<[?,32],f32> {
  %s = torch.operator "onnx.Constant"() {torch.onnx.value = dense<[-1, 32]> : tensor<2xsi64>} : () -> !torch.vtensor<[2],si64>
  %r = torch.operator "onnx.Reshape"(%x, %s) {torch.onnx.allowzero = 1 : si64} : (!torch.vtensor<[?,?,4,8],f32>, !torch.vtensor<[2],si64>) -> !torch.vtensor<[?,32],f32>
  return %r : !torch.vtensor<[?,32],f32>
}

// The known dims do not hold as much: all dims behind the copied one become one first.
// CHECK-LABEL: func.func @halves(
// CHECK: torch.onnx.value = dense<[0, -1]> : tensor<2xsi64>
// CHECK: torch.operator "onnx.Reshape"{{.*}} -> !torch.vtensor<[?,?],f32>
// CHECK: torch.operator "onnx.Reshape"{{.*}} -> !torch.vtensor<[?,?,4],f32>
func.func @halves(%x: !torch.vtensor<[?,?,?,8],f32>) -> !torch.vtensor<[?,?,4],f32> {
  %s = torch.operator "onnx.Constant"() {torch.onnx.value = dense<[0, -1, 4]> : tensor<3xsi64>} : () -> !torch.vtensor<[3],si64>
  %r = torch.operator "onnx.Reshape"(%x, %s) : (!torch.vtensor<[?,?,?,8],f32>, !torch.vtensor<[3],si64>) -> !torch.vtensor<[?,?,4],f32>
  return %r : !torch.vtensor<[?,?,4],f32>
}

// The shape in a blob, [-1, 2, 8].
// CHECK-LABEL: func.func @blob(
// CHECK: torch.operator "onnx.Reshape"{{.*}} -> !torch.vtensor<[?],f32>
func.func @blob(%x: !torch.vtensor<[?,?,8],f32>) -> !torch.vtensor<[?,2,8],f32> {
  %s = torch.operator "onnx.Constant"() {torch.onnx.value = dense_resource<shape> : tensor<3xsi64>} : () -> !torch.vtensor<[3],si64>
  %r = torch.operator "onnx.Reshape"(%x, %s) : (!torch.vtensor<[?,?,8],f32>, !torch.vtensor<[3],si64>) -> !torch.vtensor<[?,2,8],f32>
  return %r : !torch.vtensor<[?,2,8],f32>
}

// CHECK-LABEL: func.func @right(
// CHECK-COUNT-5: "onnx.Reshape"
// CHECK-NOT: "onnx.Reshape"
func.func @right(%x: !torch.vtensor<[?,?,32],f32>, %y: !torch.vtensor<[?,4,8],f32>, %given: !torch.vtensor<[2],si64>) -> (!torch.vtensor<[?,32],f32>, !torch.vtensor<[?,4,8],f32>, !torch.vtensor<[?,?,4,8],f32>, !torch.vtensor<[?,32],f32>, !torch.vtensor<[?,?],f32>) {
  %rows = torch.operator "onnx.Constant"() {torch.onnx.value = dense<[-1, 32]> : tensor<2xsi64>} : () -> !torch.vtensor<[2],si64>
  %heads = torch.operator "onnx.Constant"() {torch.onnx.value = dense<[-1, 4, 8]> : tensor<3xsi64>} : () -> !torch.vtensor<[3],si64>
  %cut = torch.operator "onnx.Constant"() {torch.onnx.value = dense<[0, -1, 4, 8]> : tensor<4xsi64>} : () -> !torch.vtensor<[4],si64>
  %0 = torch.operator "onnx.Reshape"(%x, %rows) : (!torch.vtensor<[?,?,32],f32>, !torch.vtensor<[2],si64>) -> !torch.vtensor<[?,32],f32>
  %1 = torch.operator "onnx.Reshape"(%x, %heads) : (!torch.vtensor<[?,?,32],f32>, !torch.vtensor<[3],si64>) -> !torch.vtensor<[?,4,8],f32>
  %2 = torch.operator "onnx.Reshape"(%x, %cut) : (!torch.vtensor<[?,?,32],f32>, !torch.vtensor<[4],si64>) -> !torch.vtensor<[?,?,4,8],f32>
  %3 = torch.operator "onnx.Reshape"(%y, %rows) : (!torch.vtensor<[?,4,8],f32>, !torch.vtensor<[2],si64>) -> !torch.vtensor<[?,32],f32>
  %4 = torch.operator "onnx.Reshape"(%x, %given) : (!torch.vtensor<[?,?,32],f32>, !torch.vtensor<[2],si64>) -> !torch.vtensor<[?,?],f32>
  return %0, %1, %2, %3, %4 : !torch.vtensor<[?,32],f32>, !torch.vtensor<[?,4,8],f32>, !torch.vtensor<[?,?,4,8],f32>, !torch.vtensor<[?,32],f32>, !torch.vtensor<[?,?],f32>
}

{-#
  dialect_resources: {
    builtin: {
      shape: "0x08000000FFFFFFFFFFFFFFFF02000000000000000800000000000000"
    }
  }
#-}
