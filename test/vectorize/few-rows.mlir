// Few rows: elements of the head dim go across the lanes; K and V are fetched ahead, once a line of
// the cache.

// DEFINE: %{cpu} = --iree-hal-target-device=local --iree-hal-local-target-device-backends=llvm-cpu --iree-llvmcpu-target-cpu=x86-64-v4
// RUN: attn-compile %s %{cpu} --compile-to=executable-configurations --attn-summary 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=REPORT --input-file=%t.txt

// REPORT: kernel main_dispatch_0_attention{{.*}} is vector loops of ours, with the head dim across the lanes

// CHECK: func.func @main_dispatch_0_attention_4x3x64x64x1000()
// CHECK-SAME: #iree_codegen.no_pipeline
// A block of 256 keys' weights, and one of the 232 that are left.
// CHECK: memref.alloca() {{.*}} : memref<3x256xf32>
// Q K^T: a key's 64 halves are two lines, in four vectors.
// CHECK: scf.for
// CHECK-COUNT-2: memref.prefetch {{.*}}, read, locality<2>, data
// CHECK-NOT: memref.prefetch
// CHECK: memref.store {{.*}} : memref<3x256xf32>
// P V: three rows times four vectors of columns.
// CHECK: scf.for
// CHECK-COUNT-2: memref.prefetch {{.*}}, read, locality<2>, data
// CHECK-NOT: iree_linalg_ext

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
func.func @main(%q: tensor<4x3x64xf16>, %k: tensor<4x1000x64xf16>, %v: tensor<4x1000x64xf16>) -> tensor<4x3x64xf16> {
  %scale = arith.constant 0.125 : f16
  %out = tensor.empty() : tensor<4x3x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<4x3x64xf16>, tensor<4x1000x64xf16>, tensor<4x1000x64xf16>, f16) outs(%out : tensor<4x3x64xf16>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<4x3x64xf16>
  return %r : tensor<4x3x64xf16>
}
