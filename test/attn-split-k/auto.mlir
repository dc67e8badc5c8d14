// RUN: attn-opt %s --attn-split-k=target=sm_90 --split-input-file --remarks > %t.mlir 2> %t.txt
// RUN: FileCheck %s < %t.mlir
// RUN: FileCheck %s --check-prefix=REMARK < %t.txt
// RUN: attn-opt %s --attn-split-k,attn-split-k --target=sm_90 --split-input-file | FileCheck %s
// RUN: not attn-opt %s --attn-split-k=splits=0 2>&1 | FileCheck %s --check-prefix=BAD

// The formula of `auto`, on a machine with 132 compute units. Twice is the same as once.

// BAD: error: pass 'attn-split-k': '0' is not a value of option 'splits' (use auto or a whole number from 1 on)

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK-LABEL: func.func @full(
// CHECK: iree_linalg_ext.attention
// CHECK-NOT: online_attention
// REMARK: key kept: 1024 batch x heads fill cuda sm_90 with 132 compute units without a split
func.func @full(%q: tensor<1024x1x64xf32>, %k: tensor<1024x65536x64xf32>, %v: tensor<1024x65536x64xf32>) -> tensor<1024x1x64xf32> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<1024x1x64xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<1024x1x64xf32>, tensor<1024x65536x64xf32>, tensor<1024x65536x64xf32>, f32) outs(%e : tensor<1024x1x64xf32>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<1024x1x64xf32>
  return %r : tensor<1024x1x64xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK-LABEL: func.func @short(
// CHECK: iree_linalg_ext.attention
// CHECK-NOT: online_attention
// REMARK: key kept: 511 keys are fewer than two chunks of 256
func.func @short(%q: tensor<8x1x64xf32>, %k: tensor<8x511x64xf32>, %v: tensor<8x511x64xf32>) -> tensor<8x1x64xf32> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<8x1x64xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<8x1x64xf32>, tensor<8x511x64xf32>, tensor<8x511x64xf32>, f32) outs(%e : tensor<8x1x64xf32>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<8x1x64xf32>
  return %r : tensor<8x1x64xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK-LABEL: func.func @exact(
// CHECK: iree_linalg_ext.online_attention
// CHECK: return
// REMARK: key split: 16 chunks of 1024 keys (64 batch x heads on cuda sm_90 with 132 compute units)
func.func @exact(%q: tensor<64x1x64xf32>, %k: tensor<64x16384x64xf32>, %v: tensor<64x16384x64xf32>) -> tensor<64x1x64xf32> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<64x1x64xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<64x1x64xf32>, tensor<64x16384x64xf32>, tensor<64x16384x64xf32>, f32) outs(%e : tensor<64x1x64xf32>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<64x1x64xf32>
  return %r : tensor<64x1x64xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK-LABEL: func.func @tail(
// CHECK: iree_linalg_ext.online_attention
// CHECK: return
// REMARK: key split: 4 chunks of 1024 keys, and a tail of 100 (256 batch x heads on cuda sm_90 with 132 compute units)
func.func @tail(%q: tensor<256x1x64xf32>, %k: tensor<256x4196x64xf32>, %v: tensor<256x4196x64xf32>) -> tensor<256x1x64xf32> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<256x1x64xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<256x1x64xf32>, tensor<256x4196x64xf32>, tensor<256x4196x64xf32>, f32) outs(%e : tensor<256x1x64xf32>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<256x1x64xf32>
  return %r : tensor<256x1x64xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK-LABEL: func.func @most(
// CHECK: iree_linalg_ext.online_attention
// CHECK: return
// REMARK: key split: 64 chunks of 1024 keys (8 batch x heads on cuda sm_90 with 132 compute units)
func.func @most(%q: tensor<8x1x64xf32>, %k: tensor<8x65536x64xf32>, %v: tensor<8x65536x64xf32>) -> tensor<8x1x64xf32> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<8x1x64xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<8x1x64xf32>, tensor<8x65536x64xf32>, tensor<8x65536x64xf32>, f32) outs(%e : tensor<8x1x64xf32>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<8x1x64xf32>
  return %r : tensor<8x1x64xf32>
}
