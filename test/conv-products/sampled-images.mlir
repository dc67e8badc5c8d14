// Pixels of a product's image that are taken by index, and images whose channels are joined, are
// read and written channels last. Pixels of other channels, or other ones for each channel, stay.

// RUN: attn-opt %s --attn-channels-last --report=%t.json | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.json
// WHY-COUNT-3: reads and writes channels last
// WHY-NOT: reads and writes channels last

#cpu = #hal.device.target<"local", [#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64">]> : !hal.device
#all = affine_map<(b, c, y, x) -> (b, c, y, x)>
#line = affine_map<(b, c, y, x) -> (y)>
#pixel = affine_map<(b, c, y, x) -> (x)>
#crossed = affine_map<(b, c, y, x) -> (c)>
#own = affine_map<(c) -> (c)>
module attributes {hal.device.targets = [#cpu]} {
// CHECK-LABEL: func.func @sampled(
// CHECK: %[[SUM:.*]] = linalg.batch_matmul
// CHECK: %[[IMAGE:.*]] = tensor.expand_shape %[[SUM]] {{\[\[}}0], [1, 2], [3]] {{.*}} into tensor<1x4x6x16xf32>
// CHECK: %[[TAKEN:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<1x8x12x16xf32>)
// CHECK: %[[B:.*]] = linalg.index 0
// CHECK: %[[C:.*]] = linalg.index 3
// CHECK: tensor.extract %[[IMAGE]][%[[B]], %{{.*}}, %{{.*}}, %[[C]]]
// CHECK: %[[SCALED:.*]] = linalg.generic {{.*}} ins(%[[TAKEN]], {{.*}} outs(%{{.*}} : tensor<1x8x12x16xf32>)
// CHECK: %[[ALL:.*]] = tensor.concat dim(3) %[[TAKEN]], %[[SCALED]]
// CHECK: return %[[ALL]]
func.func @sampled(%x: tensor<1x24x8xf32>, %w: tensor<1x8x16xf32>, %s: tensor<12xf32>, %ys: tensor<8xi64>, %xs: tensor<12xi64>) -> tensor<1x8x12x32xf32> {
  %0 = arith.constant 0 : i64
  %16 = arith.constant 16 : i64
  %z = tensor.empty() : tensor<1x24x16xf32>
  %p = linalg.batch_matmul ins(%x, %w : tensor<1x24x8xf32>, tensor<1x8x16xf32>) outs(%z : tensor<1x24x16xf32>) -> tensor<1x24x16xf32>
  %n = tensor.empty() : tensor<1x16x24xf32>
  %t = linalg.transpose ins(%p : tensor<1x24x16xf32>) outs(%n : tensor<1x16x24xf32>) permutation = [0, 2, 1]
  %image = tensor.expand_shape %t [[0], [1], [2, 3]] output_shape [1, 16, 4, 6] : tensor<1x16x24xf32> into tensor<1x16x4x6xf32>
  %i = tensor.empty() : tensor<16xi64>
  %channels = linalg.generic {indexing_maps = [#own], iterator_types = ["parallel"]} outs(%i : tensor<16xi64>) {
  ^bb0(%o: i64):
    %k = linalg.index 0 : index
    %c = arith.index_cast %k : index to i64
    linalg.yield %c : i64
  } -> tensor<16xi64>
  %e = tensor.empty() : tensor<1x16x8x12xf32>
  %taken = linalg.generic {indexing_maps = [#crossed, #line, #pixel, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%channels, %ys, %xs : tensor<16xi64>, tensor<8xi64>, tensor<12xi64>) outs(%e : tensor<1x16x8x12xf32>) {
  ^bb0(%c: i64, %y: i64, %q: i64, %o: f32):
    %first = arith.constant 0 : index
    %below = arith.cmpi slt, %c, %0 : i64
    %around = arith.addi %c, %16 : i64
    %own = arith.select %below, %around, %c : i64
    %channel = arith.index_cast %own : i64 to index
    %line = arith.index_cast %y : i64 to index
    %pixel = arith.index_cast %q : i64 to index
    %v = tensor.extract %image[%first, %channel, %line, %pixel] : tensor<1x16x4x6xf32>
    linalg.yield %v : f32
  } -> tensor<1x16x8x12xf32>
  %scaled = linalg.generic {indexing_maps = [#all, #pixel, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%taken, %s : tensor<1x16x8x12xf32>, tensor<12xf32>) outs(%e : tensor<1x16x8x12xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b : f32
    linalg.yield %m : f32
  } -> tensor<1x16x8x12xf32>
  %all = tensor.concat dim(1) %taken, %scaled : (tensor<1x16x8x12xf32>, tensor<1x16x8x12xf32>) -> tensor<1x32x8x12xf32>
  %l = tensor.empty() : tensor<1x8x12x32xf32>
  %last = linalg.transpose ins(%all : tensor<1x32x8x12xf32>) outs(%l : tensor<1x8x12x32xf32>) permutation = [0, 2, 3, 1]
  return %last : tensor<1x8x12x32xf32>
}

// CHECK-LABEL: func.func @other_channels(
// CHECK: tensor.extract {{.*}} : tensor<1x16x4x6xf32>
// CHECK: linalg.transpose {{.*}} permutation = [0, 2, 3, 1]
func.func @other_channels(%x: tensor<24x8xf32>, %w: tensor<8x16xf32>, %cs: tensor<16xindex>) -> tensor<1x4x6x16xf32> {
  %z = tensor.empty() : tensor<24x16xf32>
  %p = linalg.matmul ins(%x, %w : tensor<24x8xf32>, tensor<8x16xf32>) outs(%z : tensor<24x16xf32>) -> tensor<24x16xf32>
  %i = tensor.expand_shape %p [[0, 1, 2], [3]] output_shape [1, 4, 6, 16] : tensor<24x16xf32> into tensor<1x4x6x16xf32>
  %e = tensor.empty() : tensor<1x16x4x6xf32>
  %image = linalg.transpose ins(%i : tensor<1x4x6x16xf32>) outs(%e : tensor<1x16x4x6xf32>) permutation = [0, 3, 1, 2]
  %taken = linalg.generic {indexing_maps = [#crossed, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%cs : tensor<16xindex>) outs(%e : tensor<1x16x4x6xf32>) {
  ^bb0(%c: index, %o: f32):
    %first = arith.constant 0 : index
    %v = tensor.extract %image[%first, %c, %first, %first] : tensor<1x16x4x6xf32>
    linalg.yield %v : f32
  } -> tensor<1x16x4x6xf32>
  %l = tensor.empty() : tensor<1x4x6x16xf32>
  %last = linalg.transpose ins(%taken : tensor<1x16x4x6xf32>) outs(%l : tensor<1x4x6x16xf32>) permutation = [0, 2, 3, 1]
  return %last : tensor<1x4x6x16xf32>
}

// CHECK-LABEL: func.func @pixels_by_channel(
// CHECK: tensor.extract {{.*}} : tensor<1x16x4x6xf32>
// CHECK: linalg.transpose {{.*}} permutation = [0, 2, 3, 1]
func.func @pixels_by_channel(%x: tensor<24x8xf32>, %w: tensor<8x16xf32>, %xs: tensor<16xindex>) -> tensor<1x4x6x16xf32> {
  %z = tensor.empty() : tensor<24x16xf32>
  %p = linalg.matmul ins(%x, %w : tensor<24x8xf32>, tensor<8x16xf32>) outs(%z : tensor<24x16xf32>) -> tensor<24x16xf32>
  %i = tensor.expand_shape %p [[0, 1, 2], [3]] output_shape [1, 4, 6, 16] : tensor<24x16xf32> into tensor<1x4x6x16xf32>
  %e = tensor.empty() : tensor<1x16x4x6xf32>
  %image = linalg.transpose ins(%i : tensor<1x4x6x16xf32>) outs(%e : tensor<1x16x4x6xf32>) permutation = [0, 3, 1, 2]
  %taken = linalg.generic {indexing_maps = [#crossed, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%xs : tensor<16xindex>) outs(%e : tensor<1x16x4x6xf32>) {
  ^bb0(%q: index, %o: f32):
    %first = arith.constant 0 : index
    %own = linalg.index 1 : index
    %line = linalg.index 2 : index
    %v = tensor.extract %image[%first, %own, %line, %q] : tensor<1x16x4x6xf32>
    linalg.yield %v : f32
  } -> tensor<1x16x4x6xf32>
  %l = tensor.empty() : tensor<1x4x6x16xf32>
  %last = linalg.transpose ins(%taken : tensor<1x16x4x6xf32>) outs(%l : tensor<1x4x6x16xf32>) permutation = [0, 2, 3, 1]
  return %last : tensor<1x4x6x16xf32>
}
}
