// Sums that a norm and others read stand in memory; those that a norm alone reads stay, and those for
// GPUs, but for scores of a softmax and what is read at single places.

// RUN: attn-opt %s --attn-store-sums --split-input-file | FileCheck %s

#map = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
module attributes {hal.device.targets = [#hal.device.target<"local", [#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64">]> : !hal.device]} {
// A layer that is normed in front: what a product of the norm is added to is read again.
// CHECK-LABEL: func.func @residual(
// CHECK: %[[SUM:.*]] = linalg.generic
// CHECK: %[[STORED:.*]] = iree_tensor_ext.compute_barrier.start %[[SUM]]
// CHECK: linalg.generic
// CHECK-SAME: ins(%[[STORED]]
// CHECK: linalg.generic
// CHECK-SAME: ins(%[[STORED]]
// CHECK: linalg.matmul
// CHECK: linalg.generic
// CHECK-SAME: ins(%[[STORED]]
func.func @residual(%x: tensor<8x32xf32>, %y: tensor<8x32xf32>, %w: tensor<32x32xf32>) -> tensor<8x32xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x32xf32>
  %0 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%x, %y : tensor<8x32xf32>, tensor<8x32xf32>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<8x32xf32>
  %m = tensor.empty() : tensor<8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%m : tensor<8xf32>) -> tensor<8xf32>
  %1 = linalg.generic {indexing_maps = [#map, #row], iterator_types = ["parallel", "reduction"]} ins(%0 : tensor<8x32xf32>) outs(%f : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.maximumf %a, %o : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  %2 = linalg.generic {indexing_maps = [#map, #row, #map], iterator_types = ["parallel", "parallel"]} ins(%0, %1 : tensor<8x32xf32>, tensor<8xf32>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.divf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<8x32xf32>
  %g = linalg.fill ins(%zero : f32) outs(%e : tensor<8x32xf32>) -> tensor<8x32xf32>
  %3 = linalg.matmul ins(%2, %w : tensor<8x32xf32>, tensor<32x32xf32>) outs(%g : tensor<8x32xf32>) -> tensor<8x32xf32>
  %4 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%0, %3 : tensor<8x32xf32>, tensor<8x32xf32>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<8x32xf32>
  return %4 : tensor<8x32xf32>
}

// The mean of squares, through an op between, and a caller that reads the sum by a view.
// CHECK-LABEL: func.func @returned(
// CHECK: %[[SUM:.*]] = linalg.generic
// CHECK: iree_tensor_ext.compute_barrier.start %[[SUM]]
func.func @returned(%x: tensor<8x32xf32>) -> (tensor<256xf32>, tensor<8xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x32xf32>
  %0 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8x32xf32>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = math.exp %a : f32
    linalg.yield %s : f32
  } -> tensor<8x32xf32>
  %1 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%0 : tensor<8x32xf32>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.mulf %a, %a : f32
    linalg.yield %s : f32
  } -> tensor<8x32xf32>
  %m = tensor.empty() : tensor<8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%m : tensor<8xf32>) -> tensor<8xf32>
  %2 = linalg.generic {indexing_maps = [#map, #row], iterator_types = ["parallel", "reduction"]} ins(%1 : tensor<8x32xf32>) outs(%f : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %a, %o : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  %3 = tensor.collapse_shape %0 [[0, 1]] : tensor<8x32xf32> into tensor<256xf32>
  return %3, %2 : tensor<256xf32>, tensor<8xf32>
}

// Readers that part behind a view, as of a product's sum that is made an image and back.
// CHECK-LABEL: func.func @behind_view(
// CHECK: %[[SUM:.*]] = linalg.generic
// CHECK: %[[STORED:.*]] = iree_tensor_ext.compute_barrier.start %[[SUM]]
// CHECK: tensor.collapse_shape %[[STORED]]
func.func @behind_view(%x: tensor<2x4x32xf32>) -> (tensor<8x32xf32>, tensor<8xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x4x32xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (i, j, k)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<2x4x32xf32>) outs(%e : tensor<2x4x32xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = math.exp %a : f32
    linalg.yield %s : f32
  } -> tensor<2x4x32xf32>
  %1 = tensor.collapse_shape %0 [[0, 1], [2]] : tensor<2x4x32xf32> into tensor<8x32xf32>
  %m = tensor.empty() : tensor<8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%m : tensor<8xf32>) -> tensor<8xf32>
  %2 = linalg.generic {indexing_maps = [#map, #row], iterator_types = ["parallel", "reduction"]} ins(%1 : tensor<8x32xf32>) outs(%f : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %a, %o : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  return %1, %2 : tensor<8x32xf32>, tensor<8xf32>
}

// Rows that are taken by index lie whole on the stack of the kernel of a sum that others read, too:
// longer ones than 8 KB stand in memory.
// CHECK-LABEL: func.func @long_gather(
// CHECK: %[[TAKEN:.*]] = linalg.generic
// CHECK: tensor.extract
// CHECK: iree_tensor_ext.compute_barrier.start %[[TAKEN]]
func.func @long_gather(%x: tensor<4x3000xf32>, %at: tensor<3000xi32>) -> tensor<4x3000xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x3000xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (j)>, #map], iterator_types = ["parallel", "parallel"]} ins(%at : tensor<3000xi32>) outs(%e : tensor<4x3000xf32>) {
  ^bb0(%a: i32, %o: f32):
    %i = linalg.index 0 : index
    %j = arith.index_cast %a : i32 to index
    %s = tensor.extract %x[%i, %j] : tensor<4x3000xf32>
    linalg.yield %s : f32
  } -> tensor<4x3000xf32>
  %m = tensor.empty() : tensor<4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%m : tensor<4xf32>) -> tensor<4xf32>
  %1 = linalg.generic {indexing_maps = [#map, #row], iterator_types = ["parallel", "reduction"]} ins(%0 : tensor<4x3000xf32>) outs(%f : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.maximumf %a, %o : f32
    linalg.yield %s : f32
  } -> tensor<4xf32>
  %2 = linalg.generic {indexing_maps = [#map, #row, #map], iterator_types = ["parallel", "parallel"]} ins(%0, %1 : tensor<4x3000xf32>, tensor<4xf32>) outs(%e : tensor<4x3000xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.divf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<4x3000xf32>
  return %2 : tensor<4x3000xf32>
}

// CHECK-LABEL: func.func @short_gather(
// CHECK-NOT: compute_barrier
func.func @short_gather(%x: tensor<4x300xf32>, %at: tensor<300xi32>) -> tensor<4x300xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x300xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (j)>, #map], iterator_types = ["parallel", "parallel"]} ins(%at : tensor<300xi32>) outs(%e : tensor<4x300xf32>) {
  ^bb0(%a: i32, %o: f32):
    %i = linalg.index 0 : index
    %j = arith.index_cast %a : i32 to index
    %s = tensor.extract %x[%i, %j] : tensor<4x300xf32>
    linalg.yield %s : f32
  } -> tensor<4x300xf32>
  %m = tensor.empty() : tensor<4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%m : tensor<4xf32>) -> tensor<4xf32>
  %1 = linalg.generic {indexing_maps = [#map, #row], iterator_types = ["parallel", "reduction"]} ins(%0 : tensor<4x300xf32>) outs(%f : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.maximumf %a, %o : f32
    linalg.yield %s : f32
  } -> tensor<4xf32>
  %2 = linalg.generic {indexing_maps = [#map, #row, #map], iterator_types = ["parallel", "parallel"]} ins(%0, %1 : tensor<4x300xf32>, tensor<4xf32>) outs(%e : tensor<4x300xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.divf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<4x300xf32>
  return %2 : tensor<4x300xf32>
}

// All that reads the sum is the norm's.
// CHECK-LABEL: func.func @norm_alone(
// CHECK-NOT: compute_barrier
// CHECK: return
func.func @norm_alone(%x: tensor<8x32xf32>, %y: tensor<8x32xf32>, %f: tensor<8xf32>) -> tensor<8x32xf32> {
  %e = tensor.empty() : tensor<8x32xf32>
  %0 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%x, %y : tensor<8x32xf32>, tensor<8x32xf32>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<8x32xf32>
  %1 = linalg.generic {indexing_maps = [#map, #row], iterator_types = ["parallel", "reduction"]} ins(%0 : tensor<8x32xf32>) outs(%f : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.maximumf %a, %o : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  %2 = linalg.generic {indexing_maps = [#map, #row, #map], iterator_types = ["parallel", "parallel"]} ins(%0, %1 : tensor<8x32xf32>, tensor<8xf32>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.divf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<8x32xf32>
  return %2 : tensor<8x32xf32>
}

// No norm: two products read it.
// CHECK-LABEL: func.func @no_norm(
// CHECK-NOT: compute_barrier
// CHECK: return
func.func @no_norm(%x: tensor<32x32xf32>, %y: tensor<32x32xf32>) -> (tensor<32x32xf32>, tensor<32x32xf32>) {
  %e = tensor.empty() : tensor<32x32xf32>
  %0 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<32x32xf32>) outs(%e : tensor<32x32xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = math.exp %a : f32
    linalg.yield %s : f32
  } -> tensor<32x32xf32>
  %1 = linalg.matmul ins(%0, %y : tensor<32x32xf32>, tensor<32x32xf32>) outs(%x : tensor<32x32xf32>) -> tensor<32x32xf32>
  return %0, %1 : tensor<32x32xf32>, tensor<32x32xf32>
}
}

// -----

// What a norm over an unknown number takes the mean from, which it squares and divides.
// CHECK-LABEL: func.func @norm(
// CHECK: %[[CENTERED:.*]] = linalg.generic {{.*}}"parallel", "parallel"]}
// CHECK: arith.subf
// CHECK: %[[STORED:.*]] = iree_tensor_ext.compute_barrier.start %[[CENTERED]]
// CHECK: ins(%[[STORED]] :
// CHECK: arith.mulf
// CHECK: ins(%[[STORED]], %{{.*}}
// CHECK: arith.divf
// CHECK-NOT: compute_barrier
// CHECK: return
#map = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
module attributes {hal.device.targets = [#hal.device.target<"local", [#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64">]> : !hal.device]} {
func.func @norm(%x: tensor<8x?xf32>, %mean: tensor<8xf32>, %f: tensor<8xf32>, %e: tensor<8x?xf32>) -> tensor<8x?xf32> {
  %0 = linalg.generic {indexing_maps = [#map, #row, #map], iterator_types = ["parallel", "parallel"]} ins(%x, %mean : tensor<8x?xf32>, tensor<8xf32>) outs(%e : tensor<8x?xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.subf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<8x?xf32>
  %1 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%0 : tensor<8x?xf32>) outs(%e : tensor<8x?xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.mulf %a, %a : f32
    linalg.yield %s : f32
  } -> tensor<8x?xf32>
  %2 = linalg.generic {indexing_maps = [#map, #row], iterator_types = ["parallel", "reduction"]} ins(%1 : tensor<8x?xf32>) outs(%f : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %a, %o : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  %3 = linalg.generic {indexing_maps = [#map, #row, #map], iterator_types = ["parallel", "parallel"]} ins(%0, %2 : tensor<8x?xf32>, tensor<8xf32>) outs(%e : tensor<8x?xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.divf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<8x?xf32>
  return %3 : tensor<8x?xf32>
}
}

// -----

// The scores of a softmax over an unknown number of keys; not its exponentials.
// CHECK-LABEL: func.func @softmax(
// CHECK: %[[SCORES:.*]] = linalg.generic
// CHECK: arith.mulf
// CHECK: %[[STORED:.*]] = iree_tensor_ext.compute_barrier.start %[[SCORES]]
// CHECK: arith.maximumf
// CHECK: ins(%[[STORED]], %{{.*}}
// CHECK: math.exp
// CHECK-NOT: compute_barrier
// CHECK: return
#map = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
module attributes {hal.device.targets = [#hal.device.target<"local", [#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64">]> : !hal.device]} {
func.func @softmax(%x: tensor<8x?xf32>, %f: tensor<8xf32>, %g: tensor<8xf32>, %e: tensor<8x?xf32>) -> tensor<8x?xf32> {
  %0 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8x?xf32>) outs(%e : tensor<8x?xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.mulf %a, %a : f32
    linalg.yield %s : f32
  } -> tensor<8x?xf32>
  %1 = linalg.generic {indexing_maps = [#map, #row], iterator_types = ["parallel", "reduction"]} ins(%0 : tensor<8x?xf32>) outs(%f : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.maximumf %a, %o : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  %2 = linalg.generic {indexing_maps = [#map, #row, #map], iterator_types = ["parallel", "parallel"]} ins(%0, %1 : tensor<8x?xf32>, tensor<8xf32>) outs(%e : tensor<8x?xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %d = arith.subf %a, %b : f32
    %s = math.exp %d : f32
    linalg.yield %s : f32
  } -> tensor<8x?xf32>
  %3 = linalg.generic {indexing_maps = [#map, #row], iterator_types = ["parallel", "reduction"]} ins(%2 : tensor<8x?xf32>) outs(%g : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %a, %o : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  %4 = linalg.generic {indexing_maps = [#map, #row, #map], iterator_types = ["parallel", "parallel"]} ins(%2, %3 : tensor<8x?xf32>, tensor<8xf32>) outs(%e : tensor<8x?xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.divf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<8x?xf32>
  return %4 : tensor<8x?xf32>
}
}

// -----

// CHECK-LABEL: func.func @for_gpus(
// CHECK-NOT: compute_barrier
#map = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
module attributes {hal.device.targets = [#hal.device.target<"cuda", [#hal.executable.target<"cuda", "cuda-nvptx-fb">]> : !hal.device]} {
func.func @for_gpus(%x: tensor<8x32xf32>, %f: tensor<8xf32>) -> (tensor<8x32xf32>, tensor<8xf32>) {
  %e = tensor.empty() : tensor<8x32xf32>
  %0 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8x32xf32>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = math.exp %a : f32
    linalg.yield %s : f32
  } -> tensor<8x32xf32>
  %1 = linalg.generic {indexing_maps = [#map, #row], iterator_types = ["parallel", "reduction"]} ins(%0 : tensor<8x32xf32>) outs(%f : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %a, %o : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  return %0, %1 : tensor<8x32xf32>, tensor<8xf32>
}
// CHECK-LABEL: func.func @scores(
// CHECK: %[[SCORES:.*]] = linalg.generic
// CHECK: %[[STORED:.*]] = iree_tensor_ext.compute_barrier.start %[[SCORES]]
// CHECK: linalg.softmax {{.*}} ins(%[[STORED]]
// CHECK: return %[[STORED]]
func.func @scores(%x: tensor<2x6xf32>, %m: tensor<2x6xf32>) -> (tensor<2x6xf32>, tensor<2x6xf32>) {
  %e = tensor.empty() : tensor<2x6xf32>
  %s = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%x, %m : tensor<2x6xf32>, tensor<2x6xf32>) outs(%e : tensor<2x6xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %v = arith.addf %a, %b : f32
    linalg.yield %v : f32
  } -> tensor<2x6xf32>
  %p = linalg.softmax dimension(1) ins(%s : tensor<2x6xf32>) outs(%e : tensor<2x6xf32>) -> tensor<2x6xf32>
  return %s, %p : tensor<2x6xf32>, tensor<2x6xf32>
}
}

// -----

// The largest of a softmax, and what else reads it: IREE makes both results in the softmax's kernel, for
// which there is no program on GPUs. One that others alone read stays.
#map = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
#one = affine_map<(i, j) -> (i, 0)>
module attributes {hal.device.targets = [#hal.device.target<"cuda", [#hal.executable.target<"cuda", "cuda-nvptx-fb">]> : !hal.device]} {
// CHECK-LABEL: func.func @chances(
// CHECK: %[[CHANCES:.*]] = linalg.generic
// CHECK: arith.divf
// CHECK: %[[STORED:.*]] = iree_tensor_ext.compute_barrier.start
// CHECK: linalg.generic {{.*}}"reduction"]} ins(%[[STORED]]
// CHECK: return %{{.*}}, %[[STORED]]
func.func @chances(%e: tensor<8x50xf32>, %zeros: tensor<8x1xf32>, %low: tensor<8xf32>) -> (tensor<8xf32>, tensor<8x50xf32>) {
  %space = tensor.empty() : tensor<8x50xf32>
  %s = linalg.generic {indexing_maps = [#map, #one], iterator_types = ["parallel", "reduction"]} ins(%e : tensor<8x50xf32>) outs(%zeros : tensor<8x1xf32>) {
  ^bb0(%a: f32, %o: f32):
    %t = arith.addf %a, %o : f32
    linalg.yield %t : f32
  } -> tensor<8x1xf32>
  %p = linalg.generic {indexing_maps = [#map, #one, #map], iterator_types = ["parallel", "parallel"]} ins(%e, %s : tensor<8x50xf32>, tensor<8x1xf32>) outs(%space : tensor<8x50xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %t = arith.divf %a, %b : f32
    linalg.yield %t : f32
  } -> tensor<8x50xf32>
  %m = linalg.generic {indexing_maps = [#map, #row], iterator_types = ["parallel", "reduction"]} ins(%p : tensor<8x50xf32>) outs(%low : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %t = arith.maximumf %a, %o : f32
    linalg.yield %t : f32
  } -> tensor<8xf32>
  return %m, %p : tensor<8xf32>, tensor<8x50xf32>
}
}

// -----

// A grid, of which x and y are read; of a dim of size one it is all.
// CHECK-LABEL: func.func @grid(
// CHECK: %[[GRID:.*]] = linalg.generic
// CHECK: %[[STORED:.*]] = iree_tensor_ext.compute_barrier.start %[[GRID]]
// CHECK: %[[ONE:.*]] = linalg.generic
// CHECK: linalg.generic
// CHECK-SAME: ins(%[[STORED]], %[[STORED]], %[[ONE]]
#all = affine_map<(i, j) -> (i, j)>
#x = affine_map<(i) -> (i, 0)>
#y = affine_map<(i) -> (i, 1)>
#i = affine_map<(i) -> (i)>
func.func @grid(%g: tensor<8x2xf32>, %u: tensor<8x1xf32>) -> tensor<8xf32> {
  %e = tensor.empty() : tensor<8x2xf32>
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]} ins(%g : tensor<8x2xf32>) outs(%e : tensor<8x2xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = math.absf %a : f32
    linalg.yield %s : f32
  } -> tensor<8x2xf32>
  %f = tensor.empty() : tensor<8x1xf32>
  %1 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]} ins(%u : tensor<8x1xf32>) outs(%f : tensor<8x1xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = math.absf %a : f32
    linalg.yield %s : f32
  } -> tensor<8x1xf32>
  %h = tensor.empty() : tensor<8xf32>
  %2 = linalg.generic {indexing_maps = [#x, #y, #x, #i], iterator_types = ["parallel"]} ins(%0, %0, %1 : tensor<8x2xf32>, tensor<8x2xf32>, tensor<8x1xf32>) outs(%h : tensor<8xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32, %o: f32):
    %s = arith.addf %a, %b : f32
    %t = arith.addf %s, %c : f32
    linalg.yield %t : f32
  } -> tensor<8xf32>
  return %2 : tensor<8xf32>
}

// -----

// What stands between two reductions and leaves their kernel has no program on GPUs: the caller reads it,
// or a transpose behind a reshape, which IREE moves in front of what the norm makes of it. Where nothing
// but the norm reads it, or the transpose stands alone, it stays.
#map = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
module attributes {hal.device.targets = [#hal.device.target<"cuda", [#hal.executable.target<"cuda", "cuda-nvptx-fb">]> : !hal.device]} {
// CHECK-LABEL: func.func @centered(
// CHECK: %[[CENTERED:.*]] = linalg.generic {{.*}}"parallel", "parallel"]}
// CHECK: arith.subf
// CHECK: %[[STORED:.*]] = iree_tensor_ext.compute_barrier.start %[[CENTERED]]
// CHECK: linalg.generic {{.*}} ins(%[[STORED]]
// CHECK-NOT: compute_barrier
// CHECK: linalg.generic {{.*}} ins(%[[STORED]]
// CHECK: %[[NORM:.*]] = iree_tensor_ext.compute_barrier.start
// CHECK: tensor.expand_shape %[[NORM]]
// CHECK-NOT: compute_barrier
// CHECK: return
func.func @centered(%x: tensor<8x32xf32>, %y: tensor<8x32xf32>, %zeros: tensor<8xf32>) -> (tensor<8x32xf32>, tensor<4x2x32xf32>, tensor<32x8xf32>) {
  %e = tensor.empty() : tensor<8x32xf32>
  %m = linalg.generic {indexing_maps = [#map, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<8x32xf32>) outs(%zeros : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %t = arith.addf %a, %o : f32
    linalg.yield %t : f32
  } -> tensor<8xf32>
  %c = linalg.generic {indexing_maps = [#map, #row, #map], iterator_types = ["parallel", "parallel"]} ins(%x, %m : tensor<8x32xf32>, tensor<8xf32>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %t = arith.subf %a, %b : f32
    linalg.yield %t : f32
  } -> tensor<8x32xf32>
  %v = linalg.generic {indexing_maps = [#map, #row], iterator_types = ["parallel", "reduction"]} ins(%c : tensor<8x32xf32>) outs(%zeros : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %q = arith.mulf %a, %a : f32
    %t = arith.addf %q, %o : f32
    linalg.yield %t : f32
  } -> tensor<8xf32>
  %n = linalg.generic {indexing_maps = [#map, #row, #map], iterator_types = ["parallel", "parallel"]} ins(%c, %v : tensor<8x32xf32>, tensor<8xf32>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %t = arith.divf %a, %b : f32
    linalg.yield %t : f32
  } -> tensor<8x32xf32>
  %g = tensor.expand_shape %n [[0, 1], [2]] output_shape [2, 4, 32] : tensor<8x32xf32> into tensor<2x4x32xf32>
  %s = tensor.empty() : tensor<4x2x32xf32>
  %r = linalg.transpose ins(%g : tensor<2x4x32xf32>) outs(%s : tensor<4x2x32xf32>) permutation = [1, 0, 2]
  %l = linalg.generic {indexing_maps = [#map, #row, #map], iterator_types = ["parallel", "parallel"]} ins(%y, %v : tensor<8x32xf32>, tensor<8xf32>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %t = arith.divf %a, %b : f32
    linalg.yield %t : f32
  } -> tensor<8x32xf32>
  %u = tensor.empty() : tensor<32x8xf32>
  %p = linalg.transpose ins(%l : tensor<8x32xf32>) outs(%u : tensor<32x8xf32>) permutation = [1, 0]
  return %c, %r, %p : tensor<8x32xf32>, tensor<4x2x32xf32>, tensor<32x8xf32>
}
}

// -----

// A mean of a norm's rows is no part of its kernel either.
#map = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
#column = affine_map<(i, j) -> (j)>
module attributes {hal.device.targets = [#hal.device.target<"cuda", [#hal.executable.target<"cuda", "cuda-nvptx-fb">]> : !hal.device]} {
// CHECK-LABEL: func.func @mean_of_rows(
// CHECK: arith.subf
// CHECK: compute_barrier.start
// CHECK-NOT: compute_barrier
// CHECK: return
func.func @mean_of_rows(%x: tensor<8x32xf32>, %zeros: tensor<8xf32>, %others: tensor<32xf32>) -> tensor<32xf32> {
  %e = tensor.empty() : tensor<8x32xf32>
  %s = linalg.generic {indexing_maps = [#map, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<8x32xf32>) outs(%zeros : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %t = arith.addf %a, %o : f32
    linalg.yield %t : f32
  } -> tensor<8xf32>
  %c = linalg.generic {indexing_maps = [#map, #row, #map], iterator_types = ["parallel", "parallel"]} ins(%x, %s : tensor<8x32xf32>, tensor<8xf32>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %t = arith.subf %a, %b : f32
    linalg.yield %t : f32
  } -> tensor<8x32xf32>
  %v = linalg.generic {indexing_maps = [#map, #row], iterator_types = ["parallel", "reduction"]} ins(%c : tensor<8x32xf32>) outs(%zeros : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %q = arith.mulf %a, %a : f32
    %t = arith.addf %q, %o : f32
    linalg.yield %t : f32
  } -> tensor<8xf32>
  %n = linalg.generic {indexing_maps = [#map, #row, #map], iterator_types = ["parallel", "parallel"]} ins(%c, %v : tensor<8x32xf32>, tensor<8xf32>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %t = arith.divf %a, %b : f32
    linalg.yield %t : f32
  } -> tensor<8x32xf32>
  %r = linalg.generic {indexing_maps = [#map, #column], iterator_types = ["reduction", "parallel"]} ins(%n : tensor<8x32xf32>) outs(%others : tensor<32xf32>) {
  ^bb0(%a: f32, %o: f32):
    %t = arith.addf %a, %o : f32
    linalg.yield %t : f32
  } -> tensor<32xf32>
  return %r : tensor<32xf32>
}
}

// -----

// What a sum and others read of what is transposed (a convolution that is a product of channels last)
// stands in memory; of what lies as it is read IREE makes both in a kernel.
#map = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
module attributes {hal.device.targets = [#hal.device.target<"cuda", [#hal.executable.target<"cuda", "cuda-nvptx-fb">]> : !hal.device]} {
// CHECK-LABEL: func.func @squeezed
// CHECK: %[[T:.*]] = linalg.transpose
// CHECK: %[[WIDE:.*]] = linalg.generic {{.*}} ins(%[[T]]
// CHECK: %[[SMALL:.*]] = linalg.generic {{.*}} ins(%[[WIDE]]
// CHECK: %[[MADE:.*]] = linalg.generic {{.*}} ins(%[[SMALL]]
// CHECK: compute_barrier.start %[[MADE]]
// CHECK-NOT: compute_barrier
// CHECK: return
func.func @squeezed(%x: tensor<32x8xf32>, %y: tensor<8x32xf32>, %zeros: tensor<8xf32>) -> (tensor<8x32xf32>, tensor<8x32xf32>) {
  %e = tensor.empty() : tensor<8x32xf32>
  %t = linalg.transpose ins(%x : tensor<32x8xf32>) outs(%e : tensor<8x32xf32>) permutation = [1, 0]
  %wide = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%t : tensor<8x32xf32>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%i: f32, %o: f32):
    %s = math.tanh %i : f32
    linalg.yield %s : f32
  } -> tensor<8x32xf32>
  %small = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%wide : tensor<8x32xf32>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%i: f32, %o: f32):
    %s = math.absf %i : f32
    linalg.yield %s : f32
  } -> tensor<8x32xf32>
  %a = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%small : tensor<8x32xf32>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%i: f32, %o: f32):
    %s = math.exp %i : f32
    linalg.yield %s : f32
  } -> tensor<8x32xf32>
  %m = linalg.generic {indexing_maps = [#map, #row], iterator_types = ["parallel", "reduction"]} ins(%a : tensor<8x32xf32>) outs(%zeros : tensor<8xf32>) {
  ^bb0(%i: f32, %o: f32):
    %s = arith.addf %i, %o : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  %b = linalg.generic {indexing_maps = [#map, #row, #map], iterator_types = ["parallel", "parallel"]} ins(%a, %m : tensor<8x32xf32>, tensor<8xf32>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %s = arith.mulf %i, %j : f32
    linalg.yield %s : f32
  } -> tensor<8x32xf32>
  %c = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%y : tensor<8x32xf32>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%i: f32, %o: f32):
    %s = math.exp %i : f32
    linalg.yield %s : f32
  } -> tensor<8x32xf32>
  %n = linalg.generic {indexing_maps = [#map, #row], iterator_types = ["parallel", "reduction"]} ins(%c : tensor<8x32xf32>) outs(%zeros : tensor<8xf32>) {
  ^bb0(%i: f32, %o: f32):
    %s = arith.addf %i, %o : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  %d = linalg.generic {indexing_maps = [#map, #row, #map], iterator_types = ["parallel", "parallel"]} ins(%c, %n : tensor<8x32xf32>, tensor<8xf32>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %s = arith.mulf %i, %j : f32
    linalg.yield %s : f32
  } -> tensor<8x32xf32>
  return %b, %d : tensor<8x32xf32>, tensor<8x32xf32>
}
}

// -----

// What a norm gives stands in memory where a transpose would write its rows across (channels last, behind
// a norm of each channel), whatever made what is normed; not where rows stay rows.
#map = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
module attributes {hal.device.targets = [#hal.device.target<"cuda", [#hal.executable.target<"cuda", "cuda-nvptx-fb">]> : !hal.device]} {
// CHECK-LABEL: func.func @crossed
// CHECK: math.absf
// CHECK: %[[STORED:.*]] = {{.*}}compute_barrier.start %{{.*}} : tensor<8x33xf32>
// CHECK: linalg.transpose ins(%[[STORED]]
// CHECK-NOT: compute_barrier
// CHECK: return
func.func @crossed(%w: tensor<8x33xf32>, %zeros: tensor<8xf32>) -> tensor<33x8xf32> {
  %x = iree_tensor_ext.compute_barrier.start %w : tensor<8x33xf32> -> tensor<8x33xf32>
  %e = tensor.empty() : tensor<8x33xf32>
  %m = linalg.generic {indexing_maps = [#map, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<8x33xf32>) outs(%zeros : tensor<8xf32>) {
  ^bb0(%i: f32, %o: f32):
    %s = arith.addf %i, %o : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  %c = linalg.generic {indexing_maps = [#map, #row, #map], iterator_types = ["parallel", "parallel"]} ins(%x, %m : tensor<8x33xf32>, tensor<8xf32>) outs(%e : tensor<8x33xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %s = arith.subf %i, %j : f32
    linalg.yield %s : f32
  } -> tensor<8x33xf32>
  %q = linalg.generic {indexing_maps = [#map, #row], iterator_types = ["parallel", "reduction"]} ins(%c : tensor<8x33xf32>) outs(%zeros : tensor<8xf32>) {
  ^bb0(%i: f32, %o: f32):
    %s = arith.mulf %i, %i : f32
    %t = arith.addf %s, %o : f32
    linalg.yield %t : f32
  } -> tensor<8xf32>
  %n = linalg.generic {indexing_maps = [#map, #row, #map], iterator_types = ["parallel", "parallel"]} ins(%c, %q : tensor<8x33xf32>, tensor<8xf32>) outs(%e : tensor<8x33xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %s = arith.divf %i, %j : f32
    linalg.yield %s : f32
  } -> tensor<8x33xf32>
  %a = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%n : tensor<8x33xf32>) outs(%e : tensor<8x33xf32>) {
  ^bb0(%i: f32, %o: f32):
    %s = math.absf %i : f32
    linalg.yield %s : f32
  } -> tensor<8x33xf32>
  %f = tensor.empty() : tensor<33x8xf32>
  %t = linalg.transpose ins(%a : tensor<8x33xf32>) outs(%f : tensor<33x8xf32>) permutation = [1, 0]
  return %t : tensor<33x8xf32>
}

// The truths that are counted, and are a result; numbers that are counted as they are stay.
// CHECK-LABEL: func.func @counted(
// CHECK: arith.cmpf
// CHECK: %[[STORED:.*]] = {{.*}}compute_barrier.start %{{.*}} : tensor<8x33xi1>
// CHECK: linalg.generic {{.*}} ins(%[[STORED]]
// CHECK-NOT: compute_barrier
// CHECK: return %[[STORED]]
func.func @counted(%x: tensor<8x33xf32>, %zeros: tensor<8xi32>) -> (tensor<8x33xi1>, tensor<8xi32>, tensor<8x33xi32>, tensor<8xi32>) {
  %half = arith.constant 0.5 : f32
  %e = tensor.empty() : tensor<8x33xi1>
  %g = tensor.empty() : tensor<8x33xi32>
  %t = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8x33xf32>) outs(%e : tensor<8x33xi1>) {
  ^bb0(%i: f32, %o: i1):
    %s = arith.cmpf olt, %i, %half : f32
    linalg.yield %s : i1
  } -> tensor<8x33xi1>
  %r = linalg.generic {indexing_maps = [#map, #row], iterator_types = ["parallel", "reduction"]} ins(%t : tensor<8x33xi1>) outs(%zeros : tensor<8xi32>) {
  ^bb0(%i: i1, %o: i32):
    %n = arith.extui %i : i1 to i32
    %s = arith.addi %n, %o : i32
    linalg.yield %s : i32
  } -> tensor<8xi32>
  %w = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8x33xf32>) outs(%g : tensor<8x33xi32>) {
  ^bb0(%i: f32, %o: i32):
    %s = arith.fptosi %i : f32 to i32
    linalg.yield %s : i32
  } -> tensor<8x33xi32>
  %m = linalg.generic {indexing_maps = [#map, #row], iterator_types = ["parallel", "reduction"]} ins(%w : tensor<8x33xi32>) outs(%zeros : tensor<8xi32>) {
  ^bb0(%i: i32, %o: i32):
    %s = arith.maxsi %i, %o : i32
    linalg.yield %s : i32
  } -> tensor<8xi32>
  return %t, %r, %w, %m : tensor<8x33xi1>, tensor<8xi32>, tensor<8x33xi32>, tensor<8xi32>
}
// What a sum reads, and an op before it that leads to none; behind the sum it may stay.
// CHECK-LABEL: func.func @side(
// CHECK: math.exp
// CHECK: %[[STORED:.*]] = {{.*}}compute_barrier.start
// CHECK: linalg.generic {{.*}} ins(%[[STORED]]
// CHECK: linalg.generic {{.*}} ins(%[[STORED]]
// CHECK: math.exp
// CHECK-NOT: compute_barrier
// CHECK: return
func.func @side(%x: tensor<8x32xf32>, %zeros: tensor<8xf32>) -> (tensor<8x32xf32>, tensor<8xf32>, tensor<8x32xf32>, tensor<8xf32>) {
  %e = tensor.empty() : tensor<8x32xf32>
  %k = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8x32xf32>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%i: f32, %o: f32):
    %s = math.exp %i : f32
    linalg.yield %s : f32
  } -> tensor<8x32xf32>
  %t1 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%k, %x : tensor<8x32xf32>, tensor<8x32xf32>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %s = arith.mulf %i, %j : f32
    linalg.yield %s : f32
  } -> tensor<8x32xf32>
  %r1 = linalg.generic {indexing_maps = [#map, #row], iterator_types = ["parallel", "reduction"]} ins(%k : tensor<8x32xf32>) outs(%zeros : tensor<8xf32>) {
  ^bb0(%i: f32, %o: f32):
    %s = arith.addf %i, %o : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  %l = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8x32xf32>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%i: f32, %o: f32):
    %s = math.exp %i : f32
    linalg.yield %s : f32
  } -> tensor<8x32xf32>
  %r2 = linalg.generic {indexing_maps = [#map, #row], iterator_types = ["parallel", "reduction"]} ins(%l : tensor<8x32xf32>) outs(%zeros : tensor<8xf32>) {
  ^bb0(%i: f32, %o: f32):
    %s = arith.addf %i, %o : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  %t2 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%l, %x : tensor<8x32xf32>, tensor<8x32xf32>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %s = arith.mulf %i, %j : f32
    linalg.yield %s : f32
  } -> tensor<8x32xf32>
  return %t1, %r1, %t2, %r2 : tensor<8x32xf32>, tensor<8xf32>, tensor<8x32xf32>, tensor<8xf32>
}

// A sum and a product read exponentials behind one reshape.
// CHECK-LABEL: func.func @behind_one_reshape(
// CHECK: math.exp
// CHECK: %[[STORED:.*]] = {{.*}}compute_barrier.start
// CHECK: tensor.expand_shape %[[STORED]]
func.func @behind_one_reshape(%x: tensor<8x32xf32>, %w: tensor<32x8xf32>, %low: tensor<8xf32>, %zeros: tensor<8xf32>, %z: tensor<8x8xf32>) -> (tensor<8xf32>, tensor<8x8xf32>) {
  %m = linalg.generic {indexing_maps = [#map, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<8x32xf32>) outs(%low : tensor<8xf32>) {
  ^bb0(%i: f32, %o: f32):
    %s = arith.maximumf %i, %o : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  %e = tensor.empty() : tensor<8x32xf32>
  %k = linalg.generic {indexing_maps = [#map, #row, #map], iterator_types = ["parallel", "parallel"]} ins(%x, %m : tensor<8x32xf32>, tensor<8xf32>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %d = arith.subf %i, %j : f32
    %s = math.exp %d : f32
    linalg.yield %s : f32
  } -> tensor<8x32xf32>
  %v = tensor.expand_shape %k [[0], [1, 2]] output_shape [8, 4, 8] : tensor<8x32xf32> into tensor<8x4x8xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (i)>], iterator_types = ["parallel", "reduction", "reduction"]} ins(%v : tensor<8x4x8xf32>) outs(%zeros : tensor<8xf32>) {
  ^bb0(%i: f32, %o: f32):
    %s = arith.addf %i, %o : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  %c = tensor.collapse_shape %v [[0], [1, 2]] : tensor<8x4x8xf32> into tensor<8x32xf32>
  %p = linalg.matmul ins(%c, %w : tensor<8x32xf32>, tensor<32x8xf32>) outs(%z : tensor<8x8xf32>) -> tensor<8x8xf32>
  return %r, %p : tensor<8xf32>, tensor<8x8xf32>
}
// A norm along what a transpose puts last (attention over channels) reads it from memory; where the
// last dim stays there, as that of heads in front of rows, it reads what is transposed.
// CHECK-LABEL: func.func @normed_across(
// CHECK: %[[MOVED:.*]] = linalg.transpose {{.*}} permutation = [0, 2, 1]
// CHECK-NEXT: compute_barrier.start %[[MOVED]]
// CHECK-LABEL: func.func @normed_along(
// CHECK-NOT: compute_barrier
// CHECK: return
func.func @normed_across(%x: tensor<4x784x48xf32>, %zeros: tensor<4x48xf32>) -> tensor<4x48x784xf32> {
  %e = tensor.empty() : tensor<4x48x784xf32>
  %t = linalg.transpose ins(%x : tensor<4x784x48xf32>) outs(%e : tensor<4x48x784xf32>) permutation = [0, 2, 1]
  %r = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%t : tensor<4x48x784xf32>) outs(%zeros : tensor<4x48xf32>) {
  ^bb0(%i: f32, %o: f32):
    %q = arith.mulf %i, %i : f32
    %s = arith.addf %q, %o : f32
    linalg.yield %s : f32
  } -> tensor<4x48xf32>
  %n = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (i, j)>, affine_map<(i, j, k) -> (i, j, k)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%t, %r : tensor<4x48x784xf32>, tensor<4x48xf32>) outs(%e : tensor<4x48x784xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %s = arith.divf %i, %j : f32
    linalg.yield %s : f32
  } -> tensor<4x48x784xf32>
  return %n : tensor<4x48x784xf32>
}

func.func @normed_along(%x: tensor<4x48x784xf32>, %zeros: tensor<48x4xf32>) -> tensor<48x4x784xf32> {
  %e = tensor.empty() : tensor<48x4x784xf32>
  %t = linalg.transpose ins(%x : tensor<4x48x784xf32>) outs(%e : tensor<48x4x784xf32>) permutation = [1, 0, 2]
  %r = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%t : tensor<48x4x784xf32>) outs(%zeros : tensor<48x4xf32>) {
  ^bb0(%i: f32, %o: f32):
    %q = arith.mulf %i, %i : f32
    %s = arith.addf %q, %o : f32
    linalg.yield %s : f32
  } -> tensor<48x4xf32>
  %n = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (i, j)>, affine_map<(i, j, k) -> (i, j, k)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%t, %r : tensor<48x4x784xf32>, tensor<48x4xf32>) outs(%e : tensor<48x4x784xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %s = arith.divf %i, %j : f32
    linalg.yield %s : f32
  } -> tensor<48x4x784xf32>
  return %n : tensor<48x4x784xf32>
}
}
