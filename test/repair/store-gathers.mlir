// Rows that are taken by index, and that several ops read, stand in memory; those of one reader stay, and
// those for CPUs.

// RUN: attn-opt %s --attn-store-gathers --split-input-file | FileCheck %s

// CHECK-LABEL: func.func @main(
// CHECK: %[[ROWS:.*]] = linalg.generic
// CHECK: tensor.extract
// CHECK: %[[SUM:.*]] = linalg.generic
// CHECK-SAME: ins(%[[ROWS]]
// CHECK: %[[STORED:.*]] = iree_tensor_ext.compute_barrier.start %[[SUM]]
// CHECK: %[[MEAN:.*]] = linalg.generic
// CHECK-SAME: ins(%[[STORED]]
// CHECK: return %[[STORED]], %[[MEAN]]
#map = affine_map<(i, j) -> (i, j)>
#rows = affine_map<(i, j) -> (i)>
module attributes {hal.device.targets = [#hal.device.target<"cuda", [#hal.executable.target<"cuda", "cuda-nvptx-fb">]> : !hal.device]} {
func.func @main(%table: tensor<64x32xf32>, %at: tensor<8xi64>, %y: tensor<8x32xf32>) -> (tensor<8x32xf32>, tensor<8xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x32xf32>
  %0 = linalg.generic {indexing_maps = [#rows, #map], iterator_types = ["parallel", "parallel"]} ins(%at : tensor<8xi64>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%i: i64, %o: f32):
    %r = arith.index_cast %i : i64 to index
    %c = linalg.index 1 : index
    %x = tensor.extract %table[%r, %c] : tensor<64x32xf32>
    linalg.yield %x : f32
  } -> tensor<8x32xf32>
  %1 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%0, %y : tensor<8x32xf32>, tensor<8x32xf32>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<8x32xf32>
  %m = tensor.empty() : tensor<8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%m : tensor<8xf32>) -> tensor<8xf32>
  %2 = linalg.generic {indexing_maps = [#map, #rows], iterator_types = ["parallel", "reduction"]} ins(%1 : tensor<8x32xf32>) outs(%f : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %a, %o : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  return %1, %2 : tensor<8x32xf32>, tensor<8xf32>
}

// CHECK-LABEL: func.func @one_reader(
// CHECK-NOT: compute_barrier
func.func @one_reader(%table: tensor<64x32xf32>, %at: tensor<8xi64>, %f: tensor<8xf32>) -> tensor<8xf32> {
  %e = tensor.empty() : tensor<8x32xf32>
  %0 = linalg.generic {indexing_maps = [#rows, #map], iterator_types = ["parallel", "parallel"]} ins(%at : tensor<8xi64>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%i: i64, %o: f32):
    %r = arith.index_cast %i : i64 to index
    %c = linalg.index 1 : index
    %x = tensor.extract %table[%r, %c] : tensor<64x32xf32>
    linalg.yield %x : f32
  } -> tensor<8x32xf32>
  %1 = linalg.generic {indexing_maps = [#map, #rows], iterator_types = ["parallel", "reduction"]} ins(%0 : tensor<8x32xf32>) outs(%f : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %a, %o : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  return %1 : tensor<8xf32>
}
}

// -----

// CHECK-LABEL: func.func @cpu(
// CHECK-NOT: compute_barrier
#map = affine_map<(i, j) -> (i, j)>
#rows = affine_map<(i, j) -> (i)>
module attributes {hal.device.targets = [#hal.device.target<"local", [#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64">]> : !hal.device]} {
func.func @cpu(%table: tensor<64x32xf32>, %at: tensor<8xi64>, %y: tensor<8x32xf32>) -> (tensor<8x32xf32>, tensor<8xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x32xf32>
  %0 = linalg.generic {indexing_maps = [#rows, #map], iterator_types = ["parallel", "parallel"]} ins(%at : tensor<8xi64>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%i: i64, %o: f32):
    %r = arith.index_cast %i : i64 to index
    %c = linalg.index 1 : index
    %x = tensor.extract %table[%r, %c] : tensor<64x32xf32>
    linalg.yield %x : f32
  } -> tensor<8x32xf32>
  %1 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%0, %y : tensor<8x32xf32>, tensor<8x32xf32>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<8x32xf32>
  %m = tensor.empty() : tensor<8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%m : tensor<8xf32>) -> tensor<8xf32>
  %2 = linalg.generic {indexing_maps = [#map, #rows], iterator_types = ["parallel", "reduction"]} ins(%1 : tensor<8x32xf32>) outs(%f : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %a, %o : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  return %1, %2 : tensor<8x32xf32>, tensor<8xf32>
}
}
