// On NVIDIA GPUs the f16 projections of a module with attention get tiles by their size, where
// they divide it and the factors stand in an order that IREE compiles to right numbers.

// RUN: attn-compile %s --iree-hal-target-device=cuda --iree-cuda-target=sm_80 --compile-to=executable-configurations --attn-summary 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt
// RUN: attn-compile %s --iree-hal-target-device=cuda --iree-cuda-target=sm_80 --compile-to=executable-configurations --attn-shared-memory=false | FileCheck %s --check-prefix=KEPT
// RUN: attn-compile %s --iree-hal-target-device=cuda --iree-cuda-target=sm_89 --compile-to=executable-configurations --attn-shared-memory=false | FileCheck %s --check-prefix=SMALL
// RUN: attn-compile %s --iree-hal-target-device=cuda --iree-cuda-target=sm_80 --compile-to=executable-configurations --attn-pipeline='attn-configure{contractions=false}' | FileCheck %s --check-prefix=OFF

// RUN: attn-compile %s --iree-hal-target-device=cuda --iree-cuda-target=sm_90 --compile-to=flow --attn-kernels=always --attn-summary 2>&1 >/dev/null | FileCheck %s --check-prefix=KERNEL

// attn-lower-cuda lowers what is configured, and nothing else.
// CHECK-LABEL: func.func @layer_dispatch_0_{{contract|matmul_like}}
// CHECK-SAME: workgroup_size = [256, 1, 1]
// CHECK: memref.alloc() : memref<3x{{.*}}f16, #gpu.address_space<workgroup>>
// CHECK: nvgpu.device_async_copy
// CHECK: scf.for
// CHECK-NEXT: nvgpu.device_async_wait {{.*}} numGroups = 1
// CHECK-NEXT: gpu.barrier
// CHECK: nvgpu.ldmatrix
// CHECK: nvgpu.mma.sync
// CHECK: nvgpu.device_async_copy
// CHECK: nvgpu.mma.sync
// CHECK: nvgpu.ldmatrix
// CHECK: nvgpu.mma.sync
// CHECK: nvgpu.device_async_create_group
// CHECK-LABEL: func.func @small_dispatch_0
// CHECK: nvgpu.mma.sync
// CHECK-LABEL: func.func @odd_dispatch_0
// CHECK-NOT: nvgpu.mma.sync
// CHECK-LABEL: func.func @order_dispatch_0
// KEPT: linalg.{{contract|generic}} {{.*}}reduction = [0, 0, 0, 64], subgroup_basis = {{\[\[}}1, 2, 4, 1], [0, 1, 2, 3]], workgroup = [1, 128, 256, 0]
// The same rows of one sequence alone: smaller tiles, for more workgroups.
// KEPT: linalg.{{contract|generic}} {{.*}}reduction = [0, 0, 32], subgroup_basis = {{\[\[}}2, 2, 1], [0, 1, 2]], workgroup = [128, 128, 0]
// KEPT-NOT: linalg.{{contract|generic}} {{.*}}subgroup_basis
// KEPT-LABEL: func.func @unknown_dispatch_0
// KEPT: linalg.{{contract|generic}} {{.*}}subgroup_basis = {{\[\[}}1, 2, 2, 1], [0, 1, 2, 3]], workgroup = [1, 128, 128, 0]
// OFF-NOT: linalg.contract {{.*}}subgroup_basis
// With less shared memory, the tile that two workgroups have room for.
// SMALL: linalg.{{contract|generic}} {{.*}}reduction = [0, 0, 0, 32], subgroup_basis = {{\[\[}}1, 2, 2, 1], [0, 1, 2, 3]], workgroup = [1, 128, 128, 0]

// WHY-DAG: contraction at {{.*}} is configured for cuda sm_80
// WHY-DAG: contraction at {{.*}} is configured for cuda sm_80
// WHY-DAG: contraction at {{.*}} keeps IREE's own configuration: 77 x 1024 x 1024 are no multiples of 64 x 64 x 64
// WHY-DAG: contraction at {{.*}} keeps IREE's own configuration: IREE 3.13 computes wrong numbers where the first factor has the last dim

// WHY-DAG: contraction at {{.*}} keeps IREE's own configuration: IREE 3.13 computes wrong numbers where loops are not over rows, columns and depth

// Rows of an unknown number come in tiles of a known one, by attn-tile-products.
// WHY-DAG: contraction at {{.*}} is configured for cuda sm_80: workgroup tiles 1x128x128x0

// A precompiled kernel in attention's place leaves the projection as it is.
// KERNEL-DAG: contraction at {{.*}} is configured for cuda sm_90
// KERNEL-DAG: output kernel: attention_f16_d128_vt

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#vt = affine_map<(b, m, n, k1, k2) -> (b, n, k2)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
#w = affine_map<(b, i, j, k) -> (k, i)>
#x = affine_map<(b, i, j, k) -> (b, j, k)>
#p = affine_map<(b, i, j, k) -> (b, i, j)>
#rows = affine_map<(i, j, k) -> (i, k)>
#columns = affine_map<(i, j, k) -> (k, j)>
#result = affine_map<(i, j, k) -> (i, j)>

func.func @layer(%q: tensor<24x1024x128xf16>, %k: tensor<24x1024x128xf16>, %x: tensor<3x1024x1024xf16>, %w: tensor<1024x1024xf16>) -> tensor<24x1024x128xf16> {
  %zero = arith.constant 0.0 : f32
  %scale = arith.constant 0.25 : f32
  %ev = tensor.empty() : tensor<3x1024x1024xf32>
  %fv = linalg.fill ins(%zero : f32) outs(%ev : tensor<3x1024x1024xf32>) -> tensor<3x1024x1024xf32>
  %pv = linalg.contract indexing_maps = [#w, #x, #p] ins(%w, %x : tensor<1024x1024xf16>, tensor<3x1024x1024xf16>) outs(%fv : tensor<3x1024x1024xf32>) -> tensor<3x1024x1024xf32>
  %hv = tensor.empty() : tensor<3x1024x1024xf16>
  %cv = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%pv : tensor<3x1024x1024xf32>) outs(%hv : tensor<3x1024x1024xf16>) {
    ^bb0(%a: f32, %b: f16):
      %t = arith.truncf %a : f32 to f16
      linalg.yield %t : f16
  } -> tensor<3x1024x1024xf16>
  %heads = tensor.expand_shape %cv [[0], [1, 2], [3]] output_shape [3, 8, 128, 1024] : tensor<3x1024x1024xf16> into tensor<3x8x128x1024xf16>
  %v = tensor.collapse_shape %heads [[0, 1], [2], [3]] : tensor<3x8x128x1024xf16> into tensor<24x128x1024xf16>
  %out = tensor.empty() : tensor<24x1024x128xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #vt, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<24x1024x128xf16>, tensor<24x1024x128xf16>, tensor<24x128x1024xf16>, f32) outs(%out : tensor<24x1024x128xf16>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<24x1024x128xf16>
  return %r : tensor<24x1024x128xf16>
}

func.func @small(%x: tensor<1024x1024xf16>, %w: tensor<1024x1024xf16>) -> tensor<1024x1024xf16> {
  %zero = arith.constant 0.0 : f32
  %ev = tensor.empty() : tensor<1024x1024xf32>
  %fv = linalg.fill ins(%zero : f32) outs(%ev : tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  %pv = linalg.contract indexing_maps = [#rows, #columns, #result] ins(%x, %w : tensor<1024x1024xf16>, tensor<1024x1024xf16>) outs(%fv : tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  %hv = tensor.empty() : tensor<1024x1024xf16>
  %cv = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%pv : tensor<1024x1024xf32>) outs(%hv : tensor<1024x1024xf16>) {
    ^bb0(%a: f32, %b: f16):
      %t = arith.truncf %a : f32 to f16
      linalg.yield %t : f16
  } -> tensor<1024x1024xf16>
  return %cv : tensor<1024x1024xf16>
}

func.func @odd(%x: tensor<77x1024xf16>, %w: tensor<1024x1024xf16>) -> tensor<77x1024xf16> {
  %zero = arith.constant 0.0 : f32
  %ev = tensor.empty() : tensor<77x1024xf32>
  %fv = linalg.fill ins(%zero : f32) outs(%ev : tensor<77x1024xf32>) -> tensor<77x1024xf32>
  %pv = linalg.contract indexing_maps = [#rows, #columns, #result] ins(%x, %w : tensor<77x1024xf16>, tensor<1024x1024xf16>) outs(%fv : tensor<77x1024xf32>) -> tensor<77x1024xf32>
  %hv = tensor.empty() : tensor<77x1024xf16>
  %cv = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%pv : tensor<77x1024xf32>) outs(%hv : tensor<77x1024xf16>) {
    ^bb0(%a: f32, %b: f16):
      %t = arith.truncf %a : f32 to f16
      linalg.yield %t : f16
  } -> tensor<77x1024xf16>
  return %cv : tensor<77x1024xf16>
}

func.func @order(%x: tensor<4x1024x1024xf16>, %w: tensor<1024x1024xf16>) -> tensor<4x1024x1024xf16> {
  %zero = arith.constant 0.0 : f32
  %ev = tensor.empty() : tensor<4x1024x1024xf32>
  %fv = linalg.fill ins(%zero : f32) outs(%ev : tensor<4x1024x1024xf32>) -> tensor<4x1024x1024xf32>
  %pv = linalg.contract indexing_maps = [#x, #w, #p] ins(%x, %w : tensor<4x1024x1024xf16>, tensor<1024x1024xf16>) outs(%fv : tensor<4x1024x1024xf32>) -> tensor<4x1024x1024xf32>
  %hv = tensor.empty() : tensor<4x1024x1024xf16>
  %cv = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%pv : tensor<4x1024x1024xf32>) outs(%hv : tensor<4x1024x1024xf16>) {
    ^bb0(%a: f32, %b: f16):
      %t = arith.truncf %a : f32 to f16
      linalg.yield %t : f16
  } -> tensor<4x1024x1024xf16>
  return %cv : tensor<4x1024x1024xf16>
}

func.func @loops(%x: tensor<2048x1024xf16>, %w: tensor<1024x2048xf16>) -> tensor<2048x2048xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2048x2048xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2048x2048xf32>) -> tensor<2048x2048xf32>
  %p = linalg.contract indexing_maps = [affine_map<(j, i, k) -> (i, k)>, affine_map<(j, i, k) -> (k, j)>, affine_map<(j, i, k) -> (i, j)>] ins(%x, %w : tensor<2048x1024xf16>, tensor<1024x2048xf16>) outs(%f : tensor<2048x2048xf32>) -> tensor<2048x2048xf32>
  return %p : tensor<2048x2048xf32>
}

func.func @unknown(%x: tensor<?x4096xf16>, %w: tensor<4096x4096xf16>) -> tensor<?x4096xf32> {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %rows = tensor.dim %x, %c0 : tensor<?x4096xf16>
  %e = tensor.empty(%rows) : tensor<?x4096xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?x4096xf32>) -> tensor<?x4096xf32>
  %p = linalg.matmul ins(%x, %w : tensor<?x4096xf16>, tensor<4096x4096xf16>) outs(%f : tensor<?x4096xf32>) -> tensor<?x4096xf32>
  return %p : tensor<?x4096xf32>
}
