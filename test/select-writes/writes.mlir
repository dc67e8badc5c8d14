// A few elements of each row that are written by index are chosen, the last that is written; many, or
// those of fewer rows, are left. Run twice the pass adds nothing.

// RUN: attn-opt %s --attn-select-writes --report=%t.json | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.json
// RUN: attn-opt %s --attn-select-writes > %t.1 && attn-opt %s --attn-select-writes --attn-select-writes > %t.2 && diff %t.1 %t.2
// WHY: chooses each of 8 elements of a row among 2 that are written
// WHY: chooses each of 8 elements of a row among 1 that are written
// WHY: chooses each of 8 elements of a row among 2 that are written
// WHY: writes rows by one index each in place of their elements
// WHY-NOT: writes rows by one
// WHY-NOT: that are written

// CHECK-LABEL: func.func @rows(
// CHECK-SAME: %[[X:[^:]*]]: !torch.vtensor<[16,8],f32>, %[[AT:[^:]*]]: {{[^,]*,[^,]*}},si64>, %[[NEW:[^:]*]]:
// CHECK: %[[PLACES:.*]] = torch.aten.arange %int8
// CHECK: %[[AT0:.*]] = torch.aten.slice.Tensor %[[AT]], %int1{{.*}}, %int0
// CHECK: %[[HIT0:.*]] = torch.aten.eq.Tensor %[[AT0]], %[[PLACES]]
// CHECK: %[[NEW0:.*]] = torch.aten.slice.Tensor %[[NEW]]
// CHECK: %[[R0:.*]] = torch.aten.where.self %[[HIT0]], %[[NEW0]], %[[X]]
// CHECK: %[[HIT1:.*]] = torch.aten.eq.Tensor
// CHECK: %[[R1:.*]] = torch.aten.where.self %[[HIT1]], %{{.*}}, %[[R0]]
// CHECK: return %[[R1]]
func.func @rows(%x: !torch.vtensor<[16,8],f32>, %at: !torch.vtensor<[16,2],si64>, %new: !torch.vtensor<[16,2],f32>) -> !torch.vtensor<[16,8],f32> {
  %d = torch.constant.int -1
  %r = torch.aten.scatter.src %x, %d, %at, %new : !torch.vtensor<[16,8],f32>, !torch.int, !torch.vtensor<[16,2],si64>, !torch.vtensor<[16,2],f32> -> !torch.vtensor<[16,8],f32>
  return %r : !torch.vtensor<[16,8],f32>
}

// Sums; 32-bit indices of ONNX, which count from the end.
// CHECK-LABEL: func.func @onnx(
// CHECK: torch.prims.convert_element_type %arg1, %int4
// CHECK: torch.aten.lt.Scalar
// CHECK: torch.aten.add.Tensor
// CHECK: torch.aten.where.self
// CHECK-NOT: onnx.ScatterElements
func.func @onnx(%x: !torch.vtensor<[16,8],f32>, %at: !torch.vtensor<[16,1],si32>, %new: !torch.vtensor<[16,1],f32>) -> !torch.vtensor<[16,8],f32> {
  %r = torch.operator "onnx.ScatterElements"(%x, %at, %new) {torch.onnx.axis = 1 : si64, torch.onnx.reduction = "add"} : (!torch.vtensor<[16,8],f32>, !torch.vtensor<[16,1],si32>, !torch.vtensor<[16,1],f32>) -> !torch.vtensor<[16,8],f32>
  return %r : !torch.vtensor<[16,8],f32>
}

// As many rows as the index has, whatever their number.
// CHECK-LABEL: func.func @unknown(
// CHECK: torch.aten.where.ScalarSelf
func.func @unknown(%x: !torch.vtensor<[?,8],f32>) -> !torch.vtensor<[?,8],f32> {
  %d = torch.constant.int 1
  %k = torch.constant.int 2
  %t = torch.constant.bool true
  %one = torch.constant.float 1.0
  %none = torch.constant.none
  %v, %at = torch.aten.topk %x, %k, %d, %t, %t : !torch.vtensor<[?,8],f32>, !torch.int, !torch.int, !torch.bool, !torch.bool -> !torch.vtensor<[?,2],f32>, !torch.vtensor<[?,2],si64>
  %z = torch.aten.zeros_like %x, %none, %none, %none, %none, %none : !torch.vtensor<[?,8],f32>, !torch.none, !torch.none, !torch.none, !torch.none, !torch.none -> !torch.vtensor<[?,8],f32>
  %r = torch.aten.scatter.value %z, %d, %at, %one : !torch.vtensor<[?,8],f32>, !torch.int, !torch.vtensor<[?,2],si64>, !torch.float -> !torch.vtensor<[?,8],f32>
  return %r : !torch.vtensor<[?,8],f32>
}

// An index that is repeated along rows writes rows; one that is not, or that rows are longer than, does not.
// CHECK-LABEL: func.func @repeated(
// CHECK: %[[AT:.*]] = torch.aten.squeeze.dim %arg1
// CHECK: %[[BATCH:.*]] = torch.aten.unsqueeze %{{.*}} -> !torch.vtensor<[3,1],si64>
// CHECK: %[[LIST:.*]] = torch.prim.ListConstruct %[[BATCH]], %[[AT]] :
// CHECK: torch.aten.index_put %arg0, %[[LIST]], %arg2, %true
// CHECK-NOT: torch.aten.index_put
// CHECK: torch.aten.scatter_add
func.func @repeated(%x: !torch.vtensor<[3,40,8],f32>, %at: !torch.vtensor<[3,100,1],si64>, %new: !torch.vtensor<[3,100,8],f32>) -> (!torch.vtensor<[3,40,8],f32>, !torch.vtensor<[3,40,8],f32>) {
  %d = torch.constant.int 1
  %s0 = torch.constant.int 3
  %s1 = torch.constant.int 100
  %s2 = torch.constant.int 8
  %s3 = torch.constant.int 4
  %no = torch.constant.bool false
  %l = torch.prim.ListConstruct %s0, %s1, %s2 : (!torch.int, !torch.int, !torch.int) -> !torch.list<int>
  %i = torch.aten.expand %at, %l, %no : !torch.vtensor<[3,100,1],si64>, !torch.list<int>, !torch.bool -> !torch.vtensor<[3,100,8],si64>
  %r = torch.aten.scatter_add %x, %d, %i, %new : !torch.vtensor<[3,40,8],f32>, !torch.int, !torch.vtensor<[3,100,8],si64>, !torch.vtensor<[3,100,8],f32> -> !torch.vtensor<[3,40,8],f32>
  %m = torch.prim.ListConstruct %s0, %s1, %s3 : (!torch.int, !torch.int, !torch.int) -> !torch.list<int>
  %j = torch.aten.expand %at, %m, %no : !torch.vtensor<[3,100,1],si64>, !torch.list<int>, !torch.bool -> !torch.vtensor<[3,100,4],si64>
  %s = torch.aten.scatter_add %x, %d, %j, %new : !torch.vtensor<[3,40,8],f32>, !torch.int, !torch.vtensor<[3,100,4],si64>, !torch.vtensor<[3,100,8],f32> -> !torch.vtensor<[3,40,8],f32>
  return %r, %s : !torch.vtensor<[3,40,8],f32>, !torch.vtensor<[3,40,8],f32>
}

// Fewer rows than the tensor has, rows of unknown number, and more writes than pay.
// CHECK-LABEL: func.func @left(
// CHECK: torch.aten.scatter.value
// CHECK: torch.aten.scatter.value
// CHECK: torch.aten.scatter.value
func.func @left(%x: !torch.vtensor<[16,64],f32>, %u: !torch.vtensor<[?,64],f32>, %a: !torch.vtensor<[9,2],si64>, %b: !torch.vtensor<[?,2],si64>, %c: !torch.vtensor<[16,17],si64>) -> (!torch.vtensor<[16,64],f32>, !torch.vtensor<[?,64],f32>, !torch.vtensor<[16,64],f32>) {
  %d = torch.constant.int 1
  %one = torch.constant.float 1.0
  %r = torch.aten.scatter.value %x, %d, %a, %one : !torch.vtensor<[16,64],f32>, !torch.int, !torch.vtensor<[9,2],si64>, !torch.float -> !torch.vtensor<[16,64],f32>
  %s = torch.aten.scatter.value %u, %d, %b, %one : !torch.vtensor<[?,64],f32>, !torch.int, !torch.vtensor<[?,2],si64>, !torch.float -> !torch.vtensor<[?,64],f32>
  %t = torch.aten.scatter.value %x, %d, %c, %one : !torch.vtensor<[16,64],f32>, !torch.int, !torch.vtensor<[16,17],si64>, !torch.float -> !torch.vtensor<[16,64],f32>
  return %r, %s, %t : !torch.vtensor<[16,64],f32>, !torch.vtensor<[?,64],f32>, !torch.vtensor<[16,64],f32>
}
