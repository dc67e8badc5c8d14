// RUN: attn-opt %s --attn-use-kernels="target=sm_90 mode=always kernel=attention_*" --split-input-file | FileCheck %s

// Masks that a model keeps as a buffer, as hand-written GPTs do.

// A triangle that nothing changes is a causal mask: it is not read.
util.global private @tril = dense<[[[[1, 0, 0, 0, 0, 0, 0, 0], [1, 1, 0, 0, 0, 0, 0, 0], [1, 1, 1, 0, 0, 0, 0, 0], [1, 1, 1, 1, 0, 0, 0, 0], [1, 1, 1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 1, 1, 1, 1]]]]> : tensor<1x1x8x8xi8>
#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#mask = affine_map<(b, m, n, k1, k2) -> (m, k2)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
#ij = affine_map<(i, j) -> (i, j)>

// CHECK-LABEL: func.func @triangle(
// CHECK: hal.dispatch.extern "attention_f16_d128_causal"
func.func @triangle(%q: tensor<2x8x128xf16>, %k: tensor<2x8x128xf16>, %v: tensor<2x8x128xf16>) -> tensor<2x8x128xf16> {
  %scale = arith.constant 0.125 : f16
  %buffer = util.global.load @tril : tensor<1x1x8x8xi8>
  %tril = tensor.collapse_shape %buffer [[0, 1, 2], [3]] : tensor<1x1x8x8xi8> into tensor<8x8xi8>
  %em = tensor.empty() : tensor<8x8xi1>
  %mask = linalg.generic {indexing_maps = [#ij, #ij], iterator_types = ["parallel", "parallel"]} ins(%tril : tensor<8x8xi8>) outs(%em : tensor<8x8xi1>) {
  ^bb0(%x: i8, %o: i1):
    %none = arith.constant 0 : i8
    %seen = arith.cmpi ne, %x, %none : i8
    linalg.yield %seen : i1
  } -> tensor<8x8xi1>
  %e = tensor.empty() : tensor<2x8x128xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #mask, #o]> ins(%q, %k, %v, %scale, %mask : tensor<2x8x128xf16>, tensor<2x8x128xf16>, tensor<2x8x128xf16>, f16, tensor<8x8xi1>) outs(%e : tensor<2x8x128xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x8x128xf16>
  return %r : tensor<2x8x128xf16>
}

// -----

// One that the program may write is read.
util.global private mutable @tril = dense<[[[[1, 0, 0, 0, 0, 0, 0, 0], [1, 1, 0, 0, 0, 0, 0, 0], [1, 1, 1, 0, 0, 0, 0, 0], [1, 1, 1, 1, 0, 0, 0, 0], [1, 1, 1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 1, 1, 1, 1]]]]> : tensor<1x1x8x8xi8>
#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#mask = affine_map<(b, m, n, k1, k2) -> (m, k2)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
#ij = affine_map<(i, j) -> (i, j)>

// CHECK-LABEL: func.func @may_change(
// CHECK: hal.dispatch.extern "attention_f16_d128_mask_i8"
func.func @may_change(%q: tensor<2x8x128xf16>, %k: tensor<2x8x128xf16>, %v: tensor<2x8x128xf16>) -> tensor<2x8x128xf16> {
  %scale = arith.constant 0.125 : f16
  %buffer = util.global.load @tril : tensor<1x1x8x8xi8>
  %tril = tensor.collapse_shape %buffer [[0, 1, 2], [3]] : tensor<1x1x8x8xi8> into tensor<8x8xi8>
  %em = tensor.empty() : tensor<8x8xi1>
  %mask = linalg.generic {indexing_maps = [#ij, #ij], iterator_types = ["parallel", "parallel"]} ins(%tril : tensor<8x8xi8>) outs(%em : tensor<8x8xi1>) {
  ^bb0(%x: i8, %o: i1):
    %none = arith.constant 0 : i8
    %seen = arith.cmpi ne, %x, %none : i8
    linalg.yield %seen : i1
  } -> tensor<8x8xi1>
  %e = tensor.empty() : tensor<2x8x128xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #mask, #o]> ins(%q, %k, %v, %scale, %mask : tensor<2x8x128xf16>, tensor<2x8x128xf16>, tensor<2x8x128xf16>, f16, tensor<8x8xi1>) outs(%e : tensor<2x8x128xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x8x128xf16>
  return %r : tensor<2x8x128xf16>
}

// -----

// So is one whose elements are not in the module.
util.global private @tril : tensor<1x1x8x8xi8>
#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#mask = affine_map<(b, m, n, k1, k2) -> (m, k2)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
#ij = affine_map<(i, j) -> (i, j)>

// CHECK-LABEL: func.func @unknown(
// CHECK: hal.dispatch.extern "attention_f16_d128_mask_i8"
func.func @unknown(%q: tensor<2x8x128xf16>, %k: tensor<2x8x128xf16>, %v: tensor<2x8x128xf16>) -> tensor<2x8x128xf16> {
  %scale = arith.constant 0.125 : f16
  %buffer = util.global.load @tril : tensor<1x1x8x8xi8>
  %tril = tensor.collapse_shape %buffer [[0, 1, 2], [3]] : tensor<1x1x8x8xi8> into tensor<8x8xi8>
  %em = tensor.empty() : tensor<8x8xi1>
  %mask = linalg.generic {indexing_maps = [#ij, #ij], iterator_types = ["parallel", "parallel"]} ins(%tril : tensor<8x8xi8>) outs(%em : tensor<8x8xi1>) {
  ^bb0(%x: i8, %o: i1):
    %none = arith.constant 0 : i8
    %seen = arith.cmpi ne, %x, %none : i8
    linalg.yield %seen : i1
  } -> tensor<8x8xi1>
  %e = tensor.empty() : tensor<2x8x128xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #mask, #o]> ins(%q, %k, %v, %scale, %mask : tensor<2x8x128xf16>, tensor<2x8x128xf16>, tensor<2x8x128xf16>, f16, tensor<8x8xi1>) outs(%e : tensor<2x8x128xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x8x128xf16>
  return %r : tensor<2x8x128xf16>
}
