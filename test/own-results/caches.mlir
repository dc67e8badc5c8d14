// Caches that a call makes longer and returns: where all results are more than what stays mapped of
// one allocation, each cache has its own, and none is copied. Smaller ones stay together.
//
// RUN: attn-compile %s --iree-hal-target-device=cuda --iree-cuda-target=sm_90 --compile-to=stream --attn-report=%t.json | FileCheck %s
// RUN: FileCheck %s --check-prefix=TOLD < %t.json
// RUN: attn-compile %s --iree-hal-target-device=cuda --iree-cuda-target=sm_90 -o %t.vmfb
// RUN: attn-compile %s --iree-hal-target-device=cuda --iree-cuda-target=sm_90 --compile-to=stream --attn-workspace=false | FileCheck %s --check-prefix=OFF

// Two segments for each of the larger function's caches, twice, with eight ends that are held.
// CHECK: util.global public @__attn_workspace_end_7
// CHECK-NOT: @__attn_workspace_end_8

// CHECK-LABEL: util.func public @large(
// CHECK-COUNT-2: hal.device.queue.alloca<
// CHECK-NOT: resource<external>{{.*}} => !stream.timepoint
// CHECK: stream.cmd.execute
// CHECK-NOT: stream.cmd.execute
// CHECK-NOT: stream.cmd.copy
// CHECK-LABEL: util.func public @unknown(
// CHECK: %[[BYTES:.*]] = arith.maxui
// CHECK: hal.device.queue.alloca<{{.*}}{%[[BYTES]]}
// CHECK: hal.device.queue.alloca<
// CHECK: stream.cmd.execute
// CHECK-NOT: stream.cmd.execute
// CHECK-LABEL: util.func public @small(
// CHECK-NOT: hal.device.queue.alloca
// CHECK: stream.resource.alloca{{.*}}!stream.resource<external>
// TOLD: 4 caches that are returned have own memory
// OFF-NOT: hal.device.queue.alloca

func.func @large(%k: tensor<64x2047x128xf16>, %v: tensor<64x2047x128xf16>, %a: tensor<64x1x128xf16>, %b: tensor<64x1x128xf16>) -> (tensor<64x2048x128xf16>, tensor<64x2048x128xf16>) {
  %keys = tensor.concat dim(1) %k, %a : (tensor<64x2047x128xf16>, tensor<64x1x128xf16>) -> tensor<64x2048x128xf16>
  %values = tensor.concat dim(1) %v, %b : (tensor<64x2047x128xf16>, tensor<64x1x128xf16>) -> tensor<64x2048x128xf16>
  return %keys, %values : tensor<64x2048x128xf16>, tensor<64x2048x128xf16>
}

func.func @unknown(%k: tensor<64x?x128xf16>, %v: tensor<64x?x128xf16>, %a: tensor<64x1x128xf16>, %b: tensor<64x1x128xf16>) -> (tensor<64x?x128xf16>, tensor<64x?x128xf16>) {
  %keys = tensor.concat dim(1) %k, %a : (tensor<64x?x128xf16>, tensor<64x1x128xf16>) -> tensor<64x?x128xf16>
  %values = tensor.concat dim(1) %v, %b : (tensor<64x?x128xf16>, tensor<64x1x128xf16>) -> tensor<64x?x128xf16>
  return %keys, %values : tensor<64x?x128xf16>, tensor<64x?x128xf16>
}

func.func @small(%k: tensor<8x2047x128xf16>, %v: tensor<8x2047x128xf16>, %a: tensor<8x1x128xf16>, %b: tensor<8x1x128xf16>) -> (tensor<8x2048x128xf16>, tensor<8x2048x128xf16>) {
  %keys = tensor.concat dim(1) %k, %a : (tensor<8x2047x128xf16>, tensor<8x1x128xf16>) -> tensor<8x2048x128xf16>
  %values = tensor.concat dim(1) %v, %b : (tensor<8x2047x128xf16>, tensor<8x1x128xf16>) -> tensor<8x2048x128xf16>
  return %keys, %values : tensor<8x2048x128xf16>, tensor<8x2048x128xf16>
}
