// Running sums are computed one by one, for GPUs, short rows from their start, others in blocks;
// products, and sums without the number at their place, are left.

// RUN: attn-opt %s --attn-sum-scans --report=%t.json | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.json
// WHY: computes the sum of each place by itself, in blocks of 128
// WHY: computes the sum of each place by itself, in blocks of 32
// WHY: computes the sum of each place by itself, in blocks of 64
// WHY-NOT: computes the sum

#cuda = #hal.device.target<"cuda", [#hal.executable.target<"cuda", "cuda-nvptx-fb">]> : !hal.device
module attributes {hal.device.targets = [#cuda]} {
// CHECK-LABEL: func.func @capacity(
// CHECK: %[[X:.*]] = iree_tensor_ext.compute_barrier.start %arg0
// CHECK: linalg.generic {{.*}}"parallel", "parallel"]} outs(%{{.*}} : tensor<?x8xi64>)
// CHECK: arith.remui {{.*}}, %c128
// CHECK: scf.for
// CHECK: tensor.extract %[[X]]
// CHECK: arith.addi
// CHECK: %[[OWN:.*]] = iree_tensor_ext.compute_barrier.start
// CHECK: linalg.generic {{.*}}"parallel", "parallel"]} outs(%{{.*}} : tensor<?x8xi64>)
// CHECK: arith.divui {{.*}}, %c128
// CHECK: scf.for
// CHECK: tensor.extract %[[OWN]]
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
// Of 16 bits in f32.
// CHECK-LABEL: func.func @floats(
// CHECK: scf.for {{.*}} -> (f32)
// CHECK: arith.extf {{.*}} : f16 to f32
// CHECK: iree_tensor_ext.compute_barrier.start {{.*}} : tensor<4x512xf32>
// CHECK: arith.truncf
// CHECK-NOT: iree_linalg_ext.scan
func.func @floats(%x: tensor<4x512xf16>, %y: tensor<4x512xf16>, %f: tensor<4xf16>) -> tensor<4x512xf16> {
  %r:2 = iree_linalg_ext.scan dimension(1) inclusive(true) ins(%x : tensor<4x512xf16>) outs(%y, %f : tensor<4x512xf16>, tensor<4xf16>) {
  ^bb0(%a: f16, %b: f16):
    %s = arith.addf %a, %b : f16
    iree_linalg_ext.yield %s : f16
  } -> tensor<4x512xf16>, tensor<4xf16>
  return %r#0 : tensor<4x512xf16>
}
// CHECK-LABEL: func.func @short(
// CHECK-COUNT-1: scf.for
// CHECK-NOT: scf.for
// CHECK-NOT: iree_linalg_ext.scan
func.func @short(%x: tensor<4x64xf32>, %y: tensor<4x64xf32>, %f: tensor<4xf32>) -> tensor<4x64xf32> {
  %r:2 = iree_linalg_ext.scan dimension(1) inclusive(true) ins(%x : tensor<4x64xf32>) outs(%y, %f : tensor<4x64xf32>, tensor<4xf32>) {
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    iree_linalg_ext.yield %s : f32
  } -> tensor<4x64xf32>, tensor<4xf32>
  return %r#0 : tensor<4x64xf32>
}
// CHECK-LABEL: func.func @left(
// CHECK: iree_linalg_ext.scan
// CHECK: iree_linalg_ext.scan
func.func @left(%x: tensor<512xf32>, %y: tensor<512xf32>, %f: tensor<f32>) -> (tensor<512xf32>, tensor<512xf32>) {
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
  return %r#0, %q#0 : tensor<512xf32>, tensor<512xf32>
}
}
