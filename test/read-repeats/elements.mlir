// RUN: attn-opt %s --attn-read-repeats --split-input-file --remarks > %t.mlir 2> %t.txt
// RUN: FileCheck %s < %t.mlir
// RUN: FileCheck %s --check-prefix=REMARK < %t.txt

#map = affine_map<(i, j, k) -> (i, j, k)>

// Neighbours of points: the index along which rows are repeated is left out.
// CHECK-LABEL: func.func @neighbours(
// CHECK-SAME: %[[X:.*]]: tensor<9x8xf32>
// CHECK: %[[AT:.*]] = arith.index_cast
// CHECK: %[[K:.*]] = linalg.index 2
// CHECK: tensor.extract %[[X]][%[[AT]], %[[K]]] : tensor<9x8xf32>
// CHECK: return
// REMARK: is read where it is, not in its repeats
func.func @neighbours(%x: tensor<9x8xf32>, %near: tensor<9x4x8xi64>) -> tensor<9x4x8xf32> {
  %wide = tensor.empty() : tensor<9x9x8xf32>
  %all = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (j, k)>, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<9x8xf32>) outs(%wide : tensor<9x9x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<9x9x8xf32>
  %e = tensor.empty() : tensor<9x4x8xf32>
  %r = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%near : tensor<9x4x8xi64>) outs(%e : tensor<9x4x8xf32>) {
  ^bb0(%in: i64, %out: f32):
    %at = arith.index_cast %in : i64 to index
    %i = linalg.index 0 : index
    %k = linalg.index 2 : index
    %y = tensor.extract %all[%i, %at, %k] : tensor<9x9x8xf32>
    linalg.yield %y : f32
  } -> tensor<9x4x8xf32>
  return %r : tensor<9x4x8xf32>
}

// -----

#map = affine_map<(i, j) -> (i, j)>

// What is transposed alone is stored as it is wanted.
// CHECK-LABEL: func.func @turned(
// CHECK: %[[T:.*]] = linalg.generic
// CHECK: tensor.extract %[[T]][
// REMARK-NOT: remark
func.func @turned(%x: tensor<9x8xf32>, %near: tensor<4x9xi64>) -> tensor<4x9xf32> {
  %wide = tensor.empty() : tensor<8x9xf32>
  %all = linalg.generic {indexing_maps = [affine_map<(i, j) -> (j, i)>, #map], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<9x8xf32>) outs(%wide : tensor<8x9xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<8x9xf32>
  %e = tensor.empty() : tensor<4x9xf32>
  %r = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%near : tensor<4x9xi64>) outs(%e : tensor<4x9xf32>) {
  ^bb0(%in: i64, %out: f32):
    %at = arith.index_cast %in : i64 to index
    %k = linalg.index 1 : index
    %y = tensor.extract %all[%at, %k] : tensor<8x9xf32>
    linalg.yield %y : f32
  } -> tensor<4x9xf32>
  return %r : tensor<4x9xf32>
}
