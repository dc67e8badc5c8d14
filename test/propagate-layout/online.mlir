// RUN: attn-opt %s --attn-propagate-layout=mode=always,operands=v --split-input-file | FileCheck %s
// RUN: attn-opt %s --attn-propagate-layout=mode=always,operands=v --split-input-file --mlir-print-op-generic | attn-opt --split-input-file | FileCheck %s

//! online_attention: three results, the output map is not the last one; a score region with
// arithmetic; V in [batch, seq, heads, dim] order with two batch dims and no collapse.
#q = affine_map<(b, h, m, n, k1, k2) -> (b, m, h, k1)>
#k = affine_map<(b, h, m, n, k1, k2) -> (b, k2, h, k1)>
#v = affine_map<(b, h, m, n, k1, k2) -> (b, k2, h, n)>
#s = affine_map<(b, h, m, n, k1, k2) -> ()>
#o = affine_map<(b, h, m, n, k1, k2) -> (b, h, m, n)>
#r = affine_map<(b, h, m, n, k1, k2) -> (b, h, m)>
// CHECK-DAG: #[[VT:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d3, d5)>
// CHECK-LABEL: func.func @online(
// CHECK: linalg.batch_matmul {{.*}} outs(%{{.*}} : tensor<2x64x32xf32>)
// CHECK: %[[V:.*]] = tensor.expand_shape {{.*}} : tensor<2x64x32xf32> into tensor<2x4x16x32xf32>
// CHECK: iree_linalg_ext.online_attention <indexing_maps = [#{{.*}}, #{{.*}}, #[[VT]], #{{.*}}, #{{.*}}, #{{.*}}, #{{.*}}]> ins(%{{[^,]*}}, %{{[^,]*}}, %[[V]],
func.func @online(%q: tensor<2x8x4x16xf32>, %k: tensor<2x32x4x16xf32>, %x: tensor<2x32x24xf32>, %w: tensor<2x24x64xf32>, %oi: tensor<2x4x8x16xf32>, %mi: tensor<2x4x8xf32>) -> tensor<2x4x8x16xf32> {
  %z = arith.constant 0.0 : f32
  %pe = tensor.empty() : tensor<2x32x64xf32>
  %pf = linalg.fill ins(%z : f32) outs(%pe : tensor<2x32x64xf32>) -> tensor<2x32x64xf32>
  %p = linalg.batch_matmul ins(%x, %w : tensor<2x32x24xf32>, tensor<2x24x64xf32>) outs(%pf : tensor<2x32x64xf32>) -> tensor<2x32x64xf32>
  %v = tensor.expand_shape %p [[0], [1], [2, 3]] output_shape [2, 32, 4, 16] : tensor<2x32x64xf32> into tensor<2x32x4x16xf32>
  %scale = arith.constant 0.25 : f32
  %r:3 = iree_linalg_ext.online_attention <indexing_maps = [#q, #k, #v, #s, #o, #r, #r]>
      ins(%q, %k, %v, %scale : tensor<2x8x4x16xf32>, tensor<2x32x4x16xf32>, tensor<2x32x4x16xf32>, f32)
      outs(%oi, %mi, %mi : tensor<2x4x8x16xf32>, tensor<2x4x8xf32>, tensor<2x4x8xf32>) {
    ^bb0(%score: f32):
      %i = iree_linalg_ext.index 5 : index
      %i1 = arith.index_cast %i : index to i32
      %i2 = arith.sitofp %i1 : i32 to f32
      %t = arith.addf %score, %i2 : f32
      iree_linalg_ext.yield %t : f32
  } -> tensor<2x4x8x16xf32>, tensor<2x4x8xf32>, tensor<2x4x8xf32>
  return %r#0 : tensor<2x4x8x16xf32>
}

// -----

//! No batch dim, a mask, several k2 dims.
#q = affine_map<(m, n, k1, ka, kb) -> (m, k1)>
#k = affine_map<(m, n, k1, ka, kb) -> (ka, kb, k1)>
#v = affine_map<(m, n, k1, ka, kb) -> (ka, kb, n)>
#s = affine_map<(m, n, k1, ka, kb) -> ()>
#mask = affine_map<(m, n, k1, ka, kb) -> (m, ka, kb)>
#o = affine_map<(m, n, k1, ka, kb) -> (m, n)>
// CHECK-DAG: #[[VT:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d1, d3, d4)>
// CHECK-LABEL: func.func @flat(
// CHECK: linalg.matmul {{.*}} outs(%{{.*}} : tensor<16x32xf32>)
// CHECK: %[[V:.*]] = tensor.expand_shape %{{.*}} into tensor<16x4x8xf32>
// CHECK: iree_linalg_ext.attention <indexing_maps = [#{{.*}}, #{{.*}}, #[[VT]],
func.func @flat(%q: tensor<8x16xf32>, %k: tensor<4x8x16xf32>, %x: tensor<32x24xf32>, %w: tensor<24x16xf32>, %mask: tensor<8x4x8xi1>) -> tensor<8x16xf32> {
  %z = arith.constant 0.0 : f32
  %pe = tensor.empty() : tensor<32x16xf32>
  %pf = linalg.fill ins(%z : f32) outs(%pe : tensor<32x16xf32>) -> tensor<32x16xf32>
  %p = linalg.matmul ins(%x, %w : tensor<32x24xf32>, tensor<24x16xf32>) outs(%pf : tensor<32x16xf32>) -> tensor<32x16xf32>
  %v = tensor.expand_shape %p [[0, 1], [2]] output_shape [4, 8, 16] : tensor<32x16xf32> into tensor<4x8x16xf32>
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<8x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #mask, #o]>
      ins(%q, %k, %v, %scale, %mask : tensor<8x16xf32>, tensor<4x8x16xf32>, tensor<4x8x16xf32>, f32, tensor<8x4x8xi1>) outs(%out : tensor<8x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<8x16xf32>
  return %r : tensor<8x16xf32>
}
