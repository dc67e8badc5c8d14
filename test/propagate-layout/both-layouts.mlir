// V is read by attention and returned as it is. Where its producer is cheap (its input is a
// constant here), it is computed in both layouts: the cheapest way to serve both readers. (V has 8
// bits: with more V^T gains nothing on CUDA.)
// RUN: attn-opt %s --attn-propagate-layout=mode=cost,target=sm_89 --remarks --split-input-file 2>&1 | FileCheck %s

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
// CHECK-DAG: %[[OLD:.+]] = linalg.generic {{.*}} ins(%{{.+}} : tensor<32x2048x128xi8>) outs(%{{.+}} : tensor<32x2048x128xf8E4M3FN>)
// CHECK-DAG: %[[NEW:.+]] = linalg.generic {{.*}} ins(%{{.+}} : tensor<32x128x2048xi8>) outs(%{{.+}} : tensor<32x128x2048xf8E4M3FN>)
// CHECK: iree_linalg_ext.attention {{.*}} ins(%{{[^,]+}}, %{{[^,]+}}, %[[NEW]],
// CHECK: return %{{.+}}, %[[OLD]]
func.func @dequantised(%q: tensor<32x2048x128xf8E4M3FN>, %k: tensor<32x2048x128xf8E4M3FN>) -> (tensor<32x2048x128xf16>, tensor<32x2048x128xf8E4M3FN>) {
  %c = arith.constant dense<3> : tensor<32x2048x128xi8>
  %e = tensor.empty() : tensor<32x2048x128xf16>
  %e8 = tensor.empty() : tensor<32x2048x128xf8E4M3FN>
  %v = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%c : tensor<32x2048x128xi8>) outs(%e8 : tensor<32x2048x128xf8E4M3FN>) {
  ^bb0(%in: i8, %out: f8E4M3FN):
    %f = arith.sitofp %in : i8 to f8E4M3FN
    linalg.yield %f : f8E4M3FN
  } -> tensor<32x2048x128xf8E4M3FN>
  %scale = arith.constant 0.25 : f16
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<32x2048x128xf8E4M3FN>, tensor<32x2048x128xf8E4M3FN>, tensor<32x2048x128xf8E4M3FN>, f16) outs(%e : tensor<32x2048x128xf16>) {
    ^bb0(%score: f16):
      iree_linalg_ext.yield %score : f16
  } -> tensor<32x2048x128xf16>
  return %r, %v : tensor<32x2048x128xf16>, tensor<32x2048x128xf8E4M3FN>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// A projection is not computed twice: its other reader gets one copy of V^T.
// CHECK-LABEL: func.func @projected
// CHECK: %[[NEW:.+]] = linalg.batch_matmul {{.*}} -> tensor<32x128x2048xf8E4M3FN>
// CHECK: %[[OLD:.+]] = linalg.transpose ins(%[[NEW]]
// CHECK-NOT: linalg.batch_matmul
// CHECK: iree_linalg_ext.attention {{.*}} ins(%{{[^,]+}}, %{{[^,]+}}, %[[NEW]],
// CHECK: return %{{.+}}, %[[OLD]]
func.func @projected(%q: tensor<32x2048x128xf8E4M3FN>, %k: tensor<32x2048x128xf8E4M3FN>, %x: tensor<32x2048x512xf8E4M3FN>, %w: tensor<32x512x128xf8E4M3FN>) -> (tensor<32x2048x128xf16>, tensor<32x2048x128xf8E4M3FN>) {
  %z = arith.constant 0.0 : f8E4M3FN
  %e = tensor.empty() : tensor<32x2048x128xf16>
  %e8 = tensor.empty() : tensor<32x2048x128xf8E4M3FN>
  %f = linalg.fill ins(%z : f8E4M3FN) outs(%e8 : tensor<32x2048x128xf8E4M3FN>) -> tensor<32x2048x128xf8E4M3FN>
  %v = linalg.batch_matmul ins(%x, %w : tensor<32x2048x512xf8E4M3FN>, tensor<32x512x128xf8E4M3FN>) outs(%f : tensor<32x2048x128xf8E4M3FN>) -> tensor<32x2048x128xf8E4M3FN>
  %scale = arith.constant 0.25 : f16
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<32x2048x128xf8E4M3FN>, tensor<32x2048x128xf8E4M3FN>, tensor<32x2048x128xf8E4M3FN>, f16) outs(%e : tensor<32x2048x128xf16>) {
    ^bb0(%score: f16):
      iree_linalg_ext.yield %score : f16
  } -> tensor<32x2048x128xf16>
  return %r, %v : tensor<32x2048x128xf16>, tensor<32x2048x128xf8E4M3FN>
}
