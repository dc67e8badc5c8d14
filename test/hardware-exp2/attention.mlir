// The attention kernel of a GPU device gets the GPU's instructions; that of a CPU device in
// the same module, and a kernel without attention or fp8 casts, are IREE's.

// DEFINE: %{devices} = --iree-hal-target-device=gpu=cuda --iree-cuda-target=sm_89 --iree-hal-target-device=cpu=local --iree-hal-local-target-device-backends=llvm-cpu
// RUN: attn-compile %s %{devices} --compile-to=executable-configurations --attn-summary 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt
// RUN: attn-compile %s %{devices} --compile-to=executable-configurations --attn-hardware-exp2=false --attn-shared-memory=false | FileCheck %s --check-prefix=OFF

// CHECK-LABEL: func.func @_on_gpu_dispatch_0_attention
// CHECK-SAME: pipeline = #iree_codegen.no_pipeline workgroup_size = [128, 1, 1] subgroup_size = 32
// CHECK-NOT: iree_linalg_ext.online_attention
// CHECK-NOT: math.exp2
// CHECK: %[[X:.*]]:2 = vector.to_elements
// CHECK: %[[Y:.*]] = llvm.inline_asm "ex2.approx.ftz.f32 $0, $1;", "=f,f" %[[X]]#0 : (f32) -> f32
// CHECK: %[[Z:.*]] = llvm.inline_asm "ex2.approx.ftz.f32 $0, $1;", "=f,f" %[[X]]#1 : (f32) -> f32
// CHECK: vector.from_elements %[[Y]], %[[Z]] :
// CHECK-NOT: math.exp2
// CHECK-LABEL: func.func @_on_cpu_dispatch_0_attention
// CHECK-SAME: #iree_cpu.pipeline
// CHECK: iree_linalg_ext.online_attention
// CHECK-LABEL: func.func @_plain_dispatch_0_elementwise
// CHECK-SAME: #iree_gpu.pipeline

// WHY-NOT: _on_cpu_dispatch
// WHY-NOT: _plain_dispatch
// WHY: kernel _on_gpu_dispatch_0_attention_{{.*}} at {{.*}}attention.mlir:{{.*}} uses ex2.approx.ftz.f32 for 34 element(s)
// WHY-NOT: _on_cpu_dispatch
// WHY-NOT: _plain_dispatch

// OFF-LABEL: func.func @_on_gpu_dispatch_0_attention
// OFF-SAME: #iree_gpu.pipeline
// OFF: iree_linalg_ext.online_attention
// OFF-NOT: llvm.inline_asm

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
func.func @on_gpu(%q: tensor<2x128x64xf16>, %k: tensor<2x128x64xf16>, %v: tensor<2x128x64xf16>) -> tensor<2x128x64xf16> attributes {stream.affinity = #hal.device.promise<@gpu>} {
  %scale = arith.constant 0.125 : f16
  %e = tensor.empty() : tensor<2x128x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<2x128x64xf16>, tensor<2x128x64xf16>, tensor<2x128x64xf16>, f16) outs(%e : tensor<2x128x64xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x128x64xf16>
  return %r : tensor<2x128x64xf16>
}

func.func @on_cpu(%q: tensor<4x128x64xf16>, %k: tensor<4x128x64xf16>, %v: tensor<4x128x64xf16>) -> tensor<4x128x64xf16> attributes {stream.affinity = #hal.device.promise<@cpu>} {
  %scale = arith.constant 0.125 : f16
  %e = tensor.empty() : tensor<4x128x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<4x128x64xf16>, tensor<4x128x64xf16>, tensor<4x128x64xf16>, f16) outs(%e : tensor<4x128x64xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<4x128x64xf16>
  return %r : tensor<4x128x64xf16>
}

#i = affine_map<(i) -> (i)>
func.func @plain(%x: tensor<256xf32>) -> tensor<256xf16> attributes {stream.affinity = #hal.device.promise<@gpu>} {
  %e = tensor.empty() : tensor<256xf16>
  %r = linalg.generic {indexing_maps = [#i, #i], iterator_types = ["parallel"]} ins(%x : tensor<256xf32>) outs(%e : tensor<256xf16>) {
  ^bb0(%a: f32, %o: f16):
    %p = math.exp2 %a : f32
    %c = arith.truncf %p : f32 to f16
    linalg.yield %c : f16
  } -> tensor<256xf16>
  return %r : tensor<256xf16>
}
