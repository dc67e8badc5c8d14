// bf16 is multiplied in pairs where the CPU has an instruction for it, and is faster with it.

// DEFINE: %{cpu} = --iree-hal-target-device=local --iree-hal-local-target-device-backends=llvm-cpu
// RUN: attn-compile %s %{cpu} --iree-llvmcpu-target-cpu=znver4 --compile-to=executable-configurations | FileCheck %s
// RUN: attn-compile %s %{cpu} --iree-llvmcpu-target-cpu=emeraldrapids --compile-to=executable-configurations | FileCheck %s --check-prefix=NONE

// NONE-NOT: dpbf16ps
// NONE: no_pipeline

// CHECK-LABEL: func.func @main_dispatch_0_attention_4x96x48x64x101()
// CHECK-SAME: #iree_codegen.no_pipeline
// Q^T of 32 rows, and a block of 64 keys' weights: pairs in 32 bits.
// CHECK-COUNT-2: memref.alloca() {{.*}} : memref<32x32xi32>
// Q K^T: eight keys times two vectors of rows, over pairs of the head's elements.
// CHECK: scf.for {{.*}} to %c32 step %c1
// CHECK-COUNT-16: llvm.call_intrinsic "llvm.x86.avx512bf16.dpbf16ps.512"
// P V: four rows times three vectors of columns, over pairs of keys.
// CHECK: scf.for {{.*}} to %c64 step %c2
// CHECK-COUNT-12: llvm.call_intrinsic "llvm.x86.avx512bf16.dpbf16ps.512"

// A head of 20 columns is no whole number of vectors.
// CHECK-LABEL: func.func @narrow_dispatch_0_attention_4x96x20x64x101()
// CHECK-SAME: #iree_codegen.no_pipeline
// CHECK-NOT: dpbf16ps

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
func.func @main(%q: tensor<4x96x64xbf16>, %k: tensor<4x101x64xbf16>, %v: tensor<4x101x48xbf16>) -> tensor<4x96x48xbf16> {
  %scale = arith.constant 0.125 : bf16
  %out = tensor.empty() : tensor<4x96x48xbf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<4x96x64xbf16>, tensor<4x101x64xbf16>, tensor<4x101x48xbf16>, bf16) outs(%out : tensor<4x96x48xbf16>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<4x96x48xbf16>
  return %r : tensor<4x96x48xbf16>
}

func.func @narrow(%q: tensor<4x96x64xbf16>, %k: tensor<4x101x64xbf16>, %v: tensor<4x101x20xbf16>) -> tensor<4x96x20xbf16> {
  %scale = arith.constant 0.125 : bf16
  %out = tensor.empty() : tensor<4x96x20xbf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<4x96x64xbf16>, tensor<4x101x64xbf16>, tensor<4x101x20xbf16>, bf16) outs(%out : tensor<4x96x20xbf16>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<4x96x20xbf16>
  return %r : tensor<4x96x20xbf16>
}
