// `//` of integers is a division of integers, not one of f32, and `-` one of integers; floats,
// bytes' `-` and other roundings are left.

// RUN: attn-opt %s --attn-exact-integers --report=%t.json | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.json
// WHY-COUNT-3: divides integers, not floats of 24 bits
// WHY: negates integers, not floats of 24 bits
// WHY-NOT: {{divides|negates}} integers

// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[X:[^:]*]]: !torch.vtensor<[3],si64>, %[[Y:[^:]*]]: !torch.vtensor<[3],si64>, %[[F:[^:]*]]: !torch.vtensor<[3],f32>

// CHECK: %[[Q:.*]] = torch.aten.div.Tensor_mode %[[X]], %[[Y]], %{{.*}}
// CHECK: %[[BACK:.*]] = torch.aten.mul.Tensor %[[Q]], %[[Y]]
// CHECK: %[[REST:.*]] = torch.aten.sub.Tensor %[[X]], %[[BACK]]
// CHECK: %[[OWN:.*]] = torch.aten.remainder.Tensor %[[X]], %[[Y]]
// CHECK: torch.aten.ne.Tensor %[[REST]], %[[OWN]] : {{.*}} -> !torch.vtensor<[3],i1>
// CHECK: torch.aten.where.self
// CHECK: torch.aten.div.Scalar_mode %[[X]]
// CHECK: torch.aten.remainder.Scalar %[[X]]
// CHECK: torch.aten.div.Tensor_mode
// CHECK: torch.aten.floor_divide %[[F]], %[[F]]
// CHECK: torch.aten.div.Tensor_mode %[[X]], %[[Y]]
func.func @main(%x: !torch.vtensor<[3],si64>, %y: !torch.vtensor<[3],si64>, %f: !torch.vtensor<[3],f32>) -> (!torch.vtensor<[3],si64>, !torch.vtensor<[3],si64>, !torch.vtensor<[3],si64>, !torch.vtensor<[3],f32>, !torch.vtensor<[3],si64>) {
  %3 = torch.constant.int 3
  %floor = torch.constant.str "floor"
  %trunc = torch.constant.str "trunc"
  %0 = torch.aten.floor_divide %x, %y : !torch.vtensor<[3],si64>, !torch.vtensor<[3],si64> -> !torch.vtensor<[3],si64>
  %1 = torch.aten.floor_divide.Scalar %x, %3 : !torch.vtensor<[3],si64>, !torch.int -> !torch.vtensor<[3],si64>
  %2 = torch.aten.div.Tensor_mode %x, %y, %floor : !torch.vtensor<[3],si64>, !torch.vtensor<[3],si64>, !torch.str -> !torch.vtensor<[3],si64>
  %4 = torch.aten.floor_divide %f, %f : !torch.vtensor<[3],f32>, !torch.vtensor<[3],f32> -> !torch.vtensor<[3],f32>
  %5 = torch.aten.div.Tensor_mode %x, %y, %trunc : !torch.vtensor<[3],si64>, !torch.vtensor<[3],si64>, !torch.str -> !torch.vtensor<[3],si64>
  return %0, %1, %2, %4, %5 : !torch.vtensor<[3],si64>, !torch.vtensor<[3],si64>, !torch.vtensor<[3],si64>, !torch.vtensor<[3],f32>, !torch.vtensor<[3],si64>
}

// CHECK-LABEL: func.func @negated(
// CHECK-SAME: %[[X:[^:]*]]: !torch.vtensor<[?],si32>, %[[B:[^:]*]]: !torch.vtensor<[3],si8>, %[[F:[^:]*]]: !torch.vtensor<[3],f32>
// CHECK: torch.aten.mul.Scalar %[[X]], %int-1
// CHECK: torch.aten.neg %[[B]]
// CHECK: torch.aten.neg %[[F]]
func.func @negated(%x: !torch.vtensor<[?],si32>, %b: !torch.vtensor<[3],si8>, %f: !torch.vtensor<[3],f32>) -> (!torch.vtensor<[?],si32>, !torch.vtensor<[3],si8>, !torch.vtensor<[3],f32>) {
  %0 = torch.aten.neg %x : !torch.vtensor<[?],si32> -> !torch.vtensor<[?],si32>
  %1 = torch.aten.neg %b : !torch.vtensor<[3],si8> -> !torch.vtensor<[3],si8>
  %2 = torch.aten.neg %f : !torch.vtensor<[3],f32> -> !torch.vtensor<[3],f32>
  return %0, %1, %2 : !torch.vtensor<[?],si32>, !torch.vtensor<[3],si8>, !torch.vtensor<[3],f32>
}
