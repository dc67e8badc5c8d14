// On NVIDIA GPUs copies of unknown sizes get workgroups that read and write 16 bytes a thread; those of
// known sizes are attn-moves'. All of them stay IREE's on AMD's.

// RUN: attn-compile %s --iree-hal-target-device=cuda --iree-cuda-target=sm_90 --attn-kernels=never --attn-mode=never --compile-to=flow -o %t.mlir
// RUN: FileCheck %s --input-file=%t.mlir
// RUN: attn-compile %s --iree-hal-target-device=hip --iree-rocm-target=gfx942 --attn-mode=never --compile-to=flow -o - | FileCheck %s --check-prefix=AMD

// CHECK-LABEL: flow.executable private @packed_dispatch_0
// CHECK: slow_memcpy(
// CHECK-NOT: thread =
// CHECK-LABEL: util.func public @packed
// AMD: slow_memcpy(
// AMD-NOT: thread =
// AMD-LABEL: util.func public @packed
func.func @packed(%qkv: tensor<2x1024x3072xf16>) -> tensor<2x8x1024x128xf16> {
  %scale = arith.constant 0.0883 : f16
  %q1 = tensor.extract_slice %qkv[0, 0, 0] [2, 1024, 1024] [1, 1, 1] : tensor<2x1024x3072xf16> to tensor<2x1024x1024xf16>
  %k1 = tensor.extract_slice %qkv[0, 0, 1024] [2, 1024, 1024] [1, 1, 1] : tensor<2x1024x3072xf16> to tensor<2x1024x1024xf16>
  %v1 = tensor.extract_slice %qkv[0, 0, 2048] [2, 1024, 1024] [1, 1, 1] : tensor<2x1024x3072xf16> to tensor<2x1024x1024xf16>
  %q = tensor.expand_shape %q1 [[0], [1], [2, 3]] output_shape [2, 1024, 8, 128] : tensor<2x1024x1024xf16> into tensor<2x1024x8x128xf16>
  %k = tensor.expand_shape %k1 [[0], [1], [2, 3]] output_shape [2, 1024, 8, 128] : tensor<2x1024x1024xf16> into tensor<2x1024x8x128xf16>
  %v = tensor.expand_shape %v1 [[0], [1], [2, 3]] output_shape [2, 1024, 8, 128] : tensor<2x1024x1024xf16> into tensor<2x1024x8x128xf16>
  %e = tensor.empty() : tensor<2x8x1024x128xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [affine_map<(b, h, m, n, d, k) -> (b, m, h, d)>, affine_map<(b, h, m, n, d, k) -> (b, k, h, d)>, affine_map<(b, h, m, n, d, k) -> (b, k, h, n)>, affine_map<(b, h, m, n, d, k) -> ()>, affine_map<(b, h, m, n, d, k) -> (b, h, m, n)>]>
      ins(%q, %k, %v, %scale : tensor<2x1024x8x128xf16>, tensor<2x1024x8x128xf16>, tensor<2x1024x8x128xf16>, f16) outs(%e : tensor<2x8x1024x128xf16>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x8x1024x128xf16>
  return %r : tensor<2x8x1024x128xf16>
}

// CHECK-LABEL: flow.executable private @left_dispatch_0
// CHECK-NOT: thread =
// CHECK-LABEL: util.func public @left
func.func @left(%numbers: tensor<64x4096xi32>, %apart: tensor<64x4096xf16>, %short: tensor<40x130x4xf16>) -> (tensor<64x1024xi32>, tensor<64x1024xf16>, tensor<40x128x4xf16>) {
  %0 = tensor.extract_slice %numbers[0, 1024] [64, 1024] [1, 1] : tensor<64x4096xi32> to tensor<64x1024xi32>
  %1 = tensor.extract_slice %apart[0, 1] [64, 1024] [1, 2] : tensor<64x4096xf16> to tensor<64x1024xf16>
  %2 = tensor.extract_slice %short[0, 2, 0] [40, 128, 4] [1, 1, 1] : tensor<40x130x4xf16> to tensor<40x128x4xf16>
  return %0, %1, %2 : tensor<64x1024xi32>, tensor<64x1024xf16>, tensor<40x128x4xf16>
}

// A cache of unknown length that grows.
// CHECK-LABEL: flow.executable private @grown_dispatch_0
// CHECK: slow_memcpy(
// CHECK: %[[LOADED:.+]] = iree_tensor_ext.dispatch.tensor.load
// CHECK: %[[COPY:.+]] = linalg.generic {{.*}} outs(%{{.+}} : tensor<8x?x128xf16>) attrs = {{.*}}lowering_config = #iree_gpu.lowering_config<{thread = [1, 1, 8], workgroup = [8, 1, 128]}>
// CHECK: tensor.extract %[[LOADED]]
// CHECK: iree_tensor_ext.dispatch.tensor.store %[[COPY]]
// CHECK-LABEL: util.func public @grown
func.func @grown(%cache: tensor<8x?x128xf16>, %new: tensor<8x1x128xf16>) -> tensor<8x?x128xf16> {
  %0 = tensor.concat dim(1) %cache, %new : (tensor<8x?x128xf16>, tensor<8x1x128xf16>) -> tensor<8x?x128xf16>
  return %0 : tensor<8x?x128xf16>
}

// Rows of unknown length may start anywhere.
// CHECK-LABEL: flow.executable private @ragged_dispatch_0
// CHECK-NOT: thread =
// CHECK-LABEL: util.func public @ragged
func.func @ragged(%rows: tensor<8x?xf16>, %more: tensor<8x1xf16>) -> tensor<8x?xf16> {
  %0 = tensor.concat dim(1) %rows, %more : (tensor<8x?xf16>, tensor<8x1xf16>) -> tensor<8x?xf16>
  return %0 : tensor<8x?xf16>
}

// Windows less a number a row are read at sums of loops: no copies.
// CHECK-LABEL: flow.executable private @windows_dispatch_0
// CHECK-NOT: thread =
// CHECK-LABEL: util.func public @windows
func.func @windows(%x: tensor<2x254x3xf32>, %mean: tensor<2x3xf32>) -> tensor<2x3x63x6xf32> {
  %space = tensor.empty() : tensor<2x3x63x6xf32>
  %made = linalg.generic {indexing_maps = [affine_map<(b, c, w, t) -> (b, w * 4 + t, c)>, affine_map<(b, c, w, t) -> (b, c)>, affine_map<(b, c, w, t) -> (b, c, w, t)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%x, %mean : tensor<2x254x3xf32>, tensor<2x3xf32>) outs(%space : tensor<2x3x63x6xf32>) {
  ^bb0(%a: f32, %m: f32, %s: f32):
    %y = arith.subf %a, %m : f32
    linalg.yield %y : f32
  } -> tensor<2x3x63x6xf32>
  return %made : tensor<2x3x63x6xf32>
}
