// What stands behind a product of many rows.

// DEFINE: %{cpu} = --iree-hal-target-device=local --iree-hal-local-target-device-backends=llvm-cpu --iree-llvmcpu-target-cpu=x86-64-v4
// RUN: attn-compile %s %{cpu} --compile-to=executable-configurations | FileCheck %s

// What stands behind goes row by row, in four vectors: the last tile has an open number of rows,
// and masks for all at once fill the stack.
// CHECK: func.func @behind_dispatch_0_
// CHECK-SAME: #iree_codegen.no_pipeline
// CHECK: math.absf %{{.*}} : vector<64xf32>
// CHECK: return
func.func @behind(%x: tensor<1000x384xf32>, %w: tensor<256x384xf32>) -> tensor<1000x256xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1000x256xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1000x256xf32>) -> tensor<1000x256xf32>
  %r = linalg.matmul indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>]
      ins(%x, %w : tensor<1000x384xf32>, tensor<256x384xf32>) outs(%f : tensor<1000x256xf32>) -> tensor<1000x256xf32>
  %a = linalg.generic {indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (m, n)>], iterator_types = ["parallel", "parallel"]}
      ins(%r : tensor<1000x256xf32>) outs(%e : tensor<1000x256xf32>) {
  ^bb0(%y: f32, %out: f32):
    %z = math.absf %y : f32
    linalg.yield %z : f32
  } -> tensor<1000x256xf32>
  return %a : tensor<1000x256xf32>
}
