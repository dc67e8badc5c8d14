// Repeats of K and V where masks of their own split batch and heads, and in front of a transpose.

// RUN: attn-opt %s -p 'attn-share-masks,attn-propagate-layout{target=sm_90 operands=v,k,q},attn-use-kernels{target=sm_90 mode=cost}' --split-input-file | FileCheck %s
// RUN: attn-opt %s -p 'attn-share-masks,attn-propagate-layout{target=sm_90 operands=v,k,q},attn-use-kernels{target=sm_90 mode=cost}' --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#b = affine_map<(b, m, n, k1, k2) -> (b, m, k2)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
#from = affine_map<(b, h, g, s, d) -> (b, h, s, d)>
#to = affine_map<(b, h, g, s, d) -> (b, h, g, s, d)>
#one = affine_map<(a, h, c, d) -> (a, 0, c, d)>
#all = affine_map<(a, h, c, d) -> (a, h, c, d)>

// Each sequence has a mask for its 16 heads, each head of K and V is there for 4: both are read
// once.
// CHECK-LABEL: func.func @sequences(
// CHECK-SAME: tensor<32x2048x128xf16>, %[[K:[a-z0-9]+]]: tensor<2x4x2048x128xf16>
// CHECK-NOT: tensor<2x4x4x2048x128xf16>
// CHECK: hal.dispatch.extern "attention_f16_d128_mask_i8_aligned"
// CHECK-SAME: tensor<2x2048x2048xi8>
// REMARK: output kernel: attention_f16_d128_mask_i8_aligned: {{.*}}; K and V are read without their 4-fold repeat
func.func @sequences(%q: tensor<32x2048x128xf16>, %k: tensor<2x4x2048x128xf16>, %x: tensor<2x1x2048x2048xi1>) -> tensor<2048x32x128xf16> {
  %scale = arith.constant 0.125 : f16
  %e5 = tensor.empty() : tensor<2x4x4x2048x128xf16>
  %k5 = linalg.generic {indexing_maps = [#from, #to], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%k : tensor<2x4x2048x128xf16>) outs(%e5 : tensor<2x4x4x2048x128xf16>) {
  ^bb0(%in: f16, %out: f16):
    linalg.yield %in : f16
  } -> tensor<2x4x4x2048x128xf16>
  %k3 = tensor.collapse_shape %k5 [[0, 1, 2], [3], [4]] : tensor<2x4x4x2048x128xf16> into tensor<32x2048x128xf16>
  %em = tensor.empty() : tensor<2x16x2048x2048xi1>
  %heads = linalg.generic {indexing_maps = [#one, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x : tensor<2x1x2048x2048xi1>) outs(%em : tensor<2x16x2048x2048xi1>) {
  ^bb0(%in: i1, %o: i1):
    linalg.yield %in : i1
  } -> tensor<2x16x2048x2048xi1>
  %mask = tensor.collapse_shape %heads [[0, 1], [2], [3]] : tensor<2x16x2048x2048xi1> into tensor<32x2048x2048xi1>
  %e = tensor.empty() : tensor<32x2048x128xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #b, #o]> ins(%q, %k3, %k3, %scale, %mask : tensor<32x2048x128xf16>, tensor<32x2048x128xf16>, tensor<32x2048x128xf16>, f16, tensor<32x2048x2048xi1>) outs(%e : tensor<32x2048x128xf16>) {
  ^bb0(%score: f32):
    iree_linalg_ext.yield %score : f32
  } -> tensor<32x2048x128xf16>
  %te = tensor.empty() : tensor<2048x32x128xf16>
  %t = linalg.transpose ins(%r : tensor<32x2048x128xf16>) outs(%te : tensor<2048x32x128xf16>) permutation = [1, 0, 2]
  return %t : tensor<2048x32x128xf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
#in = affine_map<(s, h, g, d) -> (s, h, d)>
#all = affine_map<(s, h, g, d) -> (s, h, g, d)>

// Decode kernels would need a copy with the heads in front; those without descriptors read the
// cache as it lies, as IREE's code does.
// CHECK-LABEL: func.func @sequence_major(
// CHECK-SAME: %[[C:[a-z0-9]+]]: tensor<8192x8x128xf16>
// CHECK-NOT: linalg.transpose
// CHECK: hal.dispatch.extern "cached_f16_d128_by8"[%c8{{[_0-9]*}}, %c8{{[_0-9]*}}]({{.*}}, %[[C]], %[[C]])
// REMARK: output kernel: cached_f16_d128_by8
func.func @sequence_major(%q: tensor<32x1x128xf16>, %c: tensor<8192x8x128xf16>) -> tensor<32x1x128xf16> {
  %scale = arith.constant 0.125 : f16
  %e = tensor.empty() : tensor<8192x8x4x128xf16>
  %r4 = linalg.generic {indexing_maps = [#in, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%c : tensor<8192x8x128xf16>) outs(%e : tensor<8192x8x4x128xf16>) {
  ^bb0(%in: f16, %o: f16):
    linalg.yield %in : f16
  } -> tensor<8192x8x4x128xf16>
  %r3 = tensor.collapse_shape %r4 [[0], [1, 2], [3]] : tensor<8192x8x4x128xf16> into tensor<8192x32x128xf16>
  %te = tensor.empty() : tensor<32x8192x128xf16>
  %k = linalg.transpose ins(%r3 : tensor<8192x32x128xf16>) outs(%te : tensor<32x8192x128xf16>) permutation = [1, 0, 2]
  %out = tensor.empty() : tensor<32x1x128xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %k, %scale : tensor<32x1x128xf16>, tensor<32x8192x128xf16>, tensor<32x8192x128xf16>, f16) outs(%out : tensor<32x1x128xf16>) {
  ^bb0(%score: f32):
    iree_linalg_ext.yield %score : f32
  } -> tensor<32x1x128xf16>
  return %r : tensor<32x1x128xf16>
}
