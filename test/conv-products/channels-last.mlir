// Between products whose images are turned, elementwise ops read and write channels last; others that
// read these get them turned. What reads an image that no product made or reads, or makes none that is
// turned back, stays, and so do modules for AMD's GPUs.

// RUN: attn-opt %s --attn-channels-last --split-input-file --report=%t.json | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.json
// WHY-COUNT-3: reads and writes channels last
// WHY-NOT: reads and writes channels last

#cpu = #hal.device.target<"local", [#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64">]> : !hal.device
#all = affine_map<(b, c, y, x) -> (b, c, y, x)>
#channel = affine_map<(b, c, y, x) -> (c, 0, 0)>
module attributes {hal.device.targets = [#cpu]} {
// CHECK: #[[CHANNEL:.*]] = affine_map<(d0, d1, d2, d3) -> (d3, 0, 0)>
// CHECK-LABEL: func.func @between(
// CHECK: %[[ROWS:.*]] = linalg.matmul
// CHECK: %[[IMAGE:.*]] = tensor.expand_shape %[[ROWS]]
// CHECK: %[[SCALED:.*]] = linalg.generic {{.*}}#[[CHANNEL]]{{.*}} ins(%[[IMAGE]], %arg2 : tensor<1x4x6x16xf32>, tensor<16x1x1xf32>) outs(%{{.*}} : tensor<1x4x6x16xf32>)
// CHECK: %[[SUM:.*]] = linalg.generic {{.*}} ins(%[[SCALED]], %[[IMAGE]] : tensor<1x4x6x16xf32>, tensor<1x4x6x16xf32>)
// CHECK: %[[BACK:.*]] = linalg.transpose ins(%[[SUM]] {{.*}} permutation = [0, 3, 1, 2]
// CHECK: %[[STORED:.*]] = iree_tensor_ext.compute_barrier.start %[[BACK]]
// CHECK: return %[[SUM]], %[[STORED]]
func.func @between(%x: tensor<24x8xf32>, %w: tensor<8x16xf32>, %s: tensor<16x1x1xf32>, %z: tensor<24x16xf32>, %i: tensor<1x16x4x6xf32>, %l: tensor<1x4x6x16xf32>) -> (tensor<1x4x6x16xf32>, tensor<1x16x4x6xf32>) {
  %p = linalg.matmul ins(%x, %w : tensor<24x8xf32>, tensor<8x16xf32>) outs(%z : tensor<24x16xf32>) -> tensor<24x16xf32>
  %e = tensor.expand_shape %p [[0, 1, 2], [3]] output_shape [1, 4, 6, 16] : tensor<24x16xf32> into tensor<1x4x6x16xf32>
  %t = linalg.transpose ins(%e : tensor<1x4x6x16xf32>) outs(%i : tensor<1x16x4x6xf32>) permutation = [0, 3, 1, 2]
  %0 = linalg.generic {indexing_maps = [#all, #channel, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%t, %s : tensor<1x16x4x6xf32>, tensor<16x1x1xf32>) outs(%i : tensor<1x16x4x6xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b : f32
    linalg.yield %m : f32
  } -> tensor<1x16x4x6xf32>
  %1 = linalg.generic {indexing_maps = [#all, #all, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%0, %t : tensor<1x16x4x6xf32>, tensor<1x16x4x6xf32>) outs(%i : tensor<1x16x4x6xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.addf %a, %b : f32
    linalg.yield %m : f32
  } -> tensor<1x16x4x6xf32>
  %f = linalg.transpose ins(%1 : tensor<1x16x4x6xf32>) outs(%l : tensor<1x4x6x16xf32>) permutation = [0, 2, 3, 1]
  return %f, %1 : tensor<1x4x6x16xf32>, tensor<1x16x4x6xf32>
}

// CHECK-LABEL: func.func @other_image(
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %arg4 : tensor<1x16x4x6xf32>, tensor<1x16x4x6xf32>)
// CHECK: linalg.transpose
func.func @other_image(%x: tensor<24x8xf32>, %w: tensor<8x16xf32>, %z: tensor<24x16xf32>, %l: tensor<1x4x6x16xf32>, %i: tensor<1x16x4x6xf32>) -> tensor<1x4x6x16xf32> {
  %p = linalg.matmul ins(%x, %w : tensor<24x8xf32>, tensor<8x16xf32>) outs(%z : tensor<24x16xf32>) -> tensor<24x16xf32>
  %e = tensor.expand_shape %p [[0, 1, 2], [3]] output_shape [1, 4, 6, 16] : tensor<24x16xf32> into tensor<1x4x6x16xf32>
  %t = linalg.transpose ins(%e : tensor<1x4x6x16xf32>) outs(%i : tensor<1x16x4x6xf32>) permutation = [0, 3, 1, 2]
  %1 = linalg.generic {indexing_maps = [#all, #all, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%t, %i : tensor<1x16x4x6xf32>, tensor<1x16x4x6xf32>) outs(%i : tensor<1x16x4x6xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.addf %a, %b : f32
    linalg.yield %m : f32
  } -> tensor<1x16x4x6xf32>
  %f = linalg.transpose ins(%1 : tensor<1x16x4x6xf32>) outs(%l : tensor<1x4x6x16xf32>) permutation = [0, 2, 3, 1]
  return %f : tensor<1x4x6x16xf32>
}

// CHECK-LABEL: func.func @not_back(
// CHECK: linalg.transpose
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<1x16x4x6xf32>)
func.func @not_back(%x: tensor<24x8xf32>, %w: tensor<8x16xf32>, %z: tensor<24x16xf32>, %i: tensor<1x16x4x6xf32>) -> tensor<1x16x4x6xf32> {
  %p = linalg.matmul ins(%x, %w : tensor<24x8xf32>, tensor<8x16xf32>) outs(%z : tensor<24x16xf32>) -> tensor<24x16xf32>
  %e = tensor.expand_shape %p [[0, 1, 2], [3]] output_shape [1, 4, 6, 16] : tensor<24x16xf32> into tensor<1x4x6x16xf32>
  %t = linalg.transpose ins(%e : tensor<1x4x6x16xf32>) outs(%i : tensor<1x16x4x6xf32>) permutation = [0, 3, 1, 2]
  %1 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%t : tensor<1x16x4x6xf32>) outs(%i : tensor<1x16x4x6xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = math.exp %a : f32
    linalg.yield %m : f32
  } -> tensor<1x16x4x6xf32>
  return %1 : tensor<1x16x4x6xf32>
}
}

// -----

#cuda = #hal.device.target<"cuda", [#hal.executable.target<"cuda", "cuda-nvptx-fb">]> : !hal.device
#all = affine_map<(b, c, y, x) -> (b, c, y, x)>
module attributes {hal.device.targets = [#cuda]} {
// A product reads the other image channels last, too.
// CHECK-LABEL: func.func @turned_anyway(
// CHECK: %[[OTHER:.*]] = tensor.extract_slice
// CHECK: %[[LAST:.*]] = linalg.transpose ins(%[[OTHER]] {{.*}} permutation = [0, 2, 3, 1]
// CHECK: %[[IMAGE:.*]] = tensor.expand_shape
// CHECK: %[[SUM:.*]] = linalg.generic {{.*}} ins(%[[IMAGE]], %[[LAST]] : tensor<1x4x6x16xf32>, tensor<1x4x6x16xf32>)
// CHECK-NOT: linalg.generic
// CHECK: return %[[SUM]], %[[LAST]]
func.func @turned_anyway(%x: tensor<24x8xf32>, %w: tensor<8x16xf32>, %z: tensor<24x16xf32>, %l: tensor<1x4x6x16xf32>, %i: tensor<1x16x4x6xf32>, %images: tensor<2x16x4x6xf32>) -> (tensor<1x4x6x16xf32>, tensor<1x4x6x16xf32>) {
  %o = tensor.extract_slice %images[1, 0, 0, 0] [1, 16, 4, 6] [1, 1, 1, 1] : tensor<2x16x4x6xf32> to tensor<1x16x4x6xf32>
  %p = linalg.matmul ins(%x, %w : tensor<24x8xf32>, tensor<8x16xf32>) outs(%z : tensor<24x16xf32>) -> tensor<24x16xf32>
  %e = tensor.expand_shape %p [[0, 1, 2], [3]] output_shape [1, 4, 6, 16] : tensor<24x16xf32> into tensor<1x4x6x16xf32>
  %t = linalg.transpose ins(%e : tensor<1x4x6x16xf32>) outs(%i : tensor<1x16x4x6xf32>) permutation = [0, 3, 1, 2]
  %1 = linalg.generic {indexing_maps = [#all, #all, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%t, %o : tensor<1x16x4x6xf32>, tensor<1x16x4x6xf32>) outs(%i : tensor<1x16x4x6xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %m = arith.addf %a, %b : f32
    linalg.yield %m : f32
  } -> tensor<1x16x4x6xf32>
  %f = linalg.transpose ins(%1 : tensor<1x16x4x6xf32>) outs(%l : tensor<1x4x6x16xf32>) permutation = [0, 2, 3, 1]
  %g = linalg.transpose ins(%o : tensor<1x16x4x6xf32>) outs(%l : tensor<1x4x6x16xf32>) permutation = [0, 2, 3, 1]
  return %f, %g : tensor<1x4x6x16xf32>, tensor<1x4x6x16xf32>
}
}

// -----

module attributes {hal.device.targets = [#hal.device.target<"hip", [#hal.executable.target<"rocm", "rocm-hsaco-fb">]> : !hal.device]} {
// CHECK-LABEL: func.func @for_amd(
// CHECK: linalg.transpose
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<1x16x4x6xf32>)
// CHECK: linalg.transpose
func.func @for_amd(%x: tensor<24x8xf32>, %w: tensor<8x16xf32>, %z: tensor<24x16xf32>, %i: tensor<1x16x4x6xf32>, %l: tensor<1x4x6x16xf32>) -> tensor<1x4x6x16xf32> {
  %p = linalg.matmul ins(%x, %w : tensor<24x8xf32>, tensor<8x16xf32>) outs(%z : tensor<24x16xf32>) -> tensor<24x16xf32>
  %e = tensor.expand_shape %p [[0, 1, 2], [3]] output_shape [1, 4, 6, 16] : tensor<24x16xf32> into tensor<1x4x6x16xf32>
  %t = linalg.transpose ins(%e : tensor<1x4x6x16xf32>) outs(%i : tensor<1x16x4x6xf32>) permutation = [0, 3, 1, 2]
  %1 = linalg.generic {indexing_maps = [affine_map<(b, c, y, x) -> (b, c, y, x)>, affine_map<(b, c, y, x) -> (b, c, y, x)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%t : tensor<1x16x4x6xf32>) outs(%i : tensor<1x16x4x6xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = math.exp %a : f32
    linalg.yield %m : f32
  } -> tensor<1x16x4x6xf32>
  %f = linalg.transpose ins(%1 : tensor<1x16x4x6xf32>) outs(%l : tensor<1x4x6x16xf32>) permutation = [0, 2, 3, 1]
  return %f : tensor<1x4x6x16xf32>
}
}
