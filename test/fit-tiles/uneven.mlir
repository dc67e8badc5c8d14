// Over an unknown number of keys, heads that IREE's kernels for CUDA cannot pad are written out.

// RUN: attn-opt %s -p 'attn-mask-dynamic-keys{target=sm_90}' --report=%t.json | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.json
// WHY: two products and a softmax now, as its number of keys is unknown: IREE 3.13 has no whole tiles for head dims 64 and 72
// WHY: a mask that hides nothing is added
// WHY: IREE 3.13 distributes no head dim that is several dims
// WHY-NOT: two products

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK-LABEL: func.func @uneven(
// CHECK-NOT: iree_linalg_ext.attention
// CHECK: return
func.func @uneven(%q: tensor<2x4x64xf32>, %k: tensor<2x?x64xf32>, %v: tensor<2x?x72xf32>) -> tensor<2x4x72xf32> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x4x72xf32>
  %a = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x4x64xf32>, tensor<2x?x64xf32>, tensor<2x?x72xf32>, f32) outs(%out : tensor<2x4x72xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x4x72xf32>
  return %a : tensor<2x4x72xf32>
}

// CHECK-LABEL: func.func @even(
// CHECK: iree_linalg_ext.attention
func.func @even(%q: tensor<2x4x64xf32>, %k: tensor<2x?x64xf32>, %v: tensor<2x?x80xf32>) -> tensor<2x4x80xf32> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x4x80xf32>
  %a = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x4x64xf32>, tensor<2x?x64xf32>, tensor<2x?x80xf32>, f32) outs(%out : tensor<2x4x80xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x4x80xf32>
  return %a : tensor<2x4x80xf32>
}

// CHECK-LABEL: func.func @two_dims(
// CHECK-NOT: iree_linalg_ext.attention
// CHECK: return
func.func @two_dims(%q: tensor<4x64x3xbf16>, %k: tensor<?x3x64xbf16>, %v: tensor<?x128xbf16>) -> tensor<4x128xbf16> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<4x128xbf16>
  %a = iree_linalg_ext.attention <indexing_maps = [affine_map<(m, n, k, l, j) -> (m, k, l)>, affine_map<(m, n, k, l, j) -> (j, l, k)>, affine_map<(m, n, k, l, j) -> (j, n)>, affine_map<(m, n, k, l, j) -> ()>, affine_map<(m, n, k, l, j) -> (m, n)>]>
      ins(%q, %k, %v, %scale : tensor<4x64x3xbf16>, tensor<?x3x64xbf16>, tensor<?x128xbf16>, f32) outs(%out : tensor<4x128xbf16>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<4x128xbf16>
  return %a : tensor<4x128xbf16>
}
