// Convolutions whose lines fill vectors are loops over the image where it lies; others are products
// of patches before, and what sums up 16 bits or begins at a tensor stays IREE's, with the reason.

// DEFINE: %{cpu} = --iree-hal-target-device=local --iree-hal-local-target-device-backends=llvm-cpu --iree-llvmcpu-target-cpu=x86-64-v4
// RUN: attn-compile %s %{cpu} --compile-to=executable-configurations --attn-summary 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=REPORT --input-file=%t.txt

// REPORT-DAG: each of 3 kernels at {{.*}} is vector loops of ours, with pixels across the lanes
// REPORT-DAG: kernel halves_dispatch_0_{{.*}} gets no loops of ours: its types are f16, f16, f16
// REPORT-DAG: kernel prime_dispatch_0_{{.*}} gets no loops of ours: its lines of 1009 pixels are cut into no equal parts

// Two vectors of pixels for each of 8 channels.
// CHECK: func.func @wide_dispatch_0_
// CHECK-SAME: #iree_codegen.no_pipeline
// CHECK: scf.for {{.*}} -> (vector<16xf32>, vector<16xf32>,
// CHECK-COUNT-16: arith.mulf {{.*}} : vector<16xf32>
func.func @wide(%x: tensor<1x4x18x34xf32>, %w: tensor<8x4x3x3xf32>) -> tensor<1x8x16x32xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x8x16x32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x8x16x32xf32>) -> tensor<1x8x16x32xf32>
  %r = linalg.conv_2d_nchw_fchw {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>} ins(%x, %w : tensor<1x4x18x34xf32>, tensor<8x4x3x3xf32>) outs(%f : tensor<1x8x16x32xf32>) -> tensor<1x8x16x32xf32>
  return %r : tensor<1x8x16x32xf32>
}

// Eight lines of a channel; every second pixel.
// CHECK: func.func @apart_dispatch_0_
// CHECK-SAME: #iree_codegen.no_pipeline
// CHECK: vector.shuffle {{.*}} : vector<32xf32>, vector<32xf32>
func.func @apart(%x: tensor<1x4x33x65xf32>, %w: tensor<4x3x3xf32>) -> tensor<1x4x16x32xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x4x16x32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x4x16x32xf32>) -> tensor<1x4x16x32xf32>
  %r = linalg.depthwise_conv_2d_nchw_chw {dilations = dense<1> : vector<2xi64>, strides = dense<2> : vector<2xi64>} ins(%x, %w : tensor<1x4x33x65xf32>, tensor<4x3x3xf32>) outs(%f : tensor<1x4x16x32xf32>) -> tensor<1x4x16x32xf32>
  return %r : tensor<1x4x16x32xf32>
}

// CHECK: func.func @halves_dispatch_0_
// CHECK-SAME: #iree_cpu.pipeline
func.func @halves(%x: tensor<1x4x18x34xf16>, %w: tensor<8x4x3x3xf16>) -> tensor<1x8x16x32xf16> {
  %zero = arith.constant 0.0 : f16
  %e = tensor.empty() : tensor<1x8x16x32xf16>
  %f = linalg.fill ins(%zero : f16) outs(%e : tensor<1x8x16x32xf16>) -> tensor<1x8x16x32xf16>
  %r = linalg.conv_2d_nchw_fchw {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>} ins(%x, %w : tensor<1x4x18x34xf16>, tensor<8x4x3x3xf16>) outs(%f : tensor<1x8x16x32xf16>) -> tensor<1x8x16x32xf16>
  return %r : tensor<1x8x16x32xf16>
}

// CHECK: func.func @short_dispatch_{{.*}}matmul
func.func @short(%x: tensor<1x32x7x7xf32>, %w: tensor<64x32x3x3xf32>) -> tensor<1x64x5x5xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x64x5x5xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x64x5x5xf32>) -> tensor<1x64x5x5xf32>
  %r = linalg.conv_2d_nchw_fchw {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>} ins(%x, %w : tensor<1x32x7x7xf32>, tensor<64x32x3x3xf32>) outs(%f : tensor<1x64x5x5xf32>) -> tensor<1x64x5x5xf32>
  return %r : tensor<1x64x5x5xf32>
}

// What is behind a long line's sums is computed a part of the line at a time.
// CHECK: func.func @long_dispatch_0_
// CHECK-SAME: #iree_codegen.no_pipeline
// CHECK-NOT: vector<{{([0-9]+x)?}}1000xf32>
// CHECK: func.func @prime_dispatch_0_
func.func @long(%x: tensor<1x8x1002xf32>, %w: tensor<16x8x3xf32>) -> tensor<1x16x1000xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x16x1000xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x16x1000xf32>) -> tensor<1x16x1000xf32>
  %r = linalg.conv_1d_ncw_fcw {dilations = dense<1> : vector<1xi64>, strides = dense<1> : vector<1xi64>} ins(%x, %w : tensor<1x8x1002xf32>, tensor<16x8x3xf32>) outs(%f : tensor<1x16x1000xf32>) -> tensor<1x16x1000xf32>
  %s = math.tanh %r : tensor<1x16x1000xf32>
  return %s : tensor<1x16x1000xf32>
}

func.func @prime(%x: tensor<1x8x1011xf32>, %w: tensor<16x8x3xf32>) -> tensor<1x16x1009xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x16x1009xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x16x1009xf32>) -> tensor<1x16x1009xf32>
  %r = linalg.conv_1d_ncw_fcw {dilations = dense<1> : vector<1xi64>, strides = dense<1> : vector<1xi64>} ins(%x, %w : tensor<1x8x1011xf32>, tensor<16x8x3xf32>) outs(%f : tensor<1x16x1009xf32>) -> tensor<1x16x1009xf32>
  %s = math.tanh %r : tensor<1x16x1009xf32>
  return %s : tensor<1x16x1009xf32>
}
