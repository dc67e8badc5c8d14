// Convolutions in f32: kernels for Hopper take products of any depth, as of three channels of 7 x 7;
// IREE's tiles, for other GPUs, do not, and the convolution stays.

// RUN: attn-opt %s --attn-conv-products | FileCheck %s
// RUN: sed -e 's/sm_90/sm_80/' %s | attn-opt --attn-conv-products | FileCheck %s --check-prefix=OTHER

// CHECK-LABEL: func.func @first(
// CHECK-NOT: linalg.conv
// CHECK: linalg.generic {{.*}}"reduction"]} ins(%{{.*}}, %{{.*}} : tensor<98x147xf32>, tensor<64x147xf32>)
// OTHER-LABEL: func.func @first(
// OTHER: linalg.conv_2d_nchw_fchw
module attributes {hal.device.targets = [#hal.device.target<"cuda", [#hal.executable.target<"cuda", "cuda-nvptx-fb", {iree_codegen.target_info = #iree_gpu.target<arch = "sm_90", features = "", wgp = <compute = fp32, storage = b32, subgroup = none, dot = none, mma = [], subgroup_size_choices = [32], max_workgroup_sizes = [1024, 1024, 1024], max_thread_count_per_workgroup = 1024, max_workgroup_memory_bytes = 65536, max_workgroup_counts = [2147483647, 65535, 65535]>>}>]> : !hal.device]} {
  func.func @first(%x: tensor<2x3x19x19xf32>, %w: tensor<64x3x7x7xf32>) -> tensor<2x64x7x7xf32> {
    %z = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<2x64x7x7xf32>
    %f = linalg.fill ins(%z : f32) outs(%e : tensor<2x64x7x7xf32>) -> tensor<2x64x7x7xf32>
    %r = linalg.conv_2d_nchw_fchw {strides = dense<2> : tensor<2xi64>, dilations = dense<1> : tensor<2xi64>} ins(%x, %w : tensor<2x3x19x19xf32>, tensor<64x3x7x7xf32>) outs(%f : tensor<2x64x7x7xf32>) -> tensor<2x64x7x7xf32>
    return %r : tensor<2x64x7x7xf32>
  }
}
