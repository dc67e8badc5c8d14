// RUN: attn-opt %s --attn-fold-transpose=through-reshapes=true | FileCheck %s
// RUN: attn-opt %s --attn-fold-transpose --remarks --verify-diagnostics

// A [batch, seq, heads, dim] V behind transpose and collapse: the heads are split again and
// V is read as it lies in memory. Without the option the transpose does not stand directly
// before attention, and nothing changes.

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK-DAG: #[[Q:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d2, d4)>
// CHECK-DAG: #[[V:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d5, d1, d3)>
// CHECK-DAG: #[[O:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d2, d1, d3)>
// CHECK-LABEL: func.func @heads
// CHECK-SAME: %[[V0:[a-z0-9]*]]: tensor<2x32x4x8xf32>)
// CHECK-NOT: linalg.transpose
// CHECK: %[[R:.*]] = iree_linalg_ext.attention <indexing_maps = [#[[Q]], #{{.*}}, #[[V]], #{{.*}}, #[[O]]]> ins(%{{[^,]*}}, %{{[^,]*}}, %[[V0]],
// CHECK-NOT: linalg.transpose
// CHECK: return %[[R]] : tensor<2x16x4x8xf32>
func.func @heads(%q: tensor<8x16x8xf32>, %k: tensor<8x32x8xf32>, %v0: tensor<2x32x4x8xf32>) -> tensor<2x16x4x8xf32> {
  %scale = arith.constant 0.25 : f32
  %ve = tensor.empty() : tensor<2x4x32x8xf32>
  %vt = linalg.transpose ins(%v0 : tensor<2x32x4x8xf32>) outs(%ve : tensor<2x4x32x8xf32>) permutation = [0, 2, 1, 3]
  %v = tensor.collapse_shape %vt [[0, 1], [2], [3]] : tensor<2x4x32x8xf32> into tensor<8x32x8xf32>
  %out = tensor.empty() : tensor<8x16x8xf32>
  // expected-remark @below {{value kept: no transpose stands directly around attention}}
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<8x16x8xf32>, tensor<8x32x8xf32>, tensor<8x32x8xf32>, f32) outs(%out : tensor<8x16x8xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<8x16x8xf32>
  %x = tensor.expand_shape %r [[0, 1], [2], [3]] output_shape [2, 4, 16, 8] : tensor<8x16x8xf32> into tensor<2x4x16x8xf32>
  %te = tensor.empty() : tensor<2x16x4x8xf32>
  %t = linalg.transpose ins(%x : tensor<2x4x16x8xf32>) outs(%te : tensor<2x16x4x8xf32>) permutation = [0, 2, 1, 3]
  return %t : tensor<2x16x4x8xf32>
}
