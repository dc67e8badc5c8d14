// Arithmetic and casts of whole tensors pass the layout on, also where two values meet; one
// that is an argument cannot have it.
// RUN: attn-opt %s --attn-propagate-layout=mode=always,operands=v --split-input-file --remarks 2>&1 | FileCheck %s

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK-DAG: remark: value absorbed: k2 innermost in V, absorbed by linalg.batch_matmul
// CHECK-DAG: remark: value refused: V^T cannot be absorbed: it is an argument of @widened, which is public and keeps its signature

// CHECK-LABEL: func.func @narrowed
// CHECK: %[[P:.+]] = linalg.batch_matmul {{.*}} -> tensor<2x16x?xf32>
// CHECK: %[[S:.+]] = arith.addf %[[P]], %[[P]] fastmath<fast> : tensor<2x16x?xf32>
// CHECK: %[[V:.+]] = arith.truncf %[[S]] : tensor<2x16x?xf32> to tensor<2x16x?xf16>
// CHECK: iree_linalg_ext.attention {{.*}} ins(%{{[^,]+}}, %{{[^,]+}}, %[[V]],
func.func @narrowed(%q: tensor<2x8x16xf16>, %k: tensor<2x?x16xf16>, %x: tensor<2x?x24xf32>, %w: tensor<2x24x16xf32>) -> tensor<2x8x16xf16> {
  %one = arith.constant 1 : index
  %n = tensor.dim %x, %one : tensor<2x?x24xf32>
  %z = arith.constant 0.0 : f32
  %pe = tensor.empty(%n) : tensor<2x?x16xf32>
  %pf = linalg.fill ins(%z : f32) outs(%pe : tensor<2x?x16xf32>) -> tensor<2x?x16xf32>
  %p = linalg.batch_matmul ins(%x, %w : tensor<2x?x24xf32>, tensor<2x24x16xf32>) outs(%pf : tensor<2x?x16xf32>) -> tensor<2x?x16xf32>
  %d = arith.addf %p, %p fastmath<fast> : tensor<2x?x16xf32>
  %v = arith.truncf %d : tensor<2x?x16xf32> to tensor<2x?x16xf16>
  %scale = arith.constant 0.25 : f16
  %out = tensor.empty() : tensor<2x8x16xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x8x16xf16>, tensor<2x?x16xf16>, tensor<2x?x16xf16>, f16) outs(%out : tensor<2x8x16xf16>) {
    ^bb0(%score: f16):
      iree_linalg_ext.yield %score : f16
  } -> tensor<2x8x16xf16>
  return %r : tensor<2x8x16xf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK-LABEL: func.func @widened
// CHECK: %[[V:.+]] = arith.extf %{{.+}} : tensor<2x32x16xf16> to tensor<2x32x16xf32>
// CHECK: iree_linalg_ext.attention {{.*}} ins(%{{[^,]+}}, %{{[^,]+}}, %[[V]],
func.func @widened(%q: tensor<2x8x16xf32>, %k: tensor<2x32x16xf32>, %c: tensor<2x32x16xf16>) -> tensor<2x8x16xf32> {
  %v = arith.extf %c : tensor<2x32x16xf16> to tensor<2x32x16xf32>
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x8x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x8x16xf32>, tensor<2x32x16xf32>, tensor<2x32x16xf32>, f32) outs(%out : tensor<2x8x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x8x16xf32>
  return %r : tensor<2x8x16xf32>
}
