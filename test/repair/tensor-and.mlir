// `a & b` of two tensors becomes the op that IREE imports; with a number it has a program already.

// RUN: attn-opt %s --attn-tensor-and | FileCheck %s

// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[A:[^:]*]]: !torch.vtensor<[3],i1>, %[[B:[^:]*]]: !torch.vtensor<[2,1],i1>, %[[C:[^:]*]]: !torch.vtensor<[3],si64>
// CHECK: %[[MASK:.*]] = torch.aten.bitwise_and.Tensor %[[A]], %[[B]] : !torch.vtensor<[3],i1>, !torch.vtensor<[2,1],i1> -> !torch.vtensor<[2,3],i1>
// CHECK-NOT: __and__.Tensor
// CHECK: %[[BITS:.*]] = torch.aten.__and__.Scalar %[[C]], %{{.*}}
// CHECK: return %[[MASK]], %[[BITS]]
func.func @main(%a: !torch.vtensor<[3],i1>, %b: !torch.vtensor<[2,1],i1>, %c: !torch.vtensor<[3],si64>) -> (!torch.vtensor<[2,3],i1>, !torch.vtensor<[3],si64>) {
  %3 = torch.constant.int 3
  %0 = torch.aten.__and__.Tensor %a, %b : !torch.vtensor<[3],i1>, !torch.vtensor<[2,1],i1> -> !torch.vtensor<[2,3],i1>
  %1 = torch.aten.__and__.Scalar %c, %3 : !torch.vtensor<[3],si64>, !torch.int -> !torch.vtensor<[3],si64>
  return %0, %1 : !torch.vtensor<[2,3],i1>, !torch.vtensor<[3],si64>
}

// So do those of other operators, for which the dialect has no op; what it does not know stays.

// CHECK-LABEL: func.func @operators(
// CHECK-SAME: %[[A:[^:]*]]: !torch.vtensor<[3],si64>, %[[B:[^:]*]]: !torch.vtensor<[3],si64>
// CHECK: torch.aten.bitwise_xor.Tensor %[[A]], %[[B]]
// CHECK: torch.aten.bitwise_left_shift.Tensor %[[A]], %[[B]]
// CHECK: torch.aten.sub.Tensor %[[B]], %[[A]], %int1
// CHECK: torch.operator "torch.aten.foo"
// CHECK-NOT: torch.operator
func.func @operators(%a: !torch.vtensor<[3],si64>, %b: !torch.vtensor<[3],si64>) -> (!torch.vtensor<[3],si64>, !torch.vtensor<[3],si64>, !torch.vtensor<[3],si64>, !torch.vtensor<[3],si64>) {
  %1 = torch.constant.int 1
  %x = torch.operator "torch.aten.__xor__.Tensor"(%a, %b) : (!torch.vtensor<[3],si64>, !torch.vtensor<[3],si64>) -> !torch.vtensor<[3],si64>
  %y = torch.operator "torch.aten.__lshift__.Tensor"(%a, %b) : (!torch.vtensor<[3],si64>, !torch.vtensor<[3],si64>) -> !torch.vtensor<[3],si64>
  %z = torch.operator "torch.aten.rsub.Tensor"(%a, %b, %1) : (!torch.vtensor<[3],si64>, !torch.vtensor<[3],si64>, !torch.int) -> !torch.vtensor<[3],si64>
  %w = torch.operator "torch.aten.foo"(%a, %b) : (!torch.vtensor<[3],si64>, !torch.vtensor<[3],si64>) -> !torch.vtensor<[3],si64>
  return %x, %y, %z, %w : !torch.vtensor<[3],si64>, !torch.vtensor<[3],si64>, !torch.vtensor<[3],si64>, !torch.vtensor<[3],si64>
}
