// Named products of f32 become generics for CUDA; those of 16 bits, and other targets, stay.

// RUN: attn-opt %s --attn-generic-products --split-input-file | FileCheck %s

module attributes {hal.device.targets = [#hal.device.target<"cuda", [#hal.executable.target<"cuda", "cuda-nvptx-fb">]> : !hal.device]} {
  // CHECK-LABEL: func.func @contract(
  // CHECK: linalg.generic {indexing_maps = [#{{.*}}, #{{.*}}, #{{.*}}], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%arg0, %arg1 : tensor<3x?x8xf32>, tensor<8x5xf32>) outs(%arg2 : tensor<3x?x5xf32>)
  // CHECK: arith.mulf
  // CHECK: arith.addf
  func.func @contract(%a: tensor<3x?x8xf32>, %b: tensor<8x5xf32>, %c: tensor<3x?x5xf32>) -> tensor<3x?x5xf32> {
    %r = linalg.contract indexing_maps = [affine_map<(b, m, n, k) -> (b, m, k)>, affine_map<(b, m, n, k) -> (k, n)>, affine_map<(b, m, n, k) -> (b, m, n)>] ins(%a, %b : tensor<3x?x8xf32>, tensor<8x5xf32>) outs(%c : tensor<3x?x5xf32>) -> tensor<3x?x5xf32>
    return %r : tensor<3x?x5xf32>
  }
  // CHECK-LABEL: func.func @matmul(
  // CHECK: linalg.generic
  func.func @matmul(%a: tensor<3x8xf32>, %b: tensor<8x5xf32>, %c: tensor<3x5xf32>) -> tensor<3x5xf32> {
    %r = linalg.matmul ins(%a, %b : tensor<3x8xf32>, tensor<8x5xf32>) outs(%c : tensor<3x5xf32>) -> tensor<3x5xf32>
    return %r : tensor<3x5xf32>
  }
  // CHECK-LABEL: func.func @halves(
  // CHECK: linalg.matmul
  func.func @halves(%a: tensor<3x8xf16>, %b: tensor<8x5xf16>, %c: tensor<3x5xf32>) -> tensor<3x5xf32> {
    %r = linalg.matmul ins(%a, %b : tensor<3x8xf16>, tensor<8x5xf16>) outs(%c : tensor<3x5xf32>) -> tensor<3x5xf32>
    return %r : tensor<3x5xf32>
  }
  // Both factors widened from 16 bits, as torch's addmm has them: read as they were.
  // CHECK-LABEL: func.func @widened(
  // CHECK: linalg.generic {{.*}} ins(%arg0, %arg1 : tensor<3x8xf16>, tensor<8x5xf16>)
  // CHECK-NEXT: ^bb0(%[[A:.*]]: f16, %[[B:.*]]: f16, %{{.*}}: f32):
  // CHECK-COUNT-2: arith.extf
  // CHECK: arith.mulf
  func.func @widened(%a: tensor<3x8xf16>, %b: tensor<8x5xf16>, %c: tensor<3x5xf32>) -> tensor<3x5xf32> {
    %x = arith.extf %a : tensor<3x8xf16> to tensor<3x8xf32>
    %y = arith.extf %b : tensor<8x5xf16> to tensor<8x5xf32>
    %r = linalg.matmul ins(%x, %y : tensor<3x8xf32>, tensor<8x5xf32>) outs(%c : tensor<3x5xf32>) -> tensor<3x5xf32>
    return %r : tensor<3x5xf32>
  }
  // CHECK-LABEL: func.func @one_widened(
  // CHECK: linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} : tensor<3x8xf32>, tensor<8x5xf32>)
  func.func @one_widened(%a: tensor<3x8xf16>, %b: tensor<8x5xf32>, %c: tensor<3x5xf32>) -> tensor<3x5xf32> {
    %x = arith.extf %a : tensor<3x8xf16> to tensor<3x8xf32>
    %r = linalg.matmul ins(%x, %b : tensor<3x8xf32>, tensor<8x5xf32>) outs(%c : tensor<3x5xf32>) -> tensor<3x5xf32>
    return %r : tensor<3x5xf32>
  }
}

// -----

// CHECK-LABEL: func.func @elsewhere(
// CHECK: linalg.matmul
func.func @elsewhere(%a: tensor<3x8xf32>, %b: tensor<8x5xf32>, %c: tensor<3x5xf32>) -> tensor<3x5xf32> {
  %r = linalg.matmul ins(%a, %b : tensor<3x8xf32>, tensor<8x5xf32>) outs(%c : tensor<3x5xf32>) -> tensor<3x5xf32>
  return %r : tensor<3x5xf32>
}
