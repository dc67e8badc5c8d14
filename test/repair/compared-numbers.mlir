// Floats are compared with floats, integers and bools with integers; 2.5 equals no integer, and stays.

// RUN: attn-opt %s --attn-compared-numbers | FileCheck %s

// CHECK-LABEL: func.func @floats(
// CHECK: %[[TWO:.*]] = torch.constant.float 2.0
// CHECK: torch.aten.gt.Scalar %{{.*}}, %[[TWO]] : !torch.vtensor<[3],bf16>, !torch.float
// CHECK-DAG: %[[BETA:.*]] = torch.constant.float 1.0
// CHECK-DAG: %[[MOST:.*]] = torch.constant.float 2.000000e+01
// CHECK: torch.aten.softplus %{{.*}}, %[[BETA]], %[[MOST]]
func.func @floats(%x: !torch.vtensor<[3],bf16>) -> (!torch.vtensor<[3],i1>, !torch.vtensor<[3],bf16>) {
  %1 = torch.constant.int 1
  %2 = torch.constant.int 2
  %20 = torch.constant.int 20
  %a = torch.aten.gt.Scalar %x, %2 : !torch.vtensor<[3],bf16>, !torch.int -> !torch.vtensor<[3],i1>
  %b = torch.aten.softplus %x, %1, %20 : !torch.vtensor<[3],bf16>, !torch.int, !torch.int -> !torch.vtensor<[3],bf16>
  return %a, %b : !torch.vtensor<[3],i1>, !torch.vtensor<[3],bf16>
}

// CHECK-LABEL: func.func @integers(
// CHECK-DAG: %[[HALF:.*]] = torch.constant.float 2.5
// CHECK: torch.aten.gt.Scalar %{{.*}}, %int2{{.*}} : !torch.vtensor<[3],si64>, !torch.int
// CHECK: torch.aten.ge.Scalar %{{.*}}, %int3{{.*}} : !torch.vtensor<[3],si64>, !torch.int
// CHECK: torch.aten.eq.Scalar %{{.*}}, %[[HALF]] : !torch.vtensor<[3],si64>, !torch.float
func.func @integers(%x: !torch.vtensor<[3],si64>) -> (!torch.vtensor<[3],i1>, !torch.vtensor<[3],i1>, !torch.vtensor<[3],i1>) {
  %half = torch.constant.float 2.5
  %a = torch.aten.gt.Scalar %x, %half : !torch.vtensor<[3],si64>, !torch.float -> !torch.vtensor<[3],i1>
  %b = torch.aten.ge.Scalar %x, %half : !torch.vtensor<[3],si64>, !torch.float -> !torch.vtensor<[3],i1>
  %c = torch.aten.eq.Scalar %x, %half : !torch.vtensor<[3],si64>, !torch.float -> !torch.vtensor<[3],i1>
  return %a, %b, %c : !torch.vtensor<[3],i1>, !torch.vtensor<[3],i1>, !torch.vtensor<[3],i1>
}

// CHECK-LABEL: func.func @bools(
// CHECK: %[[WIDE:.*]] = torch.prims.convert_element_type %arg0, %int4 {{.*}} -> !torch.vtensor<[3],si64>
// CHECK: torch.aten.gt.Scalar %[[WIDE]], %int0
func.func @bools(%x: !torch.vtensor<[3],i1>) -> !torch.vtensor<[3],i1> {
  %0 = torch.constant.int 0
  %a = torch.aten.gt.Scalar %x, %0 : !torch.vtensor<[3],i1>, !torch.int -> !torch.vtensor<[3],i1>
  return %a : !torch.vtensor<[3],i1>
}
