// What registers cannot hold is read in each step, scaled before it is written; tiles of rows that
// do not divide the rows lose their masks; Q is copied once where IREE copies it in each step.

// DEFINE: %{kernels} = --iree-hal-target-device=cuda --iree-cuda-target=sm_80 --compile-to=executable-configurations
// RUN: attn-compile %s %{kernels} --attn-summary 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt

// CHECK-LABEL: func.func @wide_dispatch_0_attention
// CHECK: %[[Q:.*]] = memref.alloc() : memref<1x64x520xf16, #gpu.address_space<workgroup>>
// CHECK: arith.mulf %{{.*}} : vector<1x1x8xf16>
// CHECK: vector.transfer_write %{{.*}}, %[[Q]][
// CHECK-NOT: nvgpu.ldmatrix
// CHECK: scf.for
// CHECK-NOT: arith.mulf %{{.*}}xf16>
// CHECK: nvgpu.ldmatrix %[[Q]][

// A narrow one keeps them in registers.
// CHECK-LABEL: func.func @odd_dispatch_0_attention
// CHECK: memref<1x128x72xf16, #gpu.address_space<workgroup>>
// CHECK: nvgpu.ldmatrix
// CHECK: arith.mulf %{{.*}} : vector<{{.*}}xf16>
// CHECK: scf.for
// CHECK-NOT: arith.select %{{.*}}vector<{{.*}}xi1>
// CHECK: scf.yield

// CHECK-LABEL: func.func @unknown_dispatch_{{[0-9]+}}_attention
// CHECK: arith.mulf %{{.*}} : vector<1x1x8xf16>
// CHECK: vector.transfer_write
// CHECK: nvgpu.device_async_copy
// CHECK: scf.for
// CHECK-NOT: vector.transfer_write
// CHECK: nvgpu.device_async_copy
// CHECK-NOT: arith.mulf %{{.*}}xf16>
// CHECK: scf.yield

// WHY: kernel wide_dispatch_0_attention_{{.*}} spaces the rows of 3 shared buffer(s), reads 128 fragment(s) in each step that registers cannot hold, reads
// WHY-NOT: kernel odd_dispatch_0_attention_{{.*}} in each step
// WHY: kernel odd_dispatch_0_attention_{{.*}} drops {{[0-9]+}} mask(s) of rows beyond the end
// WHY: kernel unknown_dispatch_{{.*}} copies 1 tile(s) once that each step copied

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
func.func @wide(%q: tensor<2x4096x512xf16>, %k: tensor<2x4096x512xf16>, %v: tensor<2x4096x512xf16>) -> tensor<2x4096x512xf16> {
  %scale = arith.constant 0.0625 : f32
  %e = tensor.empty() : tensor<2x4096x512xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<2x4096x512xf16>, tensor<2x4096x512xf16>, tensor<2x4096x512xf16>, f32) outs(%e : tensor<2x4096x512xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x4096x512xf16>
  return %r : tensor<2x4096x512xf16>
}

func.func @odd(%q: tensor<8x4000x64xf16>, %k: tensor<8x4096x64xf16>, %v: tensor<8x4096x64xf16>) -> tensor<8x4000x64xf16> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<8x4000x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<8x4000x64xf16>, tensor<8x4096x64xf16>, tensor<8x4096x64xf16>, f32) outs(%e : tensor<8x4000x64xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<8x4000x64xf16>
  return %r : tensor<8x4000x64xf16>
}

func.func @unknown(%q: tensor<8x4096x64xf16>, %k: tensor<8x?x64xf16>, %v: tensor<8x?x64xf16>) -> tensor<8x4096x64xf16> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<8x4096x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<8x4096x64xf16>, tensor<8x?x64xf16>, tensor<8x?x64xf16>, f32) outs(%e : tensor<8x4096x64xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<8x4096x64xf16>
  return %r : tensor<8x4096x64xf16>
}
