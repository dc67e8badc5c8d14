// Q, K and V that are equal views of one value read it behind barriers of their own.

// RUN: attn-opt %s --attn-join-dims --report=%t.json | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.json
// WHY: its key and value is the same view as another operand, and told apart from it
// WHY: its value is the same view as another operand, and told apart from it
// WHY: its key is the same view as another operand, and told apart from it
// WHY: its value is the same view as another operand, and told apart from it
// WHY-NOT: told apart

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK-LABEL: func.func @equal(
// CHECK-SAME: %[[X:.*]]: tensor<4x32xf32>
// CHECK: %[[Q:.*]] = tensor.expand_shape %[[X]]
// CHECK: %[[KX:.*]] = iree_tensor_ext.compute_barrier.start %[[X]]
// CHECK: %[[K:.*]] = tensor.expand_shape %[[KX]]
// CHECK: %[[VX:.*]] = util.optimization_barrier %[[X]]
// CHECK: %[[V:.*]] = tensor.expand_shape %[[VX]]
// CHECK: iree_linalg_ext.attention {{.*}} ins(%[[Q]], %[[K]], %[[V]], %{{.*}}
func.func @equal(%x: tensor<4x32xf32>) -> tensor<4x4x8xf32> {
  %scale = arith.constant 0.25 : f32
  %one = tensor.expand_shape %x [[0], [1, 2]] output_shape [4, 4, 8] : tensor<4x32xf32> into tensor<4x4x8xf32>
  %other = tensor.expand_shape %x [[0], [1, 2]] output_shape [4, 4, 8] : tensor<4x32xf32> into tensor<4x4x8xf32>
  %out = tensor.empty() : tensor<4x4x8xf32>
  %a = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%one, %other, %one, %scale : tensor<4x4x8xf32>, tensor<4x4x8xf32>, tensor<4x4x8xf32>, f32) outs(%out : tensor<4x4x8xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<4x4x8xf32>
  return %a : tensor<4x4x8xf32>
}

// A transpose may be a generic.
// CHECK-LABEL: func.func @transposed(
// CHECK-SAME: %[[X:.*]]: tensor<4x2x8xf32>
// CHECK: linalg.transpose ins(%[[X]] :
// CHECK: %[[VX:.*]] = iree_tensor_ext.compute_barrier.start %[[X]]
// CHECK: %[[V:.*]] = linalg.generic {{.*}} ins(%[[VX]] :
// CHECK: iree_linalg_ext.attention {{.*}} ins(%{{.*}}, %{{.*}}, %[[V]], %{{.*}}
func.func @transposed(%x: tensor<4x2x8xf32>, %k: tensor<2x4x8xf32>) -> tensor<2x4x8xf32> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x4x8xf32>
  %one = linalg.transpose ins(%x : tensor<4x2x8xf32>) outs(%out : tensor<2x4x8xf32>) permutation = [1, 0, 2]
  %other = linalg.generic {indexing_maps = [affine_map<(a, b, c) -> (b, a, c)>, affine_map<(a, b, c) -> (a, b, c)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<4x2x8xf32>) outs(%out : tensor<2x4x8xf32>) {
  ^bb0(%in: f32, %old: f32):
    linalg.yield %in : f32
  } -> tensor<2x4x8xf32>
  %a = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%one, %k, %other, %scale : tensor<2x4x8xf32>, tensor<2x4x8xf32>, tensor<2x4x8xf32>, f32) outs(%out : tensor<2x4x8xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x4x8xf32>
  return %a : tensor<2x4x8xf32>
}

// Transposes that come last become part of attention's maps.
// CHECK-LABEL: func.func @below_transposes(
// CHECK-SAME: %[[X:.*]]: tensor<4x32xf32>
// CHECK: tensor.expand_shape %[[X]]
// CHECK: %[[KX:.*]] = iree_tensor_ext.compute_barrier.start %[[X]]
// CHECK: %[[KE:.*]] = tensor.expand_shape %[[KX]]
// CHECK: %[[K:.*]] = linalg.transpose ins(%[[KE]] :
// CHECK: iree_linalg_ext.attention {{.*}} ins(%{{.*}}, %[[K]], %{{.*}}
func.func @below_transposes(%x: tensor<4x32xf32>, %y: tensor<4x4x8xf32>) -> tensor<4x4x8xf32> {
  %scale = arith.constant 0.25 : f32
  %one = tensor.expand_shape %x [[0], [1, 2]] output_shape [4, 4, 8] : tensor<4x32xf32> into tensor<4x4x8xf32>
  %e = tensor.empty() : tensor<4x4x8xf32>
  %other = linalg.transpose ins(%one : tensor<4x4x8xf32>) outs(%e : tensor<4x4x8xf32>) permutation = [1, 0, 2]
  %a = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%one, %other, %y, %scale : tensor<4x4x8xf32>, tensor<4x4x8xf32>, tensor<4x4x8xf32>, f32) outs(%e : tensor<4x4x8xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<4x4x8xf32>
  return %a : tensor<4x4x8xf32>
}

// A view of Q's, or of the result, may cut the dims of K where it is V as well.
// CHECK-LABEL: func.func @whole(
// CHECK-SAME: %{{.*}}: tensor<4x2x2x4xf32>, %[[X:.*]]: tensor<4x4x8xf32>
// CHECK: %[[V:.*]] = util.optimization_barrier %[[X]]
// CHECK: iree_linalg_ext.attention {{.*}} ins(%{{.*}}, %[[X]], %[[V]], %{{.*}}
func.func @whole(%q: tensor<4x2x2x4xf32>, %x: tensor<4x4x8xf32>) -> tensor<4x2x8xf32> {
  %scale = arith.constant 0.25 : f32
  %query = tensor.collapse_shape %q [[0], [1], [2, 3]] : tensor<4x2x2x4xf32> into tensor<4x2x8xf32>
  %out = tensor.empty() : tensor<4x2x8xf32>
  %a = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%query, %x, %x, %scale : tensor<4x2x8xf32>, tensor<4x4x8xf32>, tensor<4x4x8xf32>, f32) outs(%out : tensor<4x2x8xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<4x2x8xf32>
  return %a : tensor<4x2x8xf32>
}

// Other views of one value are values of their own.
// CHECK-LABEL: func.func @others(
// CHECK-NOT: barrier
func.func @others(%x: tensor<128xf32>, %y: tensor<4x4x8xf32>) -> tensor<4x4x8xf32> {
  %scale = arith.constant 0.25 : f32
  %one = tensor.expand_shape %x [[0, 1, 2]] output_shape [4, 4, 8] : tensor<128xf32> into tensor<4x4x8xf32>
  %two = tensor.expand_shape %x [[0, 1]] output_shape [4, 32] : tensor<128xf32> into tensor<4x32xf32>
  %other = tensor.expand_shape %two [[0], [1, 2]] output_shape [4, 4, 8] : tensor<4x32xf32> into tensor<4x4x8xf32>
  %e = tensor.empty() : tensor<4x4x8xf32>
  %a = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%one, %other, %y, %scale : tensor<4x4x8xf32>, tensor<4x4x8xf32>, tensor<4x4x8xf32>, f32) outs(%e : tensor<4x4x8xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<4x4x8xf32>
  return %a : tensor<4x4x8xf32>
}
