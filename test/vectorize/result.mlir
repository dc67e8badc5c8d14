// A transposition behind attention goes into its maps where its vector loops have no room on the
// stack for what is copied: at head dim 256, not at 64. Loops that do more than transpose read the
// result in their own order then.

// DEFINE: %{cpu} = --iree-hal-target-device=local --iree-hal-local-target-device-backends=llvm-cpu --iree-llvmcpu-target-cpu=x86-64-v4
// RUN: attn-compile %s %{cpu} --compile-to=flow | FileCheck %s
// RUN: attn-compile %s %{cpu} --compile-to=executable-configurations --attn-summary 2> %t.txt | FileCheck %s --check-prefix=LOOPS
// RUN: FileCheck %s --check-prefix=REPORT --input-file=%t.txt

// REPORT: each of 3 kernels at {{.*}} is vector loops of ours, with rows across the lanes
// LOOPS-NOT: online_attention

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#mask = affine_map<(b, m, n, k1, k2) -> (b, m, k2)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
#all = affine_map<(i, j, k) -> (i, j, k)>
#row = affine_map<(i, j, k) -> (i, j)>

// CHECK-LABEL: func.func @wide_dispatch
// CHECK: iree_linalg_ext.attention {{.*}} outs(%{{.+}} : tensor<96x4x256xf32>)
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @wide(%q: tensor<4x96x256xf32>, %k: tensor<4x100x256xf32>, %v: tensor<4x100x256xf32>) -> tensor<96x4x256xf32> {
  %scale = arith.constant 0.125 : f32
  %empty = tensor.empty() : tensor<4x96x256xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<4x96x256xf32>, tensor<4x100x256xf32>, tensor<4x100x256xf32>, f32) outs(%empty : tensor<4x96x256xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<4x96x256xf32>
  %turned = tensor.empty() : tensor<96x4x256xf32>
  %t = linalg.transpose ins(%r : tensor<4x96x256xf32>) outs(%turned : tensor<96x4x256xf32>) permutation = [1, 0, 2]
  return %t : tensor<96x4x256xf32>
}

// Rows are weighed: a loop that stays, in the same order as the result.
// CHECK-LABEL: func.func @wide_weighed_dispatch{{.*}}attention
// CHECK: %[[R:.+]] = iree_linalg_ext.attention {{.*}} outs(%{{.+}} : tensor<96x4x256xf32>)
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d1, d0)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>]{{.*}} ins(%[[R]]
func.func @wide_weighed(%q: tensor<4x96x256xf32>, %k: tensor<4x100x256xf32>, %v: tensor<4x100x256xf32>, %mask: tensor<4x96x100xi1>, %weights: tensor<4x96xf32>) -> tensor<96x4x256xf32> {
  %scale = arith.constant 0.125 : f32
  %empty = tensor.empty() : tensor<4x96x256xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #mask, #o]>
      ins(%q, %k, %v, %scale, %mask : tensor<4x96x256xf32>, tensor<4x100x256xf32>, tensor<4x100x256xf32>, f32, tensor<4x96x100xi1>) outs(%empty : tensor<4x96x256xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<4x96x256xf32>
  %w = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%r, %weights : tensor<4x96x256xf32>, tensor<4x96xf32>) outs(%empty : tensor<4x96x256xf32>) {
    ^bb0(%x: f32, %y: f32, %z: f32):
      %p = arith.mulf %x, %y : f32
      linalg.yield %p : f32
  } -> tensor<4x96x256xf32>
  %turned = tensor.empty() : tensor<96x4x256xf32>
  %t = linalg.transpose ins(%w : tensor<4x96x256xf32>) outs(%turned : tensor<96x4x256xf32>) permutation = [1, 0, 2]
  return %t : tensor<96x4x256xf32>
}

// CHECK-LABEL: func.func @narrow_dispatch
// CHECK: iree_linalg_ext.attention {{.*}} outs(%{{.+}} : tensor<4x96x64xf32>)
// CHECK: linalg.generic
func.func @narrow(%q: tensor<4x96x64xf32>, %k: tensor<4x100x64xf32>, %v: tensor<4x100x64xf32>) -> tensor<96x4x64xf32> {
  %scale = arith.constant 0.125 : f32
  %empty = tensor.empty() : tensor<4x96x64xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<4x96x64xf32>, tensor<4x100x64xf32>, tensor<4x100x64xf32>, f32) outs(%empty : tensor<4x96x64xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<4x96x64xf32>
  %turned = tensor.empty() : tensor<96x4x64xf32>
  %t = linalg.transpose ins(%r : tensor<4x96x64xf32>) outs(%turned : tensor<96x4x64xf32>) permutation = [1, 0, 2]
  return %t : tensor<96x4x64xf32>
}
