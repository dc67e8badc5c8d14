// RUN: attn-opt %s --attn-use-kernels="target=sm_90 mode=always" --split-input-file --remarks > %t.mlir 2> %t.txt
// RUN: FileCheck %s < %t.mlir
// RUN: FileCheck %s --check-prefix=REMARK < %t.txt

// f32, by tensor cores with f32's errors.

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// Rows of 128 elements are 32 units of 16 bytes.
// CHECK-LABEL: func.func @plain(
// CHECK-COUNT-4: arith.index_cast %c32{{.*}} : index to i32
// CHECK: hal.dispatch.extern "attention_f32_d128"[%c6, %c4]
// CHECK-SAME: -> tensor<4x700x128xf32>
// CHECK-NOT: iree_linalg_ext.attention
// REMARK: output kernel: attention_f32_d128: about
func.func @plain(%q: tensor<4x700x128xf32>, %k: tensor<4x999x128xf32>, %v: tensor<4x999x128xf32>) -> tensor<4x700x128xf32> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<4x700x128xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<4x700x128xf32>, tensor<4x999x128xf32>, tensor<4x999x128xf32>, f32) outs(%e : tensor<4x700x128xf32>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<4x700x128xf32>
  return %r : tensor<4x700x128xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// A smaller head dim is filled up; rows and keys are known at run time alone.
// CHECK-LABEL: func.func @filled(
// CHECK: hal.dispatch.extern "attention_f32_d128"
// REMARK: output kernel: attention_f32_d128: about
func.func @filled(%q: tensor<4x?x80xf32>, %k: tensor<4x?x80xf32>, %v: tensor<4x?x80xf32>, %m: index) -> tensor<4x?x80xf32> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty(%m) : tensor<4x?x80xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<4x?x80xf32>, tensor<4x?x80xf32>, tensor<4x?x80xf32>, f32) outs(%e : tensor<4x?x80xf32>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<4x?x80xf32>
  return %r : tensor<4x?x80xf32>
}

// -----

#q = affine_map<(b, g, m, n, k1, k2) -> (b, g, m, k1)>
#k = affine_map<(b, g, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, g, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, g, m, n, k1, k2) -> ()>
#mask = affine_map<(b, g, m, n, k1, k2) -> (m, k2)>
#o = affine_map<(b, g, m, n, k1, k2) -> (b, g, m, n)>

// Groups of query heads, and a mask that is added.
// CHECK-LABEL: func.func @groups(
// CHECK: hal.dispatch.extern "attention_f32_d64_mask_f32"
// REMARK: output kernel: attention_f32_d64_mask_f32: about
func.func @groups(%q: tensor<2x4x512x64xf32>, %k: tensor<2x512x64xf32>, %v: tensor<2x512x64xf32>, %mask: tensor<512x512xf32>) -> tensor<2x4x512x64xf32> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<2x4x512x64xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #mask, #o]> ins(%q, %k, %v, %scale, %mask : tensor<2x4x512x64xf32>, tensor<2x512x64xf32>, tensor<2x512x64xf32>, f32, tensor<512x512xf32>) outs(%e : tensor<2x4x512x64xf32>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x4x512x64xf32>
  return %r : tensor<2x4x512x64xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#mask = affine_map<(b, m, n, k1, k2) -> (m, k2)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// A mask of truth values that are the lower triangle is none that is read.
// CHECK-LABEL: func.func @causal(
// CHECK: hal.dispatch.extern "attention_f32_d128_causal"
// REMARK: output kernel: attention_f32_d128_causal: about
func.func @causal(%q: tensor<4x512x128xf32>, %k: tensor<4x512x128xf32>, %v: tensor<4x512x128xf32>) -> tensor<4x512x128xf32> {
  %blank = tensor.empty() : tensor<512x512xi1>
  %mask = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} outs(%blank : tensor<512x512xi1>) {
  ^bb0(%out: i1):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %seen = arith.cmpi sge, %i, %j : index
    linalg.yield %seen : i1
  } -> tensor<512x512xi1>
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<4x512x128xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #mask, #o]> ins(%q, %k, %v, %scale, %mask : tensor<4x512x128xf32>, tensor<4x512x128xf32>, tensor<4x512x128xf32>, f32, tensor<512x512xi1>) outs(%e : tensor<4x512x128xf32>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<4x512x128xf32>
  return %r : tensor<4x512x128xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// The parts of wider rows have no room.
// CHECK-LABEL: func.func @wide(
// CHECK-NOT: hal.dispatch.extern
// CHECK: iree_linalg_ext.attention
// REMARK: output refused: its head dims are 256 and 256; kernels for f32 have multiples of 8 up to 128
func.func @wide(%q: tensor<2x512x256xf32>, %k: tensor<2x512x256xf32>, %v: tensor<2x512x256xf32>) -> tensor<2x512x256xf32> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<2x512x256xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<2x512x256xf32>, tensor<2x512x256xf32>, tensor<2x512x256xf32>, f32) outs(%e : tensor<2x512x256xf32>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x512x256xf32>
  return %r : tensor<2x512x256xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK-LABEL: func.func @capped(
// CHECK-NOT: hal.dispatch.extern
// CHECK: iree_linalg_ext.attention
// REMARK: output refused: no kernel for f32 has its kind of mask and a soft-cap
func.func @capped(%q: tensor<2x512x64xf32>, %k: tensor<2x512x64xf32>, %v: tensor<2x512x64xf32>) -> tensor<2x512x64xf32> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<2x512x64xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<2x512x64xf32>, tensor<2x512x64xf32>, tensor<2x512x64xf32>, f32) outs(%e : tensor<2x512x64xf32>) {
  ^bb0(%x: f32):
    %c = arith.constant 5.000000e+01 : f32
    %a = arith.divf %x, %c : f32
    %t = math.tanh %a : f32
    %y = arith.mulf %t, %c : f32
    iree_linalg_ext.yield %y : f32
  } -> tensor<2x512x64xf32>
  return %r : tensor<2x512x64xf32>
}
