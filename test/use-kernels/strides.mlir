// Kernels read Q, K and V where they lie, and write the result as its reader wants it; what strides
// do not say is copied as before.
//
// RUN: attn-opt %s "--attn-use-kernels=target=sm_90 mode=always kernel=attention_*" --report=%t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=TOLD < %t.txt

// TOLD: attention_f16_d64:{{.*}}; the result is written as its reader wants it; read where it lies: query, key, value, copies of slices would take {{[0-9]+}} us
// TOLD: copied, as strides do not say where its rows lie: key
#q = affine_map<(b, h, m, n, k1, k2) -> (b, h, m, k1)>
#k = affine_map<(b, h, m, n, k1, k2) -> (b, h, k2, k1)>
#v = affine_map<(b, h, m, n, k1, k2) -> (b, h, k2, n)>
#s = affine_map<(b, h, m, n, k1, k2) -> ()>
#o = affine_map<(b, h, m, n, k1, k2) -> (b, h, m, n)>

// CHECK-LABEL: func.func @packed(
// CHECK-SAME: %[[ALL:[a-z0-9]+]]: tensor<2x512x3x4x64xf16>
// CHECK-NOT: linalg.transpose
// CHECK: hal.dispatch.extern "attention_f16_d64"{{.*}}%[[ALL]], %[[ALL]], %[[ALL]])
// CHECK-SAME: -> (tensor<2x512x4x64xf16>,
// CHECK-NOT: linalg.transpose
// CHECK: return
func.func @packed(%all: tensor<2x512x3x4x64xf16>) -> tensor<2x512x4x64xf16> {
  %sq = tensor.extract_slice %all[0, 0, 0, 0, 0] [2, 512, 1, 4, 64] [1, 1, 1, 1, 1] : tensor<2x512x3x4x64xf16> to tensor<2x512x4x64xf16>
  %eq = tensor.empty() : tensor<2x4x512x64xf16>
  %q = linalg.transpose ins(%sq : tensor<2x512x4x64xf16>) outs(%eq : tensor<2x4x512x64xf16>) permutation = [0, 2, 1, 3]
  %sk = tensor.extract_slice %all[0, 0, 1, 0, 0] [2, 512, 1, 4, 64] [1, 1, 1, 1, 1] : tensor<2x512x3x4x64xf16> to tensor<2x512x4x64xf16>
  %ek = tensor.empty() : tensor<2x4x512x64xf16>
  %k = linalg.transpose ins(%sk : tensor<2x512x4x64xf16>) outs(%ek : tensor<2x4x512x64xf16>) permutation = [0, 2, 1, 3]
  %sv = tensor.extract_slice %all[0, 0, 2, 0, 0] [2, 512, 1, 4, 64] [1, 1, 1, 1, 1] : tensor<2x512x3x4x64xf16> to tensor<2x512x4x64xf16>
  %ev = tensor.empty() : tensor<2x4x512x64xf16>
  %v = linalg.transpose ins(%sv : tensor<2x512x4x64xf16>) outs(%ev : tensor<2x4x512x64xf16>) permutation = [0, 2, 1, 3]
  %scale = arith.constant 0.125 : f32
  %space = tensor.empty() : tensor<2x4x512x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x4x512x64xf16>, tensor<2x4x512x64xf16>, tensor<2x4x512x64xf16>, f32) outs(%space : tensor<2x4x512x64xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x4x512x64xf16>
  %er = tensor.empty() : tensor<2x512x4x64xf16>
  %back = linalg.transpose ins(%r : tensor<2x4x512x64xf16>) outs(%er : tensor<2x512x4x64xf16>) permutation = [0, 2, 1, 3]
  return %back : tensor<2x512x4x64xf16>
}

// The elements of a key do not stand side by side.
//
// CHECK-LABEL: func.func @copied(
// CHECK: linalg.transpose
// CHECK: hal.dispatch.extern "attention_f16_d64"
func.func @copied(%q: tensor<2x4x512x64xf16>, %turned: tensor<2x4x64x512xf16>, %v: tensor<2x4x512x64xf16>) -> tensor<2x4x512x64xf16> {
  %ek = tensor.empty() : tensor<2x4x512x64xf16>
  %k = linalg.transpose ins(%turned : tensor<2x4x64x512xf16>) outs(%ek : tensor<2x4x512x64xf16>) permutation = [0, 1, 3, 2]
  %scale = arith.constant 0.125 : f32
  %space = tensor.empty() : tensor<2x4x512x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x4x512x64xf16>, tensor<2x4x512x64xf16>, tensor<2x4x512x64xf16>, f32) outs(%space : tensor<2x4x512x64xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x4x512x64xf16>
  return %r : tensor<2x4x512x64xf16>
}

// The sizes of what is read may be asked for, too. With an unknown number of heads no wave of
// workgroups is taken to be cut off: blocks of 128 of 577 rows leave fewer empty than those of 256.
//
// CHECK-LABEL: func.func @unknown(
// CHECK: hal.dispatch.extern "attention_f16_d64"
// CHECK-SAME: -> (tensor<?x577x16x64xf16>{{{%[a-z0-9_]+}}},
// CHECK-NOT: linalg.transpose
// CHECK: return
#hq = affine_map<(h, m, n, k1, k2) -> (h, m, k1)>
#hk = affine_map<(h, m, n, k1, k2) -> (h, k2, k1)>
#hv = affine_map<(h, m, n, k1, k2) -> (h, k2, n)>
#hs = affine_map<(h, m, n, k1, k2) -> ()>
#ho = affine_map<(h, m, n, k1, k2) -> (h, m, n)>
func.func @unknown(%q: tensor<?x577x64xf16>, %k: tensor<?x577x64xf16>, %v: tensor<?x577x64xf16>) -> tensor<?x577x16x64xf16> {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %heads = tensor.dim %q, %c0 : tensor<?x577x64xf16>
  %scale = arith.constant 0.125 : f32
  %space = tensor.empty(%heads) : tensor<?x577x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#hq, #hk, #hv, #hs, #ho]>
      ins(%q, %k, %v, %scale : tensor<?x577x64xf16>, tensor<?x577x64xf16>, tensor<?x577x64xf16>, f32) outs(%space : tensor<?x577x64xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<?x577x64xf16>
  %images = arith.divsi %heads, %c16 : index
  %apart = tensor.expand_shape %r [[0, 1], [2], [3]] output_shape [%images, 16, 577, 64] : tensor<?x577x64xf16> into tensor<?x16x577x64xf16>
  %asked = tensor.dim %apart, %c0 : tensor<?x16x577x64xf16>
  %er = tensor.empty(%asked) : tensor<?x577x16x64xf16>
  %back = linalg.transpose ins(%apart : tensor<?x16x577x64xf16>) outs(%er : tensor<?x577x16x64xf16>) permutation = [0, 2, 1, 3]
  return %back : tensor<?x577x16x64xf16>
}

// Groups of heads of an unknown batch, joined with it: how many a sequence has is a factor of both.
//
// CHECK-LABEL: func.func @grouped(
// CHECK-SAME: %{{[a-z0-9]+}}: tensor<?x8x?x64xf16>, %{{[a-z0-9]+}}: tensor<?x2x?x64xf16>, %[[V:[a-z0-9]+]]: tensor<?x?x2x64xf16>
// CHECK-NOT: linalg.transpose
// CHECK: hal.dispatch.extern "attention_f16_d64_wide"{{.*}}%[[V]])
// CHECK-SAME: -> (tensor<?x?x8x64xf16>
// CHECK-NOT: linalg.transpose
// CHECK: return
#gq = affine_map<(b, g, m, n, k1, k2) -> (b, g, m, k1)>
#gk = affine_map<(b, g, m, n, k1, k2) -> (b, k2, k1)>
#gv = affine_map<(b, g, m, n, k1, k2) -> (b, k2, n)>
#gs = affine_map<(b, g, m, n, k1, k2) -> ()>
#go = affine_map<(b, g, m, n, k1, k2) -> (b, g, m, n)>
func.func @grouped(%q: tensor<?x8x?x64xf16>, %k: tensor<?x2x?x64xf16>, %given: tensor<?x?x2x64xf16>, %b: index, %l: index) -> tensor<?x?x8x64xf16> {
  %c2 = arith.constant 2 : index
  %ev = tensor.empty(%b, %l) : tensor<?x2x?x64xf16>
  %v = linalg.transpose ins(%given : tensor<?x?x2x64xf16>) outs(%ev : tensor<?x2x?x64xf16>) permutation = [0, 2, 1, 3]
  %heads = arith.muli %c2, %b : index
  %jq = tensor.collapse_shape %q [[0, 1], [2], [3]] : tensor<?x8x?x64xf16> into tensor<?x?x64xf16>
  %gq = tensor.expand_shape %jq [[0, 1], [2], [3]] output_shape [%heads, 4, %l, 64] : tensor<?x?x64xf16> into tensor<?x4x?x64xf16>
  %jk = tensor.collapse_shape %k [[0, 1], [2], [3]] : tensor<?x2x?x64xf16> into tensor<?x?x64xf16>
  %jv = tensor.collapse_shape %v [[0, 1], [2], [3]] : tensor<?x2x?x64xf16> into tensor<?x?x64xf16>
  %scale = arith.constant 0.125 : f32
  %space = tensor.empty(%heads, %l) : tensor<?x4x?x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#gq, #gk, #gv, #gs, #go]>
      ins(%gq, %jk, %jv, %scale : tensor<?x4x?x64xf16>, tensor<?x?x64xf16>, tensor<?x?x64xf16>, f32) outs(%space : tensor<?x4x?x64xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<?x4x?x64xf16>
  %jr = tensor.collapse_shape %r [[0, 1], [2], [3]] : tensor<?x4x?x64xf16> into tensor<?x?x64xf16>
  %apart = tensor.expand_shape %jr [[0, 1], [2], [3]] output_shape [%b, 8, %l, 64] : tensor<?x?x64xf16> into tensor<?x8x?x64xf16>
  %er = tensor.empty(%b, %l) : tensor<?x?x8x64xf16>
  %back = linalg.transpose ins(%apart : tensor<?x8x?x64xf16>) outs(%er : tensor<?x?x8x64xf16>) permutation = [0, 2, 1, 3]
  return %back : tensor<?x?x8x64xf16>
}

// Batches and heads are one dim in between, and the size of batches is said in other words behind it.
//
// CHECK-LABEL: func.func @joined_between(
// CHECK: hal.dispatch.extern "attention_f16_d64_wide"
// CHECK-SAME: -> (tensor<?x?x4x64xf16>
// CHECK-NOT: linalg.transpose
// CHECK: return
func.func @joined_between(%q: tensor<?x4x?x64xf16>, %k: tensor<?x4x?x64xf16>, %v: tensor<?x4x?x64xf16>) -> tensor<?x?x4x64xf16> {
  %scale = arith.constant 0.125 : f32
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %c4 = arith.constant 4 : index
  %b = tensor.dim %q, %c0 : tensor<?x4x?x64xf16>
  %m = tensor.dim %q, %c2 : tensor<?x4x?x64xf16>
  %space = tensor.empty(%b, %m) : tensor<?x4x?x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<?x4x?x64xf16>, tensor<?x4x?x64xf16>, tensor<?x4x?x64xf16>, f32) outs(%space : tensor<?x4x?x64xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<?x4x?x64xf16>
  %j = tensor.collapse_shape %r [[0, 1], [2], [3]] : tensor<?x4x?x64xf16> into tensor<?x?x64xf16>
  %all = affine.apply affine_map<()[s0] -> (s0 * 4)>()[%b]
  %again = arith.divsi %all, %c4 : index
  %x = tensor.expand_shape %j [[0, 1], [2], [3]] output_shape [%again, 4, %m, 64] : tensor<?x?x64xf16> into tensor<?x4x?x64xf16>
  %er = tensor.empty(%again, %m) : tensor<?x?x4x64xf16>
  %back = linalg.transpose ins(%x : tensor<?x4x?x64xf16>) outs(%er : tensor<?x?x4x64xf16>) permutation = [0, 2, 1, 3]
  return %back : tensor<?x?x4x64xf16>
}
