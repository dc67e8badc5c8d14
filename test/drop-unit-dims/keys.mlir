// Dims of size one go where attention has another key dim or head dim beside them; others stay.

// RUN: attn-opt %s --attn-drop-unit-dims --split-input-file --report=%t.json | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.json
// WHY-COUNT-2: dims of size one beside its keys or its head dims are gone
// WHY-NOT: are gone

#q = affine_map<(m, n, k1, b, k2) -> (m, k1)>
#k = affine_map<(m, n, k1, b, k2) -> (b, k2, k1)>
#v = affine_map<(m, n, k1, b, k2) -> (b, k2, n)>
#s = affine_map<(m, n, k1, b, k2) -> ()>
#b = affine_map<(m, n, k1, b, k2) -> (m, b, k2)>
#o = affine_map<(m, n, k1, b, k2) -> (m, n)>

// The region reads its keys: that dim has another number now.
// CHECK-LABEL: func.func @key_dims(
// CHECK-SAME: %[[Q:.*]]: tensor<8x16xf32>, %[[K:.*]]: tensor<1x24x16xf32>, %[[V:.*]]: tensor<1x24x12xf32>, %[[M:.*]]: tensor<8x1x24xi1>)
// CHECK-DAG: %[[K2:.*]] = tensor.collapse_shape %[[K]] {{\[\[}}0, 1], [2]] : tensor<1x24x16xf32> into tensor<24x16xf32>
// CHECK-DAG: %[[V2:.*]] = tensor.collapse_shape %[[V]] {{\[\[}}0, 1], [2]] : tensor<1x24x12xf32> into tensor<24x12xf32>
// CHECK-DAG: %[[M2:.*]] = tensor.collapse_shape %[[M]] {{\[\[}}0, 1], [2]] : tensor<8x1x24xi1> into tensor<8x24xi1>
// CHECK: iree_linalg_ext.attention {{.*}} ins(%[[Q]], %[[K2]], %[[V2]], %{{.*}}, %[[M2]] :
// CHECK: iree_linalg_ext.index 3
func.func @key_dims(%q: tensor<8x16xf32>, %k: tensor<1x24x16xf32>, %v: tensor<1x24x12xf32>, %m: tensor<8x1x24xi1>) -> tensor<8x12xf32> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<8x12xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #b, #o]>
      ins(%q, %k, %v, %scale, %m : tensor<8x16xf32>, tensor<1x24x16xf32>, tensor<1x24x12xf32>, f32, tensor<8x1x24xi1>) outs(%out : tensor<8x12xf32>) {
    ^bb0(%score: f32):
      %i = iree_linalg_ext.index 4 : index
      %n = arith.index_cast %i : index to i32
      %f = arith.sitofp %n : i32 to f32
      %t = arith.addf %score, %f : f32
      iree_linalg_ext.yield %t : f32
  } -> tensor<8x12xf32>
  return %r : tensor<8x12xf32>
}

// -----

#q = affine_map<(m, n, e, k1, d, k2) -> (m, d, k1)>
#k = affine_map<(m, n, e, k1, d, k2) -> (k2, d, k1)>
#v = affine_map<(m, n, e, k1, d, k2) -> (k2, e, n)>
#s = affine_map<(m, n, e, k1, d, k2) -> ()>
#o = affine_map<(m, n, e, k1, d, k2) -> (m, e, n)>

// CHECK-LABEL: func.func @head_dims(
// CHECK: iree_linalg_ext.attention {{.*}} ins({{.*}} : tensor<8x16xf32>, tensor<24x16xf32>, tensor<24x12xf32>, f32) outs(%{{.*}} : tensor<8x12xf32>)
// CHECK: tensor.expand_shape %{{.*}} output_shape [8, 1, 12] : tensor<8x12xf32> into tensor<8x1x12xf32>
func.func @head_dims(%q: tensor<8x1x16xf32>, %k: tensor<24x1x16xf32>, %v: tensor<24x1x12xf32>) -> tensor<8x1x12xf32> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<8x1x12xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<8x1x16xf32>, tensor<24x1x16xf32>, tensor<24x1x12xf32>, f32) outs(%out : tensor<8x1x12xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<8x1x12xf32>
  return %r : tensor<8x1x12xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// One key and a batch of one have no other dim beside them.
// CHECK-LABEL: func.func @alone(
// CHECK-NOT: collapse_shape
func.func @alone(%q: tensor<1x8x16xf32>, %k: tensor<1x1x16xf32>) -> tensor<1x8x16xf32> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<1x8x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %k, %scale : tensor<1x8x16xf32>, tensor<1x1x16xf32>, tensor<1x1x16xf32>, f32) outs(%out : tensor<1x8x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<1x8x16xf32>
  return %r : tensor<1x8x16xf32>
}

// -----

#q = affine_map<(m, n, k1, b, k2) -> (m, k1)>
#k = affine_map<(m, n, k1, b, k2) -> (b, k2, k1)>
#v = affine_map<(m, n, k1, b, k2) -> (b, k2, n)>
#s = affine_map<(m, n, k1, b, k2) -> ()>
#o = affine_map<(m, n, k1, b, k2) -> (m, n)>

// A configuration of the user's counts dims.
// CHECK-LABEL: func.func @configured(
// CHECK-NOT: collapse_shape
func.func @configured(%q: tensor<8x16xf32>, %k: tensor<1x24x16xf32>) -> tensor<8x16xf32> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<8x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> {lowering_config = "mine"}
      ins(%q, %k, %k, %scale : tensor<8x16xf32>, tensor<1x24x16xf32>, tensor<1x24x16xf32>, f32) outs(%out : tensor<8x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<8x16xf32>
  return %r : tensor<8x16xf32>
}

// -----

#q = affine_map<(m, n, k1, b, k2) -> (m, k1)>
#k = affine_map<(m, n, k1, b, k2) -> (b, k2, k1)>
#v = affine_map<(m, n, k1, b, k2) -> (b, k2, n)>
#s = affine_map<(m, n, k1, b, k2) -> ()>
#o = affine_map<(m, n, k1, b, k2) -> (m, n)>

// The score function reads the position in the dim of one, and nothing is known of a dynamic one.
// CHECK-LABEL: func.func @read(
// CHECK-NOT: collapse_shape
func.func @read(%q: tensor<8x16xf32>, %k: tensor<1x24x16xf32>, %d: tensor<?x24x16xf32>) -> (tensor<8x16xf32>, tensor<8x16xf32>) {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<8x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %k, %scale : tensor<8x16xf32>, tensor<1x24x16xf32>, tensor<1x24x16xf32>, f32) outs(%out : tensor<8x16xf32>) {
    ^bb0(%score: f32):
      %i = iree_linalg_ext.index 3 : index
      %n = arith.index_cast %i : index to i32
      %f = arith.sitofp %n : i32 to f32
      %t = arith.addf %score, %f : f32
      iree_linalg_ext.yield %t : f32
  } -> tensor<8x16xf32>
  %u = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %d, %d, %scale : tensor<8x16xf32>, tensor<?x24x16xf32>, tensor<?x24x16xf32>, f32) outs(%out : tensor<8x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<8x16xf32>
  return %r, %u : tensor<8x16xf32>, tensor<8x16xf32>
}
