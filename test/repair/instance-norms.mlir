// Instance norms of ONNX of unknown sizes behind the channels are written out; others stay.

// RUN: attn-opt %s --attn-instance-norms --remarks 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt

// WHY-COUNT-2: is written out: IREE's import divides by another count than the unknown sizes'
// WHY-NOT: is written out

// CHECK-LABEL: func.func @groups(
// CHECK-NOT: "onnx.InstanceNormalization"
// CHECK: %[[X:.*]] = torch.operator "onnx.Cast"(%arg0) {torch.onnx.to = 1 : si64} : {{.*}} -> !torch.vtensor<[2,4,?],f32>
// CHECK: %[[MEAN:.*]] = torch.operator "onnx.ReduceMean"(%[[X]]) {torch.onnx.axes = [2 : si64]} : {{.*}} -> !torch.vtensor<[2,4,1],f32>
// CHECK: %[[CENTERED:.*]] = torch.operator "onnx.Sub"(%[[X]], %[[MEAN]])
// CHECK: dense<9.99999974E-6>
// CHECK: "onnx.Unsqueeze"{{.*}} -> !torch.vtensor<[4,1],f32>
// CHECK: "onnx.Cast"{{.*}} {torch.onnx.to = 10 : si64} : {{.*}} -> !torch.vtensor<[2,4,?],f16>
func.func @groups(%x: !torch.vtensor<[2,4,?],f16>, %w: !torch.vtensor<[4],f16>, %b: !torch.vtensor<[4],f16>) -> !torch.vtensor<[2,4,?],f16> attributes {torch.onnx_meta.opset_version = 17 : si64} {
  %0 = torch.operator "onnx.InstanceNormalization"(%x, %w, %b) {torch.onnx.epsilon = 9.99999974E-6 : f32} : (!torch.vtensor<[2,4,?],f16>, !torch.vtensor<[4],f16>, !torch.vtensor<[4],f16>) -> !torch.vtensor<[2,4,?],f16>
  return %0 : !torch.vtensor<[2,4,?],f16>
}

// From opset 18 on the dims of a mean are an operand.
// CHECK-LABEL: func.func @images(
// CHECK: dense<[2, 3]> : tensor<2xsi64>
// CHECK: "onnx.ReduceMean"(%arg0, %{{.*}}) : {{.*}} -> !torch.vtensor<[?,4,1,1],f32>
func.func @images(%x: !torch.vtensor<[?,4,?,8],f32>, %w: !torch.vtensor<[4],f32>, %b: !torch.vtensor<[4],f32>) -> !torch.vtensor<[?,4,?,8],f32> attributes {torch.onnx_meta.opset_version = 18 : si64} {
  %0 = torch.operator "onnx.InstanceNormalization"(%x, %w, %b) : (!torch.vtensor<[?,4,?,8],f32>, !torch.vtensor<[4],f32>, !torch.vtensor<[4],f32>) -> !torch.vtensor<[?,4,?,8],f32>
  return %0 : !torch.vtensor<[?,4,?,8],f32>
}

// CHECK-LABEL: func.func @known(
// CHECK: "onnx.InstanceNormalization"
func.func @known(%x: !torch.vtensor<[?,4,8],f32>, %w: !torch.vtensor<[4],f32>, %b: !torch.vtensor<[4],f32>) -> !torch.vtensor<[?,4,8],f32> attributes {torch.onnx_meta.opset_version = 17 : si64} {
  %0 = torch.operator "onnx.InstanceNormalization"(%x, %w, %b) : (!torch.vtensor<[?,4,8],f32>, !torch.vtensor<[4],f32>, !torch.vtensor<[4],f32>) -> !torch.vtensor<[?,4,8],f32>
  return %0 : !torch.vtensor<[?,4,8],f32>
}
