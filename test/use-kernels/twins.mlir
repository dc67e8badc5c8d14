// RUN: attn-opt %s "--attn-use-kernels=target=sm_90 mode=always" | FileCheck %s

// A kernel for V^T that nobody timed is not taken to be faster than its row-major twin, so V
// is not transposed for it.

// CHECK-LABEL: func.func @row_major(
// CHECK-NOT: linalg.transpose
// CHECK: hal.dispatch.extern "attention_f16_d64_wide"
#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
func.func @row_major(%q: tensor<32x4096x64xf16>, %k: tensor<32x4096x64xf16>, %v: tensor<32x4096x64xf16>) -> tensor<32x4096x64xf16> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<32x4096x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<32x4096x64xf16>, tensor<32x4096x64xf16>, tensor<32x4096x64xf16>, f32)
      outs(%e : tensor<32x4096x64xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<32x4096x64xf16>
  return %r : tensor<32x4096x64xf16>
}
