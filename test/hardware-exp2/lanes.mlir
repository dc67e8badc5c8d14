// Masks of a head that fills no vector are constants, and its lanes are read without a branch: else machine code
// has any bits in those behind the head.

// RUN: attn-compile %s --iree-hal-target-device=cuda --iree-cuda-target=sm_90 --compile-to=executable-configurations | FileCheck %s

// CHECK-LABEL: func.func @main_dispatch_0_attention
// CHECK-SAME: #iree_codegen.no_pipeline
// CHECK-NOT: vector.step
// CHECK: vector.transfer_read
// CHECK-NOT: vector.step
// CHECK: cvt.rn.f16x2.e4m3x2
// CHECK-NOT: vector.step
// CHECK: return
#q = affine_map<(m, n, k1, k2) -> (m, k1)>
#k = affine_map<(m, n, k1, k2) -> (k2, k1)>
#v = affine_map<(m, n, k1, k2) -> (k2, n)>
#s = affine_map<(m, n, k1, k2) -> ()>
#o = affine_map<(m, n, k1, k2) -> (m, n)>
func.func @main(%q: tensor<8x8xf8E4M3FN>, %k: tensor<24x8xf8E4M3FN>, %v: tensor<24x8xf8E4M3FN>) -> tensor<8x8xf32> {
  %scale = arith.constant 0.25 : f32
  %e = tensor.empty() : tensor<8x8xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<8x8xf8E4M3FN>, tensor<24x8xf8E4M3FN>, tensor<24x8xf8E4M3FN>, f32) outs(%e : tensor<8x8xf32>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<8x8xf32>
  return %r : tensor<8x8xf32>
}
