// IREE's code for 77 keys is that for 128, and K and V are copied for it: a kernel wins. Of 128 keys
// nothing is copied, and IREE's code stays.
//
// RUN: attn-opt %s --attn-use-kernels="target=sm_90 mode=cost" --remarks > %t.mlir 2> %t.txt
// RUN: FileCheck %s < %t.mlir
// RUN: FileCheck %s --check-prefix=REMARK < %t.txt

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// REMARK: output kernel: attention_f16_d64: about
// REMARK: output kept: blocks_f16_d64: {{.*}}, no win

// CHECK-LABEL: func.func @text(
// CHECK: hal.dispatch.extern "attention_f16_d64"
func.func @text(%q: tensor<40x1024x64xf16>, %k: tensor<40x77x64xf16>, %v: tensor<40x77x64xf16>) -> tensor<40x1024x64xf16> {
  %scale = arith.constant 0.125 : f16
  %out = tensor.empty() : tensor<40x1024x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<40x1024x64xf16>, tensor<40x77x64xf16>, tensor<40x77x64xf16>, f16) outs(%out : tensor<40x1024x64xf16>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<40x1024x64xf16>
  return %r : tensor<40x1024x64xf16>
}

// CHECK-LABEL: func.func @whole_tiles(
// CHECK: iree_linalg_ext.attention
func.func @whole_tiles(%q: tensor<40x1024x64xf16>, %k: tensor<40x128x64xf16>, %v: tensor<40x128x64xf16>) -> tensor<40x1024x64xf16> {
  %scale = arith.constant 0.125 : f16
  %out = tensor.empty() : tensor<40x1024x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<40x1024x64xf16>, tensor<40x128x64xf16>, tensor<40x128x64xf16>, f16) outs(%out : tensor<40x1024x64xf16>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<40x1024x64xf16>
  return %r : tensor<40x1024x64xf16>
}
