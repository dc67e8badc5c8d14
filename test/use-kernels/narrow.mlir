// RUN: attn-opt %s --attn-use-kernels="target=sm_90" --split-input-file --remarks > %t.mlir 2> %t.txt
// RUN: FileCheck %s < %t.mlir
// RUN: FileCheck %s --check-prefix=REMARK < %t.txt

// Q, K and V of 8 bits.

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#vt = affine_map<(b, m, n, k1, k2) -> (b, n, k2)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// Units of 16 bytes say how many columns heads have; heads and rows may be known at run time only.
// CHECK-LABEL: func.func @heads_of_64(
// CHECK-NOT: arith.extf
// CHECK-NOT: linalg.transpose
// CHECK: hal.dispatch.extern "attention_f8e4m3fn_d64_vt"
// CHECK-SAME: tensor<?x?x64xf8E4M3FN>
// REMARK: output kernel: attention_f8e4m3fn_d64_vt: about
func.func @heads_of_64(%q: tensor<?x?x64xf8E4M3FN>, %k: tensor<?x4096x64xf8E4M3FN>, %v: tensor<?x64x4096xf8E4M3FN>, %b: index, %m: index) -> tensor<?x?x64xf16> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty(%b, %m) : tensor<?x?x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #vt, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<?x?x64xf8E4M3FN>, tensor<?x4096x64xf8E4M3FN>, tensor<?x64x4096xf8E4M3FN>, f32) outs(%e : tensor<?x?x64xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<?x?x64xf16>
  return %r : tensor<?x?x64xf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// Few keys: V is turned by the kernel, as a transpose would take longer.
// CHECK-LABEL: func.func @row_major(
// CHECK-NOT: linalg.transpose
// CHECK: hal.dispatch.extern "attention_f8e4m3fn_d64"
// REMARK: output kernel: attention_f8e4m3fn_d64: about
func.func @row_major(%q: tensor<32x512x64xf8E4M3FN>, %k: tensor<32x512x64xf8E4M3FN>, %v: tensor<32x512x64xf8E4M3FN>) -> tensor<32x512x64xf16> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<32x512x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<32x512x64xf8E4M3FN>, tensor<32x512x64xf8E4M3FN>, tensor<32x512x64xf8E4M3FN>, f32) outs(%e : tensor<32x512x64xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<32x512x64xf16>
  return %r : tensor<32x512x64xf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// Heads of 256 want V^T, which is worth a transpose.
// CHECK-LABEL: func.func @heads_of_256(
// CHECK: %[[V:.+]] = linalg.transpose ins(%arg2 : tensor<32x4096x256xf8E4M3FN>)
// CHECK: hal.dispatch.extern "attention_f8e4m3fn_d256_vt"
// REMARK: output kernel: attention_f8e4m3fn_d256_vt: about {{.*}} to transpose the value
func.func @heads_of_256(%q: tensor<32x4096x256xf8E4M3FN>, %k: tensor<32x4096x256xf8E4M3FN>, %v: tensor<32x4096x256xf8E4M3FN>) -> tensor<32x4096x256xf16> {
  %scale = arith.constant 0.0625 : f32
  %e = tensor.empty() : tensor<32x4096x256xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<32x4096x256xf8E4M3FN>, tensor<32x4096x256xf8E4M3FN>, tensor<32x4096x256xf8E4M3FN>, f32) outs(%e : tensor<32x4096x256xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<32x4096x256xf16>
  return %r : tensor<32x4096x256xf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#vt = affine_map<(b, m, n, k1, k2) -> (b, n, k2)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// Heads of 80 are filled up by the kernel for 128, of e5m2 as of e4m3.
// CHECK-LABEL: func.func @filled_up(
// CHECK-NOT: tensor.pad
// CHECK: hal.dispatch.extern "attention_f8e5m2_d128_vt"
// CHECK-SAME: tensor<32x4096x80xf8E5M2>
// REMARK: output kernel: attention_f8e5m2_d128_vt: about
func.func @filled_up(%q: tensor<32x4096x80xf8E5M2>, %k: tensor<32x4096x80xf8E5M2>, %v: tensor<32x80x4096xf8E5M2>) -> tensor<32x4096x80xf16> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<32x4096x80xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #vt, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<32x4096x80xf8E5M2>, tensor<32x4096x80xf8E5M2>, tensor<32x80x4096xf8E5M2>, f32) outs(%e : tensor<32x4096x80xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<32x4096x80xf16>
  return %r : tensor<32x4096x80xf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#vt = affine_map<(b, m, n, k1, k2) -> (b, n, k2)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// Rows of 72 bytes are not aligned: the operands are cast.
// CHECK-LABEL: func.func @unaligned(
// CHECK-COUNT-3: arith.extf %{{.*}} : f8E4M3FN to f16
// CHECK: hal.dispatch.extern "attention_f16_d80"
// REMARK: output kernel: attention_f16_d80: about {{.*}} to transpose the value and widen the query and the key and the value to f16
func.func @unaligned(%q: tensor<32x4096x72xf8E4M3FN>, %k: tensor<32x4096x72xf8E4M3FN>, %v: tensor<32x72x4096xf8E4M3FN>) -> tensor<32x4096x72xf16> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<32x4096x72xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #vt, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<32x4096x72xf8E4M3FN>, tensor<32x4096x72xf8E4M3FN>, tensor<32x72x4096xf8E4M3FN>, f32) outs(%e : tensor<32x4096x72xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<32x4096x72xf16>
  return %r : tensor<32x4096x72xf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#vt = affine_map<(b, m, n, k1, k2) -> (b, n, k2)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#mask = affine_map<(b, m, n, k1, k2) -> (m, k2)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// A window of 1025 keys: limits are numbers of the kernel.
// CHECK-LABEL: func.func @window(
// CHECK-NOT: arith.extf
// CHECK: hal.dispatch.extern "attention_f8e4m3fn_d128_vt_window"
// REMARK: output kernel: attention_f8e4m3fn_d128_vt_window: about
func.func @window(%q: tensor<32x4096x128xf8E4M3FN>, %k: tensor<32x4096x128xf8E4M3FN>, %v: tensor<32x128x4096xf8E4M3FN>) -> tensor<32x4096x128xf16> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<32x4096x128xf16>
  %blank = tensor.empty() : tensor<4096x4096xi1>
  %mask = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} outs(%blank : tensor<4096x4096xi1>) {
  ^bb0(%out: i1):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %behind = arith.constant 1024 : index
    %last = arith.addi %j, %behind : index
    %ahead = arith.cmpi sge, %i, %j : index
    %near = arith.cmpi sge, %last, %i : index
    %seen = arith.andi %ahead, %near : i1
    linalg.yield %seen : i1
  } -> tensor<4096x4096xi1>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #vt, #s, #mask, #o]>
      ins(%q, %k, %v, %scale, %mask : tensor<32x4096x128xf8E4M3FN>, tensor<32x4096x128xf8E4M3FN>, tensor<32x128x4096xf8E4M3FN>, f32, tensor<4096x4096xi1>) outs(%e : tensor<32x4096x128xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<32x4096x128xf16>
  return %r : tensor<32x4096x128xf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#vt = affine_map<(b, m, n, k1, k2) -> (b, n, k2)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// Heads wider than all kernels' are refused in both types.
// CHECK-LABEL: func.func @too_wide(
// CHECK-NOT: hal.dispatch.extern
// REMARK: output refused: its head dims are 288 and 288; kernels for f8E4M3FN have multiples of 16 up to 256; widened to f16: its head dims are 288 and 288
func.func @too_wide(%q: tensor<32x4096x288xf8E4M3FN>, %k: tensor<32x4096x288xf8E4M3FN>, %v: tensor<32x288x4096xf8E4M3FN>) -> tensor<32x4096x288xf16> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<32x4096x288xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #vt, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<32x4096x288xf8E4M3FN>, tensor<32x4096x288xf8E4M3FN>, tensor<32x288x4096xf8E4M3FN>, f32) outs(%e : tensor<32x4096x288xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<32x4096x288xf16>
  return %r : tensor<32x4096x288xf16>
}
