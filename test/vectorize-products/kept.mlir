// Products that stay IREE's, with the reason.

// DEFINE: %{cpu} = --iree-hal-target-device=local --iree-hal-local-target-device-backends=llvm-cpu --iree-llvmcpu-target-cpu=x86-64-v4
// RUN: attn-compile %s %{cpu} --compile-to=executable-configurations --attn-summary 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=REPORT --input-file=%t.txt

// REPORT-DAG: kernel halves_dispatch_0_{{.*}} gets no loops of ours: its types are f16, f16, f16
// REPORT-DAG: kernel uneven_dispatch_0_{{.*}} gets no loops of ours: 131 columns are cut into no whole vectors

// Sums in 16 bits would be others in f32.
// CHECK: func.func @halves_dispatch_0_
// CHECK-SAME: #iree_cpu.pipeline
func.func @halves(%x: tensor<2x256xf16>, %w: tensor<256x512xf16>) -> tensor<2x512xf16> {
  %zero = arith.constant 0.0 : f16
  %e = tensor.empty() : tensor<2x512xf16>
  %f = linalg.fill ins(%zero : f16) outs(%e : tensor<2x512xf16>) -> tensor<2x512xf16>
  %r = linalg.matmul ins(%x, %w : tensor<2x256xf16>, tensor<256x512xf16>) outs(%f : tensor<2x512xf16>) -> tensor<2x512xf16>
  return %r : tensor<2x512xf16>
}

// CHECK: func.func @uneven_dispatch_0_
// CHECK-SAME: #iree_cpu.pipeline
func.func @uneven(%x: tensor<2x520xf32>, %w: tensor<520x131xf32>) -> tensor<2x131xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x131xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2x131xf32>) -> tensor<2x131xf32>
  %r = linalg.matmul ins(%x, %w : tensor<2x520xf32>, tensor<520x131xf32>) outs(%f : tensor<2x131xf32>) -> tensor<2x131xf32>
  return %r : tensor<2x131xf32>
}
