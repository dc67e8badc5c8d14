// A convolution of an image that is spread over zeros is one of the image, with a channel for each of
// its steps, whose results are put between one another.

// RUN: attn-opt %s --attn-spread-images --report=%t.json | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.json
// WHY: reads its image with 2 taps a result
// WHY: reads its image with 1 x 1 taps a result
// WHY: reads its image with 2 taps a result
// WHY: reads its image with 2 x 2 taps a result
// WHY: there are gaps between its taps, or it has steps of its own
// WHY: how many zeros stand behind its pixels is known only at run time
// WHY: each channel has taps of its own
// WHY-NOT: taps

// Each result reads two of the three taps.
// CHECK-LABEL: func.func @spread(
// CHECK: %[[PAD:.*]] = tensor.pad %arg0 low[0, 0, 0] high[0, 0, 1]
// CHECK: %[[TAPS:.*]] = tensor.pad %arg1 low[0, 0, 0] high[0, 0, 1]
// CHECK: tensor.extract %[[TAPS]]
// CHECK: %[[W:.*]] = tensor.collapse_shape %{{.*}} : tensor<2x32x16x2xf32> into tensor<64x16x2xf32>
// CHECK: %[[R:.*]] = linalg.conv_1d_ncw_fcw {{.*}} ins(%[[PAD]], %[[W]] : tensor<?x16x5xf32>, tensor<64x16x2xf32>)
// CHECK: linalg.transpose ins(%{{.*}} : tensor<?x2x32x4xf32>) {{.*}} permutation = [0, 2, 3, 1]
// CHECK: tensor.extract_slice %{{.*}}[0, 0, 0] [%{{.*}}, 32, 7] [1, 1, 1]
// CHECK-NOT: tensor.insert_slice
func.func @spread(%image: tensor<?x16x4xf32>, %w: tensor<32x16x3xf32>, %z: tensor<?x16x9xf32>, %s: tensor<?x32x7xf32>, %n: index) -> tensor<?x32x7xf32> {
  %zero = arith.constant 0.0 : f32
  %zeros = linalg.fill ins(%zero : f32) outs(%z : tensor<?x16x9xf32>) -> tensor<?x16x9xf32>
  %spread = tensor.insert_slice %image into %zeros[0, 0, 1] [%n, 16, 4] [1, 1, 2] : tensor<?x16x4xf32> into tensor<?x16x9xf32>
  %start = linalg.fill ins(%zero : f32) outs(%s : tensor<?x32x7xf32>) -> tensor<?x32x7xf32>
  %r = linalg.conv_1d_ncw_fcw {dilations = dense<1> : vector<1xi64>, strides = dense<1> : vector<1xi64>} ins(%spread, %w : tensor<?x16x9xf32>, tensor<32x16x3xf32>) outs(%start : tensor<?x32x7xf32>) -> tensor<?x32x7xf32>
  return %r : tensor<?x32x7xf32>
}

// A kernel that is its steps has one tap. The bias is repeated, and what is rounded is so at once.
// CHECK-LABEL: func.func @apart(
// CHECK-NOT: tensor.pad
// CHECK: %[[BIAS:.*]] = linalg.broadcast ins(%{{.*}} : tensor<24xf32>) outs(%{{.*}} : tensor<2x24x5x4xf32>) dimensions = [0, 2, 3]
// CHECK: %[[R:.*]] = linalg.conv_2d_nchw_fchw {{.*}} ins(%arg0, %{{.*}} : tensor<2x8x5x4xf16>, tensor<24x8x1x1xf16>) outs(%[[BIAS]] : tensor<2x24x5x4xf32>)
// CHECK: linalg.generic {{.*}} ins(%[[R]] : tensor<2x24x5x4xf32>) outs(%{{.*}} : tensor<2x24x5x4xf16>)
// CHECK: linalg.transpose ins(%{{.*}} : tensor<2x2x3x4x5x4xf16>) {{.*}} permutation = [0, 3, 4, 1, 5, 2]
// CHECK-NOT: tensor.extract_slice
func.func @apart(%image: tensor<2x8x5x4xf16>, %w: tensor<4x8x2x3xf16>, %bias: tensor<4xf32>) -> tensor<2x4x10x12xf16> {
  %zero = arith.constant 0.0 : f16
  %z = tensor.empty() : tensor<2x8x11x14xf16>
  %zeros = linalg.fill ins(%zero : f16) outs(%z : tensor<2x8x11x14xf16>) -> tensor<2x8x11x14xf16>
  %spread = tensor.insert_slice %image into %zeros[0, 0, 1, 2] [2, 8, 5, 4] [1, 1, 2, 3] : tensor<2x8x5x4xf16> into tensor<2x8x11x14xf16>
  %e = tensor.empty() : tensor<2x4x10x12xf32>
  %s = linalg.broadcast ins(%bias : tensor<4xf32>) outs(%e : tensor<2x4x10x12xf32>) dimensions = [0, 2, 3]
  %r = linalg.conv_2d_nchw_fchw {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>} ins(%spread, %w : tensor<2x8x11x14xf16>, tensor<4x8x2x3xf16>) outs(%s : tensor<2x4x10x12xf32>) -> tensor<2x4x10x12xf32>
  %h = tensor.empty() : tensor<2x4x10x12xf16>
  %n = linalg.generic {indexing_maps = [affine_map<(a, b, c, d) -> (a, b, c, d)>, affine_map<(a, b, c, d) -> (a, b, c, d)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%r : tensor<2x4x10x12xf32>) outs(%h : tensor<2x4x10x12xf16>) {
  ^bb0(%x: f32, %y: f16):
    %t = arith.truncf %x : f32 to f16
    linalg.yield %t : f16
  } -> tensor<2x4x10x12xf16>
  return %n : tensor<2x4x10x12xf16>
}

// Of any size, where what is more than the pixels' steps is a number.
// CHECK-LABEL: func.func @of_any_size(
// CHECK: tensor.pad %arg0 low[0, 0, 1] high[0, 0, 1]
// CHECK: linalg.conv_1d_ncw_fcw {{.*}} ins(%{{.*}}, %{{.*}} : tensor<1x16x?xf32>, tensor<16x16x2xf32>)
// CHECK: tensor.extract_slice %{{.*}}[0, 0, 1]
func.func @of_any_size(%image: tensor<1x16x?xf32>, %w: tensor<8x16x4xf32>) -> tensor<1x8x?xf32> {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1 : index
  %two = arith.constant 2 : index
  %five = arith.constant 5 : index
  %n = tensor.dim %image, %two : tensor<1x16x?xf32>
  %less = arith.subi %n, %one : index
  %twice = arith.muli %less, %two : index
  %more = arith.addi %twice, %five : index
  %results = arith.addi %twice, %two : index
  %z = tensor.empty(%more) : tensor<1x16x?xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%z : tensor<1x16x?xf32>) -> tensor<1x16x?xf32>
  %spread = tensor.insert_slice %image into %zeros[0, 0, 2] [1, 16, %n] [1, 1, 2] : tensor<1x16x?xf32> into tensor<1x16x?xf32>
  %s = tensor.empty(%results) : tensor<1x8x?xf32>
  %start = linalg.fill ins(%zero : f32) outs(%s : tensor<1x8x?xf32>) -> tensor<1x8x?xf32>
  %r = linalg.conv_1d_ncw_fcw {dilations = dense<1> : vector<1xi64>, strides = dense<1> : vector<1xi64>} ins(%spread, %w : tensor<1x16x?xf32>, tensor<8x16x4xf32>) outs(%start : tensor<1x8x?xf32>) -> tensor<1x8x?xf32>
  return %r : tensor<1x8x?xf32>
}

// Groups stay groups; what they begin with is added behind.
// CHECK-LABEL: func.func @groups(
// CHECK: tensor.expand_shape %arg0 {{.*}} : tensor<2x8x5x4xf32> into tensor<2x4x2x5x4xf32>
// CHECK: linalg.conv_2d_ngchw_gfchw {{.*}} tensor<2x4x2x7x6xf32>, tensor<4x12x2x2x2xf32>)
// CHECK: arith.addf
func.func @groups(%image: tensor<2x8x5x4xf32>, %w: tensor<4x3x2x4x4xf32>, %s: tensor<2x4x3x10x8xf32>) -> tensor<2x4x3x10x8xf32> {
  %zero = arith.constant 0.0 : f32
  %z = tensor.empty() : tensor<2x8x13x11xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%z : tensor<2x8x13x11xf32>) -> tensor<2x8x13x11xf32>
  %spread = tensor.insert_slice %image into %zeros[0, 0, 2, 2] [2, 8, 5, 4] [1, 1, 2, 2] : tensor<2x8x5x4xf32> into tensor<2x8x13x11xf32>
  %split = tensor.expand_shape %spread [[0], [1, 2], [3], [4]] output_shape [2, 4, 2, 13, 11] : tensor<2x8x13x11xf32> into tensor<2x4x2x13x11xf32>
  %r = linalg.conv_2d_ngchw_gfchw {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>} ins(%split, %w : tensor<2x4x2x13x11xf32>, tensor<4x3x2x4x4xf32>) outs(%s : tensor<2x4x3x10x8xf32>) -> tensor<2x4x3x10x8xf32>
  return %r : tensor<2x4x3x10x8xf32>
}

// Left: gaps between taps, zeros of which nothing is known, taps of each channel's own, and an image
// that is spread over other numbers.
// CHECK-LABEL: func.func @left(
// CHECK-COUNT-4: tensor.insert_slice
func.func @left(%image: tensor<1x16x4xf32>, %w: tensor<8x16x3xf32>, %m: index, %row: tensor<1x16x4x1xf32>, %v: tensor<16x3x1xf32>, %filled: tensor<1x16x9xf32>) -> (tensor<1x8x5xf32>, tensor<1x8x?xf32>, tensor<1x16x7x1xf32>, tensor<1x8x7xf32>) {
  %zero = arith.constant 0.0 : f32
  %two = arith.constant 2 : index
  %z = tensor.empty() : tensor<1x16x9xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%z : tensor<1x16x9xf32>) -> tensor<1x16x9xf32>
  %spread = tensor.insert_slice %image into %zeros[0, 0, 1] [1, 16, 4] [1, 1, 2] : tensor<1x16x4xf32> into tensor<1x16x9xf32>
  %s = tensor.empty() : tensor<1x8x5xf32>
  %start = linalg.fill ins(%zero : f32) outs(%s : tensor<1x8x5xf32>) -> tensor<1x8x5xf32>
  %gaps = linalg.conv_1d_ncw_fcw {dilations = dense<2> : vector<1xi64>, strides = dense<1> : vector<1xi64>} ins(%spread, %w : tensor<1x16x9xf32>, tensor<8x16x3xf32>) outs(%start : tensor<1x8x5xf32>) -> tensor<1x8x5xf32>
  %long = arith.addi %m, %two : index
  %y = tensor.empty(%long) : tensor<1x16x?xf32>
  %many = linalg.fill ins(%zero : f32) outs(%y : tensor<1x16x?xf32>) -> tensor<1x16x?xf32>
  %over = tensor.insert_slice %image into %many[0, 0, 1] [1, 16, 4] [1, 1, 2] : tensor<1x16x4xf32> into tensor<1x16x?xf32>
  %t = tensor.empty(%m) : tensor<1x8x?xf32>
  %begin = linalg.fill ins(%zero : f32) outs(%t : tensor<1x8x?xf32>) -> tensor<1x8x?xf32>
  %open = linalg.conv_1d_ncw_fcw {dilations = dense<1> : vector<1xi64>, strides = dense<1> : vector<1xi64>} ins(%over, %w : tensor<1x16x?xf32>, tensor<8x16x3xf32>) outs(%begin : tensor<1x8x?xf32>) -> tensor<1x8x?xf32>
  %x = tensor.empty() : tensor<1x16x9x1xf32>
  %none = linalg.fill ins(%zero : f32) outs(%x : tensor<1x16x9x1xf32>) -> tensor<1x16x9x1xf32>
  %apart = tensor.insert_slice %row into %none[0, 0, 1, 0] [1, 16, 4, 1] [1, 1, 2, 1] : tensor<1x16x4x1xf32> into tensor<1x16x9x1xf32>
  %u = tensor.empty() : tensor<1x16x7x1xf32>
  %first = linalg.fill ins(%zero : f32) outs(%u : tensor<1x16x7x1xf32>) -> tensor<1x16x7x1xf32>
  %own = linalg.depthwise_conv_2d_nchw_chw {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>} ins(%apart, %v : tensor<1x16x9x1xf32>, tensor<16x3x1xf32>) outs(%first : tensor<1x16x7x1xf32>) -> tensor<1x16x7x1xf32>
  %other = tensor.insert_slice %image into %filled[0, 0, 1] [1, 16, 4] [1, 1, 2] : tensor<1x16x4xf32> into tensor<1x16x9xf32>
  %e = tensor.empty() : tensor<1x8x7xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x8x7xf32>) -> tensor<1x8x7xf32>
  %numbers = linalg.conv_1d_ncw_fcw {dilations = dense<1> : vector<1xi64>, strides = dense<1> : vector<1xi64>} ins(%other, %w : tensor<1x16x9xf32>, tensor<8x16x3xf32>) outs(%f : tensor<1x8x7xf32>) -> tensor<1x8x7xf32>
  return %gaps, %open, %own, %numbers : tensor<1x8x5xf32>, tensor<1x8x?xf32>, tensor<1x16x7x1xf32>, tensor<1x8x7xf32>
}
