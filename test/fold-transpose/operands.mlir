// RUN: attn-opt %s --attn-fold-transpose --split-input-file | FileCheck %s
// RUN: attn-opt %s --attn-fold-transpose --split-input-file --mlir-print-op-generic | attn-opt --split-input-file | FileCheck %s

// Transposes on Q, K, V, the mask and behind the result all become maps.

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#mask = affine_map<(b, m, n, k1, k2) -> (b, m, k2)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK-DAG: #[[Q:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d1, d0, d3)>
// CHECK-DAG: #[[K:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d3, d4)>
// CHECK-DAG: #[[V:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d2, d0, d4)>
// CHECK-DAG: #[[M:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d4, d0, d1)>
// CHECK-DAG: #[[O:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d1, d0, d2)>
// CHECK-LABEL: func.func @all
// CHECK-NOT: linalg.transpose
// CHECK: %[[R:.*]] = iree_linalg_ext.attention <indexing_maps = [#[[Q]], #[[K]], #[[V]], #{{.*}}, #[[M]], #[[O]]]> ins(%arg0, %arg1, %arg2, %{{.*}}, %arg3 :
// CHECK-SAME: outs(%{{.*}} : tensor<16x2x8xf32>)
// CHECK-NOT: linalg.transpose
// CHECK: return %[[R]]
func.func @all(%q0: tensor<16x2x8xf32>, %k0: tensor<2x8x32xf32>, %v0: tensor<8x2x32xf32>, %m0: tensor<32x2x16xi1>) -> tensor<16x2x8xf32> {
  %scale = arith.constant 0.25 : f32
  %qe = tensor.empty() : tensor<2x16x8xf32>
  %q = linalg.transpose ins(%q0 : tensor<16x2x8xf32>) outs(%qe : tensor<2x16x8xf32>) permutation = [1, 0, 2]
  %ke = tensor.empty() : tensor<2x32x8xf32>
  %k = linalg.transpose ins(%k0 : tensor<2x8x32xf32>) outs(%ke : tensor<2x32x8xf32>) permutation = [0, 2, 1]
  %v = linalg.transpose ins(%v0 : tensor<8x2x32xf32>) outs(%ke : tensor<2x32x8xf32>) permutation = [1, 2, 0]
  %me = tensor.empty() : tensor<2x16x32xi1>
  %mask = linalg.transpose ins(%m0 : tensor<32x2x16xi1>) outs(%me : tensor<2x16x32xi1>) permutation = [1, 2, 0]
  %out = tensor.empty() : tensor<2x16x8xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #mask, #o]>
      ins(%q, %k, %v, %scale, %mask : tensor<2x16x8xf32>, tensor<2x32x8xf32>, tensor<2x32x8xf32>, f32, tensor<2x16x32xi1>) outs(%out : tensor<2x16x8xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x16x8xf32>
  %te = tensor.empty() : tensor<16x2x8xf32>
  %t = linalg.transpose ins(%r : tensor<2x16x8xf32>) outs(%te : tensor<16x2x8xf32>) permutation = [1, 0, 2]
  return %t : tensor<16x2x8xf32>
}
