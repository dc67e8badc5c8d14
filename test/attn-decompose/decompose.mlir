// RUN: attn-opt %s --attn-decompose --split-input-file | FileCheck %s

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#vt = affine_map<(b, m, n, k1, k2) -> (b, n, k2)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#w = affine_map<(b, m, n, k1, k2) -> (m, k2)>
#o = affine_map<(b, m, n, k1, k2) -> (m, b, n)>

// Two products in f32, between them the scale, the mask, a softmax with 0 for rows that see no
// key; the result is cast. Scores have the dims of the result in its order.
// CHECK-LABEL: func.func @plain(
// CHECK-NOT: attention
// CHECK: arith.trunci {{.*}} : i8 to i1
// CHECK: %[[DOTS:.*]] = linalg.generic {{.*}}"reduction"]} ins(%arg0, %arg1 : tensor<2x64x272xf16>, tensor<2x96x272xf16>) outs({{.*}} : tensor<64x2x96xf32>)
// CHECK: %[[SCALED:.*]] = linalg.generic {{.*}} ins(%[[DOTS]] : {{.*}})
// CHECK: %[[SCORES:.*]] = linalg.generic {{.*}} ins({{.*}} : tensor<64x96xi1>) outs(%[[SCALED]] : tensor<64x2x96xf32>)
// CHECK: linalg.fill ins({{.*}} : f32) outs({{.*}} : tensor<64x2xf32>)
// CHECK: arith.maximumf
// CHECK: math.exp
// CHECK: arith.divf
// CHECK: arith.select
// CHECK: linalg.generic {{.*}}"reduction"]} ins({{.*}}, %arg2 : tensor<64x2x96xf32>, tensor<2x272x96xf16>) outs({{.*}} : tensor<64x2x272xf32>)
// CHECK: arith.truncf {{.*}} : f32 to f16
func.func @plain(%q: tensor<2x64x272xf16>, %k: tensor<2x96x272xf16>, %v: tensor<2x272x96xf16>, %mask: tensor<64x96xi8>) -> tensor<64x2x272xf16> {
  %scale = arith.constant 0.25 : f16
  %out = tensor.empty() : tensor<64x2x272xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #vt, #s, #w, #o]>
      ins(%q, %k, %v, %scale, %mask : tensor<2x64x272xf16>, tensor<2x96x272xf16>, tensor<2x272x96xf16>, f16, tensor<64x96xi8>) outs(%out : tensor<64x2x272xf16>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<64x2x272xf16>
  return %r : tensor<64x2x272xf16>
}

// -----

#q = affine_map<(b, m, k2, d) -> (b, m, d)>
#k = affine_map<(b, m, k2, d) -> (b, k2, d)>
#s = affine_map<(b, m, k2, d) -> ()>
#r = affine_map<(b, m, k2, d) -> (b, m)>

// No dim is that of a head: scores have all dims, maxima go over two of them. What is given
// comes in behind the reductions; its maxima are those of scores times log2(e).
// CHECK-LABEL: func.func @online(
// CHECK-NOT: online_attention
// CHECK: linalg.generic {{.*}} ins(%arg0, %arg1 : {{.*}}) outs({{.*}} : tensor<2x16x8x24xf32>)
// CHECK: arith.constant 1.442
// CHECK: %[[HIGHEST:.*]] = linalg.generic {{.*}}"reduction", "reduction"]} ins({{.*}}) outs({{.*}} : tensor<2x16xf32>)
// CHECK: %[[LARGER:.*]] = linalg.generic {{.*}} ins(%[[HIGHEST]], %arg4 : {{.*}}) outs({{.*}} : tensor<2x16xf32>)
// CHECK: %[[MAX:.*]] = iree_tensor_ext.compute_barrier.start %[[LARGER]]
// CHECK: math.exp2
// CHECK: math.exp2
// CHECK: return {{.*}}, %[[MAX]], {{.*}}
func.func @online(%q: tensor<2x16x8xf32>, %k: tensor<2x24x8xf32>, %v: tensor<2x24x8xf32>, %o: tensor<2x16x8xf32>, %max: tensor<2x16xf32>, %sum: tensor<2x16xf32>) -> (tensor<2x16x8xf32>, tensor<2x16xf32>, tensor<2x16xf32>) {
  %scale = arith.constant 0.25 : f32
  %r:3 = iree_linalg_ext.online_attention <indexing_maps = [#q, #k, #k, #s, #q, #r, #r]>
      ins(%q, %k, %v, %scale : tensor<2x16x8xf32>, tensor<2x24x8xf32>, tensor<2x24x8xf32>, f32)
      outs(%o, %max, %sum : tensor<2x16x8xf32>, tensor<2x16xf32>, tensor<2x16xf32>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x16x8xf32>, tensor<2x16xf32>, tensor<2x16xf32>
  return %r#0, %r#1, %r#2 : tensor<2x16x8xf32>, tensor<2x16xf32>, tensor<2x16xf32>
}

// -----

#q = affine_map<(m, n, k1, k2) -> (m, k1)>
#k = affine_map<(m, n, k1, k2) -> (k2, k1)>
#v = affine_map<(m, n, k1, k2) -> (k2, n)>
#s = affine_map<(m, n, k1, k2) -> ()>
#o = affine_map<(m, n, k1, k2) -> (m, n)>

// A region that branches, on a position: it goes into the body of a generic with its branches. A
// packed mask is read as bytes.
// CHECK-LABEL: func.func @region(
// CHECK: flow.tensor.bitcast {{.*}} -> tensor<8xi8>
// CHECK: tensor.extract
// CHECK: arith.shrui
// CHECK: %[[KEY:.*]] = linalg.index 1 : index
// CHECK: %[[FIRST:.*]] = arith.cmpi eq, %[[KEY]]
// CHECK: scf.if %[[FIRST]]
// CHECK: arith.addf %[[SCORE:.*]], %[[SCORE]]
// CHECK-NOT: iree_linalg_ext
func.func @region(%q: tensor<4x8xf32>, %k: tensor<15x8xf32>, %v: tensor<15x6xf32>, %mask: tensor<4x15xi1, #iree_encoding.packed_storage>) -> tensor<4x6xf32> {
  %scale = arith.constant 0.25 : f32
  %c0 = arith.constant 0 : index
  %out = tensor.empty() : tensor<4x6xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, affine_map<(m, n, k1, k2) -> (m, k2)>, #o]>
      ins(%q, %k, %v, %scale, %mask : tensor<4x8xf32>, tensor<15x8xf32>, tensor<15x6xf32>, f32, tensor<4x15xi1, #iree_encoding.packed_storage>) outs(%out : tensor<4x6xf32>) {
    ^bb0(%score: f32):
      %at = iree_linalg_ext.index 3 : index
      %first = arith.cmpi eq, %at, %c0 : index
      %x = scf.if %first -> f32 {
        %twice = arith.addf %score, %score : f32
        scf.yield %twice : f32
      } else {
        scf.yield %score : f32
      }
      iree_linalg_ext.yield %x : f32
  } -> tensor<4x6xf32>
  return %r : tensor<4x6xf32>
}
