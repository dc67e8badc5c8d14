// What is left to IREE, with the reason: the loop of kernels with 8-bit V, which computes what it
// writes to shared memory (the weights), and the rows of row-major V in it; tiles that fit once
// only, kernels without tensor cores, projections with fp8 weights, CPUs.

// RUN: attn-compile %s --iree-hal-target-device=cuda --iree-cuda-target=sm_89 --compile-to=executable-configurations --attn-summary 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt
// RUN: attn-compile %s --iree-hal-target-device=local --iree-hal-local-target-device-backends=llvm-cpu --compile-to=executable-configurations --attn-summary 2> %t.cpu.txt | FileCheck %s --check-prefix=CPU
// RUN: not FileCheck %s --check-prefix=WHY --input-file=%t.cpu.txt

// CPU: func.func @
// CPU-NOT: nvgpu.

// CHECK-LABEL: func.func @fp8_dispatch_0_attention
// CHECK: memref.alloc() : memref<1x64x72xf8E4M3FN, #gpu.address_space<workgroup>>
// CHECK-NOT: nvgpu.device_async_copy
// CHECK: nvgpu.ldmatrix
// CHECK-LABEL: func.func @large_dispatch_0_attention
// CHECK-NOT: nvgpu.device_async_copy
// CHECK: nvgpu.ldmatrix
// CHECK-LABEL: func.func @f32_dispatch_0_attention
// CHECK-NOT: nvgpu.
// CHECK-LABEL: func.func @projection_dispatch_0_matmul
// CHECK: nvgpu.mma.sync

// WHY: kernel fp8_dispatch_0_attention_{{.*}} spaces the rows of 3 shared buffer(s), reads {{[0-9]+}} fragment(s) with ldmatrix
// WHY: kernel fp8_dispatch_0_attention_{{.*}} does not fetch tiles ahead: its loop does not have two barriers
// WHY: kernel large_dispatch_0_attention_{{.*}} does not fetch tiles ahead: two buffers a tile are 55296 bytes of shared memory, of 101376: 1 workgroups would have room instead of 2
// WHY-NOT: kernel f32_dispatch_0_attention_{{.*}} spaces
// WHY-NOT: kernel projection_dispatch_0_matmul_{{.*}} does not

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
func.func @fp8(%q: tensor<2x4096x64xf8E4M3FN>, %k: tensor<2x4096x64xf8E4M3FN>, %v: tensor<2x4096x64xf8E4M3FN>) -> tensor<2x4096x64xf16> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<2x4096x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<2x4096x64xf8E4M3FN>, tensor<2x4096x64xf8E4M3FN>, tensor<2x4096x64xf8E4M3FN>, f32) outs(%e : tensor<2x4096x64xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x4096x64xf16>
  return %r : tensor<2x4096x64xf16>
}

func.func @large(%q: tensor<2x4096x64xf16>, %k: tensor<2x4096x64xf16>, %v: tensor<2x4096x64xf16>) -> tensor<2x4096x64xf16> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<2x4096x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<2x4096x64xf16>, tensor<2x4096x64xf16>, tensor<2x4096x64xf16>, f32) outs(%e : tensor<2x4096x64xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x4096x64xf16>
  return %r : tensor<2x4096x64xf16>
}

func.func @f32(%q: tensor<2x128x64xf32>, %k: tensor<2x128x64xf32>, %v: tensor<2x128x64xf32>) -> tensor<2x128x64xf32> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<2x128x64xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<2x128x64xf32>, tensor<2x128x64xf32>, tensor<2x128x64xf32>, f32) outs(%e : tensor<2x128x64xf32>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x128x64xf32>
  return %r : tensor<2x128x64xf32>
}

func.func @projection(%x: tensor<512x256xf16>, %w: tensor<256x512xf8E4M3FN>) -> tensor<512x512xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<256x512xf16>
  %wide = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%w : tensor<256x512xf8E4M3FN>) outs(%e : tensor<256x512xf16>) {
  ^bb0(%a: f8E4M3FN, %o: f16):
    %b = arith.extf %a : f8E4M3FN to f16
    linalg.yield %b : f16
  } -> tensor<256x512xf16>
  %r = tensor.empty() : tensor<512x512xf32>
  %f = linalg.fill ins(%zero : f32) outs(%r : tensor<512x512xf32>) -> tensor<512x512xf32>
  %m = linalg.matmul ins(%x, %wide : tensor<512x256xf16>, tensor<256x512xf16>) outs(%f : tensor<512x512xf32>) -> tensor<512x512xf32>
  return %m : tensor<512x512xf32>
}
