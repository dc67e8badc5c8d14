// Several indices a row become one, of the indexed dims as one; one index a row loses its dim of size
// one, which IREE goes wrong on. Run twice the pass adds nothing. A gather of one row by one index, and
// one whose indices have no dim for them, stay.

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

// CHECK-LABEL: func.func @pairs(
// CHECK: %[[AT:.*]] = linalg.generic {{.*}} outs({{.*}} : tensor<4x2xi64>)
// CHECK-DAG:   %[[ROW:.*]] = linalg.index 0
// CHECK-DAG:   %[[COLUMN:.*]] = linalg.index 1
// CHECK:       %[[FIRST:.*]] = tensor.extract %arg1[%[[ROW]], %[[COLUMN]], %c1{{.*}}]
// CHECK:       %[[SECOND:.*]] = tensor.extract %arg1[%[[ROW]], %[[COLUMN]], %c0{{.*}}]
// CHECK: %[[S:.*]] = tensor.collapse_shape %arg0 {{\[\[}}0, 1], [2]] : tensor<16x3x8xf16> into tensor<48x8xf16>
// CHECK: iree_linalg_ext.gather dimension_map = [0] ins(%[[S]], %[[AT]] : tensor<48x8xf16>, tensor<4x2xi64>)
func.func @pairs(%s: tensor<16x3x8xf16>, %at: tensor<4x2x2xi32>) -> tensor<4x2x8xf16> {
  %e = tensor.empty() : tensor<4x2x8xf16>
  %g = iree_linalg_ext.gather dimension_map = [1, 0] ins(%s, %at : tensor<16x3x8xf16>, tensor<4x2x2xi32>) outs(%e : tensor<4x2x8xf16>) -> tensor<4x2x8xf16>
  return %g : tensor<4x2x8xf16>
}

// CHECK-LABEL: func.func @one_row_of_unknown_sizes(
// CHECK: %[[DIM:.*]] = tensor.dim %arg0, %c1
// CHECK: arith.muli {{.*}}, %[[DIM]]
// CHECK: iree_linalg_ext.gather dimension_map = [0] ins({{.*}} : tensor<?x8xf16>, tensor<1xi64>) outs(%arg2 : tensor<8xf16>)
func.func @one_row_of_unknown_sizes(%s: tensor<?x?x8xf16>, %at: tensor<2xi64>, %e: tensor<8xf16>) -> tensor<8xf16> {
  %g = iree_linalg_ext.gather dimension_map = [0, 1] ins(%s, %at : tensor<?x?x8xf16>, tensor<2xi64>) outs(%e : tensor<8xf16>) -> tensor<8xf16>
  return %g : tensor<8xf16>
}

// CHECK-LABEL: func.func @plain(
// CHECK-NOT: collapse_shape
func.func @plain(%s: tensor<16x8xf16>, %at: tensor<4x1xi64>, %one: tensor<1xi64>) -> (tensor<4x1x8xf16>, tensor<8xf16>) {
  %e = tensor.empty() : tensor<4x1x8xf16>
  %f = tensor.empty() : tensor<8xf16>
  %g = iree_linalg_ext.gather dimension_map = [0] ins(%s, %at : tensor<16x8xf16>, tensor<4x1xi64>) outs(%e : tensor<4x1x8xf16>) -> tensor<4x1x8xf16>
  %i = iree_linalg_ext.gather dimension_map = [0] ins(%s, %one : tensor<16x8xf16>, tensor<1xi64>) outs(%f : tensor<8xf16>) -> tensor<8xf16>
  return %g, %i : tensor<4x1x8xf16>, tensor<8xf16>
}
