// Each element of a new tensor finds the last that is written to it by index; of numbers that are added it
// is the sum, of 16 bits in f32. Sums of many are made in the order of their places, where what is added is
// all that the body does. Tensors that are read, and may be caches, and rows that are added to
// different ones are left, and those for CPUs.

// RUN: attn-opt %s --attn-find-writes --split-input-file --report=%t.json | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.json
// WHY: each of 64 rows finds what is written to it among 32
// WHY: each of 64 rows finds what is written to it among 32
// WHY: each of 8 rows finds what is written to it among 32
// WHY: adds up the rows of each place in the order of places
// WHY: adds up the rows of each place in the order of places
// WHY-NOT: adds up the rows
// WHY-NOT: finds what is written

#cuda = #hal.device.target<"cuda", [#hal.executable.target<"cuda", "cuda-nvptx-fb">]> : !hal.device
module attributes {hal.device.targets = [#cuda]} {
// CHECK-LABEL: func.func @rows(
// CHECK: arith.cmpi ult, %{{.*}}, %{{.*}} : index
// CHECK: %[[PLACES:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<32xi32>
// CHECK: %[[LAST:.*]] = linalg.generic {{.*}}"reduction"]} ins(%[[PLACES]] : tensor<32xi32>) outs(%{{.*}} : tensor<64xi32>)
// CHECK: arith.cmpi eq
// CHECK: arith.maxsi
// CHECK: linalg.generic {{.*}} ins(%[[LAST]] : tensor<64xi32>) outs(%{{.*}} : tensor<64x4xf32>)
// CHECK: tensor.extract %arg0
// CHECK-NOT: iree_linalg_ext.scatter
func.func @rows(%new: tensor<32x4xf32>, %at: tensor<32x1xi64>) -> tensor<64x4xf32> {
  %c = arith.constant 1.0 : f32
  %e = tensor.empty() : tensor<64x4xf32>
  %f = linalg.fill ins(%c : f32) outs(%e : tensor<64x4xf32>) -> tensor<64x4xf32>
  %r = iree_linalg_ext.scatter dimension_map = [0] unique_indices(false) ins(%new, %at : tensor<32x4xf32>, tensor<32x1xi64>) outs(%f : tensor<64x4xf32>) {
  ^bb0(%n: f32, %o: f32):
    iree_linalg_ext.yield %n : f32
  } -> tensor<64x4xf32>
  return %r : tensor<64x4xf32>
}
// CHECK-LABEL: func.func @counts(
// CHECK: linalg.generic {{.*}}"reduction"]} ins(%{{.*}}, %arg2, %arg0 : tensor<32xi32>, tensor<32xi1>, tensor<32xi64>) outs(%arg3 : tensor<64xi64>)
// CHECK: arith.andi
// CHECK: arith.addi
// CHECK-NOT: iree_linalg_ext.scatter
func.func @counts(%new: tensor<32xi64>, %at: tensor<32xi32>, %mask: tensor<32xi1>, %x: tensor<64xi64>) -> tensor<64xi64> {
  %r = iree_linalg_ext.scatter dimension_map = [0] unique_indices(false) ins(%new, %at, %mask : tensor<32xi64>, tensor<32xi32>, tensor<32xi1>) outs(%x : tensor<64xi64>) {
  ^bb0(%n: i64, %o: i64):
    %s = arith.addi %o, %n : i64
    iree_linalg_ext.yield %s : i64
  } -> tensor<64xi64>
  return %r : tensor<64xi64>
}
// CHECK-LABEL: func.func @experts(
// CHECK: %[[WIDE:.*]] = linalg.generic {{.*}} ins(%arg2 : tensor<8x4xbf16>) outs(%{{.*}} : tensor<8x4xf32>)
// CHECK: linalg.generic {{.*}}"parallel", "parallel", "reduction"]} ins(%{{.*}}, %arg0 : tensor<32xi32>, tensor<32x4xbf16>) outs(%[[WIDE]] : tensor<8x4xf32>)
// CHECK: arith.select
// CHECK: arith.addf %{{.*}} : f32
// CHECK-NOT: iree_linalg_ext.scatter
func.func @experts(%new: tensor<32x4xbf16>, %at: tensor<32xi64>, %x: tensor<8x4xbf16>) -> tensor<8x4xbf16> {
  %r = iree_linalg_ext.scatter dimension_map = [0] unique_indices(false) ins(%new, %at : tensor<32x4xbf16>, tensor<32xi64>) outs(%x : tensor<8x4xbf16>) {
  ^bb0(%n: bf16, %o: bf16):
    %s = arith.addf %o, %n : bf16
    iree_linalg_ext.yield %s : bf16
  } -> tensor<8x4xbf16>
  return %r : tensor<8x4xbf16>
}
// Places in order, the first of each, whole blocks of one place, and the sums.
// CHECK-LABEL: func.func @many(
// CHECK: %[[PLACES:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<4096xi32>
// CHECK: linalg.generic {{.*}}"reduction"]} ins(%[[PLACES]], %[[PLACES]] :
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<1025xi32>)
// CHECK: %[[STARTS:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<1025xi32>
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<32x64xf32>)
// CHECK: %[[BLOCKS:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<32x64xf32>
// CHECK: linalg.generic {{.*}} ins(%arg2 : tensor<1024x64xf16>) outs(%{{.*}} : tensor<1024x64xf16>)
// CHECK-COUNT-2: tensor.extract %[[STARTS]]
// CHECK: tensor.extract %{{.*}} : tensor<4096xi32>
// CHECK: tensor.extract %{{.*}} : tensor<4096x64xf16>
// CHECK: tensor.extract %[[BLOCKS]]
// CHECK-NOT: iree_linalg_ext.scatter
func.func @many(%new: tensor<4096x64xf16>, %at: tensor<4096xi64>, %x: tensor<1024x64xf16>) -> tensor<1024x64xf16> {
  %r = iree_linalg_ext.scatter dimension_map = [0] unique_indices(false) ins(%new, %at : tensor<4096x64xf16>, tensor<4096xi64>) outs(%x : tensor<1024x64xf16>) {
  ^bb0(%n: f16, %o: f16):
    %s = arith.addf %o, %n : f16
    iree_linalg_ext.yield %s : f16
  } -> tensor<1024x64xf16>
  return %r : tensor<1024x64xf16>
}
// Of an unknown number, by two indices each.
// CHECK-LABEL: func.func @unknown(
// CHECK: arith.muli
// CHECK: iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<?xi32>
// CHECK: linalg.generic {{.*}} ins(%{{.*}} : tensor<?xi64>) outs(%{{.*}} : tensor<?xi64>)
// CHECK-NOT: iree_linalg_ext.scatter
func.func @unknown(%new: tensor<?xi64>, %at: tensor<?x2xi32>, %x: tensor<?x8xi64>) -> tensor<?x8xi64> {
  %r = iree_linalg_ext.scatter dimension_map = [0, 1] unique_indices(false) ins(%new, %at : tensor<?xi64>, tensor<?x2xi32>) outs(%x : tensor<?x8xi64>) {
  ^bb0(%n: i64, %o: i64):
    %s = arith.addi %o, %n : i64
    iree_linalg_ext.yield %s : i64
  } -> tensor<?x8xi64>
  return %r : tensor<?x8xi64>
}
// CHECK-LABEL: func.func @products(
// CHECK: iree_linalg_ext.scatter
func.func @products(%new: tensor<4096x64xf16>, %at: tensor<4096xi64>, %x: tensor<1024x64xf16>) -> tensor<1024x64xf16> {
  %r = iree_linalg_ext.scatter dimension_map = [0] unique_indices(false) ins(%new, %at : tensor<4096x64xf16>, tensor<4096xi64>) outs(%x : tensor<1024x64xf16>) {
  ^bb0(%n: f16, %o: f16):
    %s = arith.mulf %o, %n : f16
    iree_linalg_ext.yield %s : f16
  } -> tensor<1024x64xf16>
  return %r : tensor<1024x64xf16>
}
// CHECK-LABEL: func.func @cache(
// CHECK: iree_linalg_ext.scatter
// CHECK: iree_linalg_ext.scatter
func.func @cache(%new: tensor<32x4xf32>, %at: tensor<32xi64>, %x: tensor<64x4xf32>) -> (tensor<64x4xf32>, tensor<64x4xf32>) {
  %zero = arith.constant dense<0.0> : tensor<64x4xf32>
  %r = iree_linalg_ext.scatter dimension_map = [0] unique_indices(true) ins(%new, %at : tensor<32x4xf32>, tensor<32xi64>) outs(%x : tensor<64x4xf32>) {
  ^bb0(%n: f32, %o: f32):
    iree_linalg_ext.yield %n : f32
  } -> tensor<64x4xf32>
  %s = iree_linalg_ext.scatter dimension_map = [0] unique_indices(true) ins(%new, %at : tensor<32x4xf32>, tensor<32xi64>) outs(%zero : tensor<64x4xf32>) {
  ^bb0(%n: f32, %o: f32):
    %a = arith.addf %o, %n : f32
    iree_linalg_ext.yield %a : f32
  } -> tensor<64x4xf32>
  return %r, %s : tensor<64x4xf32>, tensor<64x4xf32>
}
}

// -----

// CHECK-LABEL: func.func @on_a_cpu(
// CHECK: iree_linalg_ext.scatter
#cpu = #hal.device.target<"local", [#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64">]> : !hal.device
module attributes {hal.device.targets = [#cpu]} {
func.func @on_a_cpu(%new: tensor<32xf32>, %at: tensor<32xi64>, %x: tensor<64xf32>) -> tensor<64xf32> {
  %r = iree_linalg_ext.scatter dimension_map = [0] unique_indices(true) ins(%new, %at : tensor<32xf32>, tensor<32xi64>) outs(%x : tensor<64xf32>) {
  ^bb0(%n: f32, %o: f32):
    iree_linalg_ext.yield %n : f32
  } -> tensor<64xf32>
  return %r : tensor<64xf32>
}
}
