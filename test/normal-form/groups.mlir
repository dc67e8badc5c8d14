// Where the result has heads inside of rows, as the transpose behind grouped queries makes it, IREE
// would tile the group's few heads: on GPUs many rows go behind them. Few rows stay.

// RUN: attn-opt %s --target=sm_90 --pass-pipeline=attn-order-dims,attn-configure --split-input-file | FileCheck %s
// RUN: attn-opt %s --attn-order-dims --split-input-file | FileCheck %s --check-prefix=ANY

#q = affine_map<(m, h, g, n, k1, k2) -> (h, g, m, k1)>
#k = affine_map<(m, h, g, n, k1, k2) -> (h, k2, k1)>
#v = affine_map<(m, h, g, n, k1, k2) -> (h, k2, n)>
#s = affine_map<(m, h, g, n, k1, k2) -> ()>
#o = affine_map<(m, h, g, n, k1, k2) -> (m, h, g, n)>

// CHECK-DAG: workgroup = [1, 1, 128, 128, 0, 0]
// CHECK-DAG: #[[Q:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d2, d4)>
// CHECK-DAG: #[[O:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d2, d0, d1, d3)>
// CHECK-LABEL: func.func @many(
// CHECK: iree_linalg_ext.attention <indexing_maps = [#[[Q]], #map1, #map2, #map3, #[[O]]],
// ANY-DAG: #[[Q:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d1, d2, d0, d4)>
// ANY-DAG: #[[O:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d2, d3)>
// ANY: iree_linalg_ext.attention <indexing_maps = [#[[Q]], #map1, #map2, #map3, #[[O]]]
func.func @many(%q: tensor<8x4x2048x128xf16>, %k: tensor<8x2048x128xf16>, %v: tensor<8x2048x128xf16>) -> tensor<2048x8x4x128xf16> {
  %scale = arith.constant 0.25 : f32
  %e = tensor.empty() : tensor<2048x8x4x128xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<8x4x2048x128xf16>, tensor<8x2048x128xf16>, tensor<8x2048x128xf16>, f32) outs(%e : tensor<2048x8x4x128xf16>) {
    ^bb0(%y: f32):
      iree_linalg_ext.yield %y : f32
  } -> tensor<2048x8x4x128xf16>
  return %r : tensor<2048x8x4x128xf16>
}

// -----

#q = affine_map<(m, h, g, n, k1, k2) -> (h, g, m, k1)>
#k = affine_map<(m, h, g, n, k1, k2) -> (h, k2, k1)>
#v = affine_map<(m, h, g, n, k1, k2) -> (h, k2, n)>
#s = affine_map<(m, h, g, n, k1, k2) -> ()>
#o = affine_map<(m, h, g, n, k1, k2) -> (m, h, g, n)>

// CHECK-DAG: workgroup = [1, 1, 16, 128, 0, 0]
// CHECK-DAG: #[[O:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d2, d3)>
// CHECK-LABEL: func.func @few(
// CHECK: iree_linalg_ext.attention <indexing_maps = [#map, #map1, #map2, #map3, #[[O]]],
func.func @few(%q: tensor<8x4x8x128xf16>, %k: tensor<8x2048x128xf16>, %v: tensor<8x2048x128xf16>) -> tensor<8x8x4x128xf16> {
  %scale = arith.constant 0.25 : f32
  %e = tensor.empty() : tensor<8x8x4x128xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<8x4x8x128xf16>, tensor<8x2048x128xf16>, tensor<8x2048x128xf16>, f32) outs(%e : tensor<8x8x4x128xf16>) {
    ^bb0(%y: f32):
      iree_linalg_ext.yield %y : f32
  } -> tensor<8x8x4x128xf16>
  return %r : tensor<8x8x4x128xf16>
}
