// Few rows of head dim 576: 512 elements have a kernel, the scores of the others become its mask.
// Many rows, one row, head dims with a kernel, other scores, f32 and a CPU stay as they are.

// RUN: attn-opt %s --attn-cut-heads=target=sm_80 --report=%t.json | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.json
// RUN: attn-opt %s --attn-cut-heads=target=llvm-cpu > %t.0 && attn-opt %s > %t.1 && diff %t.0 %t.1
// RUN: attn-opt %s --attn-cut-heads=target=gfx942 > %t.2 && diff %t.2 %t.1

// WHY-COUNT-2: head dim 576 of Q and K is cut: 512 have a kernel, the scores of the last 64 are its mask
// WHY-NOT: is cut

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#keys = affine_map<(b, m, n, k1, k2) -> (b, k2)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK: #[[QR:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>
// CHECK: #[[KR:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>
// CHECK: #[[SR:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>
// CHECK: #[[M:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d4)>{{$}}
// CHECK-LABEL: func.func @latent(
// CHECK-SAME: %[[Q:[a-z0-9]+]]: tensor<2x16x576xf16>, %[[C:[a-z0-9]+]]: tensor<2x256x576xf16>, %[[SEEN:[a-z0-9]+]]: tensor<2x256xi1>
// CHECK-DAG: %[[Q0:.*]] = tensor.extract_slice %[[Q]][0, 0, 0] [2, 16, 512]
// CHECK-DAG: %[[Q1:.*]] = tensor.extract_slice %[[Q]][0, 0, 512] [2, 16, 64]
// CHECK-DAG: %[[K1:.*]] = tensor.extract_slice %[[C]][0, 0, 512] [2, 256, 64]
// CHECK: %[[S:.*]] = linalg.generic {indexing_maps = [#[[QR]], #[[KR]], #[[SR]]], {{.*}} ins(%[[Q1]], %[[K1]] : {{.*}}) outs(%{{.*}} : tensor<2x16x256xf32>)
// CHECK: %[[MASK:.*]] = linalg.generic {{.*}} ins(%[[S]], %[[SEEN]] :
// CHECK: arith.mulf
// CHECK: arith.select
// CHECK: iree_linalg_ext.attention <indexing_maps = [#{{.*}}, #{{.*}}, #{{.*}}, #{{.*}}, #[[M]], #{{.*}}]> ins(%[[Q0]], %{{.*}}, %{{.*}}, %{{.*}}, %[[MASK]] : tensor<2x16x512xf16>, tensor<2x256x512xf16>,
func.func @latent(%q: tensor<2x16x576xf16>, %c: tensor<2x256x576xf16>, %seen: tensor<2x256xi1>) -> tensor<2x16x512xf16> {
  %scale = arith.constant 0.0625 : f16
  %v = tensor.extract_slice %c[0, 0, 0] [2, 256, 512] [1, 1, 1] : tensor<2x256x576xf16> to tensor<2x256x512xf16>
  %e = tensor.empty() : tensor<2x16x512xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #keys, #o]> ins(%q, %c, %v, %scale, %seen : tensor<2x16x576xf16>, tensor<2x256x576xf16>, tensor<2x256x512xf16>, f16, tensor<2x256xi1>) outs(%e : tensor<2x16x512xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x16x512xf16>
  return %r : tensor<2x16x512xf16>
}

// Fewer rows than a matrix instruction has, and no mask.
// CHECK-LABEL: func.func @few(
// CHECK: iree_linalg_ext.attention {{.*}} tensor<2x4x256xf32>) outs
func.func @few(%q: tensor<2x4x576xbf16>, %c: tensor<2x256x576xbf16>, %v: tensor<2x256x512xbf16>) -> tensor<2x4x512xbf16> {
  %scale = arith.constant 0.0625 : bf16
  %e = tensor.empty() : tensor<2x4x512xbf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %c, %v, %scale : tensor<2x4x576xbf16>, tensor<2x256x576xbf16>, tensor<2x256x512xbf16>, bf16) outs(%e : tensor<2x4x512xbf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x4x512xbf16>
  return %r : tensor<2x4x512xbf16>
}

// Kept: one row spreads over the lanes whatever its head dim is.
// CHECK-LABEL: func.func @one(
// CHECK-NOT: linalg.generic
func.func @one(%q: tensor<2x1x576xf16>, %c: tensor<2x256x576xf16>, %v: tensor<2x256x512xf16>) -> tensor<2x1x512xf16> {
  %scale = arith.constant 0.0625 : f16
  %e = tensor.empty() : tensor<2x1x512xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %c, %v, %scale : tensor<2x1x576xf16>, tensor<2x256x576xf16>, tensor<2x256x512xf16>, f16) outs(%e : tensor<2x1x512xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x1x512xf16>
  return %r : tensor<2x1x512xf16>
}

// Kept: with so many rows their scores are more than what padding moves.
// CHECK-LABEL: func.func @many(
// CHECK-NOT: linalg.generic
func.func @many(%q: tensor<2x512x576xf16>, %c: tensor<2x256x576xf16>, %v: tensor<2x256x512xf16>) -> tensor<2x512x512xf16> {
  %scale = arith.constant 0.0625 : f16
  %e = tensor.empty() : tensor<2x512x512xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %c, %v, %scale : tensor<2x512x576xf16>, tensor<2x256x576xf16>, tensor<2x256x512xf16>, f16) outs(%e : tensor<2x512x512xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x512x512xf16>
  return %r : tensor<2x512x512xf16>
}

// Kept: its head dim has a kernel.
// CHECK-LABEL: func.func @whole(
// CHECK-NOT: linalg.generic
func.func @whole(%q: tensor<2x16x512xf16>, %c: tensor<2x256x512xf16>) -> tensor<2x16x512xf16> {
  %scale = arith.constant 0.0625 : f16
  %e = tensor.empty() : tensor<2x16x512xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %c, %c, %scale : tensor<2x16x512xf16>, tensor<2x256x512xf16>, tensor<2x256x512xf16>, f16) outs(%e : tensor<2x16x512xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x16x512xf16>
  return %r : tensor<2x16x512xf16>
}

// Kept: a soft-cap is of whole scores, which a mask is added to behind it.
// CHECK-LABEL: func.func @capped(
// CHECK-NOT: linalg.generic
func.func @capped(%q: tensor<2x16x576xf16>, %c: tensor<2x256x576xf16>, %v: tensor<2x256x512xf16>) -> tensor<2x16x512xf16> {
  %scale = arith.constant 0.0625 : f16
  %e = tensor.empty() : tensor<2x16x512xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %c, %v, %scale : tensor<2x16x576xf16>, tensor<2x256x576xf16>, tensor<2x256x512xf16>, f16) outs(%e : tensor<2x16x512xf16>) {
  ^bb0(%x: f32):
    %t = math.tanh %x : f32
    iree_linalg_ext.yield %t : f32
  } -> tensor<2x16x512xf16>
  return %r : tensor<2x16x512xf16>
}
