// RUN: attn-opt %s --attn-fold-transpose=through-reshapes=true | FileCheck %s

// One query row and a value of one column: dims of size one stay in the maps, for attention
// knows its dims by the operands that have them.
#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
// CHECK-DAG: #[[Q:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d3, d1, d0)>
// CHECK-DAG: #[[K:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d4, d3)>
// CHECK-DAG: #[[V:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d4, d0, d2)>
// CHECK-LABEL: func.func @main(
// CHECK-NOT: linalg.transpose
// CHECK: iree_linalg_ext.attention <indexing_maps = [#[[Q]], #[[K]], #[[V]], #{{.*}}, #{{.*}}]> ins(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : tensor<16x1x2xf32>, tensor<2x32x16xf32>, tensor<32x2x1xf32>, f32)
func.func @main(%x: tensor<16x2xf32>, %k: tensor<2x32x16xf32>, %y: tensor<32x2xf32>) -> tensor<2x1x1xf32> {
  %qe = tensor.empty() : tensor<2x16xf32>
  %qt = linalg.transpose ins(%x : tensor<16x2xf32>) outs(%qe : tensor<2x16xf32>) permutation = [1, 0]
  %q = tensor.expand_shape %qt [[0, 1], [2]] output_shape [2, 1, 16] : tensor<2x16xf32> into tensor<2x1x16xf32>
  %ve = tensor.empty() : tensor<2x32xf32>
  %vt = linalg.transpose ins(%y : tensor<32x2xf32>) outs(%ve : tensor<2x32xf32>) permutation = [1, 0]
  %v = tensor.expand_shape %vt [[0], [1, 2]] output_shape [2, 32, 1] : tensor<2x32xf32> into tensor<2x32x1xf32>
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x1x1xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x1x16xf32>, tensor<2x32x16xf32>, tensor<2x32x1xf32>, f32) outs(%out : tensor<2x1x1xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x1x1xf32>
  return %r : tensor<2x1x1xf32>
}
