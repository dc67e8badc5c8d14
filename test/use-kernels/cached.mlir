// RUN: attn-opt %s --attn-use-kernels="target=sm_90" --split-input-file --remarks > %t.mlir 2> %t.txt
// RUN: FileCheck %s < %t.mlir
// RUN: FileCheck %s --check-prefix=REMARK < %t.txt
// RUN: attn-opt %s --attn-use-kernels="target=sm_90 mode=always kernel=split_*" --split-input-file | FileCheck %s --check-prefix=ONLY

// Up to 16 rows that share K and V: one launch, in which clusters divide the keys of a head.

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK-LABEL: func.func @one_row(
// CHECK: hal.dispatch.extern "cached_f16_d128_by2"[%c2{{[_0-9]*}}, %c32{{[_0-9]*}}](
// CHECK-SAME: -> tensor<32x1x128xf16>
// CHECK-NOT: hal.dispatch.extern "combine
// REMARK: output kernel: cached_f16_d128_by2: about {{[0-9]+}} us instead of {{[0-9]+}}
func.func @one_row(%q: tensor<32x1x128xf16>, %k: tensor<32x4096x128xf16>, %v: tensor<32x4096x128xf16>) -> tensor<32x1x128xf16> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<32x1x128xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<32x1x128xf16>, tensor<32x4096x128xf16>, tensor<32x4096x128xf16>, f32) outs(%e : tensor<32x1x128xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<32x1x128xf16>
  return %r : tensor<32x1x128xf16>
}

// -----

#q = affine_map<(b, g, m, n, k1, k2) -> (b, g, m, k1)>
#k = affine_map<(b, g, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, g, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, g, m, n, k1, k2) -> ()>
#mask = affine_map<(b, g, m, n, k1, k2) -> (b, k2)>
#o = affine_map<(b, g, m, n, k1, k2) -> (b, g, m, n)>

// Groups, a mask of each sequence's keys, a soft-cap, head dims that are filled up.
// CHECK-LABEL: func.func @masked(
// CHECK: arith.extui
// CHECK: hal.dispatch.extern "cached_bf16_d64_by8_mask_i8"[%c8{{[_0-9]*}}, %c4{{[_0-9]*}}](
// REMARK: output kernel: cached_bf16_d64_by8_mask_i8
func.func @masked(%q: tensor<4x8x2x48xbf16>, %k: tensor<4x?x48xbf16>, %v: tensor<4x?x48xbf16>, %seen: tensor<4x?xi1>) -> tensor<4x8x2x48xbf16> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<4x8x2x48xbf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #mask, #o]> ins(%q, %k, %v, %scale, %seen : tensor<4x8x2x48xbf16>, tensor<4x?x48xbf16>, tensor<4x?x48xbf16>, f32, tensor<4x?xi1>) outs(%e : tensor<4x8x2x48xbf16>) {
  ^bb0(%x: f32):
    %cap = arith.constant 3.000000e+01 : f32
    %a = arith.divf %x, %cap : f32
    %t = math.tanh %a : f32
    %y = arith.mulf %t, %cap : f32
    iree_linalg_ext.yield %y : f32
  } -> tensor<4x8x2x48xbf16>
  return %r : tensor<4x8x2x48xbf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// More rows would read K and V more than once.
// CHECK-LABEL: func.func @more_rows(
// CHECK-NOT: "{{cached|split}}_
// REMARK: output kernel: divided_f16_d128
func.func @more_rows(%q: tensor<32x17x128xf16>, %k: tensor<32x4096x128xf16>, %v: tensor<32x4096x128xf16>) -> tensor<32x17x128xf16> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<32x17x128xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<32x17x128xf16>, tensor<32x4096x128xf16>, tensor<32x4096x128xf16>, f32) outs(%e : tensor<32x17x128xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<32x17x128xf16>
  return %r : tensor<32x17x128xf16>
}

// -----

#q = affine_map<(b, g, m, n, k1, k2) -> (b, g, m, k1)>
#k = affine_map<(b, g, m, n, k1, k2) -> (k2, b, k1)>
#v = affine_map<(b, g, m, n, k1, k2) -> (k2, b, n)>
#s = affine_map<(b, g, m, n, k1, k2) -> ()>
#o = affine_map<(b, g, m, n, k1, k2) -> (b, g, m, n)>

// Few heads over many keys, which all multiprocessors split: the cache is read where it lies, and a
// second kernel adds up what they found.
// CHECK-LABEL: func.func @split(
// CHECK-NOT: linalg.transpose
// CHECK: hal.dispatch.extern "split_bf16_d64"[%c66{{[_0-9]*}}, %c2{{[_0-9]*}}](
// CHECK-SAME: -> (tensor<2x66x16x64xf32>, tensor<2x66x2x16xf32>)
// CHECK: hal.dispatch.extern "combine_bf16_d64"
func.func @split(%q: tensor<2x4x2x64xbf16>, %k: tensor<16384x2x64xbf16>, %v: tensor<16384x2x64xbf16>) -> tensor<2x4x2x64xbf16> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<2x4x2x64xbf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<2x4x2x64xbf16>, tensor<16384x2x64xbf16>, tensor<16384x2x64xbf16>, f32) outs(%e : tensor<2x4x2x64xbf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x4x2x64xbf16>
  return %r : tensor<2x4x2x64xbf16>
}

// -----

#q = affine_map<(b, g, m, n, k1, k2) -> (b, g, m, k1)>
#k = affine_map<(b, g, m, n, k1, k2) -> (k2, b, k1)>
#v = affine_map<(b, g, m, n, k1, k2) -> (k2, b, n)>
#s = affine_map<(b, g, m, n, k1, k2) -> ()>
#o = affine_map<(b, g, m, n, k1, k2) -> (b, g, m, n)>

// How many parts there are follows heads and keys, of which there may be none.
// ONLY-LABEL: func.func @split_unknown(
// ONLY: %[[HEADS:.*]] = arith.maxui %dim{{.*}}, %c1
// ONLY: arith.divui %c132{{.*}}, %[[HEADS]]
// ONLY: %[[PARTS:.*]] = arith.maxui
// ONLY: hal.dispatch.extern "split_bf16_d64"[%[[PARTS]], %{{.*}}](
// ONLY-SAME: -> (tensor<?x?x16x64xf32>
// ONLY: hal.dispatch.extern "combine_bf16_d64"
func.func @split_unknown(%q: tensor<?x4x2x64xbf16>, %k: tensor<?x?x64xbf16>, %v: tensor<?x?x64xbf16>) -> tensor<?x4x2x64xbf16> {
  %scale = arith.constant 0.125 : f32
  %c0 = arith.constant 0 : index
  %n = tensor.dim %q, %c0 : tensor<?x4x2x64xbf16>
  %e = tensor.empty(%n) : tensor<?x4x2x64xbf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<?x4x2x64xbf16>, tensor<?x?x64xbf16>, tensor<?x?x64xbf16>, f32) outs(%e : tensor<?x4x2x64xbf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<?x4x2x64xbf16>
  return %r : tensor<?x4x2x64xbf16>
}
