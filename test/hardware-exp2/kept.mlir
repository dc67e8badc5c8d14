// A kernel of which IREE complains while it lowers it is left to IREE, with its words.

// DEFINE: %{kernels} = --iree-hal-target-device=cuda --iree-cuda-target=sm_80 --compile-to=executable-configurations
// RUN: attn-compile %s %{kernels} --attn-pipeline=attn-hardware-exp2 --attn-summary 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt

// CHECK: func.func @main_dispatch_0_attention
// CHECK-SAME: #iree_gpu.pipeline
// CHECK: iree_linalg_ext.online_attention
// WHY: kernel main_dispatch_0_attention{{.*}} is left as it is: IREE says of its lowering: Padding OnlineAttention without existing mask is not yet supported

// With the mask that the default pipeline adds, it lowers:
// RUN: attn-compile %s %{kernels} | FileCheck %s --check-prefix=MASKED
// MASKED: func.func @main_dispatch_{{[0-9]}}_attention
// MASKED-SAME: #iree_codegen.no_pipeline
// MASKED: ex2.approx.ftz.f32

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
func.func @main(%q: tensor<2x32x64xf16>, %k: tensor<2x?x64xf16>, %v: tensor<2x?x64xf16>) -> tensor<2x32x64xf16> {
  %scale = arith.constant 0.125 : f16
  %e = tensor.empty() : tensor<2x32x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<2x32x64xf16>, tensor<2x?x64xf16>, tensor<2x?x64xf16>, f16) outs(%e : tensor<2x32x64xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x32x64xf16>
  return %r : tensor<2x32x64xf16>
}
