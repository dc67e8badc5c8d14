// Loops of ONNX with a condition carry a count of their steps; those that hand their condition on
// as it is stay.

// RUN: attn-opt %s --attn-stopping-loops --remarks 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt
// WHY-COUNT-3: its condition counts its steps: IREE 3.13 ends no loop that begins by a condition
// WHY-NOT: counts its steps

// CHECK-LABEL: func.func @halves(
// CHECK: %[[ZERO:.*]] = torch.operator "onnx.Constant"() {torch.onnx.value = dense<0> : tensor<si64>}
// CHECK: %[[ANY:.*]] = torch.operator "onnx.Less"(%[[ZERO]], %arg1)
// CHECK: %[[FIRST:.*]] = torch.operator "onnx.And"(%arg2, %[[ANY]])
// CHECK: torch_c.to_builtin_tensor %[[FIRST]]
// CHECK-NEXT: util.optimization_barrier
// CHECK-NEXT: %[[HIDDEN:.*]] = torch_c.from_builtin_tensor
// CHECK-NEXT: %[[START:.*]] = torch.aten.Bool.Tensor %[[HIDDEN]]
// CHECK-NEXT: %[[MOST:.*]] = torch.constant.int 9223372036854775807
// CHECK-NEXT: %[[R:.*]]:2 = torch.prim.Loop %[[MOST]], %[[START]], init(%arg0, %[[ZERO]])
// CHECK-NEXT: ^bb0(%{{.*}}: !torch.int, %[[OLD:.*]]: !torch.vtensor<[4],f32>, %[[COUNT:.*]]: !torch.vtensor<[],si64>):
// CHECK: %[[NEW:.*]] = torch.operator "onnx.Mul"(%[[OLD]], %[[OLD]])
// CHECK: %[[MORE:.*]] = torch.operator "onnx.Greater"(%arg3, %[[COUNT]])
// CHECK: %[[AFTER:.*]] = torch.operator "onnx.Add"(%[[COUNT]],
// CHECK: %[[LEFT:.*]] = torch.operator "onnx.Less"(%[[AFTER]], %arg1)
// CHECK: %[[BOTH:.*]] = torch.operator "onnx.And"(%[[MORE]], %[[LEFT]])
// CHECK: %[[AGAIN:.*]] = torch.aten.Bool.Tensor %[[BOTH]]
// CHECK: torch.prim.Loop.condition %[[AGAIN]], iter(%[[NEW]], %[[AFTER]]
// CHECK: return %[[R]]#0
func.func @halves(%x: !torch.vtensor<[4],f32>, %most: !torch.vtensor<[],si64>, %go: !torch.vtensor<[],i1>, %total: !torch.vtensor<[],si64>) -> !torch.vtensor<[4],f32> attributes {torch.onnx_meta.opset_version = 17 : si64} {
  %0 = torch.operator "onnx.Loop"(%most, %go, %x) : (!torch.vtensor<[],si64>, !torch.vtensor<[],i1>, !torch.vtensor<[4],f32>) -> !torch.vtensor<[4],f32> {
  ^bb0(%i: !torch.vtensor<[],si64>, %c: !torch.vtensor<[],i1>, %a: !torch.vtensor<[4],f32>):
    %1 = torch.operator "onnx.Mul"(%a, %a) : (!torch.vtensor<[4],f32>, !torch.vtensor<[4],f32>) -> !torch.vtensor<[4],f32>
    %2 = torch.operator "onnx.Greater"(%total, %i) : (!torch.vtensor<[],si64>, !torch.vtensor<[],si64>) -> !torch.vtensor<[],i1>
    torch.operator_terminator %2, %1 : !torch.vtensor<[],i1>, !torch.vtensor<[4],f32>
  }
  return %0 : !torch.vtensor<[4],f32>
}

// CHECK-LABEL: func.func @all_steps(
// CHECK: "onnx.Loop"
func.func @all_steps(%x: !torch.vtensor<[4],f32>, %most: !torch.vtensor<[],si64>, %go: !torch.vtensor<[],i1>) -> !torch.vtensor<[4],f32> attributes {torch.onnx_meta.opset_version = 17 : si64} {
  %0 = torch.operator "onnx.Loop"(%most, %go, %x) : (!torch.vtensor<[],si64>, !torch.vtensor<[],i1>, !torch.vtensor<[4],f32>) -> !torch.vtensor<[4],f32> {
  ^bb0(%i: !torch.vtensor<[],si64>, %c: !torch.vtensor<[],i1>, %a: !torch.vtensor<[4],f32>):
    %1 = torch.operator "onnx.Mul"(%a, %a) : (!torch.vtensor<[4],f32>, !torch.vtensor<[4],f32>) -> !torch.vtensor<[4],f32>
    %2 = torch.operator "onnx.Identity"(%c) : (!torch.vtensor<[],i1>) -> !torch.vtensor<[],i1>
    torch.operator_terminator %2, %1 : !torch.vtensor<[],i1>, !torch.vtensor<[4],f32>
  }
  return %0 : !torch.vtensor<[4],f32>
}

// Nor does IREE import a loop of ONNX around one that is none.
// CHECK-LABEL: func.func @around(
// CHECK-COUNT-2: torch.prim.Loop %{{.*}}, %{{.*}}, init(
// CHECK-NOT: "onnx.Loop"
// CHECK: return
func.func @around(%x: !torch.vtensor<[4],f32>, %most: !torch.vtensor<[],si64>, %go: !torch.vtensor<[],i1>) -> !torch.vtensor<[4],f32> attributes {torch.onnx_meta.opset_version = 17 : si64} {
  %0 = torch.operator "onnx.Loop"(%most, %go, %x) : (!torch.vtensor<[],si64>, !torch.vtensor<[],i1>, !torch.vtensor<[4],f32>) -> !torch.vtensor<[4],f32> {
  ^bb0(%i: !torch.vtensor<[],si64>, %c: !torch.vtensor<[],i1>, %a: !torch.vtensor<[4],f32>):
    %1 = torch.operator "onnx.Loop"(%most, %go, %a) : (!torch.vtensor<[],si64>, !torch.vtensor<[],i1>, !torch.vtensor<[4],f32>) -> !torch.vtensor<[4],f32> {
    ^bb0(%j: !torch.vtensor<[],si64>, %d: !torch.vtensor<[],i1>, %b: !torch.vtensor<[4],f32>):
      %2 = torch.operator "onnx.Mul"(%b, %b) : (!torch.vtensor<[4],f32>, !torch.vtensor<[4],f32>) -> !torch.vtensor<[4],f32>
      %3 = torch.operator "onnx.Greater"(%i, %j) : (!torch.vtensor<[],si64>, !torch.vtensor<[],si64>) -> !torch.vtensor<[],i1>
      torch.operator_terminator %3, %2 : !torch.vtensor<[],i1>, !torch.vtensor<[4],f32>
    }
    torch.operator_terminator %c, %1 : !torch.vtensor<[],i1>, !torch.vtensor<[4],f32>
  }
  return %0 : !torch.vtensor<[4],f32>
}
