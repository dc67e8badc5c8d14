// Attention of PyTorch gets operands with the same dims in front; what has them stays.

// RUN: attn-opt %s --split-input-file --attn-equal-ranks | FileCheck %s

// A mask [rows, keys].
// CHECK-LABEL: func.func @mask(
// CHECK-SAME: %[[Q:[^:]*]]: !torch.vtensor<[2,4,8,16],f32>, %[[K:[^:]*]]: !torch.vtensor<[2,4,12,16],f32>, %[[M:[^:]*]]: !torch.vtensor<[8,12],i1>
// CHECK: %[[ONE:.*]] = torch.aten.unsqueeze %[[M]], %{{.*}} -> !torch.vtensor<[1,8,12],i1>
// CHECK: %[[TWO:.*]] = torch.aten.unsqueeze %[[ONE]], %{{.*}} -> !torch.vtensor<[1,1,8,12],i1>
// CHECK: %[[R:.*]] = torch.aten.scaled_dot_product_attention %[[Q]], %[[K]], %[[K]], %[[TWO]],
// CHECK: return %[[R]]
func.func @mask(%q: !torch.vtensor<[2,4,8,16],f32>, %k: !torch.vtensor<[2,4,12,16],f32>, %m: !torch.vtensor<[8,12],i1>) -> !torch.vtensor<[2,4,8,16],f32> {
  %0 = torch.constant.float 0.0
  %no = torch.constant.bool false
  %none = torch.constant.none
  %r = torch.aten.scaled_dot_product_attention %q, %k, %k, %m, %0, %no, %none, %no : !torch.vtensor<[2,4,8,16],f32>, !torch.vtensor<[2,4,12,16],f32>, !torch.vtensor<[2,4,12,16],f32>, !torch.vtensor<[8,12],i1>, !torch.float, !torch.bool, !torch.none, !torch.bool -> !torch.vtensor<[2,4,8,16],f32>
  return %r : !torch.vtensor<[2,4,8,16],f32>
}

// -----

// No batch: the result has none, either.
// CHECK-LABEL: func.func @single(
// CHECK: torch.aten.scaled_dot_product_attention {{.*}} -> !torch.vtensor<[1,8,24],f32>
// CHECK: %[[R:.*]] = torch.aten.squeeze.dim %{{.*}} -> !torch.vtensor<[8,24],f32>
// CHECK: return %[[R]]
func.func @single(%q: !torch.vtensor<[8,16],f32>, %k: !torch.vtensor<[12,16],f32>, %v: !torch.vtensor<[12,24],f32>) -> !torch.vtensor<[8,24],f32> {
  %0 = torch.constant.float 0.0
  %no = torch.constant.bool false
  %none = torch.constant.none
  %r = torch.aten.scaled_dot_product_attention %q, %k, %v, %none, %0, %no, %none, %no : !torch.vtensor<[8,16],f32>, !torch.vtensor<[12,16],f32>, !torch.vtensor<[12,24],f32>, !torch.none, !torch.float, !torch.bool, !torch.none, !torch.bool -> !torch.vtensor<[8,24],f32>
  return %r : !torch.vtensor<[8,24],f32>
}

// -----

// A query that an unknown number of batches shares, and keys that heads share.
// CHECK-LABEL: func.func @shared(
// CHECK-SAME: %[[Q:[^:]*]]: !torch.vtensor<[1,4,8,16],f32>, %[[K:[^:]*]]: !torch.vtensor<[?,1,12,16],f32>
// CHECK: %[[SIZE:.*]] = torch.aten.size.int %[[K]], %int0
// CHECK: %[[SIZES:.*]] = torch.prim.ListConstruct %[[SIZE]], %int-1, %int-1, %int-1
// CHECK: torch.aten.expand %[[Q]], %[[SIZES]], %{{.*}} -> !torch.vtensor<[?,4,8,16],f32>
// CHECK: torch.aten.expand %[[K]], %{{.*}} -> !torch.vtensor<[?,4,12,16],f32>
// CHECK: torch.aten.expand %[[K]], %{{.*}} -> !torch.vtensor<[?,4,12,16],f32>
func.func @shared(%q: !torch.vtensor<[1,4,8,16],f32>, %k: !torch.vtensor<[?,1,12,16],f32>) -> !torch.vtensor<[?,4,8,16],f32> {
  %0 = torch.constant.float 0.0
  %no = torch.constant.bool false
  %none = torch.constant.none
  %r = torch.aten.scaled_dot_product_attention %q, %k, %k, %none, %0, %no, %none, %no : !torch.vtensor<[1,4,8,16],f32>, !torch.vtensor<[?,1,12,16],f32>, !torch.vtensor<[?,1,12,16],f32>, !torch.none, !torch.float, !torch.bool, !torch.none, !torch.bool -> !torch.vtensor<[?,4,8,16],f32>
  return %r : !torch.vtensor<[?,4,8,16],f32>
}

// -----

// Groups of heads that share one of the keys are no missing dims.
// CHECK-LABEL: func.func @groups(
// CHECK-NOT: unsqueeze
// CHECK-NOT: expand
func.func @groups(%q: !torch.vtensor<[2,4,8,16],f32>, %k: !torch.vtensor<[2,1,12,16],f32>) -> !torch.vtensor<[2,4,8,16],f32> {
  %0 = torch.constant.float 0.0
  %no = torch.constant.bool false
  %yes = torch.constant.bool true
  %none = torch.constant.none
  %r = torch.aten.scaled_dot_product_attention %q, %k, %k, %none, %0, %no, %none, %yes : !torch.vtensor<[2,4,8,16],f32>, !torch.vtensor<[2,1,12,16],f32>, !torch.vtensor<[2,1,12,16],f32>, !torch.none, !torch.float, !torch.bool, !torch.none, !torch.bool -> !torch.vtensor<[2,4,8,16],f32>
  return %r : !torch.vtensor<[2,4,8,16],f32>
}

// -----

// Tensors of no known rank stay.
// CHECK-LABEL: func.func @unranked(
// CHECK: torch.aten.scaled_dot_product_attention %arg0, %arg1, %arg1,
// CHECK: torch.aten.scaled_dot_product_attention %arg2, %arg2, %arg2,
func.func @unranked(%q: !torch.vtensor<*,f32>, %k: !torch.vtensor<[4,12,16],f32>, %x: !torch.vtensor<[12,16],f32>) -> (!torch.vtensor<[4,8,16],f32>, !torch.vtensor) {
  %0 = torch.constant.float 0.0
  %no = torch.constant.bool false
  %none = torch.constant.none
  %r = torch.aten.scaled_dot_product_attention %q, %k, %k, %none, %0, %no, %none, %no : !torch.vtensor<*,f32>, !torch.vtensor<[4,12,16],f32>, !torch.vtensor<[4,12,16],f32>, !torch.none, !torch.float, !torch.bool, !torch.none, !torch.bool -> !torch.vtensor<[4,8,16],f32>
  %s = torch.aten.scaled_dot_product_attention %x, %x, %x, %none, %0, %no, %none, %no : !torch.vtensor<[12,16],f32>, !torch.vtensor<[12,16],f32>, !torch.vtensor<[12,16],f32>, !torch.none, !torch.float, !torch.bool, !torch.none, !torch.bool -> !torch.vtensor
  return %r, %s : !torch.vtensor<[4,8,16],f32>, !torch.vtensor
}
