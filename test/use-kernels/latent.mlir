// RUN: attn-opt %s --attn-use-kernels="target=sm_90 mode=always" --split-input-file --remarks > %t.mlir 2> %t.txt
// RUN: FileCheck %s < %t.mlir
// RUN: FileCheck %s --check-prefix=REMARK < %t.txt

// DeepSeek's decode, absorbed: V is the first 512 columns of K, and one cache is read for both.

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// Heads are rows: 128 are 2 blocks, for which 64 pieces of 2048 tiles have 32 each.
// CHECK-LABEL: func.func @rows(
// CHECK-SAME: %[[Q:[a-z0-9]+]]: tensor<16x128x576xbf16>, %[[C:[a-z0-9]+]]: tensor<16x8192x576xbf16>
// CHECK-NOT: tensor.extract_slice
// CHECK: %[[PARTS:.*]]:3 = hal.dispatch.extern "latent_bf16_d576x512"[%c64
// CHECK-SAME: %[[Q]], %[[C]], %[[C]])
// CHECK-SAME: -> (tensor<16x5x128x512xf32>, tensor<16x5x2x128xf32>, tensor<65536xi8>)
// CHECK: hal.dispatch.extern "combine_bf16_d512"
// CHECK-SAME: %[[PARTS]]#0, %[[PARTS]]#1
// CHECK-SAME: -> tensor<16x128x512xbf16>
// REMARK: output kernel: latent_bf16_d576x512: about
func.func @rows(%q: tensor<16x128x576xbf16>, %c: tensor<16x8192x576xbf16>) -> tensor<16x128x512xbf16> {
  %scale = arith.constant 0.07 : f32
  %v = tensor.extract_slice %c[0, 0, 0] [16, 8192, 512] [1, 1, 1] : tensor<16x8192x576xbf16> to tensor<16x8192x512xbf16>
  %e = tensor.empty() : tensor<16x128x512xbf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %c, %v, %scale : tensor<16x128x576xbf16>, tensor<16x8192x576xbf16>, tensor<16x8192x512xbf16>, f32) outs(%e : tensor<16x128x512xbf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<16x128x512xbf16>
  return %r : tensor<16x128x512xbf16>
}

// One sequence has 32 pieces of four tiles.
// CHECK-LABEL: func.func @one(
// CHECK: hal.dispatch.extern "latent_bf16_d576x512"[%c32
// CHECK-SAME: -> (tensor<1x33x128x512xf32>, tensor<1x33x2x128xf32>, tensor<32768xi8>)
// CHECK: hal.dispatch.extern "combine_bf16_d512"
func.func @one(%q: tensor<1x128x576xbf16>, %c: tensor<1x8192x576xbf16>) -> tensor<1x128x512xbf16> {
  %scale = arith.constant 0.07 : f32
  %v = tensor.extract_slice %c[0, 0, 0] [1, 8192, 512] [1, 1, 1] : tensor<1x8192x576xbf16> to tensor<1x8192x512xbf16>
  %e = tensor.empty() : tensor<1x128x512xbf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %c, %v, %scale : tensor<1x128x576xbf16>, tensor<1x8192x576xbf16>, tensor<1x8192x512xbf16>, f32) outs(%e : tensor<1x128x512xbf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<1x128x512xbf16>
  return %r : tensor<1x128x512xbf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
#in = affine_map<(b, h, t, d) -> (b, t, d)>
#all = affine_map<(b, h, t, d) -> (b, h, t, d)>

// The cache's first keys, repeated for 16 heads, of which two new tokens see one more each; the
// cache has a head dim of size one.
// CHECK-LABEL: func.func @repeated(
// CHECK-SAME: %[[Q:[a-z0-9]+]]: tensor<64x2x576xf16>, %[[C:[a-z0-9]+]]: tensor<4x1x4096x576xf16>
// CHECK: hal.dispatch.extern "latent_f16_d576x512"
// CHECK-SAME: %[[Q]], %[[C]], %[[C]])
// CHECK: hal.dispatch.extern "combine_f16_d512"
// REMARK: output kernel: latent_f16_d576x512: {{.*}}; K and V are read without their 16-fold repeat
func.func @repeated(%q: tensor<64x2x576xf16>, %c: tensor<4x1x4096x576xf16>) -> tensor<64x2x512xf16> {
  %scale = arith.constant 0.07 : f32
  %c998 = arith.constant 998 : index
  %k0 = tensor.extract_slice %c[0, 0, 0, 0] [4, 1, 1000, 576] [1, 1, 1, 1] : tensor<4x1x4096x576xf16> to tensor<4x1x1000x576xf16>
  %k1 = tensor.collapse_shape %k0 [[0, 1], [2], [3]] : tensor<4x1x1000x576xf16> into tensor<4x1000x576xf16>
  %ek = tensor.empty() : tensor<4x16x1000x576xf16>
  %k2 = linalg.generic {indexing_maps = [#in, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%k1 : tensor<4x1000x576xf16>) outs(%ek : tensor<4x16x1000x576xf16>) {
  ^bb0(%x: f16, %y: f16):
    linalg.yield %x : f16
  } -> tensor<4x16x1000x576xf16>
  %k = tensor.collapse_shape %k2 [[0, 1], [2], [3]] : tensor<4x16x1000x576xf16> into tensor<64x1000x576xf16>
  %v0 = tensor.extract_slice %k0[0, 0, 0, 0] [4, 1, 1000, 512] [1, 1, 1, 1] : tensor<4x1x1000x576xf16> to tensor<4x1x1000x512xf16>
  %v1 = tensor.collapse_shape %v0 [[0, 1], [2], [3]] : tensor<4x1x1000x512xf16> into tensor<4x1000x512xf16>
  %ev = tensor.empty() : tensor<4x16x1000x512xf16>
  %v2 = linalg.generic {indexing_maps = [#in, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%v1 : tensor<4x1000x512xf16>) outs(%ev : tensor<4x16x1000x512xf16>) {
  ^bb0(%x: f16, %y: f16):
    linalg.yield %x : f16
  } -> tensor<4x16x1000x512xf16>
  %v = tensor.collapse_shape %v2 [[0, 1], [2], [3]] : tensor<4x16x1000x512xf16> into tensor<64x1000x512xf16>
  %e = tensor.empty() : tensor<64x2x512xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<64x2x576xf16>, tensor<64x1000x576xf16>, tensor<64x1000x512xf16>, f32) outs(%e : tensor<64x2x512xf16>) {
  ^bb0(%x: f32):
    %i = iree_linalg_ext.index 1 : index
    %j = iree_linalg_ext.index 4 : index
    %last = arith.addi %i, %c998 : index
    %seen = arith.cmpi sge, %last, %j : index
    %low = arith.constant 0xFF800000 : f32
    %y = arith.select %seen, %x, %low : f32
    iree_linalg_ext.yield %y : f32
  } -> tensor<64x2x512xf16>
  return %r : tensor<64x2x512xf16>
}

// -----

#q = affine_map<(b, h, m, n, k1, k2) -> (b, h, m, k1)>
#k = affine_map<(b, h, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, h, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, h, m, n, k1, k2) -> ()>
#b = affine_map<(b, h, m, n, k1, k2) -> (b, k2)>
#o = affine_map<(b, h, m, n, k1, k2) -> (b, h, m, n)>

// Latents and rotated keys in caches of their own, joined for K: both are read where they lie. The
// number of keys is known at run time, as a mask says which of them there are.
// CHECK-LABEL: func.func @joined(
// CHECK-SAME: %[[Q:[a-z0-9]+]]: tensor<3x128x1x576xbf16>, %[[C:[a-z0-9]+]]: tensor<3x?x512xbf16>, %[[P:[a-z0-9]+]]: tensor<3x?x64xbf16>
// CHECK-NOT: tensor.concat
// CHECK: hal.dispatch.extern "latent_bf16_d576x512_mask_i8"
// CHECK-SAME: %[[Q]], %[[C]], %[[P]], %
// REMARK: output kernel: latent_bf16_d576x512_mask_i8
func.func @joined(%q: tensor<3x128x1x576xbf16>, %c: tensor<3x?x512xbf16>, %p: tensor<3x?x64xbf16>, %seen: tensor<3x?xi1>) -> tensor<3x128x1x512xbf16> {
  %scale = arith.constant 0.07 : f32
  %k = tensor.concat dim(2) %c, %p : (tensor<3x?x512xbf16>, tensor<3x?x64xbf16>) -> tensor<3x?x576xbf16>
  %e = tensor.empty() : tensor<3x128x1x512xbf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #b, #o]> ins(%q, %k, %c, %scale, %seen : tensor<3x128x1x576xbf16>, tensor<3x?x576xbf16>, tensor<3x?x512xbf16>, f32, tensor<3x?xi1>) outs(%e : tensor<3x128x1x512xbf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<3x128x1x512xbf16>
  return %r : tensor<3x128x1x512xbf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// How many sequences there are is known at run time: the slice has as many as Q, and K's.
// CHECK-LABEL: func.func @dynamic(
// CHECK-SAME: %[[Q:[a-z0-9]+]]: tensor<?x16x576xf16>, %[[C:[a-z0-9]+]]: tensor<?x?x576xf16>
// CHECK: hal.dispatch.extern "latent_f16_d576x512"
// CHECK-SAME: %[[Q]], %[[C]], %[[C]])
// REMARK: output kernel: latent_f16_d576x512
func.func @dynamic(%q: tensor<?x16x576xf16>, %c: tensor<?x?x576xf16>) -> tensor<?x16x512xf16> {
  %scale = arith.constant 0.07 : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %b = tensor.dim %q, %c0 : tensor<?x16x576xf16>
  %n = tensor.dim %c, %c1 : tensor<?x?x576xf16>
  %v = tensor.extract_slice %c[0, 0, 0] [%b, %n, 512] [1, 1, 1] : tensor<?x?x576xf16> to tensor<?x?x512xf16>
  %e = tensor.empty(%b) : tensor<?x16x512xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %c, %v, %scale : tensor<?x16x576xf16>, tensor<?x?x576xf16>, tensor<?x?x512xf16>, f32) outs(%e : tensor<?x16x512xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<?x16x512xf16>
  return %r : tensor<?x16x512xf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// The last 512 columns are no V of the kernel's.
// CHECK-LABEL: func.func @last(
// CHECK: iree_linalg_ext.attention
// REMARK: output refused: V is not known to be the first 512 columns of K: kernels for head dims 576 and 512 read one cache for both
func.func @last(%q: tensor<2x16x576xf16>, %c: tensor<2x256x576xf16>) -> tensor<2x16x512xf16> {
  %scale = arith.constant 0.07 : f32
  %v = tensor.extract_slice %c[0, 0, 64] [2, 256, 512] [1, 1, 1] : tensor<2x256x576xf16> to tensor<2x256x512xf16>
  %e = tensor.empty() : tensor<2x16x512xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %c, %v, %scale : tensor<2x16x576xf16>, tensor<2x256x576xf16>, tensor<2x256x512xf16>, f32) outs(%e : tensor<2x16x512xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x16x512xf16>
  return %r : tensor<2x16x512xf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// V of another cache, and of other keys of the same.
// CHECK-LABEL: func.func @other(
// CHECK-COUNT-2: iree_linalg_ext.attention
// REMARK-COUNT-2: output refused: V is not known to be the first 512 columns of K
func.func @other(%q: tensor<2x16x576xf16>, %c: tensor<2x256x576xf16>, %d: tensor<2x256x512xf16>) -> (tensor<2x16x512xf16>, tensor<2x16x512xf16>) {
  %scale = arith.constant 0.07 : f32
  %e = tensor.empty() : tensor<2x16x512xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %c, %d, %scale : tensor<2x16x576xf16>, tensor<2x256x576xf16>, tensor<2x256x512xf16>, f32) outs(%e : tensor<2x16x512xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x16x512xf16>
  %k = tensor.extract_slice %c[0, 0, 0] [2, 128, 576] [1, 1, 1] : tensor<2x256x576xf16> to tensor<2x128x576xf16>
  %v = tensor.extract_slice %c[0, 128, 0] [2, 128, 512] [1, 1, 1] : tensor<2x256x576xf16> to tensor<2x128x512xf16>
  %r2 = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<2x16x576xf16>, tensor<2x128x576xf16>, tensor<2x128x512xf16>, f32) outs(%e : tensor<2x16x512xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x16x512xf16>
  return %r, %r2 : tensor<2x16x512xf16>, tensor<2x16x512xf16>
}
