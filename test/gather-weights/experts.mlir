// Weights that few rows take by index are rows of a gather, with no dims of size one; those of many rows
// stay, and those that take parts of a matrix.

// RUN: attn-opt %s --attn-gather-weights --split-input-file --report=%t.json | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.json
// WHY-COUNT-2: takes its weights as rows of a gather, which are read in vectors
// WHY-NOT: takes its weights

// Indices that may count from the end are computed in front.
// CHECK-LABEL: func.func @few(
// CHECK-SAME: %[[W:[^:]*]]: tensor<8x64x32xf16>, %[[AT:[^:]*]]: tensor<3x2xi64>
// CHECK: %[[ROWS:.*]] = linalg.generic {{.*}} ins(%[[AT]] : tensor<3x2xi64>)
// CHECK: arith.select
// CHECK: %[[STORED:.*]] = iree_tensor_ext.compute_barrier.start %[[ROWS]]
// CHECK: %[[G:.*]] = iree_linalg_ext.gather dimension_map = [0] ins(%[[W]], %[[STORED]] : tensor<8x64x32xf16>, tensor<3x2xi64>) outs(%{{.*}} : tensor<3x2x64x32xf16>)
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %[[G]] :
#cuda = #hal.device.target<"cuda", [#hal.executable.target<"cuda", "cuda-nvptx-fb">]> : !hal.device
#all = affine_map<(a, b, c, d) -> (a, b, c, d)>
module attributes {hal.device.targets = [#cuda]} {
func.func @few(%w: tensor<8x64x32xf16>, %at: tensor<3x2xi64>, %x: tensor<3x32xf16>, %f: tensor<3x2x64xf32>) -> tensor<3x2x64xf32> {
  %zero = arith.constant 0 : i64
  %eight = arith.constant 8 : i64
  %e = tensor.empty() : tensor<3x2x64x32xf16>
  %g = linalg.generic {indexing_maps = [affine_map<(a, b, c, d) -> (a, b)>, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%at : tensor<3x2xi64>) outs(%e : tensor<3x2x64x32xf16>) {
  ^bb0(%i: i64, %o: f16):
    %below = arith.cmpi slt, %i, %zero : i64
    %moved = arith.addi %i, %eight : i64
    %from = arith.select %below, %moved, %i : i64
    %a = arith.index_cast %from : i64 to index
    %b = linalg.index 2 : index
    %c = linalg.index 3 : index
    %v = tensor.extract %w[%a, %b, %c] : tensor<8x64x32xf16>
    linalg.yield %v : f16
  } -> tensor<3x2x64x32xf16>
  %p = linalg.generic {indexing_maps = [affine_map<(a, b, n, k) -> (a, k)>, affine_map<(a, b, n, k) -> (a, b, n, k)>, affine_map<(a, b, n, k) -> (a, b, n)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%x, %g : tensor<3x32xf16>, tensor<3x2x64x32xf16>) outs(%f : tensor<3x2x64xf32>) {
  ^bb0(%a: f16, %b: f16, %o: f32):
    %c = arith.extf %a : f16 to f32
    %d = arith.extf %b : f16 to f32
    %m = arith.mulf %c, %d : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<3x2x64xf32>
  return %p : tensor<3x2x64xf32>
}
}

// -----

// One token: the dim of tokens is left out. So it is on CPUs.
// CHECK-LABEL: func.func @one(
// CHECK: iree_linalg_ext.gather {{.*}} outs(%{{.*}} : tensor<2x64x32xf32>)
// CHECK: tensor.expand_shape %{{.*}} into tensor<1x2x64x32xf32>
#cpu = #hal.device.target<"local", [#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64">]> : !hal.device
module attributes {hal.device.targets = [#cpu]} {
func.func @one(%w: tensor<8x64x32xf32>, %at: tensor<1x2xi32>, %x: tensor<2x1x64xf32>, %f: tensor<2x1x32xf32>) -> tensor<2x1x32xf32> {
  %e = tensor.empty() : tensor<1x2x64x32xf32>
  %g = linalg.generic {indexing_maps = [affine_map<(a, b, c, d) -> (0, b)>, affine_map<(a, b, c, d) -> (a, b, c, d)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%at : tensor<1x2xi32>) outs(%e : tensor<1x2x64x32xf32>) {
  ^bb0(%i: i32, %o: f32):
    %a = arith.index_cast %i : i32 to index
    %b = linalg.index 2 : index
    %c = linalg.index 3 : index
    %v = tensor.extract %w[%a, %b, %c] : tensor<8x64x32xf32>
    linalg.yield %v : f32
  } -> tensor<1x2x64x32xf32>
  %j = tensor.collapse_shape %g [[0, 1], [2], [3]] : tensor<1x2x64x32xf32> into tensor<2x64x32xf32>
  %p = linalg.batch_matmul ins(%x, %j : tensor<2x1x64xf32>, tensor<2x64x32xf32>) outs(%f : tensor<2x1x32xf32>) -> tensor<2x1x32xf32>
  return %p : tensor<2x1x32xf32>
}
}

// -----

// CHECK-LABEL: func.func @many(
// CHECK-NOT: iree_linalg_ext.gather
#cuda = #hal.device.target<"cuda", [#hal.executable.target<"cuda", "cuda-nvptx-fb">]> : !hal.device
module attributes {hal.device.targets = [#cuda]} {
func.func @many(%w: tensor<8x64x32xf32>, %at: tensor<2xi32>, %x: tensor<2x9x64xf32>, %f: tensor<2x9x32xf32>) -> tensor<2x9x32xf32> {
  %e = tensor.empty() : tensor<2x64x32xf32>
  %g = linalg.generic {indexing_maps = [affine_map<(b, c, d) -> (b)>, affine_map<(b, c, d) -> (b, c, d)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%at : tensor<2xi32>) outs(%e : tensor<2x64x32xf32>) {
  ^bb0(%i: i32, %o: f32):
    %a = arith.index_cast %i : i32 to index
    %b = linalg.index 1 : index
    %c = linalg.index 2 : index
    %v = tensor.extract %w[%a, %b, %c] : tensor<8x64x32xf32>
    linalg.yield %v : f32
  } -> tensor<2x64x32xf32>
  %p = linalg.batch_matmul ins(%x, %g : tensor<2x9x64xf32>, tensor<2x64x32xf32>) outs(%f : tensor<2x9x32xf32>) -> tensor<2x9x32xf32>
  return %p : tensor<2x9x32xf32>
}
// The first 64 rows of each matrix of 128.
// CHECK-LABEL: func.func @part(
// CHECK-NOT: iree_linalg_ext.gather
func.func @part(%w: tensor<8x128x32xf32>, %at: tensor<2xi32>, %x: tensor<2x1x64xf32>, %f: tensor<2x1x32xf32>) -> tensor<2x1x32xf32> {
  %e = tensor.empty() : tensor<2x64x32xf32>
  %g = linalg.generic {indexing_maps = [affine_map<(b, c, d) -> (b)>, affine_map<(b, c, d) -> (b, c, d)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%at : tensor<2xi32>) outs(%e : tensor<2x64x32xf32>) {
  ^bb0(%i: i32, %o: f32):
    %a = arith.index_cast %i : i32 to index
    %b = linalg.index 1 : index
    %c = linalg.index 2 : index
    %v = tensor.extract %w[%a, %b, %c] : tensor<8x128x32xf32>
    linalg.yield %v : f32
  } -> tensor<2x64x32xf32>
  %p = linalg.batch_matmul ins(%x, %g : tensor<2x1x64xf32>, tensor<2x64x32xf32>) outs(%f : tensor<2x1x32xf32>) -> tensor<2x1x32xf32>
  return %p : tensor<2x1x32xf32>
}
}
