// RUN: attn-opt %s --attn-use-kernels="target=sm_90 mode=always kernel=[ad][te]*" --split-input-file --remarks > %t.mlir 2> %t.txt
// RUN: FileCheck %s < %t.mlir
// RUN: FileCheck %s --check-prefix=REMARK < %t.txt
// RUN: attn-opt %s --attn-use-kernels="target=sm_90" --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=COST

// 8-bit operands that no kernel takes as they are, widened for a 16-bit kernel.

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#vt = affine_map<(b, m, n, k1, k2) -> (b, n, k2)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#mask = affine_map<(b, m, n, k1, k2) -> (m, k2)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// 16-bit V says which type: Q and K are cast, V is read as it is. (With heads of 128 there is a
// kernel for such types: mixed.mlir.)
// CHECK-LABEL: func.func @mixed(
// CHECK-SAME: %[[Q:[a-z0-9]+]]: tensor<32x4096x64xf8E4M3FN>, %[[K:[a-z0-9]+]]: tensor<32x4096x64xf8E4M3FN>, %[[V:[a-z0-9]+]]: tensor<32x4096x64xf16>
// CHECK: %[[WQ:.+]] = linalg.generic {{.*}} ins(%[[Q]] : tensor<32x4096x64xf8E4M3FN>)
// CHECK: arith.extf %{{.*}} : f8E4M3FN to f16
// CHECK: %[[WK:.+]] = linalg.generic {{.*}} ins(%[[K]] : tensor<32x4096x64xf8E4M3FN>)
// CHECK-NOT: linalg.transpose
// CHECK: hal.dispatch.extern "attention_f16_d64_wide"
// CHECK-SAME: %[[WQ]], %[[WK]], %[[V]])
// REMARK: output kernel: attention_f16_d64_wide: about {{.*}}, and {{[0-9]+}} to widen the query and the key to f16
// COST: output kernel: attention_f16_d64_wide: about {{.*}} to widen the query and the key to f16
func.func @mixed(%q: tensor<32x4096x64xf8E4M3FN>, %k: tensor<32x4096x64xf8E4M3FN>, %v: tensor<32x4096x64xf16>) -> tensor<32x4096x64xf16> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<32x4096x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<32x4096x64xf8E4M3FN>, tensor<32x4096x64xf8E4M3FN>, tensor<32x4096x64xf16>, f32) outs(%e : tensor<32x4096x64xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<32x4096x64xf16>
  return %r : tensor<32x4096x64xf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#vt = affine_map<(b, m, n, k1, k2) -> (b, n, k2)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#mask = affine_map<(b, m, n, k1, k2) -> (m, k2)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// Keys that the 8-bit kernel cannot take, and too few of them to pay for the casts.
// CHECK-LABEL: func.func @odd_keys(
// CHECK-COUNT-3: arith.extf %{{.*}} : f8E4M3FN to f16
// CHECK: hal.dispatch.extern "attention_f16_d128"
// REMARK: output kernel: attention_f16_d128: {{.*}} to widen the query and the key and the value to f16
// COST: output kept: lone_f16_d128: {{.*}}, no win
func.func @odd_keys(%q: tensor<2x128x128xf8E4M3FN>, %k: tensor<2x129x128xf8E4M3FN>, %v: tensor<2x129x128xf8E4M3FN>) -> tensor<2x128x128xf16> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<2x128x128xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x128x128xf8E4M3FN>, tensor<2x129x128xf8E4M3FN>, tensor<2x129x128xf8E4M3FN>, f32) outs(%e : tensor<2x128x128xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x128x128xf16>
  return %r : tensor<2x128x128xf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#vt = affine_map<(b, m, n, k1, k2) -> (b, n, k2)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#mask = affine_map<(b, m, n, k1, k2) -> (m, k2)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// A mask, which the 8-bit kernels have none for. The transposed V is read by one row-major kernel:
// it is cast and transposed.
// CHECK-LABEL: func.func @masked(
// CHECK: %[[V:.+]] = linalg.generic {{.*}} ins(%arg2 : tensor<32x128x4096xf8E4M3FN>)
// CHECK: %[[T:.+]] = linalg.transpose ins(%[[V]] : tensor<32x128x4096xf16>)
// CHECK: hal.dispatch.extern "attention_f16_d128_mask_f16_aligned"
// CHECK-SAME: %[[T]], %arg3)
// REMARK: to transpose the value and widen the query and the key and the value to f16
// COST: output kernel: attention_f16_d128_mask_f16_aligned
func.func @masked(%q: tensor<32x4096x128xf8E4M3FN>, %k: tensor<32x4096x128xf8E4M3FN>, %v: tensor<32x128x4096xf8E4M3FN>, %mask: tensor<4096x4096xf16>) -> tensor<32x4096x128xf16> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<32x4096x128xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #vt, #s, #mask, #o]>
      ins(%q, %k, %v, %scale, %mask : tensor<32x4096x128xf8E4M3FN>, tensor<32x4096x128xf8E4M3FN>, tensor<32x128x4096xf8E4M3FN>, f32, tensor<4096x4096xf16>) outs(%e : tensor<32x4096x128xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<32x4096x128xf16>
  return %r : tensor<32x4096x128xf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#vt = affine_map<(b, m, n, k1, k2) -> (b, n, k2)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#mask = affine_map<(b, m, n, k1, k2) -> (m, k2)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// No kernel reads e5m2; the output says that it is bf16 that it is widened to.
// CHECK-LABEL: func.func @e5m2(
// CHECK-COUNT-3: arith.extf %{{.*}} : f8E5M2 to bf16
// CHECK: hal.dispatch.extern "attention_bf16_d64_wide"
// REMARK: output kernel: attention_bf16_d64_wide:
// COST: output kernel: attention_bf16_d64_wide:
func.func @e5m2(%q: tensor<32x4096x64xf8E5M2>, %k: tensor<32x4096x64xf8E5M2>, %v: tensor<32x4096x64xf8E5M2>) -> tensor<32x4096x64xbf16> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<32x4096x64xbf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<32x4096x64xf8E5M2>, tensor<32x4096x64xf8E5M2>, tensor<32x4096x64xf8E5M2>, f32) outs(%e : tensor<32x4096x64xbf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<32x4096x64xbf16>
  return %r : tensor<32x4096x64xbf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#vt = affine_map<(b, m, n, k1, k2) -> (b, n, k2)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#mask = affine_map<(b, m, n, k1, k2) -> (m, k2)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// Prefill over an 8-bit cache: decode kernels alone read that.
// CHECK-LABEL: func.func @cache(
// CHECK-COUNT-2: arith.extf %{{.*}} : f8E4M3FN to bf16
// CHECK: hal.dispatch.extern "attention_bf16_d128"
// REMARK: output kernel: attention_bf16_d128: {{.*}} to widen the key and the value to bf16
// COST: output kernel: attention_bf16_d128
func.func @cache(%q: tensor<32x2048x128xbf16>, %k: tensor<32x8192x128xf8E4M3FN>, %v: tensor<32x8192x128xf8E4M3FN>) -> tensor<32x2048x128xbf16> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<32x2048x128xbf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<32x2048x128xbf16>, tensor<32x8192x128xf8E4M3FN>, tensor<32x8192x128xf8E4M3FN>, f32) outs(%e : tensor<32x2048x128xbf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<32x2048x128xbf16>
  return %r : tensor<32x2048x128xbf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#vt = affine_map<(b, m, n, k1, k2) -> (b, n, k2)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#mask = affine_map<(b, m, n, k1, k2) -> (m, k2)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// A decode kernel that reads the 8-bit cache under 16-bit queries: the query alone is cast.
// CHECK-LABEL: func.func @decode(
// CHECK: arith.extf %{{.*}} : f8E5M2 to f16
// CHECK-NOT: arith.extf
// CHECK: hal.dispatch.extern "decode_f16_f8e4m3fn_d128"
// REMARK: output kernel: decode_f16_f8e4m3fn_d128: {{.*}} to widen the query to f16
// COST: decode_f16_f8e4m3fn_d128
func.func @decode(%q: tensor<32x1x128xf8E5M2>, %k: tensor<32x4096x128xf8E4M3FN>, %v: tensor<32x4096x128xf8E4M3FN>) -> tensor<32x1x128xf16> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<32x1x128xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<32x1x128xf8E5M2>, tensor<32x4096x128xf8E4M3FN>, tensor<32x4096x128xf8E4M3FN>, f32) outs(%e : tensor<32x1x128xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<32x1x128xf16>
  return %r : tensor<32x1x128xf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#vt = affine_map<(b, m, n, k1, k2) -> (b, n, k2)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#mask = affine_map<(b, m, n, k1, k2) -> (m, k2)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// The 8-bit kernel is faster than the casts and the 16-bit one.
// CHECK-LABEL: func.func @own(
// CHECK-NOT: arith.extf
// CHECK: hal.dispatch.extern "attention_f8e4m3fn_d128_vt"
// REMARK: output kernel: attention_f8e4m3fn_d128_vt
// COST: output kernel: attention_f8e4m3fn_d128_vt
func.func @own(%q: tensor<32x4096x128xf8E4M3FN>, %k: tensor<32x4096x128xf8E4M3FN>, %v: tensor<32x128x4096xf8E4M3FN>) -> tensor<32x4096x128xf16> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<32x4096x128xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #vt, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<32x4096x128xf8E4M3FN>, tensor<32x4096x128xf8E4M3FN>, tensor<32x128x4096xf8E4M3FN>, f32) outs(%e : tensor<32x4096x128xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<32x4096x128xf16>
  return %r : tensor<32x4096x128xf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#vt = affine_map<(b, m, n, k1, k2) -> (b, n, k2)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#mask = affine_map<(b, m, n, k1, k2) -> (m, k2)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// K and V are cast below the repeat of their heads for grouped queries. (Kernels for 8 bits want
// numbers of keys that 16 divides.)
// CHECK-LABEL: func.func @repeated(
// CHECK: linalg.generic {{.*}} ins(%arg0 : tensor<32x4096x64xf8E4M3FN>)
// CHECK: linalg.generic {{.*}} ins(%arg1 : tensor<8x4104x64xf8E4M3FN>)
// CHECK: linalg.generic {{.*}} ins(%arg2 : tensor<8x4104x64xf8E4M3FN>)
// CHECK: hal.dispatch.extern "attention_f16_d64_wide"
// CHECK-SAME: tensor<32x4096x64xf16>, tensor<8x4104x64xf16>, tensor<8x4104x64xf16>
// REMARK: K and V are read without their 4-fold repeat
// COST: output kernel
func.func @repeated(%q: tensor<32x4096x64xf8E4M3FN>, %ks: tensor<8x4104x64xf8E4M3FN>, %vs: tensor<8x4104x64xf8E4M3FN>) -> tensor<32x4096x64xf16> {
  %re = tensor.empty() : tensor<8x4x4104x64xf8E4M3FN>
  %kr = linalg.generic {indexing_maps = [affine_map<(a, g, i, j) -> (a, i, j)>, affine_map<(a, g, i, j) -> (a, g, i, j)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%ks : tensor<8x4104x64xf8E4M3FN>) outs(%re : tensor<8x4x4104x64xf8E4M3FN>) {
  ^bb0(%in: f8E4M3FN, %out: f8E4M3FN):
    linalg.yield %in : f8E4M3FN
  } -> tensor<8x4x4104x64xf8E4M3FN>
  %k = tensor.collapse_shape %kr [[0, 1], [2], [3]] : tensor<8x4x4104x64xf8E4M3FN> into tensor<32x4104x64xf8E4M3FN>
  %rv = tensor.empty() : tensor<8x4x4104x64xf8E4M3FN>
  %vr = linalg.generic {indexing_maps = [affine_map<(a, g, i, j) -> (a, i, j)>, affine_map<(a, g, i, j) -> (a, g, i, j)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%vs : tensor<8x4104x64xf8E4M3FN>) outs(%rv : tensor<8x4x4104x64xf8E4M3FN>) {
  ^bb0(%in: f8E4M3FN, %out: f8E4M3FN):
    linalg.yield %in : f8E4M3FN
  } -> tensor<8x4x4104x64xf8E4M3FN>
  %v = tensor.collapse_shape %vr [[0, 1], [2], [3]] : tensor<8x4x4104x64xf8E4M3FN> into tensor<32x4104x64xf8E4M3FN>
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<32x4096x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<32x4096x64xf8E4M3FN>, tensor<32x4104x64xf8E4M3FN>, tensor<32x4104x64xf8E4M3FN>, f32) outs(%e : tensor<32x4096x64xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<32x4096x64xf16>
  return %r : tensor<32x4096x64xf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#vt = affine_map<(b, m, n, k1, k2) -> (b, n, k2)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#mask = affine_map<(b, m, n, k1, k2) -> (m, k2)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// What is refused in both types says why.
// CHECK-LABEL: func.func @head_dim(
// CHECK-NOT: hal.dispatch.extern
// REMARK: output refused: its head dims are 320 and 320; kernels for f8E4M3FN, f8E4M3FN, f16 have 128; widened to f16: its head dims are 320 and 320; kernels for f16 have multiples of 8 up to 128, 192 with 128
// COST: output refused
func.func @head_dim(%q: tensor<2x512x320xf8E4M3FN>, %k: tensor<2x777x320xf8E4M3FN>, %v: tensor<2x777x320xf16>) -> tensor<2x512x320xf16> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<2x512x320xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x512x320xf8E4M3FN>, tensor<2x777x320xf8E4M3FN>, tensor<2x777x320xf16>, f32) outs(%e : tensor<2x512x320xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x512x320xf16>
  return %r : tensor<2x512x320xf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#vt = affine_map<(b, m, n, k1, k2) -> (b, n, k2)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#mask = affine_map<(b, m, n, k1, k2) -> (m, k2)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// Neither 16-bit type holds the other.
// CHECK-LABEL: func.func @two_types(
// CHECK-NOT: hal.dispatch.extern
// REMARK: output refused: there is no kernel for f8E4M3FN, f16, bf16{{$}}
// COST: output refused
func.func @two_types(%q: tensor<2x512x128xf8E4M3FN>, %k: tensor<2x777x128xf16>, %v: tensor<2x777x128xbf16>) -> tensor<2x512x128xf16> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<2x512x128xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x512x128xf8E4M3FN>, tensor<2x777x128xf16>, tensor<2x777x128xbf16>, f32) outs(%e : tensor<2x512x128xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x512x128xf16>
  return %r : tensor<2x512x128xf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#vt = affine_map<(b, m, n, k1, k2) -> (b, n, k2)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#mask = affine_map<(b, m, n, k1, k2) -> (m, k2)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// The result keeps its type.
// CHECK-LABEL: func.func @output(
// CHECK-NOT: hal.dispatch.extern
// REMARK: output refused: the kernels for f8E4M3FN write f16, not f32; widened to f16: the kernels for f16 write f16, not f32
// COST: output refused
func.func @output(%q: tensor<2x512x128xf8E4M3FN>, %k: tensor<2x1024x128xf8E4M3FN>, %v: tensor<2x1024x128xf8E4M3FN>) -> tensor<2x512x128xf32> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<2x512x128xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x512x128xf8E4M3FN>, tensor<2x1024x128xf8E4M3FN>, tensor<2x1024x128xf8E4M3FN>, f32) outs(%e : tensor<2x512x128xf32>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x512x128xf32>
  return %r : tensor<2x512x128xf32>
}
