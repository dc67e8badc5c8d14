// For GPUs a slice with gaps stands in memory where it is read by computed indices, also through a
// reshape or a transpose; run twice the pass adds nothing. One without gaps, one that is read as it
// lies, and those for other targets stay. For CPUs one stands in memory whose last dim has gaps.

// RUN: attn-opt %s --attn-gather-slices --split-input-file | FileCheck %s
// RUN: attn-opt %s --attn-gather-slices --split-input-file > %t.1 && attn-opt %s --attn-gather-slices --attn-gather-slices --split-input-file > %t.2 && diff %t.1 %t.2

module attributes {hal.device.targets = [#hal.device.target<"cuda", [#hal.executable.target<"cuda", "cuda-nvptx-fb">]> : !hal.device]} {
  // CHECK-LABEL: func.func @gaps(
  // CHECK: %[[SLICE:.*]] = tensor.extract_slice %arg0[0, 6, 0] [8, 2, 8]
  // CHECK: %[[STORED:.*]] = iree_tensor_ext.compute_barrier.start %[[SLICE]] : tensor<8x2x8xf32>
  // CHECK: %[[VIEW:.*]] = tensor.collapse_shape %[[STORED]]
  // CHECK: tensor.extract %[[VIEW]]
  func.func @gaps(%x: tensor<8x16x8xf32>) -> tensor<8x16xf32> {
    %c15 = arith.constant 15 : index
    %piece = tensor.extract_slice %x[0, 6, 0] [8, 2, 8] [1, 1, 1] : tensor<8x16x8xf32> to tensor<8x2x8xf32>
    %view = tensor.collapse_shape %piece [[0], [1, 2]] : tensor<8x2x8xf32> into tensor<8x16xf32>
    %e = tensor.empty() : tensor<8x16xf32>
    %r = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]} outs(%e : tensor<8x16xf32>) {
    ^bb0(%out: f32):
      %i = linalg.index 0 : index
      %j = linalg.index 1 : index
      %back = arith.subi %c15, %j : index
      %v = tensor.extract %view[%i, %back] : tensor<8x16xf32>
      linalg.yield %v : f32
    } -> tensor<8x16xf32>
    return %r : tensor<8x16xf32>
  }

  // CHECK-LABEL: func.func @strides(
  // CHECK: compute_barrier.start
  func.func @strides(%x: tensor<16xf32>, %at: tensor<8xi32>) -> tensor<8xf32> {
    %piece = tensor.extract_slice %x[0] [8] [2] : tensor<16xf32> to tensor<8xf32>
    %e = tensor.empty() : tensor<8xf32>
    %r = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]} ins(%at : tensor<8xi32>) outs(%e : tensor<8xf32>) {
    ^bb0(%n: i32, %out: f32):
      %i = arith.index_cast %n : i32 to index
      %v = tensor.extract %piece[%i] : tensor<8xf32>
      linalg.yield %v : f32
    } -> tensor<8xf32>
    return %r : tensor<8xf32>
  }

  // A slice of a transpose comes to have gaps where IREE moves the transpose behind it.
  // CHECK-LABEL: func.func @transposed(
  // CHECK: %[[PIECE:.*]] = tensor.extract_slice %{{.*}}[1, 0, 0] [1, 8, 4]
  // CHECK: compute_barrier.start %[[PIECE]]
  func.func @transposed(%x: tensor<4x3x8xf32>, %at: tensor<8xi32>) -> tensor<8xf32> {
    %c0 = arith.constant 0 : index
    %t = tensor.empty() : tensor<3x8x4xf32>
    %turned = linalg.transpose ins(%x : tensor<4x3x8xf32>) outs(%t : tensor<3x8x4xf32>) permutation = [1, 2, 0]
    %piece = tensor.extract_slice %turned[1, 0, 0] [1, 8, 4] [1, 1, 1] : tensor<3x8x4xf32> to tensor<1x8x4xf32>
    %e = tensor.empty() : tensor<8xf32>
    %r = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]} ins(%at : tensor<8xi32>) outs(%e : tensor<8xf32>) {
    ^bb0(%n: i32, %out: f32):
      %i = arith.index_cast %n : i32 to index
      %v = tensor.extract %piece[%c0, %i, %c0] : tensor<1x8x4xf32>
      linalg.yield %v : f32
    } -> tensor<8xf32>
    return %r : tensor<8xf32>
  }

  // A transpose may stand behind the slice.
  // CHECK-LABEL: func.func @behind(
  // CHECK: %[[PIECE:.*]] = tensor.extract_slice %arg0[0, 6, 0] [4, 2, 8]
  // CHECK: %[[STORED:.*]] = iree_tensor_ext.compute_barrier.start %[[PIECE]]
  // CHECK: linalg.transpose ins(%[[STORED]] :
  func.func @behind(%x: tensor<4x16x8xf32>, %at: tensor<8xi32>) -> tensor<8xf32> {
    %c0 = arith.constant 0 : index
    %piece = tensor.extract_slice %x[0, 6, 0] [4, 2, 8] [1, 1, 1] : tensor<4x16x8xf32> to tensor<4x2x8xf32>
    %t = tensor.empty() : tensor<8x2x4xf32>
    %turned = linalg.transpose ins(%piece : tensor<4x2x8xf32>) outs(%t : tensor<8x2x4xf32>) permutation = [2, 1, 0]
    %e = tensor.empty() : tensor<8xf32>
    %r = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]} ins(%at : tensor<8xi32>) outs(%e : tensor<8xf32>) {
    ^bb0(%n: i32, %out: f32):
      %i = arith.index_cast %n : i32 to index
      %v = tensor.extract %turned[%i, %c0, %c0] : tensor<8x2x4xf32>
      linalg.yield %v : f32
    } -> tensor<8xf32>
    return %r : tensor<8xf32>
  }

  // So may a repeat, which puts dims of one in front, of an unknown number of columns of V^T.
  // CHECK-LABEL: func.func @repeated(
  // CHECK: %[[PIECE:.*]] = tensor.extract_slice %arg0[0, 0] [16, %{{.*}}]
  // CHECK: %[[STORED:.*]] = iree_tensor_ext.compute_barrier.start %[[PIECE]]
  // CHECK: linalg.generic {{.*}} ins(%[[STORED]] :
  func.func @repeated(%x: tensor<16x?xf32>, %n: index, %at: tensor<8xi32>) -> tensor<8xf32> {
    %c0 = arith.constant 0 : index
    %piece = tensor.extract_slice %x[0, 0] [16, %n] [1, 1] : tensor<16x?xf32> to tensor<16x?xf32>
    %t = tensor.empty(%n) : tensor<1x16x?xf32>
    %view = linalg.generic {indexing_maps = [affine_map<(a, b, c) -> (b, c)>, affine_map<(a, b, c) -> (a, b, c)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%piece : tensor<16x?xf32>) outs(%t : tensor<1x16x?xf32>) {
    ^bb0(%i: f32, %o: f32):
      linalg.yield %i : f32
    } -> tensor<1x16x?xf32>
    %e = tensor.empty() : tensor<8xf32>
    %r = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]} ins(%at : tensor<8xi32>) outs(%e : tensor<8xf32>) {
    ^bb0(%k: i32, %out: f32):
      %i = arith.index_cast %k : i32 to index
      %v = tensor.extract %view[%c0, %i, %c0] : tensor<1x16x?xf32>
      linalg.yield %v : f32
    } -> tensor<8xf32>
    return %r : tensor<8xf32>
  }

  // CHECK-LABEL: func.func @together(
  // CHECK-NOT: compute_barrier
  func.func @together(%x: tensor<4x16x8xf32>, %at: tensor<8xi32>) -> (tensor<8xf32>, tensor<1x2x8xf32>, f32) {
    %c0 = arith.constant 0 : index
    %piece = tensor.extract_slice %x[3, 6, 0] [1, 2, 8] [1, 1, 1] : tensor<4x16x8xf32> to tensor<1x2x8xf32>
    %e = tensor.empty() : tensor<8xf32>
    %r = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]} ins(%at : tensor<8xi32>) outs(%e : tensor<8xf32>) {
    ^bb0(%n: i32, %out: f32):
      %i = arith.index_cast %n : i32 to index
      %v = tensor.extract %piece[%c0, %c0, %i] : tensor<1x2x8xf32>
      linalg.yield %v : f32
    } -> tensor<8xf32>
    %gaps = tensor.extract_slice %x[0, 6, 0] [4, 1, 8] [1, 1, 1] : tensor<4x16x8xf32> to tensor<4x1x8xf32>
    %one = tensor.extract %gaps[%c0, %c0, %c0] : tensor<4x1x8xf32>
    return %r, %piece, %one : tensor<8xf32>, tensor<1x2x8xf32>, f32
  }
}

// -----

module attributes {hal.device.targets = [#hal.device.target<"local", [#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64">]> : !hal.device]} {
  // CHECK-LABEL: func.func @cpu(
  // CHECK: %[[LAST:.*]] = tensor.extract_slice %arg0[0, 0, 1]
  // CHECK: compute_barrier.start %[[LAST]]
  // CHECK: tensor.extract_slice %arg0[0, 1, 0]
  // CHECK-NOT: compute_barrier
  func.func @cpu(%x: tensor<8x4x3xf32>, %at: tensor<8xi32>) -> tensor<8xf32> {
    %c2 = arith.constant 2 : index
    %last = tensor.extract_slice %x[0, 0, 1] [8, 4, 1] [1, 1, 1] : tensor<8x4x3xf32> to tensor<8x4xf32>
    %middle = tensor.extract_slice %x[0, 1, 0] [8, 1, 3] [1, 1, 1] : tensor<8x4x3xf32> to tensor<8x3xf32>
    %e = tensor.empty() : tensor<8xf32>
    %r = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]} ins(%at : tensor<8xi32>) outs(%e : tensor<8xf32>) {
    ^bb0(%n: i32, %out: f32):
      %i = arith.index_cast %n : i32 to index
      %v = tensor.extract %last[%i, %c2] : tensor<8x4xf32>
      %w = tensor.extract %middle[%i, %c2] : tensor<8x3xf32>
      %s = arith.addf %v, %w : f32
      linalg.yield %s : f32
    } -> tensor<8xf32>
    return %r : tensor<8xf32>
  }

  // One turn of the last dim that has several.
  // CHECK-LABEL: func.func @cpu_unit(
  // CHECK: %[[COLUMN:.*]] = tensor.extract_slice %arg0[0, 5, 0]
  // CHECK: compute_barrier.start %[[COLUMN]]
  // CHECK: tensor.extract_slice %arg0[2, 0, 0]
  // CHECK-NOT: compute_barrier
  func.func @cpu_unit(%x: tensor<8x7x1xi8>, %at: tensor<4xi32>) -> tensor<4xi8> {
    %c0 = arith.constant 0 : index
    %column = tensor.extract_slice %x[0, 5, 0] [8, 1, 1] [1, 1, 1] : tensor<8x7x1xi8> to tensor<8x1xi8>
    %row = tensor.extract_slice %x[2, 0, 0] [1, 7, 1] [1, 1, 1] : tensor<8x7x1xi8> to tensor<7x1xi8>
    %e = tensor.empty() : tensor<4xi8>
    %r = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]} ins(%at : tensor<4xi32>) outs(%e : tensor<4xi8>) {
    ^bb0(%n: i32, %out: i8):
      %i = arith.index_cast %n : i32 to index
      %v = tensor.extract %column[%i, %c0] : tensor<8x1xi8>
      %w = tensor.extract %row[%i, %c0] : tensor<7x1xi8>
      %s = arith.addi %v, %w : i8
      linalg.yield %s : i8
    } -> tensor<4xi8>
    return %r : tensor<4xi8>
  }
}

// -----

// CHECK-LABEL: func.func @elsewhere(
// CHECK-NOT: compute_barrier
func.func @elsewhere(%x: tensor<16xf32>, %at: tensor<8xi32>) -> tensor<8xf32> {
  %piece = tensor.extract_slice %x[0] [8] [2] : tensor<16xf32> to tensor<8xf32>
  %e = tensor.empty() : tensor<8xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]} ins(%at : tensor<8xi32>) outs(%e : tensor<8xf32>) {
  ^bb0(%n: i32, %out: f32):
    %i = arith.index_cast %n : i32 to index
    %v = tensor.extract %piece[%i] : tensor<8xf32>
    linalg.yield %v : f32
  } -> tensor<8xf32>
  return %r : tensor<8xf32>
}
