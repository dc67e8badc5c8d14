// RUN: attn-opt %s --attn-split-k=target=gfx1100 | FileCheck %s
// RUN: attn-opt %s --attn-split-k=splits=4 | FileCheck %s --check-prefix=FIXED

// A length known only at run time. auto: chunks of a fixed size, as many as the length holds.
// splits=4: four chunks, and IREE gets a mask to pad under. Either way the rest is a tail.

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK-LABEL: func.func @dynamic
// CHECK-DAG: %[[L:.*]] = tensor.dim %arg1
// CHECK: %[[S:.*]] = arith.divui %[[L]], %c{{[0-9_]+}} : index
// CHECK: %[[COVERED:.*]] = arith.muli %[[S]], %{{.*}} : index
// CHECK: %[[TAIL:.*]] = arith.subi %[[L]], %[[COVERED]] : index
// CHECK: flow.dispatch.region -> (tensor<32x?x64xf32>{%[[S]]}, tensor<32x?xf32>{%[[S]]}, tensor<32x?xf32>{%[[S]]})
// CHECK: tensor.extract_slice %arg1[0, 0, 0] [32, %[[COVERED]], 64]
// CHECK: tensor.expand_shape {{.*}} output_shape [32, %[[S]], {{[0-9]+}}, 64]
// CHECK: online_attention {{.*}} ins(%{{[^:]*}} : tensor<32x64xf16>, tensor<32x?x{{[0-9]+}}x64xf16>, tensor<32x?x{{[0-9]+}}x64xf16>, f16)
// CHECK: flow.dispatch.region -> (tensor<32x64xf32>, tensor<32xf32>, tensor<32xf32>)
// CHECK: tensor.extract_slice %arg1[0, %[[COVERED]], 0] [32, %[[TAIL]], 64]
// CHECK: %[[MASK:.*]] = linalg.fill ins(%true
// CHECK: online_attention {{.*}} ins(%{{[^:]*}}, %[[MASK]] : {{.*}}tensor<?xi1>)

// FIXED: arith.divui
// FIXED: flow.dispatch.region -> (tensor<32x4x64xf32>, tensor<32x4xf32>, tensor<32x4xf32>)
// FIXED: online_attention {{.*}} tensor<32x4x?x64xf16>, tensor<32x4x?x64xf16>, f16, tensor<?xi1>)
func.func @dynamic(%q: tensor<32x1x64xf16>, %k: tensor<32x?x64xf16>, %v: tensor<32x?x64xf16>) -> tensor<32x1x64xf16> {
  %scale = arith.constant 0.125 : f16
  %e = tensor.empty() : tensor<32x1x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<32x1x64xf16>, tensor<32x?x64xf16>, tensor<32x?x64xf16>, f16) outs(%e : tensor<32x1x64xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<32x1x64xf16>
  return %r : tensor<32x1x64xf16>
}
