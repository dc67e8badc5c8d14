// RUN: attn-opt %s --attn-use-kernels="target=sm_90 mode=always kernel=attention_*" --split-input-file --remarks > %t.mlir 2> %t.txt
// RUN: FileCheck %s < %t.mlir
// RUN: FileCheck %s --check-prefix=REMARK < %t.txt

// Attentions that a precompiled kernel computes.

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// 300 rows are three workgroups of 128, each with 384 bytes of scratch memory: 6 * 384. The kernel
// is told how many heads there are.
// CHECK-LABEL: func.func @fixed(
// CHECK-SAME: %[[Q:[a-z0-9]+]]: tensor<2x300x128xf16>
// CHECK-NOT: iree_linalg_ext.attention
// CHECK: %[[HEADS:.*]] = arith.index_cast %c2{{.*}} : index to i32
// CHECK: hal.dispatch.extern "attention_f16_d128"[%c6, %c1](%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %[[HEADS]], %{{.*}}, %[[Q]]
// CHECK-SAME: tensor<3840xi8>
// CHECK: workgroup_size = [384 : index
// REMARK: output kernel: attention_f16_d128: about
func.func @fixed(%q: tensor<2x300x128xf16>, %k: tensor<2x777x128xf16>, %v: tensor<2x777x128xf16>) -> tensor<2x300x128xf16> {
  %scale = arith.constant 0.125 : f16
  %e = tensor.empty() : tensor<2x300x128xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<2x300x128xf16>, tensor<2x777x128xf16>, tensor<2x777x128xf16>, f16) outs(%e : tensor<2x300x128xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x300x128xf16>
  return %r : tensor<2x300x128xf16>
}

// -----

#q = affine_map<(b, g, m, n, k1, k2) -> (b, g, m, k1)>
#k = affine_map<(b, g, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, g, m, n, k1, k2) -> (b, n, k2)>
#s = affine_map<(b, g, m, n, k1, k2) -> ()>
#o = affine_map<(b, g, m, n, k1, k2) -> (b, g, m, n)>

// Four query heads share K and V, which is V^T already: nothing is moved.
// CHECK-LABEL: func.func @grouped_fp8(
// CHECK-NOT: linalg.transpose
// CHECK: hal.dispatch.extern "attention_f8e4m3fn_d128_vt"[%c128, %c1](%
// CHECK-SAME: tensor<8x4x512x128xf8E4M3FN>, tensor<8x1024x128xf8E4M3FN>, tensor<8x128x1024xf8E4M3FN>
// REMARK: output kernel: attention_f8e4m3fn_d128_vt: about
func.func @grouped_fp8(%q: tensor<8x4x512x128xf8E4M3FN>, %k: tensor<8x1024x128xf8E4M3FN>, %v: tensor<8x128x1024xf8E4M3FN>) -> tensor<8x4x512x128xf16> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<8x4x512x128xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<8x4x512x128xf8E4M3FN>, tensor<8x1024x128xf8E4M3FN>, tensor<8x128x1024xf8E4M3FN>, f32) outs(%e : tensor<8x4x512x128xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<8x4x512x128xf16>
  return %r : tensor<8x4x512x128xf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// A row-major 8-bit V of some size is transposed for the faster kernel, and the price says so. A
// program for each multiprocessor does all the work.
// CHECK-LABEL: func.func @row_major_fp8(
// CHECK: linalg.transpose
// CHECK-SAME: permutation = [0, 2, 1]
// CHECK: hal.dispatch.extern "attention_f8e4m3fn_d128_vt"[%c132, %c1](%
// CHECK-SAME: tensor<32x128x4096xf8E4M3FN>
// REMARK: to transpose the value
func.func @row_major_fp8(%q: tensor<32x4096x128xf8E4M3FN>, %k: tensor<32x4096x128xf8E4M3FN>, %v: tensor<32x4096x128xf8E4M3FN>) -> tensor<32x4096x128xf16> {
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

// A small one is left to the kernel that transposes it itself.
// CHECK-LABEL: func.func @small_row_major_fp8(
// CHECK-NOT: linalg.transpose
// CHECK: hal.dispatch.extern "attention_f8e4m3fn_d128"[%c32, %c1](%
// REMARK: output kernel: attention_f8e4m3fn_d128: about
func.func @small_row_major_fp8(%q: tensor<8x512x128xf8E4M3FN>, %k: tensor<8x1024x128xf8E4M3FN>, %v: tensor<8x1024x128xf8E4M3FN>) -> tensor<8x512x128xf16> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<8x512x128xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<8x512x128xf8E4M3FN>, tensor<8x1024x128xf8E4M3FN>, tensor<8x1024x128xf8E4M3FN>, f32) outs(%e : tensor<8x512x128xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<8x512x128xf16>
  return %r : tensor<8x512x128xf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#mask = affine_map<(b, m, n, k1, k2) -> (m, k2)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
#id = affine_map<(i, j) -> (i, j)>

// Sizes known only at run time, and a mask that hides the keys behind the query.
// CHECK-LABEL: func.func @dynamic_causal(
// CHECK: %[[BLOCKS:.*]] = arith.ceildivui
// CHECK: %[[ALL:.*]] = arith.muli %[[BLOCKS]]
// CHECK: %[[PROGRAMS:.*]] = arith.minui %[[ALL]], %c132
// CHECK: hal.dispatch.extern "attention_bf16_d64_wide_causal"[%[[PROGRAMS]], %c1_{{[0-9]+}}](
// CHECK-NOT: cmpi
// REMARK: output kernel: attention_bf16_d64_wide_causal: about
func.func @dynamic_causal(%q: tensor<?x?x64xbf16>, %k: tensor<?x?x64xbf16>, %v: tensor<?x?x64xbf16>) -> tensor<?x?x64xbf16> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %b = tensor.dim %q, %c0 : tensor<?x?x64xbf16>
  %m = tensor.dim %q, %c1 : tensor<?x?x64xbf16>
  %n = tensor.dim %k, %c1 : tensor<?x?x64xbf16>
  %scale = arith.constant 0.125 : bf16
  %i = tensor.empty(%m, %n) : tensor<?x?xi1>
  %mask = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel", "parallel"]} outs(%i : tensor<?x?xi1>) {
  ^bb0(%out: i1):
    %row = linalg.index 0 : index
    %column = linalg.index 1 : index
    %seen = arith.cmpi sge, %row, %column : index
    linalg.yield %seen : i1
  } -> tensor<?x?xi1>
  %e = tensor.empty(%b, %m) : tensor<?x?x64xbf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #mask, #o]> ins(%q, %k, %v, %scale, %mask : tensor<?x?x64xbf16>, tensor<?x?x64xbf16>, tensor<?x?x64xbf16>, bf16, tensor<?x?xi1>) outs(%e : tensor<?x?x64xbf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<?x?x64xbf16>
  return %r : tensor<?x?x64xbf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#mask = affine_map<(b, m, n, k1, k2) -> (m, k2)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
#id = affine_map<(i, j) -> (i, j)>

// This mask hides the query's own position too, so that the first row sees no key: the kernel
// reads it, in bytes.
// CHECK-LABEL: func.func @strict_mask(
// CHECK: arith.extui
// CHECK: hal.dispatch.extern "attention_f16_d64_mask_i8_aligned"
// CHECK-SAME: tensor<512x512xi8>
// REMARK: output kernel: attention_f16_d64_mask_i8_aligned: about
func.func @strict_mask(%q: tensor<2x512x64xf16>, %k: tensor<2x512x64xf16>, %v: tensor<2x512x64xf16>) -> tensor<2x512x64xf16> {
  %scale = arith.constant 0.125 : f16
  %i = tensor.empty() : tensor<512x512xi1>
  %mask = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel", "parallel"]} outs(%i : tensor<512x512xi1>) {
  ^bb0(%out: i1):
    %row = linalg.index 0 : index
    %column = linalg.index 1 : index
    %seen = arith.cmpi sgt, %row, %column : index
    linalg.yield %seen : i1
  } -> tensor<512x512xi1>
  %e = tensor.empty() : tensor<2x512x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #mask, #o]> ins(%q, %k, %v, %scale, %mask : tensor<2x512x64xf16>, tensor<2x512x64xf16>, tensor<2x512x64xf16>, f16, tensor<512x512xi1>) outs(%e : tensor<2x512x64xf16>) {
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
#mask = affine_map<(b, m, n, k1, k2) -> (m, k2)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
#id = affine_map<(i, j) -> (i, j)>

// A window of 64 keys behind each query: the mask is not made.
// CHECK-LABEL: func.func @window(
// CHECK-NOT: cmpi
// CHECK: arith.constant 64 : index
// CHECK: hal.dispatch.extern "attention_f16_d64_window"
// CHECK-NOT: cmpi
// REMARK: output kernel: attention_f16_d64_window: about
func.func @window(%q: tensor<2x512x64xf16>, %k: tensor<2x512x64xf16>, %v: tensor<2x512x64xf16>) -> tensor<2x512x64xf16> {
  %scale = arith.constant 0.125 : f16
  %i = tensor.empty() : tensor<512x512xi1>
  %mask = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel", "parallel"]} outs(%i : tensor<512x512xi1>) {
  ^bb0(%out: i1):
    %row = linalg.index 0 : index
    %column = linalg.index 1 : index
    %behind = arith.constant 64 : index
    %last = arith.addi %column, %behind : index
    %near = arith.cmpi sge, %last, %row : index
    %past = arith.cmpi sge, %row, %column : index
    %seen = arith.andi %past, %near : i1
    linalg.yield %seen : i1
  } -> tensor<512x512xi1>
  %e = tensor.empty() : tensor<2x512x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #mask, #o]> ins(%q, %k, %v, %scale, %mask : tensor<2x512x64xf16>, tensor<2x512x64xf16>, tensor<2x512x64xf16>, f16, tensor<512x512xi1>) outs(%e : tensor<2x512x64xf16>) {
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
#mask = affine_map<(b, m, n, k1, k2) -> (m, k2)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// The window of row 600 and those behind it lies behind the last key: these rows are 0 in the kernel.
// CHECK-LABEL: func.func @window_behind_keys(
// CHECK: arith.constant 100 : index
// CHECK: hal.dispatch.extern "attention_f16_d256_window"
// CHECK-NOT: iree_linalg_ext.attention
// REMARK: output kernel: attention_f16_d256_window: about
func.func @window_behind_keys(%q: tensor<2x1000x256xf16>, %k: tensor<2x500x256xf16>, %v: tensor<2x500x256xf16>) -> tensor<2x1000x256xf16> {
  %scale = arith.constant 0.125 : f16
  %blank = tensor.empty() : tensor<1000x500xi1>
  %mask = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} outs(%blank : tensor<1000x500xi1>) {
  ^bb0(%out: i1):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %behind = arith.constant 100 : index
    %ahead = arith.cmpi sge, %i, %j : index
    %last = arith.addi %j, %behind : index
    %near = arith.cmpi sge, %last, %i : index
    %seen = arith.andi %ahead, %near : i1
    linalg.yield %seen : i1
  } -> tensor<1000x500xi1>
  %e = tensor.empty() : tensor<2x1000x256xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #mask, #o]> ins(%q, %k, %v, %scale, %mask : tensor<2x1000x256xf16>, tensor<2x500x256xf16>, tensor<2x500x256xf16>, f16, tensor<1000x500xi1>) outs(%e : tensor<2x1000x256xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x1000x256xf16>
  return %r : tensor<2x1000x256xf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// The region hides the keys behind the query's position.
// CHECK-LABEL: func.func @causal_region(
// CHECK: hal.dispatch.extern "attention_f16_d256_causal"
// REMARK: output kernel: attention_f16_d256_causal: about
func.func @causal_region(%q: tensor<2x512x256xf16>, %k: tensor<2x512x256xf16>, %v: tensor<2x512x256xf16>) -> tensor<2x512x256xf16> {
  %scale = arith.constant 0.125 : f16
  %low = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<2x512x256xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<2x512x256xf16>, tensor<2x512x256xf16>, tensor<2x512x256xf16>, f16) outs(%e : tensor<2x512x256xf16>) {
  ^bb0(%x: f32):
    %row = iree_linalg_ext.index 1 : index
    %column = iree_linalg_ext.index 4 : index
    %seen = arith.cmpi sge, %row, %column : index
    %y = arith.select %seen, %x, %low : f32
    iree_linalg_ext.yield %y : f32
  } -> tensor<2x512x256xf16>
  return %r : tensor<2x512x256xf16>
}

// -----

#q = affine_map<(b, h, g, m, n, k1, k2) -> (b, h, g, m, k1)>
#k = affine_map<(b, h, g, m, n, k1, k2) -> (b, h, k2, k1)>
#v = affine_map<(b, h, g, m, n, k1, k2) -> (b, h, k2, n)>
#s = affine_map<(b, h, g, m, n, k1, k2) -> ()>
#mask = affine_map<(b, h, g, m, n, k1, k2) -> (b, k2)>
#o = affine_map<(b, h, g, m, n, k1, k2) -> (b, h, g, m, n)>

// A padding mask per batch: 8 x 4 heads read the same one, and rows have no stride.
// CHECK-LABEL: func.func @padding(
// CHECK-DAG: %[[DIVISOR:.*]] = arith.constant 32 : index
// CHECK: hal.dispatch.extern "attention_bf16_d128_mask_f32"
// REMARK: output kernel: attention_bf16_d128_mask_f32: about
func.func @padding(%q: tensor<2x8x4x300x128xbf16>, %k: tensor<2x8x777x128xbf16>, %v: tensor<2x8x777x128xbf16>, %mask: tensor<2x777xf32>) -> tensor<2x8x4x300x128xbf16> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<2x8x4x300x128xbf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #mask, #o]> ins(%q, %k, %v, %scale, %mask : tensor<2x8x4x300x128xbf16>, tensor<2x8x777x128xbf16>, tensor<2x8x777x128xbf16>, f32, tensor<2x777xf32>) outs(%e : tensor<2x8x4x300x128xbf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x8x4x300x128xbf16>
  return %r : tensor<2x8x4x300x128xbf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
#from = affine_map<(b, h, g, s, d) -> (b, h, s, d)>
#to = affine_map<(b, h, g, s, d) -> (b, h, g, s, d)>

// Heads of K and V that are repeated for four query heads each: the kernel reads each once.
// CHECK-LABEL: func.func @repeated(
// CHECK-SAME: %[[Q:[a-z0-9]+]]: tensor<8x300x128xf16>, %[[K:[a-z0-9]+]]: tensor<1x2x777x128xf16>, %[[V:[a-z0-9]+]]:
// CHECK-NOT: linalg.generic
// CHECK: arith.constant 4 : index
// CHECK: hal.dispatch.extern "attention_f16_d128"
// CHECK-SAME: %[[Q]], %[[K]], %[[V]])
// REMARK: output kernel: attention_f16_d128: {{.*}}; K and V are read without their 4-fold repeat
func.func @repeated(%q: tensor<8x300x128xf16>, %k: tensor<1x2x777x128xf16>, %v: tensor<1x2x777x128xf16>) -> tensor<8x300x128xf16> {
  %scale = arith.constant 0.125 : f16
  %e5 = tensor.empty() : tensor<1x2x4x777x128xf16>
  %k5 = linalg.generic {indexing_maps = [#from, #to], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%k : tensor<1x2x777x128xf16>) outs(%e5 : tensor<1x2x4x777x128xf16>) {
  ^bb0(%in: f16, %out: f16):
    linalg.yield %in : f16
  } -> tensor<1x2x4x777x128xf16>
  %v5 = linalg.generic {indexing_maps = [#from, #to], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%v : tensor<1x2x777x128xf16>) outs(%e5 : tensor<1x2x4x777x128xf16>) {
  ^bb0(%in: f16, %out: f16):
    linalg.yield %in : f16
  } -> tensor<1x2x4x777x128xf16>
  %k4 = tensor.collapse_shape %k5 [[0], [1, 2], [3], [4]] : tensor<1x2x4x777x128xf16> into tensor<1x8x777x128xf16>
  %k3 = tensor.collapse_shape %k4 [[0, 1], [2], [3]] : tensor<1x8x777x128xf16> into tensor<8x777x128xf16>
  %v3 = tensor.collapse_shape %v5 [[0, 1, 2], [3], [4]] : tensor<1x2x4x777x128xf16> into tensor<8x777x128xf16>
  %e = tensor.empty() : tensor<8x300x128xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k3, %v3, %scale : tensor<8x300x128xf16>, tensor<8x777x128xf16>, tensor<8x777x128xf16>, f16) outs(%e : tensor<8x300x128xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<8x300x128xf16>
  return %r : tensor<8x300x128xf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// 132 programs, one for each multiprocessor, take all 1024 blocks of rows.
// CHECK-LABEL: func.func @many_blocks(
// CHECK: hal.dispatch.extern "attention_f16_d128"[%c132, %c1](
// CHECK-SAME: tensor<84480xi8>
func.func @many_blocks(%q: tensor<32x4096x128xf16>, %k: tensor<32x4096x128xf16>, %v: tensor<32x4096x128xf16>) -> tensor<32x4096x128xf16> {
  %scale = arith.constant 0.125 : f16
  %e = tensor.empty() : tensor<32x4096x128xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<32x4096x128xf16>, tensor<32x4096x128xf16>, tensor<32x4096x128xf16>, f16) outs(%e : tensor<32x4096x128xf16>) {
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

// Too few rows to give every multiprocessor 256 of them: workgroups of 128.
// CHECK-LABEL: func.func @few_workgroups(
// CHECK: hal.dispatch.extern "attention_f16_d64"
func.func @few_workgroups(%q: tensor<12x512x64xf16>, %k: tensor<12x512x64xf16>, %v: tensor<12x512x64xf16>) -> tensor<12x512x64xf16> {
  %scale = arith.constant 0.125 : f16
  %e = tensor.empty() : tensor<12x512x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<12x512x64xf16>, tensor<12x512x64xf16>, tensor<12x512x64xf16>, f16) outs(%e : tensor<12x512x64xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<12x512x64xf16>
  return %r : tensor<12x512x64xf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#mask = affine_map<(b, m, n, k1, k2) -> (m, k2)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// The rows of this mask are aligned, but its start is not: 4 * 520 * 2 bytes, and 3 * 2.
// CHECK-LABEL: func.func @sliced_mask(
// CHECK: hal.dispatch.extern "attention_f16_d64_mask_f16"
func.func @sliced_mask(%q: tensor<2x512x64xf16>, %k: tensor<2x512x64xf16>, %v: tensor<2x512x64xf16>, %all: tensor<520x520xf16>) -> tensor<2x512x64xf16> {
  %scale = arith.constant 0.125 : f16
  %mask = tensor.extract_slice %all[4, 3] [512, 512] [1, 1] : tensor<520x520xf16> to tensor<512x512xf16>
  %e = tensor.empty() : tensor<2x512x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #mask, #o]> ins(%q, %k, %v, %scale, %mask : tensor<2x512x64xf16>, tensor<2x512x64xf16>, tensor<2x512x64xf16>, f16, tensor<512x512xf16>) outs(%e : tensor<2x512x64xf16>) {
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
#mask = affine_map<(b, m, n, k1, k2) -> (m, k2)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// Rows of 1000 bytes are filled up to 1008, whose distance the kernel is told.
// CHECK-LABEL: func.func @filled_mask(
// CHECK: linalg.generic
// CHECK: -> tensor<512x504xf16>
// CHECK: hal.dispatch.extern "attention_f16_d64_mask_f16_aligned"
// CHECK-SAME: tensor<512x504xf16>
// REMARK: output kernel: attention_f16_d64_mask_f16_aligned: {{.*}} to fill the mask's rows up to 504 numbers
func.func @filled_mask(%q: tensor<2x512x64xf16>, %k: tensor<2x500x64xf16>, %v: tensor<2x500x64xf16>, %mask: tensor<512x500xf16>) -> tensor<2x512x64xf16> {
  %scale = arith.constant 0.125 : f16
  %e = tensor.empty() : tensor<2x512x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #mask, #o]> ins(%q, %k, %v, %scale, %mask : tensor<2x512x64xf16>, tensor<2x500x64xf16>, tensor<2x500x64xf16>, f16, tensor<512x500xf16>) outs(%e : tensor<2x512x64xf16>) {
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
#mask = affine_map<(b, m, n, k1, k2) -> (b, m, k2)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// Kernels take the distance of several masks from the number of keys.
// CHECK-LABEL: func.func @masks_of_heads(
// CHECK: hal.dispatch.extern "attention_f16_d64_mask_f16"
// CHECK-SAME: tensor<2x512x500xf16>
func.func @masks_of_heads(%q: tensor<2x512x64xf16>, %k: tensor<2x500x64xf16>, %v: tensor<2x500x64xf16>, %mask: tensor<2x512x500xf16>) -> tensor<2x512x64xf16> {
  %scale = arith.constant 0.125 : f16
  %e = tensor.empty() : tensor<2x512x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #mask, #o]> ins(%q, %k, %v, %scale, %mask : tensor<2x512x64xf16>, tensor<2x500x64xf16>, tensor<2x500x64xf16>, f16, tensor<2x512x500xf16>) outs(%e : tensor<2x512x64xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x512x64xf16>
  return %r : tensor<2x512x64xf16>
}
