// What hangs on a reduction in another way than an operand before it is read from memory.

// RUN: attn-opt %s --attn-store-crossed --remarks 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY < %t.txt

#i = affine_map<(i, j) -> (i)>
#j = affine_map<(i, j) -> (j)>
#ij = affine_map<(i, j) -> (i, j)>
#ji = affine_map<(i, j) -> (j, i)>

// Distances: both operands are the sum.
// CHECK-LABEL: func.func @distances(
// CHECK: %[[SUM:.*]] = linalg.reduce
// CHECK: %[[STORED:.*]] = iree_tensor_ext.compute_barrier.start %[[SUM]]
// CHECK: linalg.generic
// CHECK-SAME: ins(%[[STORED]], %[[STORED]]
func.func @distances(%x: tensor<20x3xf32>, %f: tensor<20xf32>, %e: tensor<20x20xf32>) -> tensor<20x20xf32> {
  %0 = linalg.reduce { arith.addf } ins(%x : tensor<20x3xf32>) outs(%f : tensor<20xf32>) dimensions = [1]
  %1 = linalg.generic {indexing_maps = [#i, #j, #ij], iterator_types = ["parallel", "parallel"]} ins(%0, %0 : tensor<20xf32>, tensor<20xf32>) outs(%e : tensor<20x20xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.subf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<20x20xf32>
  return %1 : tensor<20x20xf32>
}

// A projection, transposed by views and through an elementwise op; a product of one summand.
// CHECK-LABEL: func.func @outer(
// CHECK: %[[ROW:.*]] = linalg.matmul
// CHECK: %[[EXP:.*]] = math.exp
// CHECK: %[[STORED:.*]] = iree_tensor_ext.compute_barrier.start %[[EXP]]
// CHECK: linalg.matmul
// CHECK-SAME: ins(%{{.*}}, %[[STORED]]
func.func @outer(%x: tensor<1x3xf32>, %w: tensor<3x12xf32>, %f: tensor<1x12xf32>, %t: tensor<12x1xf32>, %e: tensor<12x12xf32>) -> tensor<12x12xf32> {
  %0 = linalg.matmul ins(%x, %w : tensor<1x3xf32>, tensor<3x12xf32>) outs(%f : tensor<1x12xf32>) -> tensor<1x12xf32>
  %1 = math.exp %0 : tensor<1x12xf32>
  %2 = linalg.transpose ins(%0 : tensor<1x12xf32>) outs(%t : tensor<12x1xf32>) permutation = [1, 0]
  %3 = linalg.matmul ins(%2, %1 : tensor<12x1xf32>, tensor<1x12xf32>) outs(%e : tensor<12x12xf32>) -> tensor<12x12xf32>
  return %3 : tensor<12x12xf32>
}

// Rows and columns of a projection whose features are cut into both.
// CHECK-LABEL: func.func @cut(
// CHECK: %[[CUT:.*]] = tensor.expand_shape
// CHECK: %[[STORED:.*]] = iree_tensor_ext.compute_barrier.start
// CHECK: linalg.generic
// CHECK-SAME: ins(%[[CUT]], %[[STORED]]
func.func @cut(%x: tensor<2x3xf32>, %w: tensor<3x16xf32>, %f: tensor<2x16xf32>, %e: tensor<2x4x4xf32>) -> tensor<2x4x4xf32> {
  %0 = linalg.matmul ins(%x, %w : tensor<2x3xf32>, tensor<3x16xf32>) outs(%f : tensor<2x16xf32>) -> tensor<2x16xf32>
  %1 = tensor.expand_shape %0 [[0], [1, 2]] output_shape [2, 4, 4] : tensor<2x16xf32> into tensor<2x4x4xf32>
  %2 = math.exp %1 : tensor<2x4x4xf32>
  %3 = linalg.generic {indexing_maps = [affine_map<(b, i, j) -> (b, i, j)>, affine_map<(b, i, j) -> (b, j, i)>, affine_map<(b, i, j) -> (b, i, j)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%1, %2 : tensor<2x4x4xf32>, tensor<2x4x4xf32>) outs(%e : tensor<2x4x4xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<2x4x4xf32>
  return %3 : tensor<2x4x4xf32>
}

// One way: rows by their sum, heads joined and cut again, a product of many summands.
// CHECK-LABEL: func.func @one_way(
// CHECK-NOT: compute_barrier
// CHECK: return
func.func @one_way(%x: tensor<4x4xf32>, %f: tensor<4xf32>, %e: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = linalg.reduce { arith.addf } ins(%x : tensor<4x4xf32>) outs(%f : tensor<4xf32>) dimensions = [1]
  %1 = linalg.generic {indexing_maps = [#ij, #i, #ij], iterator_types = ["parallel", "parallel"]} ins(%x, %0 : tensor<4x4xf32>, tensor<4xf32>) outs(%e : tensor<4x4xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.divf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<4x4xf32>
  %2 = tensor.collapse_shape %1 [[0, 1]] : tensor<4x4xf32> into tensor<16xf32>
  %3 = math.exp %2 : tensor<16xf32>
  %4 = tensor.expand_shape %3 [[0, 1]] output_shape [4, 4] : tensor<16xf32> into tensor<4x4xf32>
  %5 = linalg.generic {indexing_maps = [#ij, #i, #ij, #ij], iterator_types = ["parallel", "parallel"]} ins(%1, %0, %4 : tensor<4x4xf32>, tensor<4xf32>, tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32, %o: f32):
    %s = arith.addf %a, %b : f32
    %t = arith.addf %s, %c : f32
    linalg.yield %t : f32
  } -> tensor<4x4xf32>
  %6 = linalg.matmul indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (j, k)>, affine_map<(i, j, k) -> (i, j)>] ins(%5, %5 : tensor<4x4xf32>, tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) -> tensor<4x4xf32>
  return %6 : tensor<4x4xf32>
}

// WHY-COUNT-3: what it reads in two orders is put in memory
