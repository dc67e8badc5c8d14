// RUN: attn-opt %s --attn-use-kernels=target=sm_90 --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=COST
// RUN: attn-opt %s --attn-use-kernels="target=sm_90 mode=never" --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=NEVER
// RUN: attn-opt %s --attn-use-kernels="target=sm_80 mode=always" --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=OLDER
// RUN: attn-opt %s --attn-use-kernels=mode=always --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=UNKNOWN

// 24 rows over 128 keys with heads of 256 are left to IREE, whose code is over before a kernel; a
// prompt is not.

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// COST: output kept: decode_f16_d256: about {{[0-9]+}} us instead of {{[0-9]+}}{{.*}}, no win
// COST: output kernel: attention_f16_d128
// NEVER: output kept: decode_f16_d256: {{.*}}, not taken: mode=never
// NEVER: output kept: attention_f16_d128: {{.*}}, not taken: mode=never
// OLDER: output refused: the kernels need sm_90; the target is cuda sm_80
// UNKNOWN: output refused: the target is unknown; say target=sm_90 if the module runs on Hopper
func.func @decode_and_prompt(%one: tensor<32x24x256xf16>, %sk: tensor<32x128x256xf16>, %sv: tensor<32x128x256xf16>, %q: tensor<32x4096x128xf16>, %k: tensor<32x4096x128xf16>, %v: tensor<32x4096x128xf16>) -> (tensor<32x24x256xf16>, tensor<32x4096x128xf16>) {
  %scale = arith.constant 0.125 : f16
  %e = tensor.empty() : tensor<32x24x256xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%one, %sk, %sv, %scale : tensor<32x24x256xf16>, tensor<32x128x256xf16>, tensor<32x128x256xf16>, f16) outs(%e : tensor<32x24x256xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<32x24x256xf16>
  %e2 = tensor.empty() : tensor<32x4096x128xf16>
  %r2 = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<32x4096x128xf16>, tensor<32x4096x128xf16>, tensor<32x4096x128xf16>, f16) outs(%e2 : tensor<32x4096x128xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<32x4096x128xf16>
  return %r, %r2 : tensor<32x24x256xf16>, tensor<32x4096x128xf16>
}
