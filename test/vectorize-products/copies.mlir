// Lines that are copied into another order go by vectors, as they lie in the result; numbers that are
// turned have steps of IREE's.

// DEFINE: %{cpu} = --iree-hal-target-device=local --iree-hal-local-target-device-backends=llvm-cpu --iree-llvmcpu-target-cpu=x86-64-v4
// RUN: attn-compile %s %{cpu} --compile-to=executable-configurations --attn-summary 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=REPORT --input-file=%t.txt

// REPORT: kernel heads_dispatch_0_{{.*}} is vector loops of ours, with lines across the lanes
// REPORT-NOT: kernel turned_dispatch_0_

// CHECK: func.func @heads_dispatch_0_
// CHECK-SAME: #iree_codegen.no_pipeline
// CHECK: vector.load {{.*}}, vector<64xf32>
// CHECK: vector.store {{.*}}, vector<64xf32>
// CHECK: return
func.func @heads(%x: tensor<2x50x6x64xf32>) -> tensor<2x6x50x64xf32> {
  %e = tensor.empty() : tensor<2x6x50x64xf32>
  %r = linalg.transpose ins(%x : tensor<2x50x6x64xf32>) outs(%e : tensor<2x6x50x64xf32>) permutation = [0, 2, 1, 3]
  return %r : tensor<2x6x50x64xf32>
}

// CHECK: func.func @turned_dispatch_0_
// CHECK-SAME: #iree_cpu.pipeline
func.func @turned(%x: tensor<9x11x50xf32>) -> tensor<9x50x11xf32> {
  %e = tensor.empty() : tensor<9x50x11xf32>
  %r = linalg.transpose ins(%x : tensor<9x11x50xf32>) outs(%e : tensor<9x50x11xf32>) permutation = [0, 2, 1]
  return %r : tensor<9x50x11xf32>
}
