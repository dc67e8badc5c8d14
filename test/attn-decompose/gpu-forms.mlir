// On GPUs a form that IREE's own configuration is not for, and a single row over three keys, are
// written out; four keys stay, and on CPUs all do.
// RUN: attn-opt %s --pass-pipeline='attn-decompose{only=wrong target=sm_90}' | FileCheck %s
// RUN: attn-opt %s --pass-pipeline='attn-decompose{only=wrong target=llvm-cpu}' | FileCheck %s --check-prefix=CPU

#q = affine_map<(m, n, k2, k1) -> (m, k1)>
#k = affine_map<(m, n, k2, k1) -> (k2, k1)>
#v = affine_map<(m, n, k2, k1) -> (k2, n)>
#s = affine_map<(m, n, k2, k1) -> ()>
#o = affine_map<(m, n, k2, k1) -> (m, n)>
// CHECK-LABEL: func.func @mask_over_the_head(
// CHECK-NOT: iree_linalg_ext.attention
// CPU-LABEL: func.func @mask_over_the_head(
// CPU: iree_linalg_ext.attention
func.func @mask_over_the_head(%q: tensor<16x8xf16>, %k: tensor<24x8xf16>, %v: tensor<24x32xf16>, %mask: tensor<24x8xi1>) -> tensor<16x32xf16> {
  %scale = arith.constant 1.0 : f16
  %e = tensor.empty() : tensor<16x32xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #k, #o]>
      ins(%q, %k, %v, %scale, %mask : tensor<16x8xf16>, tensor<24x8xf16>, tensor<24x32xf16>, f16, tensor<24x8xi1>) outs(%e : tensor<16x32xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<16x32xf16>
  return %r : tensor<16x32xf16>
}

// CHECK-LABEL: func.func @three_keys(
// CHECK-NOT: iree_linalg_ext.attention
func.func @three_keys(%q: tensor<1x8xf32>, %k: tensor<3x8xf32>, %v: tensor<3x16xf32>) -> tensor<1x16xf32> {
  %scale = arith.constant 1.0 : f32
  %e = tensor.empty() : tensor<1x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<1x8xf32>, tensor<3x8xf32>, tensor<3x16xf32>, f32) outs(%e : tensor<1x16xf32>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<1x16xf32>
  return %r : tensor<1x16xf32>
}

// CHECK-LABEL: func.func @four_keys(
// CHECK: iree_linalg_ext.attention
func.func @four_keys(%q: tensor<1x8xf32>, %k: tensor<4x8xf32>, %v: tensor<4x16xf32>) -> tensor<1x16xf32> {
  %scale = arith.constant 1.0 : f32
  %e = tensor.empty() : tensor<1x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<1x8xf32>, tensor<4x8xf32>, tensor<4x16xf32>, f32) outs(%e : tensor<1x16xf32>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<1x16xf32>
  return %r : tensor<1x16xf32>
}
