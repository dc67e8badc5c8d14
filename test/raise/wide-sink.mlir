// A sink beside a wide head, whose sums have no room on a CPU's stack beside the result.

// RUN: attn-compile %s --iree-hal-target-device=local --iree-hal-local-target-device-backends=llvm-cpu --iree-llvmcpu-target-cpu=znver4 --compile-to=preprocessing --attn-report=%t.json | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.json

// CHECK-NOT: iree_linalg_ext.online_attention
// CHECK: linalg.softmax
// WHY: a head dim of 256 leaves vector loops no room on the stack for a sink's sums
func.func @wide_head(%q: tensor<2x64x256xf32>, %k: tensor<2x256x48xf32>, %v: tensor<2x48x256xf32>, %sink: tensor<2x64x1xf32>) -> tensor<2x64x256xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x64x48xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x64x48xf32>) -> tensor<2x64x48xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x64x256xf32>, tensor<2x256x48xf32>) outs(%s0 : tensor<2x64x48xf32>) -> tensor<2x64x48xf32>
  %c = tensor.concat dim(2) %s, %sink : (tensor<2x64x48xf32>, tensor<2x64x1xf32>) -> tensor<2x64x49xf32>
  %ec = tensor.empty() : tensor<2x64x49xf32>
  %w = linalg.softmax dimension(2) ins(%c : tensor<2x64x49xf32>) outs(%ec : tensor<2x64x49xf32>) -> tensor<2x64x49xf32>
  %p = tensor.extract_slice %w[0, 0, 0] [2, 64, 48] [1, 1, 1] : tensor<2x64x49xf32> to tensor<2x64x48xf32>
  %eo = tensor.empty() : tensor<2x64x256xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%eo : tensor<2x64x256xf32>) -> tensor<2x64x256xf32>
  %r = linalg.batch_matmul ins(%p, %v : tensor<2x64x48xf32>, tensor<2x48x256xf32>) outs(%o0 : tensor<2x64x256xf32>) -> tensor<2x64x256xf32>
  return %r : tensor<2x64x256xf32>
}
