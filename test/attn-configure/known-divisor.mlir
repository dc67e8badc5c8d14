// A batch of unknown size times 8 heads is a multiple of 8, by which IREE would split the dim of
// Q and K behind the configuration, and fail. The attention's dispatch gets that size from behind
// a barrier, other dispatches get it as it is; it compiles to the end. A number of rows or of
// tiles has no known divisor, and no barrier, which would cut the program's command buffer.
// RUN: attn-compile %s -o - --iree-hal-target-device=cuda --iree-cuda-target=sm_80 --compile-to=flow | FileCheck %s
// RUN: attn-compile %s -o %t.vmfb --iree-hal-target-device=cuda --iree-cuda-target=sm_80 --attn-summary 2>&1 | FileCheck %s --check-prefix=WHOLE

// CHECK-LABEL: util.func public @main
// CHECK: %[[BATCH:.+]] = arith.muli %{{.+}}, %c8
// CHECK-NEXT: %[[HIDDEN:.+]] = util.optimization_barrier %[[BATCH]] : index
// CHECK: %[[TILES:.+]] = arith.ceildivui %{{.+}}, %c128
// CHECK: flow.dispatch {{.*}}elementwise{{.*}}[%{{.*}}%[[BATCH]]
// CHECK-NOT: util.optimization_barrier
// CHECK: flow.dispatch {{.*}}attention{{.*}}[{{.*}}%[[HIDDEN]], %[[TILES]]](%{{.*}}, %[[HIDDEN]], %[[TILES]]
// WHOLE-NOT: warning:
// WHOLE: is configured for cuda sm_80

func.func @main(%q4: tensor<?x8x?x64xf16>, %k4: tensor<?x8x?x64xf16>, %v4: tensor<?x8x?x64xf16>) -> tensor<?x?x64xf16> {
  %c = arith.constant 0.125 : f32
  %c1 = arith.constant 1 : index
  %c0 = arith.constant 0 : index
  %q = tensor.collapse_shape %q4 [[0, 1], [2], [3]] : tensor<?x8x?x64xf16> into tensor<?x?x64xf16>
  %k = tensor.collapse_shape %k4 [[0, 1], [2], [3]] : tensor<?x8x?x64xf16> into tensor<?x?x64xf16>
  %v = tensor.collapse_shape %v4 [[0, 1], [2], [3]] : tensor<?x8x?x64xf16> into tensor<?x?x64xf16>
  %b = tensor.dim %q, %c0 : tensor<?x?x64xf16>
  %m = tensor.dim %q, %c1 : tensor<?x?x64xf16>
  %e = tensor.empty(%b, %m) : tensor<?x?x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [affine_map<(b, m, n, k1, k2) -> (b, m, k1)>, affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>, affine_map<(b, m, n, k1, k2) -> (b, k2, n)>, affine_map<(b, m, n, k1, k2) -> ()>, affine_map<(b, m, n, k1, k2) -> (b, m, n)>]> ins(%q, %k, %v, %c : tensor<?x?x64xf16>, tensor<?x?x64xf16>, tensor<?x?x64xf16>, f32) outs(%e : tensor<?x?x64xf16>) {
  ^bb0(%s: f32):
    iree_linalg_ext.yield %s : f32
  } -> tensor<?x?x64xf16>
  return %r : tensor<?x?x64xf16>
}
