// RUN: attn-opt %s --attn-propagate-layout=mode=always,operands=v --split-input-file | FileCheck %s

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// The weight is repeated along the dim that is summed: a contraction needs that dim in both
// of its inputs, so the repeat stays.
// CHECK-LABEL: func.func @summed(
// CHECK: %[[W:.*]] = linalg.broadcast ins(%arg3 : tensor<2x16xf32>) outs(%{{.*}} : tensor<2x24x16xf32>)
// CHECK: linalg.batch_matmul {{.*}} ins(%[[W]], %arg2 : tensor<2x24x16xf32>, tensor<2x32x24xf32>) outs(%{{.*}} : tensor<2x16x32xf32>)
func.func @summed(%q: tensor<2x8x16xf32>, %k: tensor<2x32x16xf32>, %x: tensor<2x32x24xf32>, %small: tensor<2x16xf32>) -> tensor<2x8x16xf32> {
  %z = arith.constant 0.0 : f32
  %we = tensor.empty() : tensor<2x24x16xf32>
  %w = linalg.broadcast ins(%small : tensor<2x16xf32>) outs(%we : tensor<2x24x16xf32>) dimensions = [1]
  %pe = tensor.empty() : tensor<2x32x16xf32>
  %pf = linalg.fill ins(%z : f32) outs(%pe : tensor<2x32x16xf32>) -> tensor<2x32x16xf32>
  %p = linalg.batch_matmul ins(%x, %w : tensor<2x32x24xf32>, tensor<2x24x16xf32>) outs(%pf : tensor<2x32x16xf32>) -> tensor<2x32x16xf32>
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x8x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %p, %scale : tensor<2x8x16xf32>, tensor<2x32x16xf32>, tensor<2x32x16xf32>, f32) outs(%out : tensor<2x8x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x8x16xf32>
  return %r : tensor<2x8x16xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// Both inputs are repeated over the batch: one of them keeps it.
// CHECK-DAG: #[[W:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d3, d1)>
// CHECK-DAG: #[[X:.*]] = affine_map<(d0, d1, d2, d3) -> (d2, d3)>
// CHECK-DAG: #[[O:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>
// CHECK-LABEL: func.func @both(
// CHECK: linalg.contract indexing_maps = [#[[W]], #[[X]], #[[O]]] ins(%{{.*}}, %arg2 : tensor<2x24x16xf32>, tensor<32x24xf32>) outs(%{{.*}} : tensor<2x16x32xf32>)
func.func @both(%q: tensor<2x8x16xf32>, %k: tensor<2x32x16xf32>, %sx: tensor<32x24xf32>, %sw: tensor<24x16xf32>) -> tensor<2x8x16xf32> {
  %z = arith.constant 0.0 : f32
  %xe = tensor.empty() : tensor<2x32x24xf32>
  %x = linalg.broadcast ins(%sx : tensor<32x24xf32>) outs(%xe : tensor<2x32x24xf32>) dimensions = [0]
  %we = tensor.empty() : tensor<2x24x16xf32>
  %w = linalg.broadcast ins(%sw : tensor<24x16xf32>) outs(%we : tensor<2x24x16xf32>) dimensions = [0]
  %pe = tensor.empty() : tensor<2x32x16xf32>
  %pf = linalg.fill ins(%z : f32) outs(%pe : tensor<2x32x16xf32>) -> tensor<2x32x16xf32>
  %p = linalg.batch_matmul ins(%x, %w : tensor<2x32x24xf32>, tensor<2x24x16xf32>) outs(%pf : tensor<2x32x16xf32>) -> tensor<2x32x16xf32>
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x8x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %p, %scale : tensor<2x8x16xf32>, tensor<2x32x16xf32>, tensor<2x32x16xf32>, f32) outs(%out : tensor<2x8x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x8x16xf32>
  return %r : tensor<2x8x16xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// A batch of one is no loop of the contraction: IREE would not fuse what follows.
// CHECK-DAG: #[[W:.*]] = affine_map<(d0, d1, d2) -> (d2, d0)>
// CHECK-DAG: #[[X:.*]] = affine_map<(d0, d1, d2) -> (d1, d2)>
// CHECK-DAG: #[[O:.*]] = affine_map<(d0, d1, d2) -> (d0, d1)>
// CHECK-LABEL: func.func @one_batch(
// CHECK: %[[P:.*]] = linalg.contract indexing_maps = [#[[W]], #[[X]], #[[O]]] ins(%arg3, %{{.*}} : tensor<24x16xf32>, tensor<32x24xf32>) outs(%{{.*}} : tensor<16x32xf32>)
// CHECK: tensor.expand_shape %[[P]] {{.*}} : tensor<16x32xf32> into tensor<1x16x32xf32>
func.func @one_batch(%q: tensor<1x8x16xf32>, %k: tensor<1x32x16xf32>, %x: tensor<1x32x24xf32>, %sw: tensor<24x16xf32>) -> tensor<1x8x16xf32> {
  %z = arith.constant 0.0 : f32
  %we = tensor.empty() : tensor<1x24x16xf32>
  %w = linalg.broadcast ins(%sw : tensor<24x16xf32>) outs(%we : tensor<1x24x16xf32>) dimensions = [0]
  %pe = tensor.empty() : tensor<1x32x16xf32>
  %pf = linalg.fill ins(%z : f32) outs(%pe : tensor<1x32x16xf32>) -> tensor<1x32x16xf32>
  %p = linalg.batch_matmul ins(%x, %w : tensor<1x32x24xf32>, tensor<1x24x16xf32>) outs(%pf : tensor<1x32x16xf32>) -> tensor<1x32x16xf32>
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<1x8x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %p, %scale : tensor<1x8x16xf32>, tensor<1x32x16xf32>, tensor<1x32x16xf32>, f32) outs(%out : tensor<1x8x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<1x8x16xf32>
  return %r : tensor<1x8x16xf32>
}
