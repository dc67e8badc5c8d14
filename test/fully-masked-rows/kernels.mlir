// In a compile the division that IREE makes of attention is guarded, before kernels are lowered;
// the mask is read by attention alone.

// DEFINE: %{cpu} = --iree-hal-target-device=local --iree-hal-local-target-device-backends=llvm-cpu --iree-llvmcpu-target-cpu=generic
// RUN: attn-compile %s %{cpu} --attn-pipeline=attn-fully-masked-rows --compile-to=executable-configurations --attn-summary 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt
// RUN: attn-compile %s --iree-hal-target-device=cuda --iree-cuda-target=sm_80 --attn-pipeline=attn-fully-masked-rows --compile-to=executable-configurations | FileCheck %s
// RUN: attn-compile %s --iree-hal-target-device=hip --iree-rocm-target=gfx942 --attn-pipeline=attn-fully-masked-rows --compile-to=executable-configurations | FileCheck %s

// WHY: online_attention at {{.*}}: rows that see no key are 0, as in PyTorch; IREE gives NaN

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#mask = affine_map<(b, m, n, k1, k2) -> (b, m, k2)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
#ot = affine_map<(b, m, n, k1, k2) -> (b, n, m)>

// CHECK-NOT: reduction
// CHECK: iree_linalg_ext.online_attention
// CHECK: linalg.generic
// CHECK: ^bb0(%[[SUM:.*]]: f32, %[[X:.*]]: f32, %{{.*}}: f16):
// CHECK: %[[INVERSE:.*]] = arith.divf %{{.*}}, %[[SUM]] : f32
// CHECK: %[[Q:.*]] = arith.mulf %[[INVERSE]], %[[X]] : f32
// CHECK: %[[NONE:.*]] = arith.cmpf oeq, %[[SUM]], %{{.*}} : f32
// CHECK: %[[GUARDED:.*]] = arith.select %[[NONE]], %{{.*}}, %[[Q]] : f32
// CHECK: arith.truncf %[[GUARDED]] : f32 to f16
func.func @masked(%q: tensor<2x16x16xf16>, %k: tensor<2x32x16xf16>, %v: tensor<2x32x16xf16>, %mask: tensor<2x16x32xi1>) -> tensor<2x16x16xf16> {
  %scale = arith.constant 1.0 : f16
  %e = tensor.empty() : tensor<2x16x16xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #mask, #o]>
      ins(%q, %k, %v, %scale, %mask : tensor<2x16x16xf16>, tensor<2x32x16xf16>, tensor<2x32x16xf16>, f16, tensor<2x16x32xi1>) outs(%e : tensor<2x16x16xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x16x16xf16>
  return %r : tensor<2x16x16xf16>
}

// Where V's columns stand before the rows, a GPU's lanes exchange bits of which rows see a key.
// CHECK: iree_linalg_ext.online_attention
// CHECK: linalg.generic
// CHECK: ^bb0(%[[SUM:.*]]: f32, %[[X:.*]]: f32, %{{.*}}: f16):
// CHECK: %[[Q:.*]] = arith.mulf
// CHECK: %[[NONE:.*]] = arith.cmpf oeq, %[[SUM]], %{{.*}} : f32
// CHECK: %[[KEPT:.*]] = arith.select %[[NONE]], %{{.*}}, %{{.*}} : i32
// CHECK: %[[BITS:.*]] = arith.bitcast %[[Q]] : f32 to i32
// CHECK: %[[LEFT:.*]] = arith.andi %[[BITS]], %[[KEPT]] : i32
// CHECK: arith.bitcast %[[LEFT]] : i32 to f32
func.func @columns_first(%q: tensor<2x16x16xf16>, %k: tensor<2x32x16xf16>, %v: tensor<2x32x16xf16>, %mask: tensor<2x16x32xi1>) -> tensor<2x16x16xf16> {
  %scale = arith.constant 1.0 : f16
  %e = tensor.empty() : tensor<2x16x16xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #mask, #ot]>
      ins(%q, %k, %v, %scale, %mask : tensor<2x16x16xf16>, tensor<2x32x16xf16>, tensor<2x32x16xf16>, f16, tensor<2x16x32xi1>) outs(%e : tensor<2x16x16xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x16x16xf16>
  return %r : tensor<2x16x16xf16>
}
