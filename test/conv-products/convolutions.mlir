// Convolutions of 16 bits are products of patches with weights (n, k), channels last; one of patches
// that do not overlap needs no copy but another order, one of single pixels none. Of video the frames
// that make one are channels of an image, and what pads these stands behind. Depthwise ones and pools
// add up their taps where the image lies. Groups have products of their own. What starts from another
// tensor is left, and CPUs.

// RUN: attn-opt %s --attn-conv-products --split-input-file --report=%t.json | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.json
// WHY-COUNT-4: is a product of patches with its weights
// WHY: makes each element of its 3 taps
// WHY: adds up its 3 taps, channels last
// WHY: makes each element of its 9 taps
// WHY: each group is a product of patches
// WHY-COUNT-2: is a product of patches with its weights
// WHY-COUNT-2: is a product of patches with its weights
// WHY-NOT: {{is a product of patches|adds up|makes each}}

#cuda = #hal.device.target<"cuda", [#hal.executable.target<"cuda", "cuda-nvptx-fb">]> : !hal.device
#same = affine_map<(b, c, y, x) -> (b, c, y, x)>
module attributes {hal.device.targets = [#cuda]} {
// CHECK-LABEL: func.func @three_by_three(
// CHECK: %[[LAST:.*]] = linalg.transpose ins(%arg0 : tensor<?x8x4x6xf16>) {{.*}} permutation = [0, 2, 3, 1]
// CHECK: %[[TURNED:.*]] = iree_tensor_ext.compute_barrier.start %[[LAST]]
// CHECK: %[[PAD:.*]] = tensor.pad %[[TURNED]] low[0, 1, 1, 0] high[0, 1, 1, 0]
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<?x4x6x3x24xf16>)
// CHECK: tensor.extract
// CHECK: %[[WEIGHTS:.*]] = tensor.collapse_shape %{{.*}} {{.*}} into tensor<16x72xf16>
// CHECK: linalg.generic {{.*}}"reduction"]} ins(%{{.*}}, %[[WEIGHTS]] : tensor<?x72xf16>, tensor<16x72xf16>)
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %arg2 : tensor<?x16xf32>, tensor<16xf32>) outs(%{{.*}} : tensor<?x16xf16>)
// CHECK: linalg.transpose {{.*}} permutation = [0, 3, 1, 2]
// CHECK-NOT: linalg.conv
func.func @three_by_three(%image: tensor<?x8x4x6xf16>, %w: tensor<16x8x3x3xf16>, %bias: tensor<16xf32>, %e: tensor<?x16x4x6xf32>, %h: tensor<?x16x4x6xf16>) -> tensor<?x16x4x6xf16> {
  %zero = arith.constant 0.0 : f16
  %p = tensor.pad %image low[0, 0, 1, 1] high[0, 0, 1, 1] {
  ^bb0(%a: index, %b: index, %c: index, %d: index):
    tensor.yield %zero : f16
  } : tensor<?x8x4x6xf16> to tensor<?x8x6x8xf16>
  %s = linalg.broadcast ins(%bias : tensor<16xf32>) outs(%e : tensor<?x16x4x6xf32>) dimensions = [0, 2, 3]
  %r = linalg.conv_2d_nchw_fchw {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>} ins(%p, %w : tensor<?x8x6x8xf16>, tensor<16x8x3x3xf16>) outs(%s : tensor<?x16x4x6xf32>) -> tensor<?x16x4x6xf32>
  %n = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%r : tensor<?x16x4x6xf32>) outs(%h : tensor<?x16x4x6xf16>) {
  ^bb0(%a: f32, %b: f16):
    %t = arith.truncf %a : f32 to f16
    linalg.yield %t : f16
  } -> tensor<?x16x4x6xf16>
  return %n : tensor<?x16x4x6xf16>
}

// CHECK-LABEL: func.func @patches(
// CHECK: tensor.expand_shape %arg0 {{.*}} into tensor<2x3x2x4x3x4xbf16>
// CHECK: linalg.transpose {{.*}} permutation = [0, 2, 4, 1, 3, 5]
// CHECK-NOT: tensor.extract
// CHECK: tensor.collapse_shape %arg1 {{.*}} into tensor<8x48xbf16>
// CHECK-NOT: linalg.conv
func.func @patches(%image: tensor<2x3x8x12xbf16>, %w: tensor<8x3x4x4xbf16>) -> tensor<2x8x2x3xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x8x2x3xf32>
  %s = linalg.fill ins(%zero : f32) outs(%e : tensor<2x8x2x3xf32>) -> tensor<2x8x2x3xf32>
  %r = linalg.conv_2d_nchw_fchw {dilations = dense<1> : vector<2xi64>, strides = dense<4> : vector<2xi64>} ins(%image, %w : tensor<2x3x8x12xbf16>, tensor<8x3x4x4xbf16>) outs(%s : tensor<2x8x2x3xf32>) -> tensor<2x8x2x3xf32>
  return %r : tensor<2x8x2x3xf32>
}

// CHECK-LABEL: func.func @one_pixel(
// CHECK-NOT: tensor.extract
// CHECK: linalg.generic {{.*}}"reduction"]} ins(%{{.*}} : tensor<10x8xf16>, tensor<16x8xf16>)
func.func @one_pixel(%image: tensor<2x8x5xf16>, %w: tensor<16x8x1xf16>) -> tensor<2x16x5xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x16x5xf32>
  %s = linalg.fill ins(%zero : f32) outs(%e : tensor<2x16x5xf32>) -> tensor<2x16x5xf32>
  %r = linalg.conv_1d_ncw_fcw {dilations = dense<1> : vector<1xi64>, strides = dense<1> : vector<1xi64>} ins(%image, %w : tensor<2x8x5xf16>, tensor<16x8x1xf16>) outs(%s : tensor<2x16x5xf32>) -> tensor<2x16x5xf32>
  return %r : tensor<2x16x5xf32>
}

// CHECK-LABEL: func.func @video(
// CHECK: %[[LAST:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<1x3x4x6x8xf16>
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<1x3x4x6x3x8xf16>)
// CHECK: tensor.extract %[[LAST]]
// CHECK: %[[IMAGES:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<3x4x6x24xf16>
// CHECK: tensor.pad %[[IMAGES]] low[0, 1, 1, 0] high[0, 1, 1, 0]
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<3x4x6x3x72xf16>)
// CHECK: linalg.generic {{.*}}"reduction"]} ins(%{{.*}}, %{{.*}} : tensor<72x216xf16>, tensor<16x216xf16>)
// CHECK: linalg.transpose {{.*}} permutation = [0, 4, 1, 2, 3]
// CHECK-NOT: linalg.conv
func.func @video(%image: tensor<1x8x3x4x6xf16>, %w: tensor<16x8x3x3x3xf16>) -> tensor<1x16x3x4x6xf32> {
  %side = arith.constant 0.0 : f16
  %zero = arith.constant 0.0 : f32
  %p = tensor.pad %image low[0, 0, 2, 1, 1] high[0, 0, 0, 1, 1] {
  ^bb0(%a: index, %b: index, %t: index, %c: index, %d: index):
    tensor.yield %side : f16
  } : tensor<1x8x3x4x6xf16> to tensor<1x8x5x6x8xf16>
  %e = tensor.empty() : tensor<1x16x3x4x6xf32>
  %s = linalg.fill ins(%zero : f32) outs(%e : tensor<1x16x3x4x6xf32>) -> tensor<1x16x3x4x6xf32>
  %r = linalg.conv_3d_ncdhw_fcdhw {dilations = dense<1> : vector<3xi64>, strides = dense<1> : vector<3xi64>} ins(%p, %w : tensor<1x8x5x6x8xf16>, tensor<16x8x3x3x3xf16>) outs(%s : tensor<1x16x3x4x6xf32>) -> tensor<1x16x3x4x6xf32>
  return %r : tensor<1x16x3x4x6xf32>
}

// CHECK-LABEL: func.func @depthwise(
// CHECK: linalg.generic {{.*}}["parallel", "parallel", "parallel", "parallel"]} outs(%{{.*}} : tensor<2x8x5x1xf32>)
// CHECK-COUNT-6: tensor.extract
// CHECK: compute_barrier.start
// CHECK-NOT: linalg.depthwise
func.func @depthwise(%image: tensor<2x8x7x1xf16>, %w: tensor<8x3x1xf16>) -> tensor<2x8x5x1xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x8x5x1xf32>
  %s = linalg.fill ins(%zero : f32) outs(%e : tensor<2x8x5x1xf32>) -> tensor<2x8x5x1xf32>
  %r = linalg.depthwise_conv_2d_nchw_chw {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>} ins(%image, %w : tensor<2x8x7x1xf16>, tensor<8x3x1xf16>) outs(%s : tensor<2x8x5x1xf32>) -> tensor<2x8x5x1xf32>
  return %r : tensor<2x8x5x1xf32>
}

// Of an unknown batch, channels last.
// CHECK-LABEL: func.func @unknown_batch(
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<?x5x1x8xf32>)
// CHECK-COUNT-6: tensor.extract
// CHECK-NOT: linalg.depthwise
func.func @unknown_batch(%image: tensor<?x8x7x1xf16>, %w: tensor<8x3x1xf16>, %e: tensor<?x8x5x1xf32>) -> tensor<?x8x5x1xf32> {
  %zero = arith.constant 0.0 : f32
  %s = linalg.fill ins(%zero : f32) outs(%e : tensor<?x8x5x1xf32>) -> tensor<?x8x5x1xf32>
  %r = linalg.depthwise_conv_2d_nchw_chw {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>} ins(%image, %w : tensor<?x8x7x1xf16>, tensor<8x3x1xf16>) outs(%s : tensor<?x8x5x1xf32>) -> tensor<?x8x5x1xf32>
  return %r : tensor<?x8x5x1xf32>
}

// A pool reads the image that is padded: at the sides there are pixels whose taps are outside.
// CHECK-LABEL: func.func @pool(
// CHECK-NOT: tensor.pad
// CHECK: %[[IMAGE:.*]] = iree_tensor_ext.compute_barrier.start %arg0
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<2x8x4x6xf16>)
// CHECK: arith.maxsi
// CHECK-NOT: arith.minsi
// CHECK-COUNT-9: tensor.extract %[[IMAGE]]
// CHECK-NOT: linalg.pooling
func.func @pool(%image: tensor<2x8x8x12xf16>) -> tensor<2x8x4x6xf16> {
  %low = arith.constant 0xFC00 : f16
  %p = tensor.pad %image low[0, 0, 1, 1] high[0, 0, 0, 0] {
  ^bb0(%a: index, %b: index, %c: index, %d: index):
    tensor.yield %low : f16
  } : tensor<2x8x8x12xf16> to tensor<2x8x9x13xf16>
  %e = tensor.empty() : tensor<2x8x4x6xf16>
  %s = linalg.fill ins(%low : f16) outs(%e : tensor<2x8x4x6xf16>) -> tensor<2x8x4x6xf16>
  %k = tensor.empty() : tensor<3x3xf16>
  %r = linalg.pooling_nchw_max {dilations = dense<1> : vector<2xi64>, strides = dense<2> : vector<2xi64>} ins(%p, %k : tensor<2x8x9x13xf16>, tensor<3x3xf16>) outs(%s : tensor<2x8x4x6xf16>) -> tensor<2x8x4x6xf16>
  return %r : tensor<2x8x4x6xf16>
}

// CHECK-LABEL: func.func @pool_of_any_size(
// CHECK: linalg.pooling_nchw_max
func.func @pool_of_any_size(%image: tensor<2x8x?x12xf16>, %e: tensor<2x8x?x6xf16>, %k: tensor<2x2xf16>) -> tensor<2x8x?x6xf16> {
  %low = arith.constant 0xFC00 : f16
  %s = linalg.fill ins(%low : f16) outs(%e : tensor<2x8x?x6xf16>) -> tensor<2x8x?x6xf16>
  %r = linalg.pooling_nchw_max {dilations = dense<1> : vector<2xi64>, strides = dense<2> : vector<2xi64>} ins(%image, %k : tensor<2x8x?x12xf16>, tensor<2x2xf16>) outs(%s : tensor<2x8x?x6xf16>) -> tensor<2x8x?x6xf16>
  return %r : tensor<2x8x?x6xf16>
}

// Groups have products of their own, where patches are no more than a GB.
// CHECK-LABEL: func.func @groups(
// CHECK: linalg.generic {{.*}}"reduction"]} ins(%{{.*}}, %{{.*}} : tensor<4x14x24xf16>, tensor<4x16x24xf16>) outs(%{{.*}} : tensor<4x14x16xf32>)
// CHECK: linalg.conv_2d_ngchw_gfchw
func.func @groups(%image: tensor<2x4x8x9x1xf16>, %w: tensor<4x16x8x3x1xf16>, %s: tensor<2x4x16x7x1xf32>, %large: tensor<16x16x128x8194x1xf16>, %v: tensor<16x16x128x3x1xf16>, %t: tensor<16x16x16x8192x1xf32>) -> (tensor<2x4x16x7x1xf32>, tensor<16x16x16x8192x1xf32>) {
  %r = linalg.conv_2d_ngchw_gfchw {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>} ins(%image, %w : tensor<2x4x8x9x1xf16>, tensor<4x16x8x3x1xf16>) outs(%s : tensor<2x4x16x7x1xf32>) -> tensor<2x4x16x7x1xf32>
  %u = linalg.conv_2d_ngchw_gfchw {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>} ins(%large, %v : tensor<16x16x128x8194x1xf16>, tensor<16x16x128x3x1xf16>) outs(%t : tensor<16x16x16x8192x1xf32>) -> tensor<16x16x16x8192x1xf32>
  return %r, %u : tensor<2x4x16x7x1xf32>, tensor<16x16x16x8192x1xf32>
}

// Of a batch and pixels that are unknown, too: not of unknown weights.
// CHECK-LABEL: func.func @groups_of_any_size(
// CHECK: linalg.generic {{.*}}"reduction"]} ins(%{{.*}}, %{{.*}} : tensor<4x?x24xf16>, tensor<4x16x24xf16>) outs(%{{.*}} : tensor<4x?x16xf32>)
// CHECK: linalg.conv_2d_ngchw_gfchw
func.func @groups_of_any_size(%image: tensor<?x4x8x?x1xf16>, %w: tensor<4x16x8x3x1xf16>, %v: tensor<4x?x8x3x1xf16>, %s: tensor<?x4x16x?x1xf32>, %t: tensor<?x4x?x?x1xf32>) -> (tensor<?x4x16x?x1xf32>, tensor<?x4x?x?x1xf32>) {
  %r = linalg.conv_2d_ngchw_gfchw {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>} ins(%image, %w : tensor<?x4x8x?x1xf16>, tensor<4x16x8x3x1xf16>) outs(%s : tensor<?x4x16x?x1xf32>) -> tensor<?x4x16x?x1xf32>
  %u = linalg.conv_2d_ngchw_gfchw {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>} ins(%image, %v : tensor<?x4x8x?x1xf16>, tensor<4x?x8x3x1xf16>) outs(%t : tensor<?x4x?x?x1xf32>) -> tensor<?x4x?x?x1xf32>
  return %r, %u : tensor<?x4x16x?x1xf32>, tensor<?x4x?x?x1xf32>
}

// The same in f32, whose products are stored as they are made.
// CHECK-LABEL: func.func @wide(
// CHECK: linalg.generic {{.*}}"reduction"]} ins(%{{.*}} : tensor<10x8xf32>, tensor<16x8xf32>)
// CHECK: compute_barrier.start
// CHECK-NOT: linalg.conv
func.func @wide(%s: tensor<2x16x5xf32>, %wide: tensor<2x8x5xf32>, %v: tensor<16x8x1xf32>) -> tensor<2x16x5xf32> {
  %zero = arith.constant 0.0 : f32
  %f = linalg.fill ins(%zero : f32) outs(%s : tensor<2x16x5xf32>) -> tensor<2x16x5xf32>
  %t = linalg.conv_1d_ncw_fcw {dilations = dense<1> : vector<1xi64>, strides = dense<1> : vector<1xi64>} ins(%wide, %v : tensor<2x8x5xf32>, tensor<16x8x1xf32>) outs(%f : tensor<2x16x5xf32>) -> tensor<2x16x5xf32>
  return %t : tensor<2x16x5xf32>
}

// CHECK-LABEL: func.func @left(
// CHECK: linalg.conv_1d_ncw_fcw
func.func @left(%image: tensor<2x8x5xf16>, %w: tensor<16x8x1xf16>, %s: tensor<2x16x5xf32>) -> tensor<2x16x5xf32> {
  %r = linalg.conv_1d_ncw_fcw {dilations = dense<1> : vector<1xi64>, strides = dense<1> : vector<1xi64>} ins(%image, %w : tensor<2x8x5xf16>, tensor<16x8x1xf16>) outs(%s : tensor<2x16x5xf32>) -> tensor<2x16x5xf32>
  return %r : tensor<2x16x5xf32>
}
}

// -----

// Three pixels of 8 channels are a run. 24 pixels are no whole vectors: the product is stored before
// its result is turned.
// CHECK-LABEL: func.func @on_a_cpu(
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<2x4x6x3x24xf32>)
// CHECK: linalg.index 4
// CHECK: tensor.extract %{{.*}} : tensor<2x6x64xf32>
// CHECK: linalg.generic {{.*}}"reduction"]} ins(%{{.*}}, %{{.*}} : tensor<48x72xf32>, tensor<64x72xf32>)
// CHECK: compute_barrier.start
// CHECK: linalg.transpose {{.*}} permutation = [0, 3, 1, 2]
// CHECK-NOT: linalg.conv
#cpu = #hal.device.target<"local", [#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64">]> : !hal.device
module attributes {hal.device.targets = [#cpu]} {
func.func @on_a_cpu(%image: tensor<2x8x6x8xf32>, %w: tensor<64x8x3x3xf32>) -> tensor<2x64x4x6xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x64x4x6xf32>
  %s = linalg.fill ins(%zero : f32) outs(%e : tensor<2x64x4x6xf32>) -> tensor<2x64x4x6xf32>
  %r = linalg.conv_2d_nchw_fchw {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>} ins(%image, %w : tensor<2x8x6x8xf32>, tensor<64x8x3x3xf32>) outs(%s : tensor<2x64x4x6xf32>) -> tensor<2x64x4x6xf32>
  return %r : tensor<2x64x4x6xf32>
}

// Few channels, little work, and an image that is spread over other numbers: IREE's loops are faster.
// CHECK-LABEL: func.func @few_channels(
// CHECK-COUNT-3: linalg.conv_1d_ncw_fcw
func.func @few_channels(%image: tensor<1x64x4098xf32>, %three: tensor<3x64x3xf32>, %s: tensor<1x3x4096xf32>, %short: tensor<1x64x6xf32>, %w: tensor<16x64x3xf32>, %t: tensor<1x16x4xf32>, %z: tensor<1x64x4098xf32>, %half: tensor<1x64x2049xf32>, %u: tensor<1x16x4096xf32>) -> (tensor<1x3x4096xf32>, tensor<1x16x4xf32>, tensor<1x16x4096xf32>) {
  %zero = arith.constant 0.0 : f32
  %i = linalg.fill ins(%zero : f32) outs(%s : tensor<1x3x4096xf32>) -> tensor<1x3x4096xf32>
  %r = linalg.conv_1d_ncw_fcw {dilations = dense<1> : vector<1xi64>, strides = dense<1> : vector<1xi64>} ins(%image, %three : tensor<1x64x4098xf32>, tensor<3x64x3xf32>) outs(%i : tensor<1x3x4096xf32>) -> tensor<1x3x4096xf32>
  %j = linalg.fill ins(%zero : f32) outs(%t : tensor<1x16x4xf32>) -> tensor<1x16x4xf32>
  %q = linalg.conv_1d_ncw_fcw {dilations = dense<1> : vector<1xi64>, strides = dense<1> : vector<1xi64>} ins(%short, %w : tensor<1x64x6xf32>, tensor<16x64x3xf32>) outs(%j : tensor<1x16x4xf32>) -> tensor<1x16x4xf32>
  %spread = tensor.insert_slice %half into %z[0, 0, 0] [1, 64, 2049] [1, 1, 2] : tensor<1x64x2049xf32> into tensor<1x64x4098xf32>
  %k = linalg.fill ins(%zero : f32) outs(%u : tensor<1x16x4096xf32>) -> tensor<1x16x4096xf32>
  %p = linalg.conv_1d_ncw_fcw {dilations = dense<1> : vector<1xi64>, strides = dense<1> : vector<1xi64>} ins(%spread, %w : tensor<1x64x4098xf32>, tensor<16x64x3xf32>) outs(%k : tensor<1x16x4096xf32>) -> tensor<1x16x4096xf32>
  return %r, %q, %p : tensor<1x3x4096xf32>, tensor<1x16x4xf32>, tensor<1x16x4096xf32>
}
}

// -----

// What a pool makes, through a ReLU, is stored before channels are last, in a kernel of its own: loops
// would write lines of pixels across. What others read, too, is not. 64 pixels are whole vectors, but
// their lines are not: the product is stored, too.
#cpu = #hal.device.target<"local", [#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64">]> : !hal.device
#same = affine_map<(b, c, y, x) -> (b, c, y, x)>
module attributes {hal.device.targets = [#cpu]} {
// CHECK-LABEL: func.func @behind_windows(
// CHECK: %[[POOL:.*]] = linalg.pooling_nchw_max
// CHECK: %[[RELU:.*]] = linalg.generic {{.*}} ins(%[[POOL]]
// CHECK: %[[STORED:.*]] = iree_tensor_ext.compute_barrier.start %[[RELU]]
// CHECK: linalg.transpose ins(%[[STORED]] {{.*}} permutation = [0, 2, 3, 1]
// CHECK: %[[PRODUCT:.*]] = linalg.generic {{.*}}"reduction"]}
// CHECK: iree_tensor_ext.compute_barrier.start %[[PRODUCT]]
func.func @behind_windows(%image: tensor<1x16x10x10xf32>, %w: tensor<64x16x1x1xf32>) -> tensor<1x64x8x8xf32> {
  %zero = arith.constant 0.0 : f32
  %lowest = arith.constant 0xFF800000 : f32
  %k = tensor.empty() : tensor<3x3xf32>
  %i = tensor.empty() : tensor<1x16x8x8xf32>
  %l = linalg.fill ins(%lowest : f32) outs(%i : tensor<1x16x8x8xf32>) -> tensor<1x16x8x8xf32>
  %m = linalg.pooling_nchw_max {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>} ins(%image, %k : tensor<1x16x10x10xf32>, tensor<3x3xf32>) outs(%l : tensor<1x16x8x8xf32>) -> tensor<1x16x8x8xf32>
  %n = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%m : tensor<1x16x8x8xf32>) outs(%i : tensor<1x16x8x8xf32>) {
  ^bb0(%a: f32, %b: f32):
    %t = arith.maximumf %a, %zero : f32
    linalg.yield %t : f32
  } -> tensor<1x16x8x8xf32>
  %e = tensor.empty() : tensor<1x64x8x8xf32>
  %s = linalg.fill ins(%zero : f32) outs(%e : tensor<1x64x8x8xf32>) -> tensor<1x64x8x8xf32>
  %r = linalg.conv_2d_nchw_fchw {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>} ins(%n, %w : tensor<1x16x8x8xf32>, tensor<64x16x1x1xf32>) outs(%s : tensor<1x64x8x8xf32>) -> tensor<1x64x8x8xf32>
  return %r : tensor<1x64x8x8xf32>
}

// CHECK-LABEL: func.func @read_twice(
// CHECK: %[[POOL:.*]] = linalg.pooling_nchw_max
// CHECK-NOT: compute_barrier
// CHECK: linalg.transpose ins(%[[POOL]] {{.*}} permutation = [0, 2, 3, 1]
func.func @read_twice(%image: tensor<1x16x10x10xf32>, %w: tensor<64x16x1x1xf32>, %i: tensor<1x16x8x8xf32>, %k: tensor<3x3xf32>, %e: tensor<1x64x8x8xf32>) -> (tensor<1x16x8x8xf32>, tensor<1x64x8x8xf32>) {
  %zero = arith.constant 0.0 : f32
  %m = linalg.pooling_nchw_max {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>} ins(%image, %k : tensor<1x16x10x10xf32>, tensor<3x3xf32>) outs(%i : tensor<1x16x8x8xf32>) -> tensor<1x16x8x8xf32>
  %s = linalg.fill ins(%zero : f32) outs(%e : tensor<1x64x8x8xf32>) -> tensor<1x64x8x8xf32>
  %r = linalg.conv_2d_nchw_fchw {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>} ins(%m, %w : tensor<1x16x8x8xf32>, tensor<64x16x1x1xf32>) outs(%s : tensor<1x64x8x8xf32>) -> tensor<1x64x8x8xf32>
  return %m, %r : tensor<1x16x8x8xf32>, tensor<1x64x8x8xf32>
}
}
