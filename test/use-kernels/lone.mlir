// RUN: attn-opt %s --attn-use-kernels="target=sm_90" --split-input-file --remarks > %t.mlir 2> %t.txt
// RUN: FileCheck %s < %t.mlir
// RUN: FileCheck %s --check-prefix=REMARK < %t.txt

// Many heads of few keys: a warp computes 16 rows of one.

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// Frames of a video, at each place of it.
// CHECK-LABEL: func.func @frames(
// CHECK: hal.dispatch.extern "lone_f16_d64"[%c1{{[_0-9]*}}, %c16384{{[_0-9]*}}](
// CHECK-SAME: -> tensor<16384x16x40xf16>
// REMARK: output kernel: lone_f16_d64: about {{[0-9]+}} us instead of {{[0-9]+}}
func.func @frames(%q: tensor<16384x16x40xf16>, %k: tensor<16384x16x40xf16>, %v: tensor<16384x16x40xf16>) -> tensor<16384x16x40xf16> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<16384x16x40xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<16384x16x40xf16>, tensor<16384x16x40xf16>, tensor<16384x16x40xf16>, f32) outs(%e : tensor<16384x16x40xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<16384x16x40xf16>
  return %r : tensor<16384x16x40xf16>
}

// -----

#q = affine_map<(w, h, m, n, k1, k2) -> (w, h, m, k1)>
#k = affine_map<(w, h, m, n, k1, k2) -> (w, h, k2, k1)>
#v = affine_map<(w, h, m, n, k1, k2) -> (w, h, k2, n)>
#s = affine_map<(w, h, m, n, k1, k2) -> ()>
#mask = affine_map<(w, h, m, n, k1, k2) -> (h, m, k2)>
#o = affine_map<(w, h, m, n, k1, k2) -> (w, h, m, n)>

// Windows of images, under the bias of each head: four blocks of rows.
// CHECK-LABEL: func.func @windows(
// CHECK: hal.dispatch.extern "lone_bf16_d32_mask_bf16"[%c4{{[_0-9]*}}, %c1536{{[_0-9]*}}](
// REMARK: output kernel: lone_bf16_d32_mask_bf16:
func.func @windows(%q: tensor<256x6x49x32xbf16>, %k: tensor<256x6x49x32xbf16>, %v: tensor<256x6x49x32xbf16>, %bias: tensor<6x49x49xbf16>) -> tensor<256x6x49x32xbf16> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<256x6x49x32xbf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #mask, #o]> ins(%q, %k, %v, %scale, %bias : tensor<256x6x49x32xbf16>, tensor<256x6x49x32xbf16>, tensor<256x6x49x32xbf16>, f32, tensor<6x49x49xbf16>) outs(%e : tensor<256x6x49x32xbf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<256x6x49x32xbf16>
  return %r : tensor<256x6x49x32xbf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// Of many rows and keys a warp would read all keys for each 16 of the rows.
// CHECK-LABEL: func.func @long(
// CHECK-NOT: lone_
// REMARK-NOT: lone_
func.func @long(%q: tensor<512x256x64xf16>, %k: tensor<512x256x64xf16>, %v: tensor<512x256x64xf16>) -> tensor<512x256x64xf16> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<512x256x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<512x256x64xf16>, tensor<512x256x64xf16>, tensor<512x256x64xf16>, f32) outs(%e : tensor<512x256x64xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<512x256x64xf16>
  return %r : tensor<512x256x64xf16>
}
