// A mask that is one row of keys for all rows of a head, as padding is, has kernels of its own for
// heads of 64: it is small, and they read it as numbers of f32. Masks that change from row to row
// keep the others, and so do other heads.

// RUN: attn-opt %s "--attn-use-kernels=target=sm_90 mode=always" | FileCheck %s

#q = affine_map<(b, h, m, n, k1, k2) -> (b, h, m, k1)>
#k = affine_map<(b, h, m, n, k1, k2) -> (b, h, k2, k1)>
#v = affine_map<(b, h, m, n, k1, k2) -> (b, h, k2, n)>
#s = affine_map<(b, h, m, n, k1, k2) -> ()>
#keys = affine_map<(b, h, m, n, k1, k2) -> (b, k2)>
#rows = affine_map<(b, h, m, n, k1, k2) -> (b, m, k2)>
#o = affine_map<(b, h, m, n, k1, k2) -> (b, h, m, n)>
#apart = affine_map<(b, u, k2) -> (b, u, k2)>
#place = affine_map<(b, k2) -> (b, k2)>
!t = tensor<8x16x512x64xf16>
!wide = tensor<8x16x512x128xf16>
!unknown = tensor<8x16x?x64xf16>

// CHECK-LABEL: func.func @booleans(
// CHECK: %[[SEEN:.*]] = linalg.generic {{.*}} ins(%arg3 : tensor<8x512xi1>) outs(%{{.*}} : tensor<8x512xf32>)
// CHECK: arith.select
// CHECK: hal.dispatch.extern "attention_f16_d64_{{(wide_)?}}mask_keys{{.*}}%arg0, %arg1, %arg2, %[[SEEN]]
func.func @booleans(%q: !t, %k: !t, %v: !t, %mask: tensor<8x512xi1>) -> !t {
  %scale = arith.constant 0.125 : f32
  %empty = tensor.empty() : !t
  %0 = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #keys, #o]>
      ins(%q, %k, %v, %scale, %mask : !t, !t, !t, f32, tensor<8x512xi1>) outs(%empty : !t) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> !t
  return %0 : !t
}

// CHECK-LABEL: func.func @unknown_numbers(
// CHECK: %[[WIDE:.*]] = linalg.generic {{.*}} ins(%arg3 : tensor<8x?xf16>) outs(%{{.*}} : tensor<8x?xf32>)
// CHECK: arith.extf
// CHECK: hal.dispatch.extern "attention_f16_d64_{{(wide_)?}}mask_keys{{.*}}%[[WIDE]]
func.func @unknown_numbers(
    %q: !unknown, %k: !unknown, %v: !unknown, %mask: tensor<8x?xf16>) -> !unknown {
  %scale = arith.constant 0.125 : f32
  %two = arith.constant 2 : index
  %rows = tensor.dim %q, %two : !unknown
  %empty = tensor.empty(%rows) : !unknown
  %0 = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #keys, #o]>
      ins(%q, %k, %v, %scale, %mask : !unknown, !unknown, !unknown, f32, tensor<8x?xf16>)
      outs(%empty : !unknown) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> !unknown
  return %0 : !unknown
}

// CHECK-LABEL: func.func @changes_from_row_to_row(
// CHECK: hal.dispatch.extern "attention_f16_d64_mask_f16_aligned
func.func @changes_from_row_to_row(
    %q: !t, %k: !t, %v: !t, %mask: tensor<8x512x512xf16>) -> !t {
  %scale = arith.constant 0.125 : f32
  %empty = tensor.empty() : !t
  %0 = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #rows, #o]>
      ins(%q, %k, %v, %scale, %mask : !t, !t, !t, f32, tensor<8x512x512xf16>) outs(%empty : !t) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> !t
  return %0 : !t
}

// CHECK-LABEL: func.func @other_heads(
// CHECK: hal.dispatch.extern "attention_f16_d128_mask_f16_aligned
func.func @other_heads(
    %q: !wide, %k: !wide, %v: !wide, %mask: tensor<8x512xf16>) -> !wide {
  %scale = arith.constant 0.125 : f32
  %empty = tensor.empty() : !wide
  %0 = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #keys, #o]>
      ins(%q, %k, %v, %scale, %mask : !wide, !wide, !wide, f32, tensor<8x512xf16>)
      outs(%empty : !wide) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> !wide
  return %0 : !wide
}

// Tokens become a mask in one kernel, also of dims of size one; not where others read it as well.
// CHECK-LABEL: func.func @tokens(
// CHECK: %[[MASK:.*]] = linalg.generic {{.*}} ins(%arg3 : tensor<8x?xi64>) outs(%{{.*}} : tensor<8x?xf32>)
// CHECK: arith.sitofp %{{.*}} : i64 to f16
// CHECK: arith.mulf %{{.*}} : f16
// CHECK: arith.extf %{{.*}} : f16 to f32
// CHECK: hal.dispatch.extern "attention_f16_d64_{{(wide_)?}}mask_keys{{.*}}%[[MASK]]
func.func @tokens(
    %q: !unknown, %k: !unknown, %v: !unknown, %tokens: tensor<8x?xi64>) -> !unknown {
  %scale = arith.constant 0.125 : f32
  %low = arith.constant -6.0e4 : f16
  %keys = arith.constant 2 : index
  %n = tensor.dim %q, %keys : !unknown
  %apart = tensor.expand_shape %tokens [[0], [1, 2]] output_shape [8, 1, %n] : tensor<8x?xi64> into tensor<8x1x?xi64>
  %to = tensor.empty(%n) : tensor<8x1x?xf16>
  %numbers = linalg.generic {indexing_maps = [#apart, #apart], iterator_types = ["parallel", "parallel", "parallel"]} ins(%apart : tensor<8x1x?xi64>) outs(%to : tensor<8x1x?xf16>) {
  ^bb0(%x: i64, %o: f16):
    %0 = arith.sitofp %x : i64 to f16
    linalg.yield %0 : f16
  } -> tensor<8x1x?xf16>
  %hidden = linalg.generic {indexing_maps = [#apart, #apart], iterator_types = ["parallel", "parallel", "parallel"]} ins(%numbers : tensor<8x1x?xf16>) outs(%to : tensor<8x1x?xf16>) {
  ^bb0(%x: f16, %o: f16):
    %0 = arith.mulf %x, %low : f16
    linalg.yield %0 : f16
  } -> tensor<8x1x?xf16>
  %mask = tensor.collapse_shape %hidden [[0, 1], [2]] : tensor<8x1x?xf16> into tensor<8x?xf16>
  %two = arith.constant 2 : index
  %rows = tensor.dim %q, %two : !unknown
  %empty = tensor.empty(%rows) : !unknown
  %0 = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #keys, #o]>
      ins(%q, %k, %v, %scale, %mask : !unknown, !unknown, !unknown, f32, tensor<8x?xf16>)
      outs(%empty : !unknown) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> !unknown
  return %0 : !unknown
}

// CHECK-LABEL: func.func @read_by_others(
// CHECK: %[[NUMBERS:.*]] = linalg.generic {{.*}} ins(%arg3 : tensor<8x?xi64>) outs(%{{.*}} : tensor<8x?xf16>)
// CHECK: %[[MASK:.*]] = linalg.generic {{.*}} ins(%[[NUMBERS]] : tensor<8x?xf16>) outs(%{{.*}} : tensor<8x?xf32>)
// CHECK: hal.dispatch.extern "attention_f16_d64_{{(wide_)?}}mask_keys{{.*}}%[[MASK]]
func.func @read_by_others(
    %q: !unknown, %k: !unknown, %v: !unknown, %tokens: tensor<8x?xi64>) -> (!unknown, tensor<8x?xf16>) {
  %scale = arith.constant 0.125 : f32
  %keys = arith.constant 2 : index
  %n = tensor.dim %q, %keys : !unknown
  %to = tensor.empty(%n) : tensor<8x?xf16>
  %mask = linalg.generic {indexing_maps = [#place, #place], iterator_types = ["parallel", "parallel"]} ins(%tokens : tensor<8x?xi64>) outs(%to : tensor<8x?xf16>) {
  ^bb0(%x: i64, %o: f16):
    %0 = arith.sitofp %x : i64 to f16
    linalg.yield %0 : f16
  } -> tensor<8x?xf16>
  %two = arith.constant 2 : index
  %rows = tensor.dim %q, %two : !unknown
  %empty = tensor.empty(%rows) : !unknown
  %0 = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #keys, #o]>
      ins(%q, %k, %v, %scale, %mask : !unknown, !unknown, !unknown, f32, tensor<8x?xf16>)
      outs(%empty : !unknown) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> !unknown
  return %0, %mask : !unknown, tensor<8x?xf16>
}
