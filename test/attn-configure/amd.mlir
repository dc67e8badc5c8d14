// Configurations for AMD GPUs: matrix instructions where IREE has none, more columns of V at once,
// right numbers for wide heads; IREE's own configuration where it is as good.

// RUN: attn-opt %s --attn-configure=target=gfx942 --remarks --report=%t.json 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt
// RUN: FileCheck %s --check-prefix=WRONG --input-file=%t.json
// RUN: attn-opt %s --attn-configure=target=gfx1100 --remarks 2> %t.3.txt | FileCheck %s --check-prefix=RDNA
// RUN: FileCheck %s --check-prefix=WHY3 --input-file=%t.3.txt
// RUN: attn-opt %s --attn-configure=target=gfx90a > %t.0 && attn-opt %s > %t.1 && diff %t.0 %t.1

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// The head dim of V whole: Q K^T is computed once, not for each 64 columns.
// WHY: is configured for rocm gfx942: workgroup tiles 1x64x128x0x0, reduction tiles 0x0x0x0x64, {{.*}}256 threads in subgroups of 64
// WHY3: is configured for rocm gfx1100: workgroup tiles 1x64x128x0x0, reduction tiles 0x0x0x0x32, {{.*}}128 threads in subgroups of 32
// CHECK-LABEL: func.func @prefill
// CHECK: pv_attrs = {{.*}}#iree_gpu.mma_layout<MFMA_F32_16x16x16_F16, col_major = true>
// CHECK-SAME: qk_attrs = {{.*}}#iree_gpu.virtual_mma_layout<VMFMA_F32_16x16x32_F16, col_major = true>
// CHECK-SAME: compilation_info = #
// RDNA-LABEL: func.func @prefill
// RDNA: #iree_gpu.mma_layout<WMMAR3_F32_16x16x16_F16>
func.func @prefill(%q: tensor<32x4096x128xf16>, %k: tensor<32x4096x128xf16>, %v: tensor<32x4096x128xf16>) -> tensor<32x4096x128xf16> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<32x4096x128xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<32x4096x128xf16>, tensor<32x4096x128xf16>, tensor<32x4096x128xf16>, f32) outs(%out : tensor<32x4096x128xf16>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<32x4096x128xf16>
  return %r : tensor<32x4096x128xf16>
}

// On RDNA3 IREE's own tile spills registers.
// WHY: keeps IREE's own configuration: its own tile has the same columns, and matrix instructions for all rows and keys
// WHY3: is configured for rocm gfx1100: workgroup tiles 1x64x64x0x0, reduction tiles 0x0x0x0x32
// CHECK-LABEL: func.func @good
// CHECK-NOT: compilation_info
// RDNA-LABEL: func.func @good
// RDNA: compilation_info
func.func @good(%q: tensor<32x4096x64xf16>, %k: tensor<32x4096x64xf16>, %v: tensor<32x4096x64xf16>) -> tensor<32x4096x64xf16> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<32x4096x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<32x4096x64xf16>, tensor<32x4096x64xf16>, tensor<32x4096x64xf16>, f32) outs(%out : tensor<32x4096x64xf16>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<32x4096x64xf16>
  return %r : tensor<32x4096x64xf16>
}

// IREE has no matrix instructions for 100 rows.
// WHY: is configured for rocm gfx942: workgroup tiles 1x64x64x0x0
// WHY3: is configured for rocm gfx1100: workgroup tiles 1x64x64x0x0
// CHECK-LABEL: func.func @odd_rows
// CHECK: MFMA_F32_16x16x16_BF16
// RDNA-LABEL: func.func @odd_rows
// RDNA: WMMAR3_F32_16x16x16_BF16
func.func @odd_rows(%q: tensor<32x100x64xbf16>, %k: tensor<32x128x64xbf16>, %v: tensor<32x128x64xbf16>) -> tensor<32x100x64xbf16> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<32x100x64xbf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<32x100x64xbf16>, tensor<32x128x64xbf16>, tensor<32x128x64xbf16>, f32) outs(%out : tensor<32x100x64xbf16>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<32x100x64xbf16>
  return %r : tensor<32x100x64xbf16>
}

// The last tile of keys is masked by IREE, but not where one of rows is as well.
// WHY: is configured for rocm gfx942: workgroup tiles 1x64x64x0x0, reduction tiles 0x0x0x0x64
// WHY: keeps IREE's own configuration: 64 rows and 64 keys at a time both leave some over
// WHY3: is configured for rocm gfx1100
// WHY3: keeps IREE's own configuration: 64 rows and 32 keys at a time both leave some over
// CHECK-LABEL: func.func @odd_keys
// CHECK: compilation_info
// RDNA-LABEL: func.func @odd_keys
// RDNA: compilation_info
func.func @odd_keys(%q: tensor<32x128x64xf16>, %k: tensor<32x1333x64xf16>, %v: tensor<32x1333x64xf16>) -> tensor<32x128x64xf16> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<32x128x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<32x128x64xf16>, tensor<32x1333x64xf16>, tensor<32x1333x64xf16>, f32) outs(%out : tensor<32x128x64xf16>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<32x128x64xf16>
  return %r : tensor<32x128x64xf16>
}

// CHECK-LABEL: func.func @odd_both
// CHECK-NOT: compilation_info
// RDNA-LABEL: func.func @odd_both
// RDNA-NOT: compilation_info
func.func @odd_both(%q: tensor<32x100x64xf16>, %k: tensor<32x1333x64xf16>, %v: tensor<32x1333x64xf16>) -> tensor<32x100x64xf16> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<32x100x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<32x100x64xf16>, tensor<32x1333x64xf16>, tensor<32x1333x64xf16>, f32) outs(%out : tensor<32x100x64xf16>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<32x100x64xf16>
  return %r : tensor<32x100x64xf16>
}

// Six subgroups, for the copies to LDS.
// WHY: is configured for rocm gfx942: workgroup tiles 1x96x96x0x0{{.*}} 384 threads
// WHY3: is configured for rocm gfx1100: workgroup tiles 1x96x96x0x0{{.*}} 192 threads
// CHECK-LABEL: func.func @head_96
// CHECK: compilation_info
// RDNA-LABEL: func.func @head_96
// RDNA: compilation_info
func.func @head_96(%q: tensor<32x512x96xf16>, %k: tensor<32x512x96xf16>, %v: tensor<32x512x96xf16>) -> tensor<32x512x96xf16> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<32x512x96xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<32x512x96xf16>, tensor<32x512x96xf16>, tensor<32x512x96xf16>, f32) outs(%out : tensor<32x512x96xf16>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<32x512x96xf16>
  return %r : tensor<32x512x96xf16>
}

// CDNA has f32 matrix instructions; RDNA has lanes, whose numbers are right at this width, unlike
// those of IREE's own configuration.
// WHY: is configured for rocm gfx942: workgroup tiles 1x64x256x0x0{{.*}} operands 1, 2 in shared memory
// WHY3: is configured for rocm gfx1100: {{.*}} 128 threads in subgroups of 32
// CHECK-LABEL: func.func @f32_wide
// CHECK: MFMA_F32_16x16x4_F32
// RDNA-LABEL: func.func @f32_wide
// RDNA: lane_basis
func.func @f32_wide(%q: tensor<8x512x256xf32>, %k: tensor<8x512x256xf32>, %v: tensor<8x512x256xf32>) -> tensor<8x512x256xf32> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<8x512x256xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<8x512x256xf32>, tensor<8x512x256xf32>, tensor<8x512x256xf32>, f32) outs(%out : tensor<8x512x256xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<8x512x256xf32>
  return %r : tensor<8x512x256xf32>
}

// WHY: is configured for rocm gfx942: workgroup tiles 1x32x512x0x0
// WHY3: keeps IREE's own configuration: on gfx1100 all tiles for head dims above 256 spill registers
// CHECK-LABEL: func.func @head_512
// CHECK: compilation_info
// RDNA-LABEL: func.func @head_512
// RDNA-NOT: compilation_info
func.func @head_512(%q: tensor<8x512x512xf16>, %k: tensor<8x512x512xf16>, %v: tensor<8x512x512xf16>) -> tensor<8x512x512xf16> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<8x512x512xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<8x512x512xf16>, tensor<8x512x512xf16>, tensor<8x512x512xf16>, f32) outs(%out : tensor<8x512x512xf16>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<8x512x512xf16>
  return %r : tensor<8x512x512xf16>
}

// Decode: wrong numbers on RDNA, whose 32 lanes read 512 bytes of a head at once.
// WHY: keeps IREE's own configuration: 4 query row(s) fill no matrix instruction
// WHY3: is configured for rocm gfx1100: workgroup tiles 1x16x128x0x0
// CHECK-LABEL: func.func @few_rows
// CHECK-NOT: compilation_info
// RDNA-LABEL: func.func @few_rows
// RDNA: WMMAR3_F32_16x16x16_F16
func.func @few_rows(%q: tensor<8x4x512xf16>, %k: tensor<8x512x512xf16>, %v: tensor<8x512x512xf16>) -> tensor<8x4x512xf16> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<8x4x512xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<8x4x512xf16>, tensor<8x512x512xf16>, tensor<8x512x512xf16>, f32) outs(%out : tensor<8x4x512xf16>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<8x4x512xf16>
  return %r : tensor<8x4x512xf16>
}

// WHY: is configured for rocm gfx942: workgroup tiles 1x64x64x0x0
// WHY3: keeps IREE's own configuration: gfx1100 has no matrix instructions for f8E4M3FNUZ Q
// CHECK-LABEL: func.func @fp8
// CHECK: VMFMA_F32_16x16x32_F8E4M3FNUZ
// RDNA-LABEL: func.func @fp8
// RDNA-NOT: compilation_info
func.func @fp8(%q: tensor<32x100x64xf8E4M3FNUZ>, %k: tensor<32x512x64xf8E4M3FNUZ>, %v: tensor<32x512x64xf8E4M3FNUZ>) -> tensor<32x100x64xf16> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<32x100x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<32x100x64xf8E4M3FNUZ>, tensor<32x512x64xf8E4M3FNUZ>, tensor<32x512x64xf8E4M3FNUZ>, f32) outs(%out : tensor<32x100x64xf16>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<32x100x64xf16>
  return %r : tensor<32x100x64xf16>
}

// WHY: keeps IREE's own configuration: head dim 2048 is wider than any whose kernels were looked at
// WRONG: IREE 3.13's own configuration computes wrong numbers
// CHECK-LABEL: func.func @too_wide
// CHECK-NOT: compilation_info
func.func @too_wide(%q: tensor<2x64x2048xf16>, %k: tensor<2x64x2048xf16>, %v: tensor<2x64x2048xf16>) -> tensor<2x64x2048xf16> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x64x2048xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x64x2048xf16>, tensor<2x64x2048xf16>, tensor<2x64x2048xf16>, f32) outs(%out : tensor<2x64x2048xf16>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x64x2048xf16>
  return %r : tensor<2x64x2048xf16>
}
