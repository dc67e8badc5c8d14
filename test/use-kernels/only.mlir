// RUN: attn-opt %s --attn-use-kernels="target=sm_90 kernel=attention_f8e4m3fn_d128" --split-input-file --remarks > %t.mlir 2> %t.txt
// RUN: FileCheck %s < %t.mlir
// RUN: FileCheck %s --check-prefix=REMARK < %t.txt

// One kernel alone may be taken, whichever else would win.

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK-LABEL: func.func @row_major(
// CHECK-NOT: linalg.transpose
// CHECK: hal.dispatch.extern "attention_f8e4m3fn_d128"[%c132, %c1](
// REMARK: output kernel: attention_f8e4m3fn_d128: about
func.func @row_major(%q: tensor<32x4096x128xf8E4M3FN>, %k: tensor<32x4096x128xf8E4M3FN>, %v: tensor<32x4096x128xf8E4M3FN>) -> tensor<32x4096x128xf16> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<32x4096x128xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<32x4096x128xf8E4M3FN>, tensor<32x4096x128xf8E4M3FN>, tensor<32x4096x128xf8E4M3FN>, f32) outs(%e : tensor<32x4096x128xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<32x4096x128xf16>
  return %r : tensor<32x4096x128xf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK-LABEL: func.func @other_type(
// CHECK-NOT: hal.dispatch.extern
// CHECK: iree_linalg_ext.attention
// REMARK: output refused: it does not fit the kernel attention_f8e4m3fn_d128, and no other may be taken
func.func @other_type(%q: tensor<32x4096x128xf16>, %k: tensor<32x4096x128xf16>, %v: tensor<32x4096x128xf16>) -> tensor<32x4096x128xf16> {
  %scale = arith.constant 0.125 : f16
  %e = tensor.empty() : tensor<32x4096x128xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<32x4096x128xf16>, tensor<32x4096x128xf16>, tensor<32x4096x128xf16>, f16) outs(%e : tensor<32x4096x128xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<32x4096x128xf16>
  return %r : tensor<32x4096x128xf16>
}
