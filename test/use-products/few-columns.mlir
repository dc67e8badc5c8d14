// RUN: attn-opt %s --attn-use-products="target=sm_90 mode=always" --split-input-file --remarks > %t.mlir 2> %t.txt
// RUN: FileCheck %s < %t.mlir
// RUN: FileCheck %s --check-prefix=REMARK < %t.txt

// A router: its 8 columns are the rows of the turned product, which is turned back.
// CHECK-LABEL: func.func @router(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<2048x4096xf16>, %[[W:[a-z0-9]+]]: tensor<8x4096xf16>
// CHECK: %[[MADE:.+]] = hal.dispatch.extern "product_f16_few16_4x2_clamp_general"[{{.*}}%[[W]], %[[X]], %[[W]], %[[W]], %[[W]])
// CHECK-SAME: -> tensor<8x2048xf16>
// CHECK: linalg.transpose ins(%[[MADE]] : tensor<8x2048xf16>) outs({{.*}} : tensor<2048x8xf16>) permutation = [1, 0]
// CHECK-NOT: linalg.matmul
// REMARK: product_f16_few16_4x2_clamp_general: about {{[0-9]+}} us instead of {{[0-9]+}}, its 8 columns as rows of the turned product, and about {{[0-9]+}} us beside it
#lhs = affine_map<(m, n, k) -> (m, k)>
#rhs = affine_map<(m, n, k) -> (n, k)>
#out = affine_map<(m, n, k) -> (m, n)>
func.func @router(%x: tensor<2048x4096xf16>, %w: tensor<8x4096xf16>) -> tensor<2048x8xf16> {
  %z = arith.constant 0.0 : f16
  %e = tensor.empty() : tensor<2048x8xf16>
  %f = linalg.fill ins(%z : f16) outs(%e : tensor<2048x8xf16>) -> tensor<2048x8xf16>
  %r = linalg.matmul indexing_maps = [#lhs, #rhs, #out] ins(%x, %w : tensor<2048x4096xf16>, tensor<8x4096xf16>) outs(%f : tensor<2048x8xf16>) -> tensor<2048x8xf16>
  return %r : tensor<2048x8xf16>
}

// -----

// A bias would be one of the rows: a tile adds it. So it does where the rows' number is unknown.
// CHECK-LABEL: func.func @biased(
// CHECK: hal.dispatch.extern "product_f16_til
// CHECK-NOT: hal.dispatch.extern
#id = affine_map<(m, n) -> (m, n)>
#column = affine_map<(m, n) -> (n)>
func.func @biased(%x: tensor<2048x4096xf16>, %w: tensor<4096x8xf16>, %b: tensor<8xf16>) -> tensor<2048x8xf16> {
  %z = arith.constant 0.0 : f16
  %e = tensor.empty() : tensor<2048x8xf16>
  %f = linalg.fill ins(%z : f16) outs(%e : tensor<2048x8xf16>) -> tensor<2048x8xf16>
  %p = linalg.matmul ins(%x, %w : tensor<2048x4096xf16>, tensor<4096x8xf16>) outs(%f : tensor<2048x8xf16>) -> tensor<2048x8xf16>
  %r = linalg.generic {indexing_maps = [#id, #column, #id], iterator_types = ["parallel", "parallel"]} ins(%p, %b : tensor<2048x8xf16>, tensor<8xf16>) outs(%e : tensor<2048x8xf16>) {
  ^bb0(%i: f16, %j: f16, %o: f16):
    %s = arith.addf %i, %j : f16
    linalg.yield %s : f16
  } -> tensor<2048x8xf16>
  return %r : tensor<2048x8xf16>
}

// CHECK-LABEL: func.func @unknown(
// CHECK: hal.dispatch.extern "product_f16_til
// CHECK-NOT: hal.dispatch.extern
func.func @unknown(%x: tensor<?x4096xf16>, %w: tensor<4096x8xf16>) -> tensor<?x8xf16> {
  %z = arith.constant 0.0 : f16
  %c0 = arith.constant 0 : index
  %m = tensor.dim %x, %c0 : tensor<?x4096xf16>
  %e = tensor.empty(%m) : tensor<?x8xf16>
  %f = linalg.fill ins(%z : f16) outs(%e : tensor<?x8xf16>) -> tensor<?x8xf16>
  %r = linalg.matmul ins(%x, %w : tensor<?x4096xf16>, tensor<4096x8xf16>) outs(%f : tensor<?x8xf16>) -> tensor<?x8xf16>
  return %r : tensor<?x8xf16>
}
