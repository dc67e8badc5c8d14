// A window that stands at one place of a dim reads a slice as long as it is; those with several
// places, with gaps, and of dims known only at run time stay.

// RUN: attn-opt %s --attn-degenerate-loops | FileCheck %s

// CHECK: #[[FORWARDS:.*]] = affine_map<(d0, d1) -> (d0 * 2 + d1 + 1)>

// CHECK-LABEL: func.func @convolved(
// CHECK: %[[SLICE:.*]] = tensor.extract_slice %arg0[0, 0, 0, 0] [%{{.*}}, 8, 3, 4] [1, 1, 1, 1] : tensor<?x8x4x4xf32> to tensor<?x8x3x4xf32>
// CHECK: linalg.conv_2d_nchw_fchw {dilations = dense<[1, 2]> : tensor<2xi64>, strides = dense<2> : tensor<2xi64>} ins(%[[SLICE]],
func.func @convolved(%x: tensor<?x8x4x4xf32>, %w: tensor<4x8x3x2xf32>, %start: tensor<?x4x1x1xf32>) -> tensor<?x4x1x1xf32> {
  %0 = linalg.conv_2d_nchw_fchw {dilations = dense<[1, 2]> : tensor<2xi64>, strides = dense<2> : tensor<2xi64>} ins(%x, %w : tensor<?x8x4x4xf32>, tensor<4x8x3x2xf32>) outs(%start : tensor<?x4x1x1xf32>) -> tensor<?x4x1x1xf32>
  return %0 : tensor<?x4x1x1xf32>
}

// CHECK-LABEL: func.func @pooled(
// CHECK: tensor.extract_slice %arg0[0, 0, 0, 0] [1, 2, 3, 8] [1, 1, 1, 1]
// CHECK: linalg.pooling_nhwc_max
func.func @pooled(%x: tensor<1x3x3x8xf32>, %window: tensor<2x2xf32>, %start: tensor<1x1x2x8xf32>) -> tensor<1x1x2x8xf32> {
  %0 = linalg.pooling_nhwc_max {dilations = dense<1> : tensor<2xi64>, strides = dense<[2, 1]> : tensor<2xi64>} ins(%x, %window : tensor<1x3x3x8xf32>, tensor<2x2xf32>) outs(%start : tensor<1x1x2x8xf32>) -> tensor<1x1x2x8xf32>
  return %0 : tensor<1x1x2x8xf32>
}

// CHECK-LABEL: func.func @generic(
// CHECK: tensor.extract_slice %arg0[0] [3] [1]
func.func @generic(%x: tensor<5xf32>, %w: tensor<3xf32>, %start: tensor<1xf32>) -> tensor<1xf32> {
  %0 = linalg.generic {indexing_maps = [affine_map<(y, i) -> (y * 4 + i)>, affine_map<(y, i) -> (i)>, affine_map<(y, i) -> (y)>], iterator_types = ["parallel", "reduction"]} ins(%x, %w : tensor<5xf32>, tensor<3xf32>) outs(%start : tensor<1xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b : f32
    %s = arith.addf %m, %o : f32
    linalg.yield %s : f32
  } -> tensor<1xf32>
  return %0 : tensor<1xf32>
}

// CHECK-LABEL: func.func @stays(
// CHECK-NOT: extract_slice
func.func @stays(%x: tensor<1x8x4x?xf32>, %w: tensor<4x8x1x3xf32>, %start: tensor<1x4x2x1xf32>) -> tensor<1x4x2x1xf32> {
  %0 = linalg.conv_2d_nchw_fchw {dilations = dense<1> : tensor<2xi64>, strides = dense<2> : tensor<2xi64>} ins(%x, %w : tensor<1x8x4x?xf32>, tensor<4x8x1x3xf32>) outs(%start : tensor<1x4x2x1xf32>) -> tensor<1x4x2x1xf32>
  return %0 : tensor<1x4x2x1xf32>
}

// Over a dim of size 0 nothing is added up; a result of size 0 is made as before.
// CHECK-LABEL: func.func @nothing(
// CHECK-SAME: %[[START:[a-z0-9]+]]: tensor<4x6xf32>, %[[LOW:[a-z0-9]+]]: tensor<4xf32>,
// CHECK-NEXT: %[[SHORT:.*]] = linalg.matmul
// CHECK-NEXT: linalg.softmax
// CHECK-NEXT: return %[[START]], %[[LOW]], %[[SHORT]],
func.func @nothing(%x: tensor<4x0xf32>, %y: tensor<0x6xf32>, %start: tensor<4x6xf32>, %low: tensor<4xf32>, %none: tensor<0x6xf32>, %z: tensor<6x6xf32>) -> (tensor<4x6xf32>, tensor<4xf32>, tensor<0x6xf32>, tensor<6x6xf32>) {
  %0 = linalg.matmul ins(%x, %y : tensor<4x0xf32>, tensor<0x6xf32>) outs(%start : tensor<4x6xf32>) -> tensor<4x6xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(i, k) -> (i, k)>, affine_map<(i, k) -> (i)>], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x0xf32>) outs(%low : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = arith.maximumf %a, %o : f32
    linalg.yield %m : f32
  } -> tensor<4xf32>
  %2 = linalg.matmul ins(%y, %z : tensor<0x6xf32>, tensor<6x6xf32>) outs(%none : tensor<0x6xf32>) -> tensor<0x6xf32>
  %3 = linalg.softmax dimension(1) ins(%z : tensor<6x6xf32>) outs(%z : tensor<6x6xf32>) -> tensor<6x6xf32>
  return %0, %1, %2, %3 : tensor<4x6xf32>, tensor<4xf32>, tensor<0x6xf32>, tensor<6x6xf32>
}

// What is read from the last element to the first is turned before; by two loops, too, but not where
// one goes the other way, and not along a dim of unknown size.

// CHECK-LABEL: func.func @backwards(
// CHECK: %[[LAST:.*]] = arith.constant 19 : index
// CHECK: %[[AT:.*]] = arith.subi %[[LAST]], %{{.*}} : index
// CHECK: tensor.extract %arg0[%{{.*}}, %[[AT]]] : tensor<4x20xf32>
// CHECK: linalg.generic {indexing_maps = [#[[SAME:.*]], #[[SAME]]],
func.func @backwards(%x: tensor<4x20xf32>) -> tensor<4x20xf32> {
  %e = tensor.empty() : tensor<4x20xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(m, n) -> (m, -n + 19)>, affine_map<(m, n) -> (m, n)>], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x20xf32>) outs(%e : tensor<4x20xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %a, %a : f32
    linalg.yield %s : f32
  } -> tensor<4x20xf32>
  return %0 : tensor<4x20xf32>
}

// CHECK-LABEL: func.func @window(
// CHECK: tensor.extract %arg0
// CHECK: linalg.generic {indexing_maps = [#[[FORWARDS]],
func.func @window(%x: tensor<8xf32>, %w: tensor<3xf32>, %start: tensor<3xf32>) -> tensor<3xf32> {
  %0 = linalg.generic {indexing_maps = [affine_map<(y, i) -> (y * -2 - i + 6)>, affine_map<(y, i) -> (i)>, affine_map<(y, i) -> (y)>], iterator_types = ["parallel", "reduction"]} ins(%x, %w : tensor<8xf32>, tensor<3xf32>) outs(%start : tensor<3xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b : f32
    %s = arith.addf %m, %o : f32
    linalg.yield %s : f32
  } -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// CHECK-LABEL: func.func @both_ways(
// CHECK-NOT: tensor.extract
// CHECK: return
func.func @both_ways(%x: tensor<5xf32>, %u: tensor<?xf32>, %start: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %w = arith.constant dense<2.0> : tensor<3xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(y, i) -> (y - i + 2)>, affine_map<(y, i) -> (i)>, affine_map<(y, i) -> (y)>], iterator_types = ["parallel", "reduction"]} ins(%x, %w : tensor<5xf32>, tensor<3xf32>) outs(%start : tensor<3xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b : f32
    %s = arith.addf %m, %o : f32
    linalg.yield %s : f32
  } -> tensor<3xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(y) -> (-y + 2)>, affine_map<(y) -> (y)>], iterator_types = ["parallel"]} ins(%u : tensor<?xf32>) outs(%start : tensor<3xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<3xf32>
  return %0, %1 : tensor<3xf32>, tensor<3xf32>
}

// A scatter without updates is what it writes to; one whose updates are counted at run time stays.

// CHECK-LABEL: func.func @writes(
// CHECK-SAME: %{{.*}}: tensor<0x8xf32>, %{{.*}}, %[[START:.*]]: tensor<3x8xf32>
// CHECK: %[[SOME:.*]] = iree_linalg_ext.scatter
// CHECK: return %[[START]], %[[SOME]]
func.func @writes(%none: tensor<0x8xf32>, %places: tensor<0x1xi32>, %start: tensor<3x8xf32>, %some: tensor<?x8xf32>, %found: tensor<?x1xi32>) -> (tensor<3x8xf32>, tensor<3x8xf32>) {
  %0 = iree_linalg_ext.scatter dimension_map = [0] unique_indices(false) ins(%none, %places : tensor<0x8xf32>, tensor<0x1xi32>) outs(%start : tensor<3x8xf32>) {
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    iree_linalg_ext.yield %s : f32
  } -> tensor<3x8xf32>
  %1 = iree_linalg_ext.scatter dimension_map = [0] unique_indices(false) ins(%some, %found : tensor<?x8xf32>, tensor<?x1xi32>) outs(%start : tensor<3x8xf32>) {
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    iree_linalg_ext.yield %s : f32
  } -> tensor<3x8xf32>
  return %0, %1 : tensor<3x8xf32>, tensor<3x8xf32>
}
