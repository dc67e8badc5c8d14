// RUN: attn-opt %s --attn-use-kernels="target=sm_90 mode=always kernel=decode_*" --split-input-file --remarks > %t.mlir 2> %t.txt
// RUN: FileCheck %s < %t.mlir
// RUN: FileCheck %s --check-prefix=REMARK < %t.txt

// Few query rows over a long cache: a kernel for pieces of the keys, and one that combines them.

#q = affine_map<(b, g, m, n, k1, k2) -> (b, g, m, k1)>
#k = affine_map<(b, g, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, g, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, g, m, n, k1, k2) -> ()>
#o = affine_map<(b, g, m, n, k1, k2) -> (b, g, m, n)>

// 8 heads of 64 tiles of 64 keys, two for each of 264 programs: a head's tiles lie in 32
// pieces, and in 33 where they begin amid one.
// CHECK-LABEL: func.func @grouped(
// CHECK-SAME: %[[Q:[a-z0-9]+]]: tensor<8x4x1x128xf16>, %[[K:[a-z0-9]+]]: tensor<8x4096x128xf16>, %[[V:[a-z0-9]+]]: tensor<8x4096x128xf16>
// CHECK: %[[PARTS:.*]]:3 = hal.dispatch.extern "decode_f16_d128"[%c264
// CHECK-SAME: %[[Q]], %[[K]], %[[V]]
// CHECK-SAME: -> (tensor<8x33x16x128xf32>, tensor<8x33x2x16xf32>, tensor<67584xi8>)
// CHECK: hal.dispatch.extern "combine_f16_d128"
// CHECK-SAME: %[[PARTS]]#0, %[[PARTS]]#1
// CHECK-SAME: -> tensor<8x4x1x128xf16>
// REMARK: output kernel: decode_f16_d128: about {{[0-9]+}} us instead of {{[0-9]+}} (measured: {{.*}} GB/s
func.func @grouped(%q: tensor<8x4x1x128xf16>, %k: tensor<8x4096x128xf16>, %v: tensor<8x4096x128xf16>) -> tensor<8x4x1x128xf16> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<8x4x1x128xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<8x4x1x128xf16>, tensor<8x4096x128xf16>, tensor<8x4096x128xf16>, f32) outs(%e : tensor<8x4x1x128xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<8x4x1x128xf16>
  return %r : tensor<8x4x1x128xf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#mask = affine_map<(b, m, n, k1, k2) -> (b, k2)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// An 8-bit cache under 16-bit queries, of a length that is known at run time, with a mask.
// CHECK-LABEL: func.func @narrow_cache(
// CHECK: %[[KEYS:.*]] = tensor.dim %{{.*}}, %{{.*}} : tensor<32x?x64xf8E4M3FN>
// CHECK: arith.ceildivui %[[KEYS]], %c256
// CHECK: hal.dispatch.extern "decode_bf16_f8e4m3fn_d64_mask_i8"
// CHECK: hal.dispatch.extern "combine_bf16_d64"
// REMARK: output kernel: decode_bf16_f8e4m3fn_d64_mask_i8
func.func @narrow_cache(%q: tensor<32x1x64xbf16>, %k: tensor<32x?x64xf8E4M3FN>, %v: tensor<32x?x64xf8E4M3FN>, %mask: tensor<32x?xi1>) -> tensor<32x1x64xbf16> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<32x1x64xbf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #mask, #o]> ins(%q, %k, %v, %scale, %mask : tensor<32x1x64xbf16>, tensor<32x?x64xf8E4M3FN>, tensor<32x?x64xf8E4M3FN>, f32, tensor<32x?xi1>) outs(%e : tensor<32x1x64xbf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<32x1x64xbf16>
  return %r : tensor<32x1x64xbf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#mask = affine_map<(b, m, n, k1, k2) -> (m, k2)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// Row i sees keys i + 2001 to i + 3000: tiles of 64 keys from the 31st to the 46th are read,
// in 2 heads, one for each program.
// CHECK-LABEL: func.func @window(
// CHECK: hal.dispatch.extern "decode_f16_d128"
// CHECK-SAME: tensor<2x16x16x128xf32>
func.func @window(%q: tensor<2x4x128xf16>, %k: tensor<2x8192x128xf16>, %v: tensor<2x8192x128xf16>) -> tensor<2x4x128xf16> {
  %scale = arith.constant 0.125 : f32
  %c3000 = arith.constant 3000 : index
  %c999 = arith.constant 999 : index
  %blank = tensor.empty() : tensor<4x8192xi1>
  %mask = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} outs(%blank : tensor<4x8192xi1>) {
  ^bb0(%out: i1):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %last = arith.addi %i, %c3000 : index
    %ahead = arith.cmpi sge, %last, %j : index
    %far = arith.addi %j, %c999 : index
    %near = arith.cmpi sge, %far, %last : index
    %seen = arith.andi %ahead, %near : i1
    linalg.yield %seen : i1
  } -> tensor<4x8192xi1>
  %e = tensor.empty() : tensor<2x4x128xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #mask, #o]> ins(%q, %k, %v, %scale, %mask : tensor<2x4x128xf16>, tensor<2x8192x128xf16>, tensor<2x8192x128xf16>, f32, tensor<4x8192xi1>) outs(%e : tensor<2x4x128xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x4x128xf16>
  return %r : tensor<2x4x128xf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
#id = affine_map<(i, j, l) -> (i, j, l)>

// A cache of 8 bits that is widened before attention: the kernel reads the 8 bits, in whichever
// op the widening is written.
// CHECK-LABEL: func.func @widened(
// CHECK-SAME: %[[Q:[a-z0-9]+]]: tensor<32x1x128xbf16>, %[[K:[a-z0-9]+]]: tensor<32x4096x128xf8E4M3FN>, %[[V:[a-z0-9]+]]: tensor<32x4096x128xf8E4M3FN>
// CHECK: hal.dispatch.extern "decode_bf16_f8e4m3fn_d128"
// CHECK-SAME: %[[Q]], %[[K]], %[[V]])
// REMARK: output kernel: decode_bf16_f8e4m3fn_d128: {{.*}}; K and V are read in f8E4M3FN, before they are widened
func.func @widened(%q: tensor<32x1x128xbf16>, %k8: tensor<32x4096x128xf8E4M3FN>, %v8: tensor<32x4096x128xf8E4M3FN>) -> tensor<32x1x128xbf16> {
  %scale = arith.constant 0.125 : f32
  %k = arith.extf %k8 : tensor<32x4096x128xf8E4M3FN> to tensor<32x4096x128xbf16>
  %ve = tensor.empty() : tensor<32x4096x128xbf16>
  %v = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v8 : tensor<32x4096x128xf8E4M3FN>) outs(%ve : tensor<32x4096x128xbf16>) {
  ^bb0(%in: f8E4M3FN, %out: bf16):
    %wide = arith.extf %in : f8E4M3FN to bf16
    linalg.yield %wide : bf16
  } -> tensor<32x4096x128xbf16>
  %e = tensor.empty() : tensor<32x1x128xbf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<32x1x128xbf16>, tensor<32x4096x128xbf16>, tensor<32x4096x128xbf16>, f32) outs(%e : tensor<32x1x128xbf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<32x1x128xbf16>
  return %r : tensor<32x1x128xbf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
#id = affine_map<(i, j, l) -> (i, j, l)>

// V is scaled as it is widened: both are read as attention has them.
// CHECK-LABEL: func.func @scaled(
// CHECK: arith.extf
// CHECK: arith.mulf
// CHECK: hal.dispatch.extern "decode_f16_d128"
// REMARK: output kernel: decode_f16_d128: about
func.func @scaled(%q: tensor<32x1x128xf16>, %k8: tensor<32x4096x128xf8E4M3FN>, %v8: tensor<32x4096x128xf8E4M3FN>, %factor: f16) -> tensor<32x1x128xf16> {
  %scale = arith.constant 0.125 : f32
  %k = arith.extf %k8 : tensor<32x4096x128xf8E4M3FN> to tensor<32x4096x128xf16>
  %ve = tensor.empty() : tensor<32x4096x128xf16>
  %v = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v8 : tensor<32x4096x128xf8E4M3FN>) outs(%ve : tensor<32x4096x128xf16>) {
  ^bb0(%in: f8E4M3FN, %out: f16):
    %wide = arith.extf %in : f8E4M3FN to f16
    %scaled = arith.mulf %wide, %factor : f16
    linalg.yield %scaled : f16
  } -> tensor<32x4096x128xf16>
  %e = tensor.empty() : tensor<32x1x128xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<32x1x128xf16>, tensor<32x4096x128xf16>, tensor<32x4096x128xf16>, f32) outs(%e : tensor<32x1x128xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<32x1x128xf16>
  return %r : tensor<32x1x128xf16>
}
