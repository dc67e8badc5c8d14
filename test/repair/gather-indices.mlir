// Indices that address one dim lose the dim of size one that IREE goes wrong on; run twice the pass
// adds nothing. Several indices a row, and a gather of one row, stay.

// RUN: attn-opt %s --attn-gather-indices | FileCheck %s
// RUN: attn-opt %s --attn-gather-indices > %t.1 && attn-opt %s --attn-gather-indices --attn-gather-indices > %t.2 && diff %t.1 %t.2

// CHECK-LABEL: func.func @rows(
// CHECK: %[[AT:.*]] = tensor.collapse_shape %arg1 {{\[\[}}0, 1]] : tensor<4x1xi64> into tensor<4xi64>
// CHECK: iree_linalg_ext.gather dimension_map = [0] ins(%arg0, %[[AT]] : tensor<16x8xf16>, tensor<4xi64>)
func.func @rows(%s: tensor<16x8xf16>, %at: tensor<4x1xi64>) -> tensor<4x8xf16> {
  %e = tensor.empty() : tensor<4x8xf16>
  %g = iree_linalg_ext.gather dimension_map = [0] ins(%s, %at : tensor<16x8xf16>, tensor<4x1xi64>) outs(%e : tensor<4x8xf16>) -> tensor<4x8xf16>
  return %g : tensor<4x8xf16>
}

// CHECK-LABEL: func.func @unknown(
// CHECK: tensor.collapse_shape %arg1 {{\[\[}}0], [1, 2]] : tensor<2x?x1xi32> into tensor<2x?xi32>
func.func @unknown(%s: tensor<16x8xf16>, %at: tensor<2x?x1xi32>, %e: tensor<2x?x8xf16>) -> tensor<2x?x8xf16> {
  %g = iree_linalg_ext.gather dimension_map = [0] ins(%s, %at : tensor<16x8xf16>, tensor<2x?x1xi32>) outs(%e : tensor<2x?x8xf16>) -> tensor<2x?x8xf16>
  return %g : tensor<2x?x8xf16>
}

// CHECK-LABEL: func.func @plain(
// CHECK-NOT: collapse_shape
func.func @plain(%s: tensor<16x8xf16>, %at: tensor<4x1xi64>, %one: tensor<1xi64>, %pairs: tensor<4x2xi64>) -> (tensor<4x1x8xf16>, tensor<8xf16>, tensor<4xf16>) {
  %e = tensor.empty() : tensor<4x1x8xf16>
  %f = tensor.empty() : tensor<8xf16>
  %h = tensor.empty() : tensor<4xf16>
  %g = iree_linalg_ext.gather dimension_map = [0] ins(%s, %at : tensor<16x8xf16>, tensor<4x1xi64>) outs(%e : tensor<4x1x8xf16>) -> tensor<4x1x8xf16>
  %i = iree_linalg_ext.gather dimension_map = [0] ins(%s, %one : tensor<16x8xf16>, tensor<1xi64>) outs(%f : tensor<8xf16>) -> tensor<8xf16>
  %j = iree_linalg_ext.gather dimension_map = [0, 1] ins(%s, %pairs : tensor<16x8xf16>, tensor<4x2xi64>) outs(%h : tensor<4xf16>) -> tensor<4xf16>
  return %g, %i, %j : tensor<4x1x8xf16>, tensor<8xf16>, tensor<4xf16>
}
