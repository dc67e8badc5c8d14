// Tiles in shared memory: rows 144 bytes apart, fragments of K read as they lie and those of V
// transposed, the next tile copied while this one is computed on.

// DEFINE: %{kernels} = --iree-hal-target-device=cuda --iree-cuda-target=sm_80 --compile-to=executable-configurations
// RUN: attn-compile %s %{kernels} --attn-summary 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt
// RUN: attn-compile %s %{kernels} --attn-shared-memory=false | FileCheck %s --check-prefix=OFF
// RUN: attn-compile %s %{kernels} --attn-hardware-exp2=false | FileCheck %s --check-prefix=ALONE

// CHECK-LABEL: func.func @main_dispatch_0_attention
// CHECK-SAME: #[[DONE:.*]]}
// CHECK-DAG: %[[V:.*]] = memref.alloc() : memref<2x1x64x72xf16, #gpu.address_space<workgroup>>
// CHECK-DAG: memref.alloc() : memref<1x128x72xf16, #gpu.address_space<workgroup>>
// CHECK: nvgpu.ldmatrix {{.*}} numTiles = 4 transpose = false : memref<1x128x72xf16
// CHECK: nvgpu.device_async_copy %[[K:.*]][%{{.*}}], %[[K2:.*]][%c0, {{.*}}], 8 bypassL1 :
// CHECK: %[[GROUP:.*]] = nvgpu.device_async_create_group
// CHECK: scf.for %[[AT:.*]] = %c0 to %c4096 step %c64
// CHECK-NEXT: nvgpu.device_async_wait %[[GROUP]]
// CHECK-NEXT: gpu.barrier
// CHECK: %[[NEXT:.*]] = arith.addi %[[AT]], %c64
// CHECK: %[[THERE:.*]] = arith.cmpi slt, %[[NEXT]], %c4096
// CHECK: arith.select %[[THERE]], %[[NEXT]], %[[AT]]
// CHECK: nvgpu.device_async_copy
// CHECK: nvgpu.device_async_create_group
// CHECK-NOT: gpu.barrier
// CHECK-NOT: vector.transfer_read
// CHECK: nvgpu.ldmatrix %[[K2]][{{.*}}] numTiles = 4 transpose = false
// CHECK: nvgpu.ldmatrix %{{.*}} numTiles = 4 transpose = true : memref<2x1x64x72xf16
// CHECK: scf.yield
// CHECK: nvgpu.device_async_wait

// WHY: kernel main_dispatch_0_attention_{{.*}} spaces the rows of 3 shared buffer(s), fetches the tiles of 1 loop(s) ahead, reads 160 fragment(s) with ldmatrix

// OFF-LABEL: func.func @main_dispatch_0_attention
// OFF-NOT: nvgpu.ldmatrix
// OFF-NOT: nvgpu.device_async_copy
// OFF: memref.alloc() : memref<1x64x68xf16

// The pass lowers a kernel that no other one has.
// ALONE-LABEL: func.func @main_dispatch_0_attention
// ALONE: nvgpu.ldmatrix
// ALONE: math.exp2
// ALONE-NOT: llvm.inline_asm

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
func.func @main(%q: tensor<2x4096x64xf16>, %k: tensor<2x4096x64xf16>, %v: tensor<2x4096x64xf16>) -> tensor<2x4096x64xf16> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<2x4096x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<2x4096x64xf16>, tensor<2x4096x64xf16>, tensor<2x4096x64xf16>, f32) outs(%e : tensor<2x4096x64xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x4096x64xf16>
  return %r : tensor<2x4096x64xf16>
}
