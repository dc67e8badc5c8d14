// Masks of integers and of packed bits become masks of truth values; floats and i1 stay. Attention
// begins with an empty tensor; an online one with what it is given.

// RUN: attn-opt %s --attn-normal-form --split-input-file --report=%t.json | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.json
// WHY: its mask is of truth values now; it was of i8, of which IREE reads the lowest bit
// WHY: its mask is of truth values now; it was of bits that lie packed in bytes
// WHY-NOT: truth values
// WHY: its result begins with nothing now
// WHY-NOT: begins with

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#x = affine_map<(b, m, n, k1, k2) -> (k2, m)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK-LABEL: func.func @integers(
// CHECK-SAME: %[[M:[a-z0-9]*]]: tensor<?x8xi8>
// CHECK: %[[T:.*]] = linalg.generic {{.*}} ins(%[[M]] : tensor<?x8xi8>) outs(%{{.*}} : tensor<?x8xi1>)
// CHECK: arith.trunci %{{.*}} : i8 to i1
// CHECK: iree_linalg_ext.attention {{.*}}, %[[T]] : {{.*}}, tensor<?x8xi1>)
func.func @integers(%q: tensor<2x8x16xf32>, %k: tensor<2x?x16xf32>, %v: tensor<2x?x16xf32>, %mask: tensor<?x8xi8>) -> tensor<2x8x16xf32> {
  %scale = arith.constant 0.25 : f32
  %e = tensor.empty() : tensor<2x8x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #x, #o]>
      ins(%q, %k, %v, %scale, %mask : tensor<2x8x16xf32>, tensor<2x?x16xf32>, tensor<2x?x16xf32>, f32, tensor<?x8xi8>) outs(%e : tensor<2x8x16xf32>) {
    ^bb0(%y: f32):
      iree_linalg_ext.yield %y : f32
  } -> tensor<2x8x16xf32>
  return %r : tensor<2x8x16xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#x = affine_map<(b, m, n, k1, k2) -> (m, k2)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK-LABEL: func.func @packed(
// CHECK-SAME: %[[M:[a-z0-9]*]]: tensor<8x36xi1, #iree_encoding.packed_storage>
// CHECK: %[[B:.*]] = flow.tensor.bitcast %[[M]] : tensor<8x36xi1, #iree_encoding.packed_storage> -> tensor<36xi8>
// CHECK: %[[T:.*]] = linalg.generic
// CHECK: tensor.extract %[[B]]
// CHECK: iree_linalg_ext.attention {{.*}}, %[[T]] : {{.*}}, tensor<8x36xi1>)
func.func @packed(%q: tensor<2x8x16xf32>, %k: tensor<2x36x16xf32>, %v: tensor<2x36x16xf32>, %mask: tensor<8x36xi1, #iree_encoding.packed_storage>) -> tensor<2x8x16xf32> {
  %scale = arith.constant 0.25 : f32
  %e = tensor.empty() : tensor<2x8x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #x, #o]>
      ins(%q, %k, %v, %scale, %mask : tensor<2x8x16xf32>, tensor<2x36x16xf32>, tensor<2x36x16xf32>, f32, tensor<8x36xi1, #iree_encoding.packed_storage>) outs(%e : tensor<2x8x16xf32>) {
    ^bb0(%y: f32):
      iree_linalg_ext.yield %y : f32
  } -> tensor<2x8x16xf32>
  return %r : tensor<2x8x16xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#x = affine_map<(b, m, n, k1, k2) -> (m, k2)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK-LABEL: func.func @kept(
// CHECK-SAME: %[[M:[a-z0-9]*]]: tensor<8x36xi1>
// CHECK-NOT: linalg.generic
// CHECK: iree_linalg_ext.attention {{.*}}, %[[M]] : {{.*}}, tensor<8x36xi1>)
func.func @kept(%q: tensor<2x8x16xf32>, %k: tensor<2x36x16xf32>, %v: tensor<2x36x16xf32>, %mask: tensor<8x36xi1>) -> tensor<2x8x16xf32> {
  %scale = arith.constant 0.25 : f32
  %e = tensor.empty() : tensor<2x8x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #x, #o]>
      ins(%q, %k, %v, %scale, %mask : tensor<2x8x16xf32>, tensor<2x36x16xf32>, tensor<2x36x16xf32>, f32, tensor<8x36xi1>) outs(%e : tensor<2x8x16xf32>) {
    ^bb0(%y: f32):
      iree_linalg_ext.yield %y : f32
  } -> tensor<2x8x16xf32>
  return %r : tensor<2x8x16xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
#r = affine_map<(b, m, n, k1, k2) -> (b, m)>

// CHECK-LABEL: func.func @filled(
// CHECK: linalg.fill
// CHECK: %[[EMPTY:.*]] = tensor.empty(%arg3) : tensor<2x?x16xf32>
// CHECK: iree_linalg_ext.attention {{.*}} outs(%[[EMPTY]]
// CHECK: iree_linalg_ext.online_attention {{.*}} outs(%arg4, %arg5, %arg5
func.func @filled(%q: tensor<2x?x16xf32>, %k: tensor<2x36x16xf32>, %v: tensor<2x36x16xf32>, %rows: index, %acc: tensor<2x?x16xf32>, %max: tensor<2x?xf32>) -> (tensor<2x?x16xf32>, tensor<2x?x16xf32>) {
  %scale = arith.constant 0.25 : f32
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%rows) : tensor<2x?x16xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2x?x16xf32>) -> tensor<2x?x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x?x16xf32>, tensor<2x36x16xf32>, tensor<2x36x16xf32>, f32) outs(%f : tensor<2x?x16xf32>) {
    ^bb0(%y: f32):
      iree_linalg_ext.yield %y : f32
  } -> tensor<2x?x16xf32>
  %t:3 = iree_linalg_ext.online_attention <indexing_maps = [#q, #k, #v, #s, #o, #r, #r]>
      ins(%q, %k, %v, %scale : tensor<2x?x16xf32>, tensor<2x36x16xf32>, tensor<2x36x16xf32>, f32) outs(%acc, %max, %max : tensor<2x?x16xf32>, tensor<2x?xf32>, tensor<2x?xf32>) {
    ^bb0(%y: f32):
      iree_linalg_ext.yield %y : f32
  } -> tensor<2x?x16xf32>, tensor<2x?xf32>, tensor<2x?xf32>
  return %r, %t#0 : tensor<2x?x16xf32>, tensor<2x?x16xf32>
}
