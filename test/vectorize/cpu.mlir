// Rows of the query go across the lanes; IREE's decomposition and its pipeline are not run.

// DEFINE: %{cpu} = --iree-hal-target-device=local --iree-hal-local-target-device-backends=llvm-cpu --iree-llvmcpu-target-cpu=x86-64-v4
// RUN: attn-compile %s %{cpu} --compile-to=executable-configurations --attn-summary 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=REPORT --input-file=%t.txt
// RUN: attn-compile %s %{cpu} --compile-to=executable-configurations --attn-configure=false | FileCheck %s --check-prefix=OFF

// REPORT: kernel main_dispatch_0_attention{{.*}} is vector loops of ours, with rows across the lanes
// OFF: #iree_cpu.pipeline<LinalgExtTileAndVectorize>
// OFF: iree_linalg_ext.online_attention

// CHECK: func.func @main_dispatch_0_attention_4x96x64x64x100()
// CHECK-SAME: #iree_codegen.no_pipeline
// Q^T of 32 rows, and a block of 64 keys' weights.
// CHECK-DAG: memref.alloca() {{.*}} : memref<64x32xf32>
// CHECK-DAG: memref.alloca() {{.*}} : memref<64x32xf32>
// CHECK-NOT: iree_linalg_ext
// Q K^T: eight keys times two vectors of rows, summed in registers over the head dim.
// CHECK: scf.for {{.*}} to %c64 step %c1
// CHECK-COUNT-16: arith.addf {{.*}} : vector<16xf32>
// P V: four rows times four vectors of columns.
// CHECK: scf.for {{.*}} to %c64 step %c1
// CHECK-COUNT-16: arith.addf {{.*}} : vector<16xf32>
// CHECK-NOT: iree_linalg_ext

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
func.func @main(%q: tensor<4x96x64xf32>, %k: tensor<4x100x64xf32>, %v: tensor<4x100x64xf32>) -> tensor<4x96x64xf32> {
  %scale = arith.constant 0.125 : f32
  %out = tensor.empty() : tensor<4x96x64xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<4x96x64xf32>, tensor<4x100x64xf32>, tensor<4x100x64xf32>, f32) outs(%out : tensor<4x96x64xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<4x96x64xf32>
  return %r : tensor<4x96x64xf32>
}
