// Running sums are computed one by one, for GPUs; products, sums without the number at their place, and
// sums of more numbers than pay are left.

// RUN: attn-opt %s --attn-sum-scans --report=%t.json | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.json
// WHY-COUNT-2: computes the sum of each place by itself
// WHY-NOT: computes the sum

#cuda = #hal.device.target<"cuda", [#hal.executable.target<"cuda", "cuda-nvptx-fb">]> : !hal.device
module attributes {hal.device.targets = [#cuda]} {
// CHECK-LABEL: func.func @capacity(
// CHECK: linalg.generic {{.*}}"parallel", "parallel", "reduction"]} ins(%arg0 : tensor<?x8xi64>)
// CHECK: %[[UP:.*]] = arith.cmpi ule
// CHECK: arith.select %[[UP]]
// CHECK: arith.addi
// CHECK-NOT: iree_linalg_ext.scan
func.func @capacity(%x: tensor<?x8xi64>, %y: tensor<?x8xi64>) -> tensor<?x8xi64> {
  %c = arith.constant 0 : i64
  %e = tensor.empty() : tensor<8xi64>
  %f = linalg.fill ins(%c : i64) outs(%e : tensor<8xi64>) -> tensor<8xi64>
  %r:2 = iree_linalg_ext.scan dimension(0) inclusive(true) ins(%x : tensor<?x8xi64>) outs(%y, %f : tensor<?x8xi64>, tensor<8xi64>) {
  ^bb0(%a: i64, %b: i64):
    %s = arith.addi %a, %b : i64
    iree_linalg_ext.yield %s : i64
  } -> tensor<?x8xi64>, tensor<8xi64>
  return %r#0 : tensor<?x8xi64>
}
// CHECK-LABEL: func.func @floats(
// CHECK: arith.addf
// CHECK-NOT: iree_linalg_ext.scan
func.func @floats(%x: tensor<4x512xf32>, %y: tensor<4x512xf32>, %f: tensor<4xf32>) -> tensor<4x512xf32> {
  %r:2 = iree_linalg_ext.scan dimension(1) inclusive(true) ins(%x : tensor<4x512xf32>) outs(%y, %f : tensor<4x512xf32>, tensor<4xf32>) {
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    iree_linalg_ext.yield %s : f32
  } -> tensor<4x512xf32>, tensor<4xf32>
  return %r#0 : tensor<4x512xf32>
}
// CHECK-LABEL: func.func @left(
// CHECK: iree_linalg_ext.scan
// CHECK: iree_linalg_ext.scan
// CHECK: iree_linalg_ext.scan
func.func @left(%x: tensor<512xf32>, %y: tensor<512xf32>, %f: tensor<f32>, %l: tensor<1024x2048xf32>, %m: tensor<1024xf32>) -> (tensor<512xf32>, tensor<512xf32>, tensor<1024x2048xf32>) {
  %r:2 = iree_linalg_ext.scan dimension(0) inclusive(true) ins(%x : tensor<512xf32>) outs(%y, %f : tensor<512xf32>, tensor<f32>) {
  ^bb0(%a: f32, %b: f32):
    %s = arith.mulf %a, %b : f32
    iree_linalg_ext.yield %s : f32
  } -> tensor<512xf32>, tensor<f32>
  %q:2 = iree_linalg_ext.scan dimension(0) inclusive(false) ins(%x : tensor<512xf32>) outs(%y, %f : tensor<512xf32>, tensor<f32>) {
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    iree_linalg_ext.yield %s : f32
  } -> tensor<512xf32>, tensor<f32>
  %p:2 = iree_linalg_ext.scan dimension(1) inclusive(true) ins(%l : tensor<1024x2048xf32>) outs(%l, %m : tensor<1024x2048xf32>, tensor<1024xf32>) {
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    iree_linalg_ext.yield %s : f32
  } -> tensor<1024x2048xf32>, tensor<1024xf32>
  return %r#0, %q#0, %p#0 : tensor<512xf32>, tensor<512xf32>, tensor<1024x2048xf32>
}
}
