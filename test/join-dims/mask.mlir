// A mask made over more dims than rows by keys goes behind a barrier; others stay.

// RUN: attn-opt %s --attn-join-dims --split-input-file --report=%t.json | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.json
// WHY: its mask is made over several dims of rows or keys
// WHY-NOT: its mask is made

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#b = affine_map<(b, m, n, k1, k2) -> (b, m, k2)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
#all = affine_map<(b, i, j, k, l) -> (b, i, j, k, l)>
#row = affine_map<(b, i, j, k, l) -> (b, i, j, k)>
#column = affine_map<(b, i, j, k, l) -> (b, i, j, l)>

// CHECK-LABEL: func.func @relative_positions(
// CHECK: %[[VIEW:.*]] = tensor.collapse_shape
// CHECK: %[[MASK:.*]] = iree_tensor_ext.compute_barrier.start %[[VIEW]] : tensor<2x24x24xf32>
// CHECK: iree_linalg_ext.attention {{.*}} ins(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %[[MASK]]
func.func @relative_positions(%q: tensor<2x24x16xf32>, %h: tensor<2x4x6x4xf32>, %w: tensor<2x4x6x6xf32>) -> tensor<2x24x16xf32> {
  %scale = arith.constant 0.25 : f32
  %e = tensor.empty() : tensor<2x4x6x4x6xf32>
  %sum = linalg.generic {indexing_maps = [#row, #column, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]}
      ins(%h, %w : tensor<2x4x6x4xf32>, tensor<2x4x6x6xf32>) outs(%e : tensor<2x4x6x4x6xf32>) {
    ^bb0(%x: f32, %y: f32, %z: f32):
      %t = arith.addf %x, %y : f32
      linalg.yield %t : f32
  } -> tensor<2x4x6x4x6xf32>
  %mask = tensor.collapse_shape %sum [[0], [1, 2], [3, 4]] : tensor<2x4x6x4x6xf32> into tensor<2x24x24xf32>
  %out = tensor.empty() : tensor<2x24x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #b, #o]>
      ins(%q, %q, %q, %scale, %mask : tensor<2x24x16xf32>, tensor<2x24x16xf32>, tensor<2x24x16xf32>, f32, tensor<2x24x24xf32>) outs(%out : tensor<2x24x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x24x16xf32>
  return %r : tensor<2x24x16xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#b = affine_map<(b, m, n, k1, k2) -> (b, m, k2)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
#all = affine_map<(b, h, i, j) -> (b, h, i, j)>

// Only batch dims are joined: nothing that a kernel tiles.
// CHECK-LABEL: func.func @batch_and_heads(
// CHECK-NOT: compute_barrier
func.func @batch_and_heads(%q: tensor<6x24x16xf32>, %k: tensor<6x24x16xf32>, %v: tensor<6x24x16xf32>, %x: tensor<2x3x24x24xf32>) -> tensor<6x24x16xf32> {
  %scale = arith.constant 0.25 : f32
  %e = tensor.empty() : tensor<2x3x24x24xf32>
  %sum = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%x : tensor<2x3x24x24xf32>) outs(%e : tensor<2x3x24x24xf32>) {
    ^bb0(%a: f32, %z: f32):
      %t = arith.addf %a, %a : f32
      linalg.yield %t : f32
  } -> tensor<2x3x24x24xf32>
  %mask = tensor.collapse_shape %sum [[0, 1], [2], [3]] : tensor<2x3x24x24xf32> into tensor<6x24x24xf32>
  %out = tensor.empty() : tensor<6x24x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #b, #o]>
      ins(%q, %k, %v, %scale, %mask : tensor<6x24x16xf32>, tensor<6x24x16xf32>, tensor<6x24x16xf32>, f32, tensor<6x24x24xf32>) outs(%out : tensor<6x24x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<6x24x16xf32>
  return %r : tensor<6x24x16xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#b = affine_map<(b, m, n, k1, k2) -> (b, m, k2)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
#all = affine_map<(b, i, j, k) -> (b, i, j, k)>
#one = affine_map<(b, i, j, k) -> (i, j, k)>

// A repeat, which IREE folds into attention's map.
// CHECK-LABEL: func.func @repeated(
// CHECK-NOT: compute_barrier
func.func @repeated(%q: tensor<2x24x16xf32>, %k: tensor<2x24x16xf32>, %v: tensor<2x24x16xf32>, %x: tensor<4x6x24xf32>) -> tensor<2x24x16xf32> {
  %scale = arith.constant 0.25 : f32
  %e = tensor.empty() : tensor<2x4x6x24xf32>
  %sum = linalg.generic {indexing_maps = [#one, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%x : tensor<4x6x24xf32>) outs(%e : tensor<2x4x6x24xf32>) {
    ^bb0(%a: f32, %z: f32):
      linalg.yield %a : f32
  } -> tensor<2x4x6x24xf32>
  %mask = tensor.collapse_shape %sum [[0], [1, 2], [3]] : tensor<2x4x6x24xf32> into tensor<2x24x24xf32>
  %out = tensor.empty() : tensor<2x24x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #b, #o]>
      ins(%q, %k, %v, %scale, %mask : tensor<2x24x16xf32>, tensor<2x24x16xf32>, tensor<2x24x16xf32>, f32, tensor<2x24x24xf32>) outs(%out : tensor<2x24x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x24x16xf32>
  return %r : tensor<2x24x16xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#b = affine_map<(b, m, n, k1, k2) -> (b, m, k2)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK-LABEL: func.func @argument(
// CHECK-NOT: compute_barrier
func.func @argument(%q: tensor<2x24x16xf32>, %x: tensor<2x4x6x24xf32>) -> tensor<2x24x16xf32> {
  %scale = arith.constant 0.25 : f32
  %mask = tensor.collapse_shape %x [[0], [1, 2], [3]] : tensor<2x4x6x24xf32> into tensor<2x24x24xf32>
  %out = tensor.empty() : tensor<2x24x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #b, #o]>
      ins(%q, %q, %q, %scale, %mask : tensor<2x24x16xf32>, tensor<2x24x16xf32>, tensor<2x24x16xf32>, f32, tensor<2x24x24xf32>) outs(%out : tensor<2x24x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x24x16xf32>
  return %r : tensor<2x24x16xf32>
}
