// Numbers of the torch dialect become the nearest of f32 where ops on floats of at most 32 bits read
// them; not those that f32 does not have, nor NaN.

// RUN: attn-opt %s --split-input-file --attn-nearest-numbers --remarks 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt
// WHY-COUNT-2: its numbers are the nearest of f32
// WHY-NOT: nearest

// CHECK-LABEL: func.func @main(
// CHECK: torch.constant.float 1.321755886077{{[0-9]+}}
// CHECK-NOT: torch.constant.float 1.32
// CHECK: torch.constant.float 5.000000e-01
// CHECK: torch.constant.float 1.000000e+300
// CHECK: torch.constant.float 0x7FF8000000000000
func.func @main(%x: !torch.vtensor<[3],f32>) -> (!torch.vtensor<[3],f32>, !torch.float) {
  %log = torch.constant.float 1.3217558399823195
  %half = torch.constant.float 5.000000e-01
  %large = torch.constant.float 1.000000e+300
  %nan = torch.constant.float 0x7FF8000000000000
  %0 = torch.aten.div.Scalar %x, %log : !torch.vtensor<[3],f32>, !torch.float -> !torch.vtensor<[3],f32>
  %1 = torch.aten.div.Scalar %0, %large : !torch.vtensor<[3],f32>, !torch.float -> !torch.vtensor<[3],f32>
  %2 = torch.aten.div.Scalar %1, %nan : !torch.vtensor<[3],f32>, !torch.float -> !torch.vtensor<[3],f32>
  return %2, %half : !torch.vtensor<[3],f32>, !torch.float
}

// -----

// Of several ops that read a number each gets its own: of f64, of integers, and a size is made of it
// as it is.
// CHECK-LABEL: func.func @others(
// CHECK: %[[NEAR:.*]] = torch.constant.float 0x4170000000000000
// CHECK: %[[NUMBER:.*]] = torch.constant.float 0x4170000010000000
// CHECK: torch.aten.mul.Scalar %arg0, %[[NUMBER]]
// CHECK: torch.aten.mul.Scalar %arg1, %[[NEAR]]
// CHECK: torch.aten.full %{{.*}}, %[[NUMBER]],
// CHECK: torch.aten.Int.float %[[NUMBER]]
func.func @others(%x: !torch.vtensor<[3],f64>, %y: !torch.vtensor<[3],bf16>) -> (!torch.vtensor<[3],f64>, !torch.vtensor<[3],bf16>, !torch.vtensor<[4],si64>, !torch.int) {
  %number = torch.constant.float 16777217.0
  %4 = torch.constant.int 4
  %none = torch.constant.none
  %no = torch.constant.bool false
  %sizes = torch.prim.ListConstruct %4 : (!torch.int) -> !torch.list<int>
  %0 = torch.aten.mul.Scalar %x, %number : !torch.vtensor<[3],f64>, !torch.float -> !torch.vtensor<[3],f64>
  %1 = torch.aten.mul.Scalar %y, %number : !torch.vtensor<[3],bf16>, !torch.float -> !torch.vtensor<[3],bf16>
  %2 = torch.aten.full %sizes, %number, %4, %none, %none, %no : !torch.list<int>, !torch.float, !torch.int, !torch.none, !torch.none, !torch.bool -> !torch.vtensor<[4],si64>
  %3 = torch.aten.Int.float %number : !torch.float -> !torch.int
  return %0, %1, %2, %3 : !torch.vtensor<[3],f64>, !torch.vtensor<[3],bf16>, !torch.vtensor<[4],si64>, !torch.int
}
