// The place of a row's largest element is the least at which one stands, NaN before all others. Run
// twice the pass adds nothing.

// RUN: attn-opt %s --attn-arg-maxima --split-input-file --report=%t.json | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.json
// RUN: attn-opt %s --attn-arg-maxima --split-input-file > %t.1 && attn-opt %s --attn-arg-maxima --attn-arg-maxima --split-input-file > %t.2 && diff %t.1 %t.2
// WHY: looks for its largest element's place behind that element
// WHY: looks for its smallest element's place behind that element
// WHY: looks for its largest element's place behind that element
// WHY: looks for its largest element's place behind that element
// WHY-NOT: looks for

// As `torch.argmax` is imported.
// CHECK-LABEL: func.func @compared(
// CHECK-SAME: %[[X:.*]]: tensor<?x33xf16>
// CHECK: %[[LARGEST:.*]] = linalg.generic {{.*}}"reduction"]} ins(%[[X]] : {{.*}})
// CHECK: arith.maximumf
// CHECK: %[[LAST:.*]] = arith.constant 2147483647 : i32
// CHECK: %[[START:.*]] = linalg.fill ins(%[[LAST]]
// CHECK: %[[PLACE:.*]] = linalg.generic {{.*}}"reduction"]} ins(%[[X]], %[[LARGEST]] : {{.*}}) outs(%[[START]]
// CHECK: arith.cmpf oeq
// CHECK: arith.cmpf uno
// CHECK: linalg.index 1
// CHECK: arith.minui
// CHECK: return %[[PLACE]]
func.func @compared(%x: tensor<?x33xf16>) -> tensor<?xi32> {
  %low = arith.constant 0xFC00 : f16
  %zero = arith.constant 0 : i32
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x33xf16>
  %v = tensor.empty(%n) : tensor<?xf16>
  %i = tensor.empty(%n) : tensor<?xi32>
  %vs = linalg.fill ins(%low : f16) outs(%v : tensor<?xf16>) -> tensor<?xf16>
  %is = linalg.fill ins(%zero : i32) outs(%i : tensor<?xi32>) -> tensor<?xi32>
  %r:2 = iree_linalg_ext.arg_compare dimension(1) ins(%x : tensor<?x33xf16>) outs(%vs, %is : tensor<?xf16>, tensor<?xi32>) {
  ^bb0(%a: f16, %b: f16):
    %c = arith.cmpf ogt, %a, %b : f16
    iree_linalg_ext.yield %c : i1
  } -> tensor<?xf16>, tensor<?xi32>
  return %r#1 : tensor<?xi32>
}

// -----

// As `torch.min` of integers along the first dim is, with places of 64 bits.
// CHECK-LABEL: func.func @reduced(
// CHECK: %[[SMALLEST:.*]] = linalg.generic
// CHECK: arith.minsi
// CHECK: %[[PLACE:.*]] = linalg.generic
// CHECK: arith.cmpi eq
// CHECK: linalg.index 0
// CHECK: %[[WIDE:.*]] = linalg.generic {{.*}} ins(%[[PLACE]]
// CHECK: arith.extsi
// CHECK: return %[[SMALLEST]], %[[WIDE]]
func.func @reduced(%x: tensor<5x4xi32>) -> (tensor<4xi32>, tensor<4xi64>) {
  %most = arith.constant 2147483647 : i32
  %zero = arith.constant 0 : i64
  %v = tensor.empty() : tensor<4xi32>
  %i = tensor.empty() : tensor<4xi64>
  %vs = linalg.fill ins(%most : i32) outs(%v : tensor<4xi32>) -> tensor<4xi32>
  %is = linalg.fill ins(%zero : i64) outs(%i : tensor<4xi64>) -> tensor<4xi64>
  %r:2 = linalg.generic {indexing_maps = [affine_map<(a, b) -> (b, a)>, affine_map<(a, b) -> (a)>, affine_map<(a, b) -> (a)>], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<5x4xi32>) outs(%vs, %is : tensor<4xi32>, tensor<4xi64>) {
  ^bb0(%a: i32, %best: i32, %at: i64):
    %k = linalg.index 1 : index
    %n = arith.index_cast %k : index to i64
    %m = arith.minsi %a, %best : i32
    %c = arith.cmpi slt, %a, %best : i32
    %s = arith.select %c, %n, %at : i64
    linalg.yield %m, %s : i32, i64
  } -> (tensor<4xi32>, tensor<4xi64>)
  return %r#0, %r#1 : tensor<4xi32>, tensor<4xi64>
}

// -----

// As JAX's is: beside the elements it reads their places.
// CHECK-LABEL: func.func @counted(
// CHECK-SAME: %[[X:.*]]: tensor<4x33xf32>
// CHECK: linalg.generic {{.*}} ins(%[[X]], %{{.*}} : tensor<4x33xf32>, tensor<4xf32>)
// CHECK: arith.minui
func.func @counted(%x: tensor<4x33xf32>) -> tensor<4xi32> {
  %zero = arith.constant 0 : i32
  %low = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<4x33xi32>
  %count = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]} outs(%e : tensor<4x33xi32>) {
  ^bb0(%o: i32):
    %k = linalg.index 1 : index
    %n = arith.index_cast %k : index to i32
    linalg.yield %n : i32
  } -> tensor<4x33xi32>
  %v = tensor.empty() : tensor<4xf32>
  %i = tensor.empty() : tensor<4xi32>
  %vs = linalg.fill ins(%low : f32) outs(%v : tensor<4xf32>) -> tensor<4xf32>
  %is = linalg.fill ins(%zero : i32) outs(%i : tensor<4xi32>) -> tensor<4xi32>
  %r:2 = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a)>, affine_map<(a, b) -> (a)>], iterator_types = ["parallel", "reduction"]} ins(%x, %count : tensor<4x33xf32>, tensor<4x33xi32>) outs(%vs, %is : tensor<4xf32>, tensor<4xi32>) {
  ^bb0(%a: f32, %n: i32, %best: f32, %at: i32):
    %more = arith.cmpf ogt, %best, %a : f32
    %nan = arith.cmpf une, %best, %best : f32
    %keeps = arith.ori %more, %nan : i1
    %same = arith.cmpf oeq, %best, %a : f32
    %before = arith.cmpi slt, %at, %n : i32
    %first = arith.andi %same, %before : i1
    %stays = arith.ori %keeps, %first : i1
    %m = arith.select %keeps, %best, %a : f32
    %s = arith.select %stays, %at, %n : i32
    linalg.yield %m, %s : f32, i32
  } -> (tensor<4xf32>, tensor<4xi32>)
  return %r#1 : tensor<4xi32>
}

// -----

// The last of equal elements, and one that must be above 1, stay.
// CHECK-LABEL: func.func @others(
// CHECK-COUNT-2: iree_linalg_ext.arg_compare
func.func @others(%x: tensor<4x8xf32>) -> (tensor<4xi32>, tensor<4xi32>) {
  %low = arith.constant 0xFF800000 : f32
  %one = arith.constant 1.0 : f32
  %zero = arith.constant 0 : i32
  %v = tensor.empty() : tensor<4xf32>
  %i = tensor.empty() : tensor<4xi32>
  %vs = linalg.fill ins(%low : f32) outs(%v : tensor<4xf32>) -> tensor<4xf32>
  %ones = linalg.fill ins(%one : f32) outs(%v : tensor<4xf32>) -> tensor<4xf32>
  %is = linalg.fill ins(%zero : i32) outs(%i : tensor<4xi32>) -> tensor<4xi32>
  %r:2 = iree_linalg_ext.arg_compare dimension(1) ins(%x : tensor<4x8xf32>) outs(%vs, %is : tensor<4xf32>, tensor<4xi32>) {
  ^bb0(%a: f32, %b: f32):
    %c = arith.cmpf oge, %a, %b : f32
    iree_linalg_ext.yield %c : i1
  } -> tensor<4xf32>, tensor<4xi32>
  %s:2 = iree_linalg_ext.arg_compare dimension(1) ins(%x : tensor<4x8xf32>) outs(%ones, %is : tensor<4xf32>, tensor<4xi32>) {
  ^bb0(%a: f32, %b: f32):
    %c = arith.cmpf ogt, %a, %b : f32
    iree_linalg_ext.yield %c : i1
  } -> tensor<4xf32>, tensor<4xi32>
  return %r#1, %s#1 : tensor<4xi32>, tensor<4xi32>
}

// -----

// For AMD the second reduction is a kernel of its own.
module attributes {hal.device.targets = [#hal.device.target<"hip", [#hal.executable.target<"rocm", "rocm-hsaco-fb">]> : !hal.device]} {
  // CHECK-LABEL: func.func @apart(
  // CHECK: %[[LARGEST:.*]] = linalg.generic
  // CHECK: %[[STORED:.*]] = iree_tensor_ext.compute_barrier.start %[[LARGEST]] : tensor<3xf32>
  // CHECK: linalg.generic {{.*}} ins(%{{.*}}, %[[STORED]] :
  func.func @apart(%x: tensor<3x50257xf32>) -> tensor<3xi32> {
    %low = arith.constant 0xFF800000 : f32
    %zero = arith.constant 0 : i32
    %v = tensor.empty() : tensor<3xf32>
    %i = tensor.empty() : tensor<3xi32>
    %vs = linalg.fill ins(%low : f32) outs(%v : tensor<3xf32>) -> tensor<3xf32>
    %is = linalg.fill ins(%zero : i32) outs(%i : tensor<3xi32>) -> tensor<3xi32>
    %r:2 = iree_linalg_ext.arg_compare dimension(1) ins(%x : tensor<3x50257xf32>) outs(%vs, %is : tensor<3xf32>, tensor<3xi32>) {
    ^bb0(%a: f32, %b: f32):
      %c = arith.cmpf ogt, %a, %b : f32
      iree_linalg_ext.yield %c : i1
    } -> tensor<3xf32>, tensor<3xi32>
    return %r#1 : tensor<3xi32>
  }
}
