// Weights and results are rounded to bf16 two at a time, the tanh of a soft-cap is one power of
// two and one reciprocal. Older machines round as IREE does; a tanh that is not of f32 is left.

// DEFINE: %{kernels} = --iree-hal-target-device=cuda --compile-to=executable-configurations --attn-pipeline=attn-hardware-exp2
// RUN: attn-compile %s %{kernels} --iree-cuda-target=sm_80 --attn-summary 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt
// RUN: attn-compile %s %{kernels} --iree-cuda-target=sm_75 | FileCheck %s --check-prefix=OLD

// CHECK-LABEL: func.func @capped_dispatch_0_attention
// CHECK-SAME: #iree_codegen.no_pipeline
// CHECK-NOT: math.tanh
// CHECK: llvm.inline_asm "ex2.approx.ftz.f32 $0, $1;"
// CHECK: llvm.inline_asm "rcp.approx.ftz.f32 $0, $1;", "=f,f" %{{.*}} : (f32) -> f32
// CHECK-NOT: math.tanh
// CHECK: %{{.*}} = llvm.inline_asm "cvt.rn.bf16x2.f32 $0, $1, $2;", "=r,f,f" %[[X:[0-9]+]]#1, %[[X]]#0 : (f32, f32) -> i32
// CHECK: vector.bitcast %{{.*}} : vector<{{.*}}xi32> to vector<{{.*}}xbf16>
// CHECK-NOT: arith.truncf %{{.*}} : vector<{{.*}}xf32> to vector<{{.*}}xbf16>
// CHECK-LABEL: func.func @narrow_dispatch_0_attention
// CHECK: math.tanh %{{.*}} : {{.*}}f16

// WHY: kernel capped_dispatch_0_attention{{.*}} uses cvt.rn.bf16x2.f32 for {{[0-9]+}} element(s), {{.*}}ex2.approx.ftz.f32 and rcp.approx.ftz.f32 (tanh) for {{[0-9]+}} element(s)

// OLD-LABEL: func.func @capped_dispatch_0_attention
// OLD-NOT: cvt.rn.bf16x2.f32
// OLD: rcp.approx.ftz.f32
// OLD: arith.truncf %{{.*}} to {{.*}}bf16

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
func.func @capped(%q: tensor<2x128x64xbf16>, %k: tensor<2x128x64xbf16>, %v: tensor<2x128x64xbf16>) -> tensor<2x128x64xbf16> {
  %scale = arith.constant 0.125 : f32
  %cap = arith.constant 50.0 : f32
  %e = tensor.empty() : tensor<2x128x64xbf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<2x128x64xbf16>, tensor<2x128x64xbf16>, tensor<2x128x64xbf16>, f32) outs(%e : tensor<2x128x64xbf16>) {
  ^bb0(%x: f32):
    %0 = arith.divf %x, %cap : f32
    %1 = math.tanh %0 : f32
    %2 = arith.mulf %1, %cap : f32
    iree_linalg_ext.yield %2 : f32
  } -> tensor<2x128x64xbf16>
  return %r : tensor<2x128x64xbf16>
}

func.func @narrow(%q: tensor<2x128x64xf16>, %k: tensor<2x128x64xf16>, %v: tensor<2x128x64xf16>) -> tensor<2x128x64xf16> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<2x128x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<2x128x64xf16>, tensor<2x128x64xf16>, tensor<2x128x64xf16>, f32) outs(%e : tensor<2x128x64xf16>) {
  ^bb0(%x: f32):
    %0 = arith.truncf %x : f32 to f16
    %1 = math.tanh %0 : f16
    %2 = arith.extf %1 : f16 to f32
    iree_linalg_ext.yield %2 : f32
  } -> tensor<2x128x64xf16>
  return %r : tensor<2x128x64xf16>
}
