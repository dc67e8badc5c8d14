// V is read by attention and returned as it is. Where its producer is cheap (its input is a
// constant here), it is computed in both layouts: the cheapest way to serve both readers.
// RUN: attn-opt %s --attn-propagate-layout=mode=cost,target=sm_80 --remarks --split-input-file 2>&1 | FileCheck %s

// CHECK-DAG: remark: value absorbed: k2 innermost in V, absorbed by arith.constant
// CHECK-DAG: remark: value absorbed: k2 innermost in V, absorbed by linalg.batch_matmul

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
#id = affine_map<(b, s, d) -> (b, s, d)>

// CHECK-LABEL: func.func @dequantised
// CHECK-NOT: linalg.transpose
// CHECK-DAG: %[[OLD:.+]] = linalg.generic {{.*}} ins(%{{.+}} : tensor<2x2048x128xi8>) outs(%{{.+}} : tensor<2x2048x128xf16>)
// CHECK-DAG: %[[NEW:.+]] = linalg.generic {{.*}} ins(%{{.+}} : tensor<2x128x2048xi8>) outs(%{{.+}} : tensor<2x128x2048xf16>)
// CHECK: iree_linalg_ext.attention {{.*}} ins(%{{[^,]+}}, %{{[^,]+}}, %[[NEW]],
// CHECK: return %{{.+}}, %[[OLD]]
func.func @dequantised(%q: tensor<2x2048x128xf16>, %k: tensor<2x2048x128xf16>) -> (tensor<2x2048x128xf16>, tensor<2x2048x128xf16>) {
  %c = arith.constant dense<3> : tensor<2x2048x128xi8>
  %e = tensor.empty() : tensor<2x2048x128xf16>
  %v = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%c : tensor<2x2048x128xi8>) outs(%e : tensor<2x2048x128xf16>) {
  ^bb0(%in: i8, %out: f16):
    %f = arith.sitofp %in : i8 to f16
    linalg.yield %f : f16
  } -> tensor<2x2048x128xf16>
  %scale = arith.constant 0.25 : f16
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x2048x128xf16>, tensor<2x2048x128xf16>, tensor<2x2048x128xf16>, f16) outs(%e : tensor<2x2048x128xf16>) {
    ^bb0(%score: f16):
      iree_linalg_ext.yield %score : f16
  } -> tensor<2x2048x128xf16>
  return %r, %v : tensor<2x2048x128xf16>, tensor<2x2048x128xf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// A projection is not computed twice: its other reader gets one copy of V^T.
// CHECK-LABEL: func.func @projected
// CHECK: %[[NEW:.+]] = linalg.batch_matmul {{.*}} -> tensor<2x128x2048xf16>
// CHECK: %[[OLD:.+]] = linalg.transpose ins(%[[NEW]]
// CHECK-NOT: linalg.batch_matmul
// CHECK: iree_linalg_ext.attention {{.*}} ins(%{{[^,]+}}, %{{[^,]+}}, %[[NEW]],
// CHECK: return %{{.+}}, %[[OLD]]
func.func @projected(%q: tensor<2x2048x128xf16>, %k: tensor<2x2048x128xf16>, %x: tensor<2x2048x512xf16>, %w: tensor<2x512x128xf16>) -> (tensor<2x2048x128xf16>, tensor<2x2048x128xf16>) {
  %z = arith.constant 0.0 : f16
  %e = tensor.empty() : tensor<2x2048x128xf16>
  %f = linalg.fill ins(%z : f16) outs(%e : tensor<2x2048x128xf16>) -> tensor<2x2048x128xf16>
  %v = linalg.batch_matmul ins(%x, %w : tensor<2x2048x512xf16>, tensor<2x512x128xf16>) outs(%f : tensor<2x2048x128xf16>) -> tensor<2x2048x128xf16>
  %scale = arith.constant 0.25 : f16
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x2048x128xf16>, tensor<2x2048x128xf16>, tensor<2x2048x128xf16>, f16) outs(%e : tensor<2x2048x128xf16>) {
    ^bb0(%score: f16):
      iree_linalg_ext.yield %score : f16
  } -> tensor<2x2048x128xf16>
  return %r, %v : tensor<2x2048x128xf16>, tensor<2x2048x128xf16>
}
