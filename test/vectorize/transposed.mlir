// V^T and K^T are read as they lie.

// DEFINE: %{cpu} = --iree-hal-target-device=local --iree-hal-local-target-device-backends=llvm-cpu --iree-llvmcpu-target-cpu=x86-64-v4
// RUN: attn-compile %s %{cpu} --compile-to=executable-configurations --attn-mode=never --attn-summary 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=REPORT --input-file=%t.txt

// REPORT: kernel many_dispatch_0_attention{{.*}} is vector loops of ours, with rows across the lanes
// REPORT: kernel few_dispatch_0_attention{{.*}} is vector loops of ours, with the head dim across the lanes

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#kt = affine_map<(b, m, n, k1, k2) -> (b, k1, k2)>
#vt = affine_map<(b, m, n, k1, k2) -> (b, n, k2)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK-LABEL: func.func @many_dispatch_0_attention_4x96x48x64x128()
// CHECK-SAME: #iree_codegen.no_pipeline
// Q^T of 32 rows, a block of 64 keys' weights, and the output so far by columns.
// CHECK-DAG: memref.alloca() {{.*}} : memref<64x32xf32>
// CHECK-DAG: memref.alloca() {{.*}} : memref<64x32xf32>
// CHECK-DAG: memref.alloca() {{.*}} : memref<48x32xf32>
// P V: eight columns times two vectors of rows.
// CHECK: scf.for {{.*}} to %c48 step %c8
// CHECK: scf.for {{.*}} to %c64 step %c1
// CHECK-COUNT-16: arith.addf {{.*}} : vector<16xf32>
// CHECK-NOT: iree_linalg_ext
func.func @many(%q: tensor<4x96x64xf32>, %k: tensor<4x128x64xf32>, %v: tensor<4x48x128xf32>) -> tensor<4x96x48xf32> {
  %scale = arith.constant 0.125 : f32
  %out = tensor.empty() : tensor<4x96x48xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #vt, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<4x96x64xf32>, tensor<4x128x64xf32>, tensor<4x48x128xf32>, f32) outs(%out : tensor<4x96x48xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<4x96x48xf32>
  return %r : tensor<4x96x48xf32>
}

// CHECK-LABEL: func.func @few_dispatch_0_attention_4x4x48x64x1024()
// CHECK-SAME: #iree_codegen.no_pipeline
// Q K^T: four vectors of keys, one element of the head after the other.
// CHECK: scf.for {{.*}} to %c256 step %c64
// CHECK: scf.for {{.*}} to %c64 step %c1
// CHECK-COUNT-16: arith.addf {{.*}} : vector<16xf32>
// P V: four rows times four columns, sixteen keys at a time.
// CHECK: scf.for {{.*}} to %c48 step %c4
// CHECK: scf.for {{.*}} to %c256 step %c16
// CHECK-COUNT-16: arith.addf {{.*}} : vector<16xf32>
// CHECK-NOT: iree_linalg_ext
func.func @few(%q: tensor<4x4x64xf32>, %k: tensor<4x64x1024xf32>, %v: tensor<4x48x1024xf32>) -> tensor<4x4x48xf32> {
  %scale = arith.constant 0.125 : f32
  %out = tensor.empty() : tensor<4x4x48xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #kt, #vt, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<4x4x64xf32>, tensor<4x64x1024xf32>, tensor<4x48x1024xf32>, f32) outs(%out : tensor<4x4x48xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<4x4x48xf32>
  return %r : tensor<4x4x48xf32>
}
