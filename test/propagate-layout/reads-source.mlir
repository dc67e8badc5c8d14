// RUN: attn-opt %s --attn-propagate-layout=mode=always,operands=v,k,q --remarks > %t.mlir 2> %t.txt
// RUN: FileCheck %s < %t.mlir
// RUN: FileCheck %s --check-prefix=LEFT < %t.txt

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// Q and K with a bias: IREE would run `bias, transpose` as a dispatch of its own. Attention
// reads them in [batch, seq, heads, dim] order instead, and the bias joins the projection.
// CHECK-DAG: #[[Q:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d2, d1, d4)>
// CHECK-DAG: #[[K:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d5, d1, d4)>
// CHECK-DAG: #[[V:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d3, d5)>
// CHECK-DAG: #[[O:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d2, d1, d3)>
// CHECK-LABEL: func.func @biased(
// CHECK-NOT: linalg.transpose
// CHECK: %[[R:.*]] = iree_linalg_ext.attention <indexing_maps = [#[[Q]], #[[K]], #[[V]], #{{.*}}, #[[O]]]>
// CHECK-NOT: linalg.transpose
// CHECK: return
// LEFT: query folded: k1 is innermost already; attention reads it as it lies before its transpose
// LEFT: key folded: k1 is innermost already; attention reads it as it lies before its transpose
// LEFT: value absorbed
func.func @biased(%x: tensor<2x32x24xf32>, %w: tensor<2x24x64xf32>, %c: tensor<64xf32>) -> tensor<2x32x4x16xf32> {
  %z = arith.constant 0.0 : f32
  %pe = tensor.empty() : tensor<2x32x64xf32>
  %pf = linalg.fill ins(%z : f32) outs(%pe : tensor<2x32x64xf32>) -> tensor<2x32x64xf32>
  %te = tensor.empty() : tensor<2x4x32x16xf32>
  %qp = linalg.batch_matmul ins(%x, %w : tensor<2x32x24xf32>, tensor<2x24x64xf32>) outs(%pf : tensor<2x32x64xf32>) -> tensor<2x32x64xf32>
  %qb = linalg.generic {indexing_maps = [affine_map<(a, b, c) -> (a, b, c)>, affine_map<(a, b, c) -> (c)>, affine_map<(a, b, c) -> (a, b, c)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%qp, %c : tensor<2x32x64xf32>, tensor<64xf32>) outs(%pe : tensor<2x32x64xf32>) {
  ^bb0(%in: f32, %bias: f32, %o: f32):
    %t = arith.addf %in, %bias : f32
    linalg.yield %t : f32
  } -> tensor<2x32x64xf32>
  %q4 = tensor.expand_shape %qb [[0], [1], [2, 3]] output_shape [2, 32, 4, 16] : tensor<2x32x64xf32> into tensor<2x32x4x16xf32>
  %qt = linalg.transpose ins(%q4 : tensor<2x32x4x16xf32>) outs(%te : tensor<2x4x32x16xf32>) permutation = [0, 2, 1, 3]
  %q = tensor.collapse_shape %qt [[0, 1], [2], [3]] : tensor<2x4x32x16xf32> into tensor<8x32x16xf32>
  %kp = linalg.batch_matmul ins(%x, %w : tensor<2x32x24xf32>, tensor<2x24x64xf32>) outs(%pf : tensor<2x32x64xf32>) -> tensor<2x32x64xf32>
  %kb = linalg.generic {indexing_maps = [affine_map<(a, b, c) -> (a, b, c)>, affine_map<(a, b, c) -> (c)>, affine_map<(a, b, c) -> (a, b, c)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%kp, %c : tensor<2x32x64xf32>, tensor<64xf32>) outs(%pe : tensor<2x32x64xf32>) {
  ^bb0(%in: f32, %bias: f32, %o: f32):
    %t = arith.addf %in, %bias : f32
    linalg.yield %t : f32
  } -> tensor<2x32x64xf32>
  %k4 = tensor.expand_shape %kb [[0], [1], [2, 3]] output_shape [2, 32, 4, 16] : tensor<2x32x64xf32> into tensor<2x32x4x16xf32>
  %kt = linalg.transpose ins(%k4 : tensor<2x32x4x16xf32>) outs(%te : tensor<2x4x32x16xf32>) permutation = [0, 2, 1, 3]
  %k = tensor.collapse_shape %kt [[0, 1], [2], [3]] : tensor<2x4x32x16xf32> into tensor<8x32x16xf32>
  %vp = linalg.batch_matmul ins(%x, %w : tensor<2x32x24xf32>, tensor<2x24x64xf32>) outs(%pf : tensor<2x32x64xf32>) -> tensor<2x32x64xf32>
  %vb = linalg.generic {indexing_maps = [affine_map<(a, b, c) -> (a, b, c)>, affine_map<(a, b, c) -> (c)>, affine_map<(a, b, c) -> (a, b, c)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%vp, %c : tensor<2x32x64xf32>, tensor<64xf32>) outs(%pe : tensor<2x32x64xf32>) {
  ^bb0(%in: f32, %bias: f32, %o: f32):
    %t = arith.addf %in, %bias : f32
    linalg.yield %t : f32
  } -> tensor<2x32x64xf32>
  %v4 = tensor.expand_shape %vb [[0], [1], [2, 3]] output_shape [2, 32, 4, 16] : tensor<2x32x64xf32> into tensor<2x32x4x16xf32>
  %vt = linalg.transpose ins(%v4 : tensor<2x32x4x16xf32>) outs(%te : tensor<2x4x32x16xf32>) permutation = [0, 2, 1, 3]
  %v = tensor.collapse_shape %vt [[0, 1], [2], [3]] : tensor<2x4x32x16xf32> into tensor<8x32x16xf32>
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<8x32x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<8x32x16xf32>, tensor<8x32x16xf32>, tensor<8x32x16xf32>, f32) outs(%out : tensor<8x32x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<8x32x16xf32>
  %r4 = tensor.expand_shape %r [[0, 1], [2], [3]] output_shape [2, 4, 32, 16] : tensor<8x32x16xf32> into tensor<2x4x32x16xf32>
  %oe = tensor.empty() : tensor<2x32x4x16xf32>
  %o = linalg.transpose ins(%r4 : tensor<2x4x32x16xf32>) outs(%oe : tensor<2x32x4x16xf32>) permutation = [0, 2, 1, 3]
  return %o : tensor<2x32x4x16xf32>
}
