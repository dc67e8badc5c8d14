// IREE has a kernel write where its result is joined. Precompiled ones write 16 bytes at once: what
// would stand behind three elements is copied there.

// RUN: attn-compile %s --iree-hal-target-device=cuda --iree-cuda-target=sm_90 --compile-to=preprocessing --attn-report=%t.json | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY < %t.json
// WHY: joins a copy of what a kernel writes
// WHY-NOT: joins a copy

#q = affine_map<(b, g, m, n, k1, k2) -> (b, g, m, k1)>
#k = affine_map<(b, g, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, g, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, g, m, n, k1, k2) -> ()>
#o = affine_map<(b, g, m, n, k1, k2) -> (b, g, m, n)>

// CHECK-LABEL: util.func public @odd
// CHECK: hal.dispatch.extern
// CHECK: %[[COPY:.*]] = flow.dispatch.region
// CHECK:   linalg.copy
// CHECK: tensor.concat dim(0) %{{.*}}, %[[COPY]]
func.func @odd(%q: tensor<4x1x1x128xf16>, %k: tensor<4x777x128xf16>, %v: tensor<4x777x128xf16>, %y: tensor<3xf16>) -> tensor<515xf16> {
  %scale = arith.constant 0.088388 : f16
  %e = tensor.empty() : tensor<4x1x1x128xf16>
  %a = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<4x1x1x128xf16>, tensor<4x777x128xf16>, tensor<4x777x128xf16>, f16) outs(%e : tensor<4x1x1x128xf16>) {
    ^bb0(%x: f32):
      iree_linalg_ext.yield %x : f32
  } -> tensor<4x1x1x128xf16>
  %flat = tensor.collapse_shape %a [[0, 1, 2, 3]] : tensor<4x1x1x128xf16> into tensor<512xf16>
  %r = tensor.concat dim(0) %y, %flat : (tensor<3xf16>, tensor<512xf16>) -> tensor<515xf16>
  return %r : tensor<515xf16>
}

// CHECK-LABEL: util.func public @even
// CHECK: hal.dispatch.extern
// CHECK-NOT: flow.dispatch.region
// CHECK: tensor.concat
func.func @even(%q: tensor<4x1x1x128xf16>, %k: tensor<4x777x128xf16>, %v: tensor<4x777x128xf16>, %y: tensor<8xf16>) -> tensor<520xf16> {
  %scale = arith.constant 0.088388 : f16
  %e = tensor.empty() : tensor<4x1x1x128xf16>
  %a = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<4x1x1x128xf16>, tensor<4x777x128xf16>, tensor<4x777x128xf16>, f16) outs(%e : tensor<4x1x1x128xf16>) {
    ^bb0(%x: f32):
      iree_linalg_ext.yield %x : f32
  } -> tensor<4x1x1x128xf16>
  %flat = tensor.collapse_shape %a [[0, 1, 2, 3]] : tensor<4x1x1x128xf16> into tensor<512xf16>
  %r = tensor.concat dim(0) %y, %flat : (tensor<8xf16>, tensor<512xf16>) -> tensor<520xf16>
  return %r : tensor<520xf16>
}
