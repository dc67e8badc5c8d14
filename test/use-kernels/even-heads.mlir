// RUN: attn-opt %s --attn-use-kernels="target=sm_90 mode=always" --split-input-file --remarks > %t.mlir 2> %t.txt
// RUN: FileCheck %s < %t.mlir
// RUN: FileCheck %s --check-prefix=REMARK < %t.txt

// Kernels have equal head dims of Q.K and of V: the smaller is filled up with zeros.

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// Differential attention: V has twice the columns. A thread moves 8 numbers at once.
// CHECK-LABEL: func.func @wide(
// CHECK-SAME: %[[Q:.*]]: tensor<16x2048x64xf16>, %[[K:.*]]: tensor<16x2048x64xf16>, %[[V:.*]]: tensor<16x2048x128xf16>
// CHECK: tensor.expand_shape %[[Q]] {{.*}} into tensor<16x2048x8x8xf16>
// CHECK: linalg.generic {{.*}} outs({{.*}} : tensor<16x2048x16x8xf16>)
// CHECK: %[[FULL:.*]] = tensor.collapse_shape {{.*}} into tensor<16x2048x128xf16>
// CHECK: tensor.expand_shape %[[K]]
// CHECK-NOT: iree_linalg_ext.attention
// CHECK: hal.dispatch.extern "attention_f16_d128"{{.*}}%[[FULL]], {{.*}}, %[[V]]
// CHECK-NOT: iree_linalg_ext.attention
// REMARK: output kernel: attention_f16_d128: {{.*}}, and {{[0-9]+}} us to fill the head dims of the query and the key up to 128
func.func @wide(%q: tensor<16x2048x64xf16>, %k: tensor<16x2048x64xf16>, %v: tensor<16x2048x128xf16>) -> tensor<16x2048x128xf16> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<16x2048x128xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<16x2048x64xf16>, tensor<16x2048x64xf16>, tensor<16x2048x128xf16>, f32) outs(%e : tensor<16x2048x128xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<16x2048x128xf16>
  return %r : tensor<16x2048x128xf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// A smaller V: its columns that are zeros are cut off the result.
// CHECK-LABEL: func.func @narrow(
// CHECK: %[[R:.*]] = hal.dispatch.extern "attention_bf16_d128"
// CHECK: tensor.extract_slice {{.*}} : tensor<16x2048x128xbf16> to tensor<16x2048x64xbf16>
// REMARK: output kernel: attention_bf16_d128: {{.*}}, and {{[0-9]+}} us to fill the head dims of the value up to 128
func.func @narrow(%q: tensor<16x2048x128xbf16>, %k: tensor<16x2048x128xbf16>, %v: tensor<16x2048x64xbf16>) -> tensor<16x2048x64xbf16> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<16x2048x64xbf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<16x2048x128xbf16>, tensor<16x2048x128xbf16>, tensor<16x2048x64xbf16>, f32) outs(%e : tensor<16x2048x64xbf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<16x2048x64xbf16>
  return %r : tensor<16x2048x64xbf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// No kernel has the larger one either.
// CHECK-LABEL: func.func @odd(
// CHECK: iree_linalg_ext.attention
// REMARK: output refused: its head dims are 64 and 132; kernels for f16 have
func.func @odd(%q: tensor<16x256x64xf16>, %k: tensor<16x256x64xf16>, %v: tensor<16x256x132xf16>) -> tensor<16x256x132xf16> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<16x256x132xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<16x256x64xf16>, tensor<16x256x64xf16>, tensor<16x256x132xf16>, f32) outs(%e : tensor<16x256x132xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<16x256x132xf16>
  return %r : tensor<16x256x132xf16>
}
