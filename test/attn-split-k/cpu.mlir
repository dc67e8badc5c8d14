// RUN: attn-opt %s --attn-split-k="configured=true splits=2" --target=llvm-cpu | FileCheck %s

// What attn-compile splits on CPUs: a few rows over 8 MB of K and V a head or more, that become
// vector loops.

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK-LABEL: func.func @long(
// CHECK: iree_linalg_ext.online_attention
func.func @long(%q: tensor<2x4x64xf32>, %k: tensor<2x16384x64xf32>, %v: tensor<2x16384x64xf32>) -> tensor<2x4x64xf32> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<2x4x64xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<2x4x64xf32>, tensor<2x16384x64xf32>, tensor<2x16384x64xf32>, f32) outs(%e : tensor<2x4x64xf32>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x4x64xf32>
  return %r : tensor<2x4x64xf32>
}

// CHECK-LABEL: func.func @short(
// CHECK: iree_linalg_ext.attention
// CHECK-NOT: online_attention
func.func @short(%q: tensor<2x4x64xf32>, %k: tensor<2x8192x64xf32>, %v: tensor<2x8192x64xf32>) -> tensor<2x4x64xf32> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<2x4x64xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<2x4x64xf32>, tensor<2x8192x64xf32>, tensor<2x8192x64xf32>, f32) outs(%e : tensor<2x4x64xf32>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x4x64xf32>
  return %r : tensor<2x4x64xf32>
}

// CHECK-LABEL: func.func @half(
// CHECK: iree_linalg_ext.attention
// CHECK-NOT: online_attention
func.func @half(%q: tensor<2x4x64xf16>, %k: tensor<2x16384x64xf16>, %v: tensor<2x16384x64xf16>) -> tensor<2x4x64xf16> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<2x4x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<2x4x64xf16>, tensor<2x16384x64xf16>, tensor<2x16384x64xf16>, f32) outs(%e : tensor<2x4x64xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x4x64xf16>
  return %r : tensor<2x4x64xf16>
}

// CHECK-LABEL: func.func @long_half(
// CHECK: iree_linalg_ext.online_attention
func.func @long_half(%q: tensor<2x1x64xf16>, %k: tensor<2x32768x64xf16>, %v: tensor<2x32768x64xf16>) -> tensor<2x1x64xf16> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<2x1x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<2x1x64xf16>, tensor<2x32768x64xf16>, tensor<2x32768x64xf16>, f32) outs(%e : tensor<2x1x64xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x1x64xf16>
  return %r : tensor<2x1x64xf16>
}

// CHECK-LABEL: func.func @unknown(
// CHECK: iree_linalg_ext.attention
// CHECK-NOT: online_attention
func.func @unknown(%q: tensor<2x4x64xf32>, %k: tensor<2x?x64xf32>, %v: tensor<2x?x64xf32>) -> tensor<2x4x64xf32> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<2x4x64xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<2x4x64xf32>, tensor<2x?x64xf32>, tensor<2x?x64xf32>, f32) outs(%e : tensor<2x4x64xf32>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x4x64xf32>
  return %r : tensor<2x4x64xf32>
}
