// RUN: attn-opt %s --attn-use-kernels="target=sm_90 mode=always" --split-input-file --remarks > %t.mlir 2> %t.txt
// RUN: FileCheck %s < %t.mlir
// RUN: FileCheck %s --check-prefix=REMARK < %t.txt

// What is left to IREE, and why.

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK-LABEL: func.func @head_dim(
// CHECK-NOT: hal.dispatch.extern
// CHECK: iree_linalg_ext.attention
// REMARK: output refused: its head dims are 576 and 576; kernels for f16 have multiples of 8 up to 128, 192 with 128
func.func @head_dim(%q: tensor<2x512x576xf16>, %k: tensor<2x512x576xf16>, %v: tensor<2x512x576xf16>) -> tensor<2x512x576xf16> {
  %scale = arith.constant 0.125 : f16
  %e = tensor.empty() : tensor<2x512x576xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<2x512x576xf16>, tensor<2x512x576xf16>, tensor<2x512x576xf16>, f16) outs(%e : tensor<2x512x576xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x512x576xf16>
  return %r : tensor<2x512x576xf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK-LABEL: func.func @element_type(
// CHECK-NOT: hal.dispatch.extern
// CHECK: iree_linalg_ext.attention
// REMARK: output refused: there is no kernel for f64, f64, f64
func.func @element_type(%q: tensor<2x512x64xf64>, %k: tensor<2x512x64xf64>, %v: tensor<2x512x64xf64>) -> tensor<2x512x64xf64> {
  %scale = arith.constant 0.125 : f64
  %e = tensor.empty() : tensor<2x512x64xf64>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<2x512x64xf64>, tensor<2x512x64xf64>, tensor<2x512x64xf64>, f64) outs(%e : tensor<2x512x64xf64>) {
  ^bb0(%x: f64):
    iree_linalg_ext.yield %x : f64
  } -> tensor<2x512x64xf64>
  return %r : tensor<2x512x64xf64>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#mask = affine_map<(b, m, n, k1, k2) -> (m, k2)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// No kernel reads a mask of this type.
// CHECK-LABEL: func.func @mask_type(
// CHECK-NOT: hal.dispatch.extern
// CHECK: iree_linalg_ext.attention
// REMARK: output refused: no kernel for f16 has its kind of mask (512x512 bf16)
func.func @mask_type(%q: tensor<2x512x64xf16>, %k: tensor<2x512x64xf16>, %v: tensor<2x512x64xf16>, %mask: tensor<512x512xbf16>) -> tensor<2x512x64xf16> {
  %scale = arith.constant 0.125 : f16
  %e = tensor.empty() : tensor<2x512x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #mask, #o]> ins(%q, %k, %v, %scale, %mask : tensor<2x512x64xf16>, tensor<2x512x64xf16>, tensor<2x512x64xf16>, f16, tensor<512x512xbf16>) outs(%e : tensor<2x512x64xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x512x64xf16>
  return %r : tensor<2x512x64xf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK-LABEL: func.func @scores_changed(
// CHECK-NOT: hal.dispatch.extern
// CHECK: iree_linalg_ext.attention
// REMARK: output refused: its region changes the scores
func.func @scores_changed(%q: tensor<2x512x64xf16>, %k: tensor<2x512x64xf16>, %v: tensor<2x512x64xf16>) -> tensor<2x512x64xf16> {
  %scale = arith.constant 0.125 : f16
  %e = tensor.empty() : tensor<2x512x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<2x512x64xf16>, tensor<2x512x64xf16>, tensor<2x512x64xf16>, f16) outs(%e : tensor<2x512x64xf16>) {
  ^bb0(%x: f32):
    %square = arith.mulf %x, %x : f32
    iree_linalg_ext.yield %square : f32
  } -> tensor<2x512x64xf16>
  return %r : tensor<2x512x64xf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// IREE may read the slice in place: it would start 2 bytes behind an aligned address.
// CHECK-LABEL: func.func @unaligned(
// CHECK-NOT: hal.dispatch.extern
// CHECK: iree_linalg_ext.attention
// REMARK: output refused: the key is a slice that may start at an address that is no multiple of 16 bytes
func.func @unaligned(%q: tensor<2x512x64xf16>, %flat: tensor<65537xf16>, %v: tensor<2x512x64xf16>) -> tensor<2x512x64xf16> {
  %scale = arith.constant 0.125 : f16
  %cut = tensor.extract_slice %flat[1] [65536] [1] : tensor<65537xf16> to tensor<65536xf16>
  %k = tensor.expand_shape %cut [[0, 1, 2]] output_shape [2, 512, 64] : tensor<65536xf16> into tensor<2x512x64xf16>
  %e = tensor.empty() : tensor<2x512x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<2x512x64xf16>, tensor<2x512x64xf16>, tensor<2x512x64xf16>, f16) outs(%e : tensor<2x512x64xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x512x64xf16>
  return %r : tensor<2x512x64xf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK-LABEL: func.func @no_scale(
// CHECK-NOT: hal.dispatch.extern
// CHECK: iree_linalg_ext.attention
// REMARK: output refused: its scale is 0, and the kernels find the maximum before they scale
func.func @no_scale(%q: tensor<2x512x64xf16>, %k: tensor<2x512x64xf16>, %v: tensor<2x512x64xf16>) -> tensor<2x512x64xf16> {
  %scale = arith.constant 0.0 : f16
  %e = tensor.empty() : tensor<2x512x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<2x512x64xf16>, tensor<2x512x64xf16>, tensor<2x512x64xf16>, f16) outs(%e : tensor<2x512x64xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x512x64xf16>
  return %r : tensor<2x512x64xf16>
}

