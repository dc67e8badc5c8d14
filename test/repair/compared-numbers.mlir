// Floats are compared with floats, integers and bools with integers; 2.5 equals no integer, and stays.
// Floats are multiplied by floats, and integers of 0 and more, and those beside integers, stay.

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

// CHECK-LABEL: func.func @signed(
// CHECK: %[[LESS:.*]] = torch.constant.float -3.0
// CHECK: torch.aten.mul.Scalar %arg0, %[[LESS]]
// CHECK: torch.aten.add.Tensor %{{.*}}, %{{.*}}, %int2
// CHECK: torch.aten.mul.Scalar %arg1, %int-3
func.func @signed(%x: !torch.vtensor<[3],f32>, %y: !torch.vtensor<[3],si64>) -> (!torch.vtensor<[3],f32>, !torch.vtensor<[3],si64>) {
  %2 = torch.constant.int 2
  %-3 = torch.constant.int -3
  %a = torch.aten.mul.Scalar %x, %-3 : !torch.vtensor<[3],f32>, !torch.int -> !torch.vtensor<[3],f32>
  %b = torch.aten.add.Tensor %a, %x, %2 : !torch.vtensor<[3],f32>, !torch.vtensor<[3],f32>, !torch.int -> !torch.vtensor<[3],f32>
  %c = torch.aten.mul.Scalar %y, %-3 : !torch.vtensor<[3],si64>, !torch.int -> !torch.vtensor<[3],si64>
  return %b, %c : !torch.vtensor<[3],f32>, !torch.vtensor<[3],si64>
}

// Also one that a choice of the program's own reads.
// CHECK-LABEL: func.func @chosen_rest(
// CHECK: %[[REST:.*]] = torch.aten.remainder.Scalar
// CHECK: %[[SIGNED:.*]] = torch.aten.where.self %{{.*}}, %{{.*}}, %[[REST]]
// CHECK: torch.aten.where.self %arg0, %arg1, %[[SIGNED]]
func.func @chosen_rest(%c: !torch.vtensor<[3],i1>, %x: !torch.vtensor<[3],si64>) -> !torch.vtensor<[3],si64> {
  %3 = torch.constant.int 3
  %k = torch.vtensor.literal(dense<-1> : tensor<3xsi64>) : !torch.vtensor<[3],si64>
  %a = torch.aten.remainder.Scalar %k, %3 : !torch.vtensor<[3],si64>, !torch.int -> !torch.vtensor<[3],si64>
  %r = torch.aten.where.self %c, %x, %a : !torch.vtensor<[3],i1>, !torch.vtensor<[3],si64>, !torch.vtensor<[3],si64> -> !torch.vtensor<[3],si64>
  return %r : !torch.vtensor<[3],si64>
}

// The rest of a constant is moved by what divides where its sign is another; that of an argument stays.
// CHECK-LABEL: func.func @rests(
// CHECK: %[[REST:.*]] = torch.aten.remainder.Scalar %{{.*}}, %int3
// CHECK: %[[MOVED:.*]] = torch.aten.add.Scalar %[[REST]], %int3
// CHECK: %[[OTHER:.*]] = torch.aten.lt.Scalar %[[REST]], %int0
// CHECK: torch.aten.where.self %[[OTHER]], %[[MOVED]], %[[REST]]
// CHECK: torch.aten.ne.Tensor
// CHECK: torch.aten.where.self
// CHECK: torch.aten.remainder.Scalar %arg0, %int3
// CHECK-NOT: where
// CHECK: return
func.func @rests(%x: !torch.vtensor<[3],si64>) -> (!torch.vtensor<[3],si64>, !torch.vtensor<[3],si64>, !torch.vtensor<[3],si64>) {
  %3 = torch.constant.int 3
  %k = torch.vtensor.literal(dense<-1> : tensor<3xsi64>) : !torch.vtensor<[3],si64>
  %a = torch.aten.remainder.Scalar %k, %3 : !torch.vtensor<[3],si64>, !torch.int -> !torch.vtensor<[3],si64>
  %b = torch.aten.remainder.Tensor %k, %k : !torch.vtensor<[3],si64>, !torch.vtensor<[3],si64> -> !torch.vtensor<[3],si64>
  %c = torch.aten.remainder.Scalar %x, %3 : !torch.vtensor<[3],si64>, !torch.int -> !torch.vtensor<[3],si64>
  return %a, %b, %c : !torch.vtensor<[3],si64>, !torch.vtensor<[3],si64>, !torch.vtensor<[3],si64>
}
