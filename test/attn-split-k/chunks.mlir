// RUN: attn-opt %s --attn-split-k=splits=4 --split-input-file --remarks > %t.mlir 2> %t.txt
// RUN: FileCheck %s < %t.mlir
// RUN: FileCheck %s --check-prefix=REMARK < %t.txt

// The length is a multiple of the splits: K and V are viewed as chunks, and the chunk is a
// batch dim of partial attention. The one row is dropped. Then max, weighted sums, division.

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK-DAG: #[[Q:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d3)>
// CHECK-DAG: #[[K:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d4, d3)>
// CHECK-DAG: #[[V:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d4, d2)>
// CHECK-DAG: #[[O:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2)>
// CHECK-DAG: #[[R:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1)>
// CHECK-LABEL: func.func @exact
// CHECK-DAG: %[[LOWEST:.*]] = arith.constant -3.40282347E+38 : f32
// CHECK-DAG: %[[Q1:.*]] = tensor.collapse_shape %arg0 {{\[\[}}0, 1], [2]]
// CHECK-DAG: %[[K4:.*]] = tensor.expand_shape %arg1 {{\[\[}}0], [1, 2], [3]] output_shape [2, 4, 1024, 64]
// CHECK-DAG: %[[V4:.*]] = tensor.expand_shape %arg2 {{\[\[}}0], [1, 2], [3]] output_shape [2, 4, 1024, 64]
// CHECK: %[[P:.*]]:3 = iree_linalg_ext.online_attention <indexing_maps = [#[[Q]], #[[K]], #[[V]], #{{.*}}, #[[O]], #[[R]], #[[R]]]> {split_k} ins(%[[Q1]], %[[K4]], %[[V4]], %{{.*}} : {{.*}}) outs({{.*}} : tensor<2x4x64xf32>, tensor<2x4xf32>, tensor<2x4xf32>)
// CHECK: %[[M:.*]] = linalg.generic {{.*}}ins(%[[P]]#1 :
// CHECK: arith.maximumf
// CHECK: %[[SUMS:.*]]:2 = linalg.generic {{.*}}ins(%[[P]]#0, %[[P]]#1, %[[P]]#2, %[[M]] :
// CHECK: math.exp2
// CHECK: linalg.generic {{.*}}ins(%[[SUMS]]#0, %[[SUMS]]#1 :
// CHECK: arith.divf
// CHECK: arith.truncf
// CHECK: tensor.expand_shape {{.*}} into tensor<2x1x64xf16>
// CHECK-NOT: iree_linalg_ext.attention

// REMARK: key split: 4 chunks of 1024 keys (splits=4)
func.func @exact(%q: tensor<2x1x64xf16>, %k: tensor<2x4096x64xf16>, %v: tensor<2x4096x64xf16>) -> tensor<2x1x64xf16> {
  %scale = arith.constant 0.125 : f16
  %e = tensor.empty() : tensor<2x1x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<2x1x64xf16>, tensor<2x4096x64xf16>, tensor<2x4096x64xf16>, f16) outs(%e : tensor<2x1x64xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x1x64xf16>
  return %r : tensor<2x1x64xf16>
}

// -----

// One key is left over: chunks and tail are dispatches of their own, so that IREE copies no
// slice of K, V or the mask. The mask is cut as the keys are.

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#mask = affine_map<(b, m, n, k1, k2) -> (m, k2)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK-LABEL: func.func @tail
// CHECK: %[[P:.*]]:3 = flow.dispatch.region -> (tensor<2x4x3x64xf32>, tensor<2x4x3xf32>, tensor<2x4x3xf32>)
// CHECK: %[[K:.*]] = tensor.extract_slice %arg1[0, 0, 0] [2, 4096, 64] [1, 1, 1]
// CHECK: tensor.expand_shape %[[K]] {{.*}} into tensor<2x4x1024x64xf32>
// CHECK: %[[MASK:.*]] = tensor.extract_slice %arg3[0, 0] [3, 4096] [1, 1]
// CHECK: tensor.expand_shape %[[MASK]] {{.*}} into tensor<3x4x1024xi1>
// CHECK: iree_linalg_ext.online_attention
// CHECK: flow.return
// CHECK: %[[T:.*]]:3 = flow.dispatch.region -> (tensor<2x3x64xf32>, tensor<2x3xf32>, tensor<2x3xf32>)
// CHECK: tensor.extract_slice %arg1[0, 4096, 0] [2, 1, 64] [1, 1, 1]
// CHECK: tensor.extract_slice %arg3[0, 4096] [3, 1] [1, 1]
// CHECK: iree_linalg_ext.online_attention
// CHECK: flow.return
// CHECK: %[[M:.*]] = linalg.generic {{.*}}ins(%[[P]]#1 : tensor<2x4x3xf32>)
// CHECK: arith.maximumf
// CHECK: linalg.generic {{.*}}ins(%[[M]], %[[T]]#1 : tensor<2x3xf32>, tensor<2x3xf32>)
// CHECK: arith.maximumf

// REMARK: key split: 4 chunks of 1024 keys, and a tail of 1 (splits=4)
func.func @tail(%q: tensor<2x3x64xf32>, %k: tensor<2x4097x64xf32>, %v: tensor<2x4097x64xf32>, %mask: tensor<3x4097xi1>) -> tensor<2x3x64xf32> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<2x3x64xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #mask, #o]> ins(%q, %k, %v, %scale, %mask : tensor<2x3x64xf32>, tensor<2x4097x64xf32>, tensor<2x4097x64xf32>, f32, tensor<3x4097xi1>) outs(%e : tensor<2x3x64xf32>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x3x64xf32>
  return %r : tensor<2x3x64xf32>
}

// -----

// online_attention: what it was given is combined like one more chunk, and max and sum are
// results. The score region is kept; its row index has a new number.

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
#r = affine_map<(b, m, n, k1, k2) -> (b, m)>

// CHECK-LABEL: func.func @online
// CHECK: %[[P:.*]]:3 = iree_linalg_ext.online_attention
// CHECK: iree_linalg_ext.index 2 : index
// CHECK: %[[C:.*]] = linalg.generic {{.*}}ins(%[[P]]#1 : tensor<2x4x3xf32>)
// CHECK: %[[M:.*]] = linalg.generic {{.*}}ins(%[[C]], %arg4 : tensor<2x3xf32>, tensor<2x3xf32>)
// CHECK: %[[A:.*]] = linalg.generic {{.*}}ins(%{{.*}}, %arg3, %arg4, %[[M]] :
// CHECK: %[[S:.*]] = linalg.generic {{.*}}ins(%{{.*}}, %arg5, %arg4, %[[M]] :
// CHECK: return %[[A]], %[[M]], %[[S]]
func.func @online(%q: tensor<2x3x64xf32>, %k: tensor<2x256x64xf32>, %v: tensor<2x256x64xf32>, %a: tensor<2x3x64xf32>, %x: tensor<2x3xf32>, %y: tensor<2x3xf32>) -> (tensor<2x3x64xf32>, tensor<2x3xf32>, tensor<2x3xf32>) {
  %scale = arith.constant 0.125 : f32
  %r:3 = iree_linalg_ext.online_attention <indexing_maps = [#q, #k, #v, #s, #o, #r, #r]> ins(%q, %k, %v, %scale : tensor<2x3x64xf32>, tensor<2x256x64xf32>, tensor<2x256x64xf32>, f32) outs(%a, %x, %y : tensor<2x3x64xf32>, tensor<2x3xf32>, tensor<2x3xf32>) {
  ^bb0(%score: f32):
    %i = iree_linalg_ext.index 1 : index
    %j = arith.index_cast %i : index to i32
    %f = arith.sitofp %j : i32 to f32
    %t = arith.mulf %score, %f : f32
    iree_linalg_ext.yield %t : f32
  } -> tensor<2x3x64xf32>, tensor<2x3xf32>, tensor<2x3xf32>
  return %r#0, %r#1, %r#2 : tensor<2x3x64xf32>, tensor<2x3xf32>, tensor<2x3xf32>
}

// -----

// The group dim of Q, which K and V lack, and the rows are one dim afterwards.

// CHECK-LABEL: func.func @group
// CHECK: tensor.collapse_shape %arg0 {{\[\[}}0], [1, 2], [3]] : tensor<2x4x2x64xf32> into tensor<2x8x64xf32>
// CHECK: iree_linalg_ext.online_attention {{.*}} outs({{.*}} : tensor<2x4x8x64xf32>, tensor<2x4x8xf32>, tensor<2x4x8xf32>)
// CHECK: tensor.expand_shape {{.*}} : tensor<2x8x64xf32> into tensor<2x4x2x64xf32>
func.func @group(%q: tensor<2x4x2x64xf32>, %k: tensor<2x256x64xf32>, %v: tensor<2x256x64xf32>) -> tensor<2x4x2x64xf32> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<2x4x2x64xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [affine_map<(b, g, m, n, d, k) -> (b, g, m, d)>, affine_map<(b, g, m, n, d, k) -> (b, k, d)>, affine_map<(b, g, m, n, d, k) -> (b, k, n)>, affine_map<(b, g, m, n, d, k) -> ()>, affine_map<(b, g, m, n, d, k) -> (b, g, m, n)>]> ins(%q, %k, %v, %scale : tensor<2x4x2x64xf32>, tensor<2x256x64xf32>, tensor<2x256x64xf32>, f32) outs(%e : tensor<2x4x2x64xf32>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x4x2x64xf32>
  return %r : tensor<2x4x2x64xf32>
}
