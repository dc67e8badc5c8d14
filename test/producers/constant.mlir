// RUN: attn-opt %s --attn-propagate-layout=mode=always,operands=v --split-input-file | FileCheck %s
// RUN: attn-opt %s --attn-propagate-layout=mode=always,operands=v --split-input-file --mlir-print-op-generic | attn-opt --split-input-file | FileCheck %s

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
// The elements may be of types that numpy does not know.
// CHECK-LABEL: func.func @fp8(
// CHECK: arith.constant dense<{{\[\[}}1.000000e+00, 4.000000e+00], [2.000000e+00, 5.000000e+00], [3.000000e+00, 6.000000e+00]]> : tensor<3x2xf8E4M3FN>
func.func @fp8(%q: tensor<1x8x4xf8E4M3FN>, %k: tensor<1x2x4xf8E4M3FN>) -> tensor<1x8x3xf32> {
  %v = arith.constant dense<[[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]]> : tensor<1x2x3xf8E4M3FN>
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<1x8x3xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<1x8x4xf8E4M3FN>, tensor<1x2x4xf8E4M3FN>, tensor<1x2x3xf8E4M3FN>, f32) outs(%out : tensor<1x8x3xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<1x8x3xf32>
  return %r : tensor<1x8x3xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// A resource stays one: 1, 2, 3 and 4, 5, 6 become 1, 4 and 2, 5 and 3, 6.
// CHECK-LABEL: func.func @resource(
// CHECK: arith.constant dense_resource<transposed> : tensor<3x2xbf16>
// CHECK: transposed: "0x02000000803F80400040A0404040C040"
func.func @resource(%q: tensor<1x8x4xbf16>, %k: tensor<1x2x4xbf16>) -> tensor<1x8x3xbf16> {
  %v = arith.constant dense_resource<blob> : tensor<1x2x3xbf16>
  %scale = arith.constant 0.25 : bf16
  %out = tensor.empty() : tensor<1x8x3xbf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<1x8x4xbf16>, tensor<1x2x4xbf16>, tensor<1x2x3xbf16>, bf16) outs(%out : tensor<1x8x3xbf16>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<1x8x3xbf16>
  return %r : tensor<1x8x3xbf16>
}

{-#
  dialect_resources: {
    builtin: {
      blob: "0x02000000803F004040408040A040C040"
    }
  }
#-}
