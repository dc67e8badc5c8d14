// For CUDA a scatter reads its updates and indices from memory, at every level, and for CPUs where
// they are large, or their number is unknown; run twice the pass adds nothing, and other targets stay.

// RUN: attn-opt %s --attn-scatter-indices --split-input-file | FileCheck %s
// RUN: attn-opt %s --attn-scatter-indices --split-input-file > %t.1 && attn-opt %s --attn-scatter-indices --attn-scatter-indices --split-input-file > %t.2 && diff %t.1 %t.2

module attributes {hal.device.targets = [#hal.device.target<"cuda", [#hal.executable.target<"cuda", "cuda-nvptx-fb">]> : !hal.device]} {
  // CHECK-LABEL: func.func @write(
  // CHECK: %[[INDICES:.*]] = linalg.generic
  // CHECK: %[[STORED:.*]] = iree_tensor_ext.compute_barrier.start %[[INDICES]] : tensor<4x1xi64>
  // CHECK: iree_linalg_ext.scatter {{.*}} ins(%arg0, %[[STORED]] :
  func.func @write(%new: tensor<4x8xf16>, %at: tensor<4xi64>, %cache: tensor<16x8xf16>) -> tensor<16x8xf16> {
    %e = tensor.empty() : tensor<4x1xi64>
    %i = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a)>, affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]} ins(%at : tensor<4xi64>) outs(%e : tensor<4x1xi64>) {
    ^bb0(%x: i64, %y: i64):
      linalg.yield %x : i64
    } -> tensor<4x1xi64>
    %r = iree_linalg_ext.scatter dimension_map = [0] unique_indices(true) ins(%new, %i : tensor<4x8xf16>, tensor<4x1xi64>) outs(%cache : tensor<16x8xf16>) {
    ^bb0(%a: f16, %b: f16):
      iree_linalg_ext.yield %a : f16
    } -> tensor<16x8xf16>
    return %r : tensor<16x8xf16>
  }
}

// -----

// CHECK-LABEL: func.func @elsewhere(
// CHECK-NOT: compute_barrier
func.func @elsewhere(%new: tensor<4x8xf16>, %at: tensor<4x1xi64>, %cache: tensor<16x8xf16>) -> tensor<16x8xf16> {
  %e = tensor.empty() : tensor<4x1xi64>
  %i = linalg.copy ins(%at : tensor<4x1xi64>) outs(%e : tensor<4x1xi64>) -> tensor<4x1xi64>
  %r = iree_linalg_ext.scatter dimension_map = [0] unique_indices(true) ins(%new, %i : tensor<4x8xf16>, tensor<4x1xi64>) outs(%cache : tensor<16x8xf16>) {
  ^bb0(%a: f16, %b: f16):
    iree_linalg_ext.yield %a : f16
  } -> tensor<16x8xf16>
  return %r : tensor<16x8xf16>
}

// -----

module attributes {hal.device.targets = [#hal.device.target<"local", [#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64">]> : !hal.device]} {
  // CHECK-LABEL: func.func @few(
  // CHECK-NOT: compute_barrier
  func.func @few(%new: tensor<2048x8xf16>, %at: tensor<2048x1xi64>, %e: tensor<2048x1xi64>, %cache: tensor<16x8xf16>) -> tensor<16x8xf16> {
    %i = linalg.copy ins(%at : tensor<2048x1xi64>) outs(%e : tensor<2048x1xi64>) -> tensor<2048x1xi64>
    %r = iree_linalg_ext.scatter dimension_map = [0] unique_indices(false) ins(%new, %i : tensor<2048x8xf16>, tensor<2048x1xi64>) outs(%cache : tensor<16x8xf16>) {
    ^bb0(%a: f16, %b: f16):
      iree_linalg_ext.yield %a : f16
    } -> tensor<16x8xf16>
    return %r : tensor<16x8xf16>
  }

  // CHECK-LABEL: func.func @many(
  // CHECK: %[[INDICES:.*]] = linalg.copy
  // CHECK: %[[STORED:.*]] = iree_tensor_ext.compute_barrier.start %[[INDICES]] : tensor<2049x1xi64>
  // CHECK: iree_linalg_ext.scatter {{.*}} ins(%arg0, %[[STORED]] :
  func.func @many(%new: tensor<2049x8xf16>, %at: tensor<2049x1xi64>, %e: tensor<2049x1xi64>, %cache: tensor<16x8xf16>) -> tensor<16x8xf16> {
    %i = linalg.copy ins(%at : tensor<2049x1xi64>) outs(%e : tensor<2049x1xi64>) -> tensor<2049x1xi64>
    %r = iree_linalg_ext.scatter dimension_map = [0] unique_indices(false) ins(%new, %i : tensor<2049x8xf16>, tensor<2049x1xi64>) outs(%cache : tensor<16x8xf16>) {
    ^bb0(%a: f16, %b: f16):
      iree_linalg_ext.yield %a : f16
    } -> tensor<16x8xf16>
    return %r : tensor<16x8xf16>
  }

  // CHECK-LABEL: func.func @unknown(
  // CHECK: %[[INDICES:.*]] = linalg.copy
  // CHECK: %[[STORED:.*]] = iree_tensor_ext.compute_barrier.start %[[INDICES]] : tensor<?x1xi64>
  // CHECK: iree_linalg_ext.scatter {{.*}} ins(%arg0, %[[STORED]] :
  func.func @unknown(%new: tensor<?x8xf16>, %at: tensor<?x1xi64>, %e: tensor<?x1xi64>, %cache: tensor<16x8xf16>) -> tensor<16x8xf16> {
    %i = linalg.copy ins(%at : tensor<?x1xi64>) outs(%e : tensor<?x1xi64>) -> tensor<?x1xi64>
    %r = iree_linalg_ext.scatter dimension_map = [0] unique_indices(false) ins(%new, %i : tensor<?x8xf16>, tensor<?x1xi64>) outs(%cache : tensor<16x8xf16>) {
    ^bb0(%a: f16, %b: f16):
      iree_linalg_ext.yield %a : f16
    } -> tensor<16x8xf16>
    return %r : tensor<16x8xf16>
  }

  // Rows that do not meet are written to a part of a tensor in memory of its own.
  // CHECK-LABEL: func.func @layer(
  // CHECK: %[[LAYER:.*]] = tensor.collapse_shape
  // CHECK: %[[OWN:.*]] = iree_tensor_ext.compute_barrier.start %[[LAYER]] : tensor<16x8xf16>
  // CHECK: iree_linalg_ext.scatter {{.*}} outs(%[[OWN]] :
  // CHECK: iree_linalg_ext.scatter {{.*}} unique_indices(false) {{.*}} outs(%[[LAYER]] :
  func.func @layer(%new: tensor<4x8xf16>, %at: tensor<4x1xi64>, %caches: tensor<3x16x8xf16>) -> (tensor<16x8xf16>, tensor<16x8xf16>) {
    %s = tensor.extract_slice %caches[1, 0, 0] [1, 16, 8] [1, 1, 1] : tensor<3x16x8xf16> to tensor<1x16x8xf16>
    %c = tensor.collapse_shape %s [[0, 1], [2]] : tensor<1x16x8xf16> into tensor<16x8xf16>
    %r = iree_linalg_ext.scatter dimension_map = [0] unique_indices(true) ins(%new, %at : tensor<4x8xf16>, tensor<4x1xi64>) outs(%c : tensor<16x8xf16>) {
    ^bb0(%a: f16, %b: f16):
      iree_linalg_ext.yield %a : f16
    } -> tensor<16x8xf16>
    %t = iree_linalg_ext.scatter dimension_map = [0] unique_indices(false) ins(%new, %at : tensor<4x8xf16>, tensor<4x1xi64>) outs(%c : tensor<16x8xf16>) {
    ^bb0(%a: f16, %b: f16):
      iree_linalg_ext.yield %a : f16
    } -> tensor<16x8xf16>
    return %r, %t : tensor<16x8xf16>, tensor<16x8xf16>
  }

  // Rows that do not meet IREE makes in parts.
  // CHECK-LABEL: func.func @apart(
  // CHECK-NOT: compute_barrier
  func.func @apart(%new: tensor<?x8xf16>, %at: tensor<?x1xi64>, %e: tensor<?x1xi64>, %cache: tensor<16x8xf16>) -> tensor<16x8xf16> {
    %i = linalg.copy ins(%at : tensor<?x1xi64>) outs(%e : tensor<?x1xi64>) -> tensor<?x1xi64>
    %r = iree_linalg_ext.scatter dimension_map = [0] unique_indices(true) ins(%new, %i : tensor<?x8xf16>, tensor<?x1xi64>) outs(%cache : tensor<16x8xf16>) {
    ^bb0(%a: f16, %b: f16):
      iree_linalg_ext.yield %a : f16
    } -> tensor<16x8xf16>
    return %r : tensor<16x8xf16>
  }
}
