// Loops that pad operands or view them in tiles get workgroups that a GPU can start fast enough, of
// whole subgroups, 16 bytes a thread. A loop of odd width keeps IREE's own.
// RUN: attn-compile %s -o - --iree-hal-target-device=cuda --iree-cuda-target=sm_80 --compile-to=flow | FileCheck %s

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#vt = affine_map<(b, m, n, k1, k2) -> (b, n, k2)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK-LABEL: flow.executable private @keys_dispatch_0
// CHECK: linalg.generic {{.*}} outs(%{{.+}} : tensor<32x1344x128xf16>)
// CHECK-SAME: thread = [1, 1, 8], workgroup = [1, 16, 128]
// CHECK-SAME: workgroup_size = [256, 1, 1] subgroup_size = 32
func.func @keys(%q: tensor<32x1344x128xf16>, %k: tensor<32x1333x128xf16>, %v: tensor<32x1333x128xf16>) -> tensor<32x1344x128xf16> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<32x1344x128xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<32x1344x128xf16>, tensor<32x1333x128xf16>, tensor<32x1333x128xf16>, f32) outs(%out : tensor<32x1344x128xf16>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<32x1344x128xf16>
  return %r : tensor<32x1344x128xf16>
}

// CHECK-LABEL: flow.executable private @heads_dispatch_0
// CHECK: linalg.generic {{.*}} outs(%{{.+}} : tensor<32x4096x10x8xf16>)
// CHECK-SAME: thread = [1, 1, 1, 8], workgroup = [1, 16, 10, 8]
// CHECK-SAME: workgroup_size = [160, 1, 1]
func.func @heads(%q: tensor<32x4096x72xf16>, %k: tensor<32x4096x72xf16>, %v: tensor<32x4096x72xf16>) -> tensor<32x4096x72xf16> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<32x4096x72xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<32x4096x72xf16>, tensor<32x4096x72xf16>, tensor<32x4096x72xf16>, f32) outs(%out : tensor<32x4096x72xf16>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<32x4096x72xf16>
  return %r : tensor<32x4096x72xf16>
}

// Rows and keys of unknown number: tiles of static sizes, one tile of the unknown number at a time.
// CHECK-LABEL: flow.executable private @unknown_dispatch_0
// CHECK: linalg.generic {{.*}} outs(%{{.+}} : tensor<32x128x?x128xf16>)
// CHECK-SAME: thread = [1, 1, 1, 8], workgroup = [1, 16, 1, 128]
func.func @unknown(%q: tensor<32x?x128xf16>, %k: tensor<32x?x128xf16>, %v: tensor<32x?x128xf16>) -> tensor<32x?x128xf16> {
  %c1 = arith.constant 1 : index
  %scale = arith.constant 0.25 : f32
  %m = tensor.dim %q, %c1 : tensor<32x?x128xf16>
  %out = tensor.empty(%m) : tensor<32x?x128xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<32x?x128xf16>, tensor<32x?x128xf16>, tensor<32x?x128xf16>, f32) outs(%out : tensor<32x?x128xf16>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<32x?x128xf16>
  return %r : tensor<32x?x128xf16>
}
