// RUN: attn-opt %s --attn-configure=target=sm_80 --remarks --report=%t.json 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt
// RUN: FileCheck %s --check-prefix=WRONG --input-file=%t.json
// RUN: attn-opt %s --attn-configure=target=sm_80,source=none > %t.0 && attn-opt %s > %t.1 && diff %t.0 %t.1

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// Prefill: tensor cores, Q, K and V through shared memory, the head dim whole.
// WHY: is configured for cuda sm_80: workgroup tiles 1x128x128x0x0, reduction tiles 0x0x0x0x32
// CHECK-LABEL: func.func @prefill
// CHECK: NV_MMA_SYNC_F32_16x8x16_F16>{{.*}} subgroup_basis = {{\[\[}}1, 4, 1, 1, 1], [0, 1, 2, 4]]
// CHECK-SAME: compilation_info = #
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

// A few grouped rows: one warp.
// WHY: is configured for cuda sm_80: workgroup tiles 1x16x128x0x0{{.*}} 32 threads
// CHECK-LABEL: func.func @grouped
// CHECK: NV_MMA_SYNC_F32_16x8x16_BF16
// CHECK-SAME: compilation_info = #
func.func @grouped(%q: tensor<64x4x128xbf16>, %k: tensor<64x4096x128xbf16>, %v: tensor<64x4096x128xbf16>) -> tensor<64x4x128xbf16> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<64x4x128xbf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<64x4x128xbf16>, tensor<64x4096x128xbf16>, tensor<64x4096x128xbf16>, f32) outs(%out : tensor<64x4x128xbf16>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<64x4x128xbf16>
  return %r : tensor<64x4x128xbf16>
}

// No tensor cores for f32: lanes along rows, keys and the head dim, sums in registers.
// WHY: is configured for cuda sm_80: workgroup tiles 1x64x64x0x0, reduction tiles 0x0x0x0x32{{.*}} 128 threads
// CHECK-LABEL: func.func @f32(
// CHECK: pv_attrs = {lowering_config = #iree_gpu.lowering_config<{lane_basis = {{\[\[}}1, 4, 8, 1, 1], [0, 1, 2, 4]]{{.*}} thread = [0, 4, 4, 4]
// CHECK-SAME: qk_attrs = {lowering_config = #iree_gpu.lowering_config<{lane_basis = {{\[\[}}1, 4, 1, 4, 2], [0, 1, 3, 4]]{{.*}} thread = [0, 4, 4, 2]
// CHECK-SAME: compilation_info = #
func.func @f32(%q: tensor<32x512x64xf32>, %k: tensor<32x512x64xf32>, %v: tensor<32x512x64xf32>) -> tensor<32x512x64xf32> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<32x512x64xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<32x512x64xf32>, tensor<32x512x64xf32>, tensor<32x512x64xf32>, f32) outs(%out : tensor<32x512x64xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<32x512x64xf32>
  return %r : tensor<32x512x64xf32>
}

// Fewer subgroups a workgroup, so that there is work for the whole GPU.
// WHY: is configured for cuda sm_80: workgroup tiles 1x16x64x0x0{{.*}} 32 threads
// CHECK-LABEL: func.func @f32_few_workgroups
// CHECK: compilation_info = #
func.func @f32_few_workgroups(%q: tensor<2x512x64xf32>, %k: tensor<2x512x64xf32>, %v: tensor<2x512x64xf32>) -> tensor<2x512x64xf32> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x512x64xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x512x64xf32>, tensor<2x512x64xf32>, tensor<2x512x64xf32>, f32) outs(%out : tensor<2x512x64xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x512x64xf32>
  return %r : tensor<2x512x64xf32>
}

// attn-fit-tiles goes before.
// WHY: keeps IREE's own configuration: 509 keys may leave a step of 4 keys incomplete
// CHECK-LABEL: func.func @f32_odd_keys
// CHECK-NOT: compilation_info
func.func @f32_odd_keys(%q: tensor<32x512x64xf32>, %k: tensor<32x509x64xf32>, %v: tensor<32x509x64xf32>) -> tensor<32x512x64xf32> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<32x512x64xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<32x512x64xf32>, tensor<32x509x64xf32>, tensor<32x509x64xf32>, f32) outs(%out : tensor<32x512x64xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<32x512x64xf32>
  return %r : tensor<32x512x64xf32>
}

// attn-fit-tiles goes before.
// WHY: keeps IREE's own configuration: the lanes of no tile divide head dims 72 and 72
// CHECK-LABEL: func.func @f32_odd_heads
// CHECK-NOT: compilation_info
func.func @f32_odd_heads(%q: tensor<32x512x72xf32>, %k: tensor<32x512x72xf32>, %v: tensor<32x512x72xf32>) -> tensor<32x512x72xf32> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<32x512x72xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<32x512x72xf32>, tensor<32x512x72xf32>, tensor<32x512x72xf32>, f32) outs(%out : tensor<32x512x72xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<32x512x72xf32>
  return %r : tensor<32x512x72xf32>
}

// WHY: keeps IREE's own configuration: there is no tile for f32 Q, f16 K and f16 V
// CHECK-LABEL: func.func @mixed
// CHECK-NOT: compilation_info
func.func @mixed(%q: tensor<32x512x64xf32>, %k: tensor<32x512x64xf16>, %v: tensor<32x512x64xf16>) -> tensor<32x512x64xf32> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<32x512x64xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<32x512x64xf32>, tensor<32x512x64xf16>, tensor<32x512x64xf16>, f32) outs(%out : tensor<32x512x64xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<32x512x64xf32>
  return %r : tensor<32x512x64xf32>
}

// WHY: keeps IREE's own configuration: 509 keys may leave a step of 4 keys incomplete
// WRONG: IREE 3.13's own configuration computes wrong numbers
// CHECK-LABEL: func.func @f32_wide
// CHECK-NOT: compilation_info
func.func @f32_wide(%q: tensor<4x100x256xf32>, %k: tensor<4x509x256xf32>, %v: tensor<4x509x256xf32>) -> tensor<4x100x256xf32> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<4x100x256xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<4x100x256xf32>, tensor<4x509x256xf32>, tensor<4x509x256xf32>, f32) outs(%out : tensor<4x100x256xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<4x100x256xf32>
  return %r : tensor<4x100x256xf32>
}

// WHY: keeps IREE's own configuration: sm_80 has no fp8 tensor cores
// CHECK-LABEL: func.func @fp8
// CHECK-NOT: compilation_info
func.func @fp8(%q: tensor<32x512x64xf8E4M3FN>, %k: tensor<32x512x64xf8E4M3FN>, %v: tensor<32x512x64xf8E4M3FN>) -> tensor<32x512x64xf8E4M3FN> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<32x512x64xf8E4M3FN>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<32x512x64xf8E4M3FN>, tensor<32x512x64xf8E4M3FN>, tensor<32x512x64xf8E4M3FN>, f32) outs(%out : tensor<32x512x64xf8E4M3FN>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<32x512x64xf8E4M3FN>
  return %r : tensor<32x512x64xf8E4M3FN>
}

// Six subgroups divide the copies of 96 columns; four would not.
// CHECK-LABEL: func.func @three_times_a_power_of_two
// CHECK: subgroup_basis = {{\[\[}}1, 6, 1, 1, 1]
// CHECK-SAME: compilation_info
func.func @three_times_a_power_of_two(%q: tensor<32x512x96xf16>, %k: tensor<32x512x96xf16>, %v: tensor<32x512x96xf16>) -> tensor<32x512x96xf16> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<32x512x96xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<32x512x96xf16>, tensor<32x512x96xf16>, tensor<32x512x96xf16>, f32) outs(%out : tensor<32x512x96xf16>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<32x512x96xf16>
  return %r : tensor<32x512x96xf16>
}

// WHY: keeps IREE's own configuration: head dims 72 and 72 are no multiples of 16 from 32 on
// CHECK-LABEL: func.func @odd_head
// CHECK-NOT: compilation_info
func.func @odd_head(%q: tensor<32x512x72xf16>, %k: tensor<32x512x72xf16>, %v: tensor<32x512x72xf16>) -> tensor<32x512x72xf16> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<32x512x72xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<32x512x72xf16>, tensor<32x512x72xf16>, tensor<32x512x72xf16>, f32) outs(%out : tensor<32x512x72xf16>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<32x512x72xf16>
  return %r : tensor<32x512x72xf16>
}

// WHY: keeps IREE's own configuration: no tile's copies of head dims 144 and 144 divide among its threads
// CHECK-LABEL: func.func @nine_times_a_power_of_two
// CHECK-NOT: compilation_info
func.func @nine_times_a_power_of_two(%q: tensor<32x512x144xf16>, %k: tensor<32x512x144xf16>, %v: tensor<32x512x144xf16>) -> tensor<32x512x144xf16> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<32x512x144xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<32x512x144xf16>, tensor<32x512x144xf16>, tensor<32x512x144xf16>, f32) outs(%out : tensor<32x512x144xf16>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<32x512x144xf16>
  return %r : tensor<32x512x144xf16>
}

// WHY: keeps IREE's own configuration: 509 keys may leave a matrix instruction of 16 incomplete
// CHECK-LABEL: func.func @odd_keys
// CHECK-NOT: compilation_info
func.func @odd_keys(%q: tensor<32x512x64xf16>, %k: tensor<32x509x64xf16>, %v: tensor<32x509x64xf16>) -> tensor<32x512x64xf16> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<32x512x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<32x512x64xf16>, tensor<32x509x64xf16>, tensor<32x509x64xf16>, f32) outs(%out : tensor<32x512x64xf16>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<32x512x64xf16>
  return %r : tensor<32x512x64xf16>
}

// WHY: keeps IREE's own configuration: a number of keys known only at run time may leave a matrix instruction of 16 incomplete
// CHECK-LABEL: func.func @unknown_keys
// CHECK-NOT: compilation_info
func.func @unknown_keys(%q: tensor<32x512x64xf16>, %k: tensor<32x?x64xf16>, %v: tensor<32x?x64xf16>) -> tensor<32x512x64xf16> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<32x512x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<32x512x64xf16>, tensor<32x?x64xf16>, tensor<32x?x64xf16>, f32) outs(%out : tensor<32x512x64xf16>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<32x512x64xf16>
  return %r : tensor<32x512x64xf16>
}

// WHY: keeps IREE's own configuration: the query's innermost dim is a batch of a size known only at run time
// CHECK-LABEL: func.func @batch_last
// CHECK-NOT: compilation_info
func.func @batch_last(%q: tensor<512x64x?xf16>, %k: tensor<?x512x64xf16>, %v: tensor<?x512x64xf16>) -> tensor<?x512x64xf16> {
  %c0 = arith.constant 0 : index
  %b = tensor.dim %k, %c0 : tensor<?x512x64xf16>
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty(%b) : tensor<?x512x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [affine_map<(b, m, n, k1, k2) -> (m, k1, b)>, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<512x64x?xf16>, tensor<?x512x64xf16>, tensor<?x512x64xf16>, f32) outs(%out : tensor<?x512x64xf16>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<?x512x64xf16>
  return %r : tensor<?x512x64xf16>
}

// WHY: keeps IREE's own configuration: head dim 2048 is wider than any that was measured
// CHECK-LABEL: func.func @wide
// CHECK-NOT: compilation_info
func.func @wide(%q: tensor<32x512x2048xf16>, %k: tensor<32x512x2048xf16>, %v: tensor<32x512x2048xf16>) -> tensor<32x512x2048xf16> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<32x512x2048xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<32x512x2048xf16>, tensor<32x512x2048xf16>, tensor<32x512x2048xf16>, f32) outs(%out : tensor<32x512x2048xf16>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<32x512x2048xf16>
  return %r : tensor<32x512x2048xf16>
}

// WHY: keeps IREE's own configuration: 8 workgroups leave most of 108 compute units idle
// CHECK-LABEL: func.func @few
// CHECK-NOT: compilation_info
func.func @few(%q: tensor<2x512x64xf16>, %k: tensor<2x512x64xf16>, %v: tensor<2x512x64xf16>) -> tensor<2x512x64xf16> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x512x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x512x64xf16>, tensor<2x512x64xf16>, tensor<2x512x64xf16>, f32) outs(%out : tensor<2x512x64xf16>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x512x64xf16>
  return %r : tensor<2x512x64xf16>
}

// As few, of rows that fill none of IREE's tiles: it would take no matrix instructions.
// CHECK-LABEL: func.func @few_odd
// CHECK: compilation_info
func.func @few_odd(%q: tensor<2x100x64xf16>, %k: tensor<2x512x64xf16>, %v: tensor<2x512x64xf16>) -> tensor<2x100x64xf16> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x100x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x100x64xf16>, tensor<2x512x64xf16>, tensor<2x512x64xf16>, f32) outs(%out : tensor<2x100x64xf16>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x100x64xf16>
  return %r : tensor<2x100x64xf16>
}

// WHY: keeps IREE's own configuration: it has unit dims, which IREE folds
// CHECK-LABEL: func.func @unit_dim
// CHECK-NOT: compilation_info
func.func @unit_dim(%q: tensor<32x1x128xf16>, %k: tensor<32x4096x128xf16>, %v: tensor<32x4096x128xf16>) -> tensor<32x1x128xf16> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<32x1x128xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<32x1x128xf16>, tensor<32x4096x128xf16>, tensor<32x4096x128xf16>, f32) outs(%out : tensor<32x1x128xf16>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<32x1x128xf16>
  return %r : tensor<32x1x128xf16>
}
