// CPUs: matrices of few rows read the one that they share as it lies, transposed or not; of more
// rows or any number, or where each has its own, the product stays, as do those of other targets.
//
// RUN: attn-opt %s --attn-join-repeats | FileCheck %s
// RUN: sed 's/llvm-cpu/cuda/' %s | attn-opt - --attn-join-repeats | FileCheck %s --check-prefix=OTHER

// OTHER-NOT: arith.mulf

#given = affine_map<(b, k, n) -> (n, k)>
#all = affine_map<(b, k, n) -> (b, k, n)>

// CHECK-DAG: #[[LEFT:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>
// CHECK-DAG: #[[SHARED:.*]] = affine_map<(d0, d1, d2, d3) -> (d2, d3)>
// CHECK-DAG: #[[RESULT:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>

module attributes {hal.device.targets = [#hal.device.target<"local", [#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64">]>]} {
  // CHECK-LABEL: func.func @few(
  // CHECK-SAME: %[[X:.*]]: tensor<6x2x8xf16>, %[[W:.*]]: tensor<16x8xf16>
  // CHECK: linalg.generic {indexing_maps = [#[[LEFT]], #[[SHARED]], #[[RESULT]]]
  // CHECK-SAME: ins(%[[X]], %[[W]] :
  // CHECK-COUNT-2: arith.extf
  // CHECK: arith.mulf
  func.func @few(%x: tensor<6x2x8xf16>, %w: tensor<16x8xf16>, %out: tensor<6x2x16xf32>) -> tensor<6x2x16xf32> {
    %space = tensor.empty() : tensor<6x8x16xf16>
    %copies = linalg.generic {indexing_maps = [#given, #all], iterator_types = ["parallel", "parallel", "parallel"]}
        ins(%w : tensor<16x8xf16>) outs(%space : tensor<6x8x16xf16>) {
    ^bb0(%a: f16, %b: f16):
      linalg.yield %a : f16
    } -> tensor<6x8x16xf16>
    %r = linalg.batch_matmul ins(%x, %copies : tensor<6x2x8xf16>, tensor<6x8x16xf16>) outs(%out : tensor<6x2x16xf32>) -> tensor<6x2x16xf32>
    return %r : tensor<6x2x16xf32>
  }

  // CHECK-LABEL: func.func @many(
  // CHECK: linalg.batch_matmul
  func.func @many(%x: tensor<6x17x8xf32>, %w: tensor<8x16xf32>, %out: tensor<6x17x16xf32>) -> tensor<6x17x16xf32> {
    %space = tensor.empty() : tensor<6x8x16xf32>
    %copies = linalg.broadcast ins(%w : tensor<8x16xf32>) outs(%space : tensor<6x8x16xf32>) dimensions = [0]
    %r = linalg.batch_matmul ins(%x, %copies : tensor<6x17x8xf32>, tensor<6x8x16xf32>) outs(%out : tensor<6x17x16xf32>) -> tensor<6x17x16xf32>
    return %r : tensor<6x17x16xf32>
  }

  // CHECK-LABEL: func.func @unknown(
  // CHECK: linalg.batch_matmul
  func.func @unknown(%x: tensor<6x?x8xf32>, %w: tensor<8x16xf32>, %out: tensor<6x?x16xf32>) -> tensor<6x?x16xf32> {
    %space = tensor.empty() : tensor<6x8x16xf32>
    %copies = linalg.broadcast ins(%w : tensor<8x16xf32>) outs(%space : tensor<6x8x16xf32>) dimensions = [0]
    %r = linalg.batch_matmul ins(%x, %copies : tensor<6x?x8xf32>, tensor<6x8x16xf32>) outs(%out : tensor<6x?x16xf32>) -> tensor<6x?x16xf32>
    return %r : tensor<6x?x16xf32>
  }

  // CHECK-LABEL: func.func @columns(
  // CHECK: linalg.batch_matmul
  func.func @columns(%x: tensor<6x2x8xf32>, %w: tensor<6x16xf32>, %out: tensor<6x2x16xf32>) -> tensor<6x2x16xf32> {
    %space = tensor.empty() : tensor<6x8x16xf32>
    %copies = linalg.broadcast ins(%w : tensor<6x16xf32>) outs(%space : tensor<6x8x16xf32>) dimensions = [1]
    %r = linalg.batch_matmul ins(%x, %copies : tensor<6x2x8xf32>, tensor<6x8x16xf32>) outs(%out : tensor<6x2x16xf32>) -> tensor<6x2x16xf32>
    return %r : tensor<6x2x16xf32>
  }
}
