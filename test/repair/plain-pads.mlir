// Pads below 0 are slices behind pads of the sizes above 0; others stay, and so do sizes that are not
// constants.

// RUN: attn-opt %s --attn-plain-pads | FileCheck %s

// CHECK-LABEL: func.func @shifted(
// CHECK: %[[PAD:.*]] = torch.aten.pad {{.*}} -> !torch.vtensor<[2,6,4],f32>
// CHECK: torch.aten.slice.Tensor %[[PAD]], %{{[^,]*}}, %int0{{[^,]*}}, %int-1{{[^,]*}}, {{.*}} -> !torch.vtensor<[2,5,4],f32>
func.func @shifted(%x: !torch.vtensor<[2,5,4],f32>) -> !torch.vtensor<[2,5,4],f32> {
  %0 = torch.constant.int 0
  %1 = torch.constant.int 1
  %-1 = torch.constant.int -1
  %by = torch.constant.float 0.0
  %mode = torch.constant.str "constant"
  %sizes = torch.prim.ListConstruct %0, %0, %1, %-1 : (!torch.int, !torch.int, !torch.int, !torch.int) -> !torch.list<int>
  %r = torch.aten.pad %x, %sizes, %mode, %by : !torch.vtensor<[2,5,4],f32>, !torch.list<int>, !torch.str, !torch.float -> !torch.vtensor<[2,5,4],f32>
  return %r : !torch.vtensor<[2,5,4],f32>
}

// CHECK-LABEL: func.func @unknown(
// CHECK: %[[PAD:.*]] = torch.aten.constant_pad_nd {{.*}} -> !torch.vtensor<[?,6],f32>
// CHECK: torch.aten.slice.Tensor %[[PAD]], %{{[^,]*}}, %int1{{[^,]*}}, %int9223372036854775807{{[^,]*}}, {{.*}} -> !torch.vtensor<[?,5],f32>
func.func @unknown(%x: !torch.vtensor<[?,4],f32>, %size: !torch.int) -> !torch.vtensor<[?,5],f32> {
  %2 = torch.constant.int 2
  %-1 = torch.constant.int -1
  %by = torch.constant.float 3.0
  %sizes = torch.prim.ListConstruct %-1, %2, %size, %size : (!torch.int, !torch.int, !torch.int, !torch.int) -> !torch.list<int>
  %r = torch.aten.constant_pad_nd %x, %sizes, %by : !torch.vtensor<[?,4],f32>, !torch.list<int>, !torch.float -> !torch.vtensor<[?,5],f32>
  return %r : !torch.vtensor<[?,5],f32>
}

// CHECK-LABEL: func.func @stays(
// CHECK-NOT: slice
func.func @stays(%x: !torch.vtensor<[4],f32>, %size: !torch.int) -> !torch.vtensor<[?],f32> {
  %0 = torch.constant.int 0
  %by = torch.constant.float 3.0
  %sizes = torch.prim.ListConstruct %0, %size : (!torch.int, !torch.int) -> !torch.list<int>
  %r = torch.aten.constant_pad_nd %x, %sizes, %by : !torch.vtensor<[4],f32>, !torch.list<int>, !torch.float -> !torch.vtensor<[?],f32>
  return %r : !torch.vtensor<[?],f32>
}

// Rolls by a dim's size or more go by the rest, those of all elements are of one row; others stay.

// CHECK-LABEL: func.func @round(
// CHECK-SAME: %[[X:[^:]*]]: !torch.vtensor<[3,5],f32>
// CHECK: %[[BY:.*]] = torch.prim.ListConstruct %int2{{[^,]*}}, %int-1{{[^,]*}} :
// CHECK: torch.aten.roll %[[X]], %[[BY]], %{{.*}}
// CHECK: %[[ROW:.*]] = torch.aten.reshape %[[X]], %{{.*}} -> !torch.vtensor<[15],f32>
// CHECK: %[[ROLLED:.*]] = torch.aten.roll %[[ROW]], %{{.*}} -> !torch.vtensor<[15],f32>
// CHECK: torch.aten.reshape %[[ROLLED]], %{{.*}} -> !torch.vtensor<[3,5],f32>
// CHECK-NOT: torch.aten.roll
func.func @round(%x: !torch.vtensor<[3,5],f32>) -> (!torch.vtensor<[3,5],f32>, !torch.vtensor<[3,5],f32>) {
  %0 = torch.constant.int 0
  %1 = torch.constant.int 1
  %-4 = torch.constant.int -4
  %-1 = torch.constant.int -1
  %by = torch.prim.ListConstruct %-4, %-1 : (!torch.int, !torch.int) -> !torch.list<int>
  %dims = torch.prim.ListConstruct %0, %1 : (!torch.int, !torch.int) -> !torch.list<int>
  %a = torch.aten.roll %x, %by, %dims : !torch.vtensor<[3,5],f32>, !torch.list<int>, !torch.list<int> -> !torch.vtensor<[3,5],f32>
  %all = torch.prim.ListConstruct %-4 : (!torch.int) -> !torch.list<int>
  %none = torch.prim.ListConstruct : () -> !torch.list<int>
  %b = torch.aten.roll %x, %all, %none : !torch.vtensor<[3,5],f32>, !torch.list<int>, !torch.list<int> -> !torch.vtensor<[3,5],f32>
  return %a, %b : !torch.vtensor<[3,5],f32>, !torch.vtensor<[3,5],f32>
}

// CHECK-LABEL: func.func @within(
// CHECK-SAME: %[[X:[^:]*]]: !torch.vtensor<[3,?],f32>, %[[S:[^:]*]]: !torch.int
// CHECK: torch.prim.ListConstruct %[[S]], %int7
// CHECK: torch.prim.ListConstruct
// CHECK-NOT: torch.prim.ListConstruct
// CHECK: return
func.func @within(%x: !torch.vtensor<[3,?],f32>, %s: !torch.int) -> !torch.vtensor<[3,?],f32> {
  %0 = torch.constant.int 0
  %1 = torch.constant.int 1
  %7 = torch.constant.int 7
  %by = torch.prim.ListConstruct %s, %7 : (!torch.int, !torch.int) -> !torch.list<int>
  %dims = torch.prim.ListConstruct %0, %1 : (!torch.int, !torch.int) -> !torch.list<int>
  %a = torch.aten.roll %x, %by, %dims : !torch.vtensor<[3,?],f32>, !torch.list<int>, !torch.list<int> -> !torch.vtensor<[3,?],f32>
  return %a : !torch.vtensor<[3,?],f32>
}
