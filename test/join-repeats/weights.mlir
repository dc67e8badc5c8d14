// A factor of products that is repeated along dims which are joined behind it repeats along the
// joined one; where a dim of its own is among these, or other ops read it, it stays.
//
// RUN: attn-opt %s --attn-join-repeats | FileCheck %s

#weights = affine_map<(b, h, k, n) -> (k, n)>
#keys = affine_map<(b, g, r, k, n) -> (b, g, k, n)>
#all4 = affine_map<(b, h, k, n) -> (b, h, k, n)>
#all5 = affine_map<(b, g, r, k, n) -> (b, g, r, k, n)>

// CHECK-DAG: #[[WEIGHTS:.*]] = affine_map<(d0, d1, d2) -> (d1, d2)>
// CHECK-DAG: #[[ALL:.*]] = affine_map<(d0, d1, d2) -> (d0, d1, d2)>

// CHECK-LABEL: func.func @image(
// CHECK-SAME: %[[X:.*]]: tensor<6x4x8xf32>, %[[W:.*]]: tensor<8x16xf32>
// CHECK: %[[SPACE:.*]] = tensor.empty() : tensor<6x8x16xf32>
// CHECK: %[[MADE:.*]] = linalg.generic {indexing_maps = [#[[WEIGHTS]], #[[ALL]]]
// CHECK-SAME: ins(%[[W]] : tensor<8x16xf32>) outs(%[[SPACE]] : tensor<6x8x16xf32>)
// CHECK-NOT: tensor.collapse_shape
// CHECK: linalg.batch_matmul ins(%[[X]], %[[MADE]]
func.func @image(%x: tensor<6x4x8xf32>, %w: tensor<8x16xf32>, %out: tensor<6x4x16xf32>) -> tensor<6x4x16xf32> {
  %space = tensor.empty() : tensor<2x3x8x16xf32>
  %repeat = linalg.generic {indexing_maps = [#weights, #all4], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%w : tensor<8x16xf32>) outs(%space : tensor<2x3x8x16xf32>) {
  ^bb0(%a: f32, %b: f32):
    linalg.yield %a : f32
  } -> tensor<2x3x8x16xf32>
  %joined = tensor.collapse_shape %repeat [[0, 1], [2], [3]] : tensor<2x3x8x16xf32> into tensor<6x8x16xf32>
  %r = linalg.batch_matmul ins(%x, %joined : tensor<6x4x8xf32>, tensor<6x8x16xf32>) outs(%out : tensor<6x4x16xf32>) -> tensor<6x4x16xf32>
  return %r : tensor<6x4x16xf32>
}

// Unknown sizes: images of any number.
//
// CHECK-LABEL: func.func @images(
// CHECK: linalg.generic {indexing_maps = [#[[WEIGHTS]], #[[ALL]]]
// CHECK-SAME: outs(%{{.*}} : tensor<?x8x16xf32>)
// CHECK-NOT: tensor.collapse_shape
// CHECK: linalg.batch_matmul
func.func @images(%x: tensor<?x4x8xf32>, %w: tensor<8x16xf32>, %out: tensor<?x4x16xf32>, %n: index) -> tensor<?x4x16xf32> {
  %space = tensor.empty(%n) : tensor<?x3x8x16xf32>
  %repeat = linalg.broadcast ins(%w : tensor<8x16xf32>) outs(%space : tensor<?x3x8x16xf32>) dimensions = [0, 1]
  %joined = tensor.collapse_shape %repeat [[0, 1], [2], [3]] : tensor<?x3x8x16xf32> into tensor<?x8x16xf32>
  %r = linalg.batch_matmul ins(%x, %joined : tensor<?x4x8xf32>, tensor<?x8x16xf32>) outs(%out : tensor<?x4x16xf32>) -> tensor<?x4x16xf32>
  return %r : tensor<?x4x16xf32>
}

// Heads that share keys: the repeat is joined with the heads' own dim.
//
// CHECK-LABEL: func.func @groups(
// CHECK: tensor.collapse_shape
func.func @groups(%q: tensor<12x4x8xf32>, %k: tensor<2x3x8x16xf32>, %out: tensor<12x4x16xf32>) -> tensor<12x4x16xf32> {
  %space = tensor.empty() : tensor<2x3x2x8x16xf32>
  %repeat = linalg.generic {indexing_maps = [#keys, #all5], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]}
      ins(%k : tensor<2x3x8x16xf32>) outs(%space : tensor<2x3x2x8x16xf32>) {
  ^bb0(%a: f32, %b: f32):
    linalg.yield %a : f32
  } -> tensor<2x3x2x8x16xf32>
  %joined = tensor.collapse_shape %repeat [[0, 1, 2], [3], [4]] : tensor<2x3x2x8x16xf32> into tensor<12x8x16xf32>
  %r = linalg.batch_matmul ins(%q, %joined : tensor<12x4x8xf32>, tensor<12x8x16xf32>) outs(%out : tensor<12x4x16xf32>) -> tensor<12x4x16xf32>
  return %r : tensor<12x4x16xf32>
}

// The caller wants the copies.
//
// CHECK-LABEL: func.func @returned(
// CHECK: tensor.collapse_shape
func.func @returned(%w: tensor<8x16xf32>) -> tensor<6x8x16xf32> {
  %space = tensor.empty() : tensor<2x3x8x16xf32>
  %repeat = linalg.broadcast ins(%w : tensor<8x16xf32>) outs(%space : tensor<2x3x8x16xf32>) dimensions = [0, 1]
  %joined = tensor.collapse_shape %repeat [[0, 1], [2], [3]] : tensor<2x3x8x16xf32> into tensor<6x8x16xf32>
  return %joined : tensor<6x8x16xf32>
}
