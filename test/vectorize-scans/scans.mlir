// Running sums are vector loops; what leaves a number's own element out, or is read as a total, too,
// stays IREE's, with the reason.

// DEFINE: %{cpu} = --iree-hal-target-device=local --iree-hal-local-target-device-backends=llvm-cpu --iree-llvmcpu-target-cpu=x86-64-v4
// RUN: attn-compile %s %{cpu} --compile-to=executable-configurations --attn-summary 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=REPORT --input-file=%t.txt

// REPORT-DAG: kernel rows_dispatch_0_{{.*}} is vector loops of ours, with elements across the lanes
// REPORT-DAG: kernel columns_dispatch_0_{{.*}} is vector loops of ours, with elements across the lanes
// REPORT-DAG: kernel before_dispatch_0_{{.*}} gets no loops of ours: it is no running sum or product alone
// REPORT-DAG: kernel totals_dispatch_0_{{.*}} gets no loops of ours: it is no running sum or product alone

// A vector's own sums, and the sum of all before.
// CHECK: func.func @rows_dispatch_0_
// CHECK-SAME: #iree_codegen.no_pipeline
// CHECK: vector.shuffle {{.*}} : vector<16xf32>, vector<16xf32>
// CHECK-NOT: iree_linalg_ext.scan
func.func @rows(%x: tensor<4x1000xf32>) -> tensor<4x1000xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x1000xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x1000xf32>) -> tensor<4x1000xf32>
  %g = tensor.empty() : tensor<4xf32>
  %h = linalg.fill ins(%zero : f32) outs(%g : tensor<4xf32>) -> tensor<4xf32>
  %r:2 = iree_linalg_ext.scan dimension(1) inclusive(true) ins(%x : tensor<4x1000xf32>) outs(%f, %h : tensor<4x1000xf32>, tensor<4xf32>) {
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    iree_linalg_ext.yield %s : f32
  } -> tensor<4x1000xf32>, tensor<4xf32>
  return %r#0 : tensor<4x1000xf32>
}

// Columns in the lanes.
// CHECK: func.func @columns_dispatch_0_
// CHECK-SAME: #iree_codegen.no_pipeline
// CHECK: arith.addi {{.*}} : vector<16xi32>
// CHECK-NOT: iree_linalg_ext.scan
func.func @columns(%x: tensor<100x64xi32>) -> tensor<100x64xi32> {
  %zero = arith.constant 0 : i32
  %e = tensor.empty() : tensor<100x64xi32>
  %f = linalg.fill ins(%zero : i32) outs(%e : tensor<100x64xi32>) -> tensor<100x64xi32>
  %g = tensor.empty() : tensor<64xi32>
  %h = linalg.fill ins(%zero : i32) outs(%g : tensor<64xi32>) -> tensor<64xi32>
  %r:2 = iree_linalg_ext.scan dimension(0) inclusive(true) ins(%x : tensor<100x64xi32>) outs(%f, %h : tensor<100x64xi32>, tensor<64xi32>) {
  ^bb0(%a: i32, %b: i32):
    %s = arith.addi %a, %b : i32
    iree_linalg_ext.yield %s : i32
  } -> tensor<100x64xi32>, tensor<64xi32>
  return %r#0 : tensor<100x64xi32>
}

// CHECK: func.func @before_dispatch_0_
// CHECK-SAME: #iree_cpu.pipeline
// CHECK: iree_linalg_ext.scan
func.func @before(%x: tensor<4x1000xf32>) -> tensor<4x1000xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x1000xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x1000xf32>) -> tensor<4x1000xf32>
  %g = tensor.empty() : tensor<4xf32>
  %h = linalg.fill ins(%zero : f32) outs(%g : tensor<4xf32>) -> tensor<4xf32>
  %r:2 = iree_linalg_ext.scan dimension(1) inclusive(false) ins(%x : tensor<4x1000xf32>) outs(%f, %h : tensor<4x1000xf32>, tensor<4xf32>) {
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    iree_linalg_ext.yield %s : f32
  } -> tensor<4x1000xf32>, tensor<4xf32>
  return %r#0 : tensor<4x1000xf32>
}

// CHECK: func.func @totals_dispatch_0_
// CHECK-SAME: #iree_cpu.pipeline
// CHECK: iree_linalg_ext.scan
func.func @totals(%x: tensor<4x1000xf32>) -> (tensor<4x1000xf32>, tensor<4xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x1000xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x1000xf32>) -> tensor<4x1000xf32>
  %g = tensor.empty() : tensor<4xf32>
  %h = linalg.fill ins(%zero : f32) outs(%g : tensor<4xf32>) -> tensor<4xf32>
  %r:2 = iree_linalg_ext.scan dimension(1) inclusive(true) ins(%x : tensor<4x1000xf32>) outs(%f, %h : tensor<4x1000xf32>, tensor<4xf32>) {
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    iree_linalg_ext.yield %s : f32
  } -> tensor<4x1000xf32>, tensor<4xf32>
  return %r#0, %r#1 : tensor<4x1000xf32>, tensor<4xf32>
}
