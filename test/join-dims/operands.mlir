// K and V whose keys or head dim join dims that a transpose has brought together go behind a
// barrier; what lies side by side stays a view.

// RUN: attn-opt %s --attn-join-dims --split-input-file --report=%t.json | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.json
// WHY: its key is a view that joins dims lying apart in memory
// WHY: its value is a view that joins dims lying apart in memory
// WHY: its value is a view that joins dims lying apart in memory
// WHY: its key is a view that joins dims lying apart in memory
// WHY-NOT: joins dims

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// Pages of keys, with the heads between them and the positions in a page.
// CHECK-LABEL: func.func @pages(
// CHECK: %[[KT:.*]] = linalg.transpose
// CHECK: %[[KV:.*]] = tensor.collapse_shape %[[KT]]
// CHECK: %[[VT:.*]] = linalg.transpose
// CHECK: %[[VV:.*]] = tensor.collapse_shape %[[VT]]
// CHECK-DAG: %[[K:.*]] = iree_tensor_ext.compute_barrier.start %[[KV]] : tensor<2x24x16xf32>
// CHECK-DAG: %[[V:.*]] = iree_tensor_ext.compute_barrier.start %[[VV]] : tensor<2x24x16xf32>
// CHECK: iree_linalg_ext.attention {{.*}} ins(%{{.*}}, %[[K]], %[[V]], %{{.*}}
func.func @pages(%q: tensor<2x4x16xf32>, %k: tensor<6x2x4x16xf32>, %v: tensor<6x2x4x16xf32>) -> tensor<2x4x16xf32> {
  %scale = arith.constant 0.25 : f32
  %e = tensor.empty() : tensor<2x6x4x16xf32>
  %kt = linalg.transpose ins(%k : tensor<6x2x4x16xf32>) outs(%e : tensor<2x6x4x16xf32>) permutation = [1, 0, 2, 3]
  %key = tensor.collapse_shape %kt [[0], [1, 2], [3]] : tensor<2x6x4x16xf32> into tensor<2x24x16xf32>
  %vt = linalg.transpose ins(%v : tensor<6x2x4x16xf32>) outs(%e : tensor<2x6x4x16xf32>) permutation = [1, 0, 2, 3]
  %value = tensor.collapse_shape %vt [[0], [1, 2], [3]] : tensor<2x6x4x16xf32> into tensor<2x24x16xf32>
  %out = tensor.empty() : tensor<2x4x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %key, %value, %scale : tensor<2x4x16xf32>, tensor<2x24x16xf32>, tensor<2x24x16xf32>, f32) outs(%out : tensor<2x4x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x4x16xf32>
  return %r : tensor<2x4x16xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// Positions of pages side by side, in front of a transpose that moves the heads alone; heads and
// batch, which no kernel tiles, are joined in V from apart, and V's head dim is.
// CHECK-LABEL: func.func @side_by_side(
// CHECK-COUNT-1: compute_barrier.start {{.*}} : tensor<6x24x16xf32>
// CHECK-NOT: compute_barrier
func.func @side_by_side(%q: tensor<6x4x16xf32>, %k: tensor<6x4x6x16xf32>, %v: tensor<3x24x2x4x4xf32>) -> tensor<6x4x16xf32> {
  %scale = arith.constant 0.25 : f32
  %joined = tensor.collapse_shape %k [[0, 1], [2], [3]] : tensor<6x4x6x16xf32> into tensor<24x6x16xf32>
  %e = tensor.empty() : tensor<6x24x16xf32>
  %key = linalg.transpose ins(%joined : tensor<24x6x16xf32>) outs(%e : tensor<6x24x16xf32>) permutation = [1, 0, 2]
  %e2 = tensor.empty() : tensor<2x3x24x4x4xf32>
  %vt = linalg.transpose ins(%v : tensor<3x24x2x4x4xf32>) outs(%e2 : tensor<2x3x24x4x4xf32>) permutation = [2, 0, 1, 4, 3]
  %value = tensor.collapse_shape %vt [[0, 1], [2], [3, 4]] : tensor<2x3x24x4x4xf32> into tensor<6x24x16xf32>
  %out = tensor.empty() : tensor<6x4x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %key, %value, %scale : tensor<6x4x16xf32>, tensor<6x24x16xf32>, tensor<6x24x16xf32>, f32) outs(%out : tensor<6x4x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<6x4x16xf32>
  return %r : tensor<6x4x16xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
#all = affine_map<(i, j, k) -> (i, j, k)>
#head = affine_map<(i, j, k) -> (i)>
#two = affine_map<(i, j, k) -> (i, k)>

// Keys in few bits are brought into order in those bits; V, a sum of two tensors over all keys and
// one of the heads, is computed of pages that lie side by side.
// CHECK-LABEL: func.func @dequantised(
// CHECK: %[[VIEW:.*]] = tensor.collapse_shape
// CHECK: %[[PAGES:.*]] = iree_tensor_ext.compute_barrier.start %[[VIEW]] : tensor<2x24x16xf8E4M3FN>
// CHECK: linalg.generic {{.*}} ins(%[[PAGES]], %{{.*}} : tensor<2x24x16xf8E4M3FN>, tensor<2xf32>)
// CHECK-NOT: compute_barrier
func.func @dequantised(%q: tensor<2x4x16xf32>, %k: tensor<6x2x4x16xf8E4M3FN>, %s: tensor<2xf32>, %v: tensor<2x6x4x16xf32>, %w: tensor<2x16xf32>) -> tensor<2x4x16xf32> {
  %scale = arith.constant 0.25 : f32
  %e = tensor.empty() : tensor<2x6x4x16xf8E4M3FN>
  %kt = linalg.transpose ins(%k : tensor<6x2x4x16xf8E4M3FN>) outs(%e : tensor<2x6x4x16xf8E4M3FN>) permutation = [1, 0, 2, 3]
  %pages = tensor.collapse_shape %kt [[0], [1, 2], [3]] : tensor<2x6x4x16xf8E4M3FN> into tensor<2x24x16xf8E4M3FN>
  %e2 = tensor.empty() : tensor<2x24x16xf32>
  %key = linalg.generic {indexing_maps = [#all, #head, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%pages, %s : tensor<2x24x16xf8E4M3FN>, tensor<2xf32>) outs(%e2 : tensor<2x24x16xf32>) {
    ^bb0(%a: f8E4M3FN, %b: f32, %z: f32):
      %c = arith.extf %a : f8E4M3FN to f32
      %d = arith.mulf %c, %b : f32
      linalg.yield %d : f32
  } -> tensor<2x24x16xf32>
  %keys = tensor.collapse_shape %v [[0], [1, 2], [3]] : tensor<2x6x4x16xf32> into tensor<2x24x16xf32>
  %value = linalg.generic {indexing_maps = [#all, #two, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%keys, %w : tensor<2x24x16xf32>, tensor<2x16xf32>) outs(%e2 : tensor<2x24x16xf32>) {
    ^bb0(%a: f32, %b: f32, %z: f32):
      %c = arith.addf %a, %b : f32
      linalg.yield %c : f32
  } -> tensor<2x24x16xf32>
  %out = tensor.empty() : tensor<2x4x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %key, %value, %scale : tensor<2x4x16xf32>, tensor<2x24x16xf32>, tensor<2x24x16xf32>, f32) outs(%out : tensor<2x4x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x4x16xf32>
  return %r : tensor<2x4x16xf32>
}
