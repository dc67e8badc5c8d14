// Ops on unsigned bytes read 32 bits, and give bytes again; so do quotients of bytes with a sign, and
// what 8 and 16 bits are less than 0. Floats become bytes by way of 32 bits. What PyTorch compares
// bytes with, or divides them by, is a byte. Integers bounded by floats are floats first. Moves of
// bytes, sums that are told to be bytes, and other integers and conversions stay.

// RUN: attn-opt %s --attn-wide-bytes --report=%t.json | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.json
// WHY-COUNT-9: computes with 32 bits
// WHY-COUNT-2: becomes integers by way of 32 bits
// WHY-NOT: 32 bits

// Whether any byte is not 0 is a byte.
// CHECK-LABEL: func.func @any(
// CHECK: %[[TRUTH:.*]] = torch.aten.any %{{.*}} : !torch.vtensor<[4],si32> -> !torch.vtensor<[],i1>
// CHECK: torch.prims.convert_element_type %[[TRUTH]], %int0{{.*}} -> !torch.vtensor<[],ui8>
func.func @any(%x: !torch.vtensor<[4],ui8>) -> !torch.vtensor<[],ui8> {
  %a = torch.aten.any %x : !torch.vtensor<[4],ui8> -> !torch.vtensor<[],ui8>
  return %a : !torch.vtensor<[],ui8>
}

// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[X:[^:]*]]: !torch.vtensor<[4],ui8>
// CHECK: %[[WIDE:.*]] = torch.prims.convert_element_type %[[X]], %int3{{.*}} -> !torch.vtensor<[4],si32>
// CHECK: torch.aten.div.Scalar %[[WIDE]], %{{.*}} : !torch.vtensor<[4],si32>, !torch.float -> !torch.vtensor<[4],f32>
// CHECK: %[[MOST:[^,]*]], %[[AT:.*]] = torch.aten.max.dim %{{.*}} -> !torch.vtensor<[],si32>, !torch.vtensor<[],si64>
// CHECK: %[[BYTE:.*]] = torch.prims.convert_element_type %[[MOST]], %int0{{.*}} -> !torch.vtensor<[],ui8>
// CHECK: torch.aten.gt.Scalar %{{.*}}, %int44{{.*}} : !torch.vtensor<[4],si32>
// CHECK: return %{{.*}}, %[[BYTE]], %[[AT]]
func.func @main(%x: !torch.vtensor<[4],ui8>) -> (!torch.vtensor<[4],f32>, !torch.vtensor<[],ui8>, !torch.vtensor<[],si64>, !torch.vtensor<[4],i1>) {
  %0 = torch.constant.int 0
  %300 = torch.constant.int 300
  %255 = torch.constant.float 255.0
  %false = torch.constant.bool false
  %a = torch.aten.div.Scalar %x, %255 : !torch.vtensor<[4],ui8>, !torch.float -> !torch.vtensor<[4],f32>
  %b:2 = torch.aten.max.dim %x, %0, %false : !torch.vtensor<[4],ui8>, !torch.int, !torch.bool -> !torch.vtensor<[],ui8>, !torch.vtensor<[],si64>
  %c = torch.aten.gt.Scalar %x, %300 : !torch.vtensor<[4],ui8>, !torch.int -> !torch.vtensor<[4],i1>
  return %a, %b#0, %b#1, %c : !torch.vtensor<[4],f32>, !torch.vtensor<[],ui8>, !torch.vtensor<[],si64>, !torch.vtensor<[4],i1>
}

// CHECK-LABEL: func.func @signed(
// CHECK: torch.aten.remainder.Tensor %{{.*}}, %{{.*}} : !torch.vtensor<[4],si32>, !torch.vtensor<[4],si32> -> !torch.vtensor<[4],si32>
// CHECK: torch.prims.convert_element_type %{{.*}}, %int6{{.*}} -> !torch.vtensor<[4],f32>
// CHECK: torch.aten.clamp %{{.*}} : !torch.vtensor<[4],f32>
func.func @signed(%x: !torch.vtensor<[4],si8>, %i: !torch.vtensor<[4],si64>) -> (!torch.vtensor<[4],si8>, !torch.vtensor<[4],f32>) {
  %low = torch.constant.float -1.5
  %high = torch.constant.float 1.5
  %a = torch.aten.remainder.Tensor %x, %x : !torch.vtensor<[4],si8>, !torch.vtensor<[4],si8> -> !torch.vtensor<[4],si8>
  %b = torch.aten.clamp %i, %low, %high : !torch.vtensor<[4],si64>, !torch.float, !torch.float -> !torch.vtensor<[4],f32>
  return %a, %b : !torch.vtensor<[4],si8>, !torch.vtensor<[4],f32>
}

// CHECK-LABEL: func.func @by_way_of_floats(
// CHECK: torch.aten.remainder.Scalar %{{.*}}, %int253{{.*}} : !torch.vtensor<[4],si32>
// CHECK: torch.aten.neg %{{.*}} : !torch.vtensor<[4],si32> -> !torch.vtensor<[4],si32>
// CHECK: torch.prims.convert_element_type %{{.*}}, %int0{{.*}} -> !torch.vtensor<[4],ui8>
// CHECK: torch.aten.neg %{{.*}} : !torch.vtensor<[4],si32> -> !torch.vtensor<[4],si32>
// CHECK: torch.prims.convert_element_type %{{.*}}, %int2{{.*}} -> !torch.vtensor<[4],si16>
// CHECK: torch.prims.convert_element_type %{{.*}}, %int3{{.*}} !torch.vtensor<[4],f32>, !torch.int -> !torch.vtensor<[4],si32>
// CHECK: torch.aten.to.dtype %{{.*}} : !torch.vtensor<[4],si32>
// CHECK: torch.prims.convert_element_type %{{.*}} !torch.vtensor<[4],f16>, !torch.int -> !torch.vtensor<[4],si32>
// CHECK: torch.prims.convert_element_type %{{.*}} !torch.vtensor<[4],si32>, !torch.int -> !torch.vtensor<[4],si8>
func.func @by_way_of_floats(%x: !torch.vtensor<[4],ui8>, %y: !torch.vtensor<[4],si16>, %f: !torch.vtensor<[4],f32>, %h: !torch.vtensor<[4],f16>) -> (!torch.vtensor<[4],ui8>, !torch.vtensor<[4],si16>, !torch.vtensor<[4],ui8>, !torch.vtensor<[4],si8>) {
  %0 = torch.constant.int 0
  %1 = torch.constant.int 1
  %none = torch.constant.none
  %false = torch.constant.bool false
  %minus3 = torch.constant.int -3
  %q = torch.aten.remainder.Scalar %x, %minus3 : !torch.vtensor<[4],ui8>, !torch.int -> !torch.vtensor<[4],ui8>
  %a = torch.aten.neg %q : !torch.vtensor<[4],ui8> -> !torch.vtensor<[4],ui8>
  %b = torch.aten.neg %y : !torch.vtensor<[4],si16> -> !torch.vtensor<[4],si16>
  %c = torch.aten.to.dtype %f, %0, %false, %false, %none : !torch.vtensor<[4],f32>, !torch.int, !torch.bool, !torch.bool, !torch.none -> !torch.vtensor<[4],ui8>
  %d = torch.prims.convert_element_type %h, %1 : !torch.vtensor<[4],f16>, !torch.int -> !torch.vtensor<[4],si8>
  return %a, %b, %c, %d : !torch.vtensor<[4],ui8>, !torch.vtensor<[4],si16>, !torch.vtensor<[4],ui8>, !torch.vtensor<[4],si8>
}

// CHECK-LABEL: func.func @stays(
// CHECK-NOT: convert_element_type
// CHECK: return
func.func @stays(%x: !torch.vtensor<[4],ui8>, %y: !torch.vtensor<[4],si8>, %i: !torch.vtensor<[4],si64>) -> (!torch.vtensor<[4],ui8>, !torch.vtensor<[],ui8>, !torch.vtensor<[4],si8>, !torch.vtensor<[4],si64>, !torch.vtensor<[4],si64>, !torch.vtensor<[4],f32>) {
  %0 = torch.constant.int 0
  %6 = torch.constant.int 6
  %none = torch.constant.none
  %false = torch.constant.bool false
  %1 = torch.constant.int 1
  %dims = torch.prim.ListConstruct %0 : (!torch.int) -> !torch.list<int>
  %a = torch.aten.flip %x, %dims : !torch.vtensor<[4],ui8>, !torch.list<int> -> !torch.vtensor<[4],ui8>
  %b = torch.aten.sum %x, %0 : !torch.vtensor<[4],ui8>, !torch.int -> !torch.vtensor<[],ui8>
  %c = torch.aten.add.Tensor %y, %y, %1 : !torch.vtensor<[4],si8>, !torch.vtensor<[4],si8>, !torch.int -> !torch.vtensor<[4],si8>
  %d = torch.aten.clamp %i, %0, %1 : !torch.vtensor<[4],si64>, !torch.int, !torch.int -> !torch.vtensor<[4],si64>
  %e = torch.aten.neg %i : !torch.vtensor<[4],si64> -> !torch.vtensor<[4],si64>
  %f = torch.aten.to.dtype %x, %6, %false, %false, %none : !torch.vtensor<[4],ui8>, !torch.int, !torch.bool, !torch.bool, !torch.none -> !torch.vtensor<[4],f32>
  return %a, %b, %c, %d, %e, %f : !torch.vtensor<[4],ui8>, !torch.vtensor<[],ui8>, !torch.vtensor<[4],si8>, !torch.vtensor<[4],si64>, !torch.vtensor<[4],si64>, !torch.vtensor<[4],f32>
}
