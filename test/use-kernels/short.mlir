// RUN: attn-opt %s --attn-use-kernels="target=sm_90" --split-input-file --remarks > %t.mlir 2> %t.txt
// RUN: FileCheck %s < %t.mlir
// RUN: FileCheck %s --check-prefix=REMARK < %t.txt

// Few rows over few keys: a workgroup computes 64 rows over all keys, without descriptors.

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// 4 blocks of 64 rows of each head, one wave of workgroups; there is no scratch memory.
// CHECK-LABEL: func.func @square(
// CHECK: hal.dispatch.extern "short_f16_d128"[%c4{{[_0-9]*}}, %c32{{[_0-9]*}}](
// CHECK-SAME: -> tensor<32x256x128xf16>
// REMARK: output kernel: short_f16_d128: about {{[0-9]+}} us instead of {{[0-9]+}}
func.func @square(%q: tensor<32x256x128xf16>, %k: tensor<32x256x128xf16>, %v: tensor<32x256x128xf16>) -> tensor<32x256x128xf16> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<32x256x128xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<32x256x128xf16>, tensor<32x256x128xf16>, tensor<32x256x128xf16>, f32) outs(%e : tensor<32x256x128xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<32x256x128xf16>
  return %r : tensor<32x256x128xf16>
}

// -----

#q = affine_map<(b, g, m, n, k1, k2) -> (b, g, m, k1)>
#k = affine_map<(b, g, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, g, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, g, m, n, k1, k2) -> ()>
#mask = affine_map<(b, g, m, n, k1, k2) -> (m, k2)>
#o = affine_map<(b, g, m, n, k1, k2) -> (b, g, m, n)>

// Three heads of 24 rows share K and V: 2 blocks. Which keys a row sees are limits of the kernel, and
// head dims are filled up.
// CHECK-LABEL: func.func @grouped(
// CHECK: hal.dispatch.extern "short_bf16_d96"[%c2{{[_0-9]*}}, %c8{{[_0-9]*}}](
// REMARK: output kernel: short_bf16_d96:
func.func @grouped(%q: tensor<8x3x24x80xbf16>, %k: tensor<8x300x80xbf16>, %v: tensor<8x300x80xbf16>) -> tensor<8x3x24x80xbf16> {
  %scale = arith.constant 0.125 : f32
  %blank = tensor.empty() : tensor<24x300xi1>
  %seen = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} outs(%blank : tensor<24x300xi1>) {
  ^bb0(%out: i1):
    %i = linalg.index 0 : index
    %c200 = arith.constant 200 : index
    %last = arith.addi %i, %c200 : index
    %j = linalg.index 1 : index
    %sees = arith.cmpi sge, %last, %j : index
    linalg.yield %sees : i1
  } -> tensor<24x300xi1>
  %e = tensor.empty() : tensor<8x3x24x80xbf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #mask, #o]> ins(%q, %k, %v, %scale, %seen : tensor<8x3x24x80xbf16>, tensor<8x300x80xbf16>, tensor<8x300x80xbf16>, f32, tensor<24x300xi1>) outs(%e : tensor<8x3x24x80xbf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<8x3x24x80xbf16>
  return %r : tensor<8x3x24x80xbf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// A workgroup would read all keys, of which there may be many.
// CHECK-LABEL: func.func @unknown(
// CHECK-NOT: "short_
// REMARK: output kernel: {{(decode|divided)}}_f16_d128
func.func @unknown(%q: tensor<32x32x128xf16>, %k: tensor<32x?x128xf16>, %v: tensor<32x?x128xf16>) -> tensor<32x32x128xf16> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<32x32x128xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<32x32x128xf16>, tensor<32x?x128xf16>, tensor<32x?x128xf16>, f32) outs(%e : tensor<32x32x128xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<32x32x128xf16>
  return %r : tensor<32x32x128xf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// Two waves of workgroups take longer than one of 128 rows each, of which there are 128.
// CHECK-LABEL: func.func @waves(
// CHECK: hal.dispatch.extern "blocks_f16_d128"[%c128{{[_0-9]*}}, %c1{{[_0-9]*}}](
// REMARK: output kernel: blocks_f16_d128:
func.func @waves(%q: tensor<32x512x128xf16>, %k: tensor<32x512x128xf16>, %v: tensor<32x512x128xf16>) -> tensor<32x512x128xf16> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<32x512x128xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<32x512x128xf16>, tensor<32x512x128xf16>, tensor<32x512x128xf16>, f32) outs(%e : tensor<32x512x128xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<32x512x128xf16>
  return %r : tensor<32x512x128xf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// 257 rows are five blocks of 64, of which two run at once on each of 132 multiprocessors.
// CHECK-LABEL: func.func @vision(
// CHECK: hal.dispatch.extern "blocks_f16_d80"[%c264{{[_0-9]*}}, %c1{{[_0-9]*}}](
// REMARK: output kernel: blocks_f16_d80:
func.func @vision(%q: tensor<256x257x80xf16>, %k: tensor<256x257x80xf16>, %v: tensor<256x257x80xf16>) -> tensor<256x257x80xf16> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<256x257x80xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<256x257x80xf16>, tensor<256x257x80xf16>, tensor<256x257x80xf16>, f32) outs(%e : tensor<256x257x80xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<256x257x80xf16>
  return %r : tensor<256x257x80xf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// Many keys: prefill kernels are faster.
// CHECK-LABEL: func.func @many(
// CHECK-NOT: "blocks_
// REMARK: output kernel: attention_f16_d128:
func.func @many(%q: tensor<32x1024x128xf16>, %k: tensor<32x1024x128xf16>, %v: tensor<32x1024x128xf16>) -> tensor<32x1024x128xf16> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<32x1024x128xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<32x1024x128xf16>, tensor<32x1024x128xf16>, tensor<32x1024x128xf16>, f32) outs(%e : tensor<32x1024x128xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<32x1024x128xf16>
  return %r : tensor<32x1024x128xf16>
}

// -----

#q = affine_map<(b, h, m, n, k1, k2) -> (b, h, m, k1)>
#k = affine_map<(b, h, m, n, k1, k2) -> (b, h, k2, k1)>
#v = affine_map<(b, h, m, n, k1, k2) -> (b, h, k2, n)>
#s = affine_map<(b, h, m, n, k1, k2) -> ()>
#o = affine_map<(b, h, m, n, k1, k2) -> (b, h, m, n)>

// How many sequences of 16 heads there are is unknown: the kernel is that for many rows, which some
// sequences are.
// CHECK-LABEL: func.func @sequences(
// CHECK: hal.dispatch.extern "attention_f16_d64{{(_wide)?}}"
// REMARK: output kernel: attention_f16_d64
func.func @sequences(%q: tensor<?x16x577x64xf16>, %k: tensor<?x16x577x64xf16>, %v: tensor<?x16x577x64xf16>) -> tensor<?x16x577x64xf16> {
  %c0 = arith.constant 0 : index
  %scale = arith.constant 0.125 : f32
  %count = tensor.dim %q, %c0 : tensor<?x16x577x64xf16>
  %e = tensor.empty(%count) : tensor<?x16x577x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<?x16x577x64xf16>, tensor<?x16x577x64xf16>, tensor<?x16x577x64xf16>, f32) outs(%e : tensor<?x16x577x64xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<?x16x577x64xf16>
  return %r : tensor<?x16x577x64xf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// The same, sequences and heads as one dim: a view says how many heads there are.
// CHECK-LABEL: func.func @joined(
// CHECK: hal.dispatch.extern "attention_f16_d64{{(_wide)?}}"
func.func @joined(%q: tensor<?x16x577x64xf16>, %k: tensor<?x16x577x64xf16>, %v: tensor<?x16x577x64xf16>) -> tensor<?x577x64xf16> {
  %c0 = arith.constant 0 : index
  %scale = arith.constant 0.125 : f32
  %qs = tensor.collapse_shape %q [[0, 1], [2], [3]] : tensor<?x16x577x64xf16> into tensor<?x577x64xf16>
  %ks = tensor.collapse_shape %k [[0, 1], [2], [3]] : tensor<?x16x577x64xf16> into tensor<?x577x64xf16>
  %vs = tensor.collapse_shape %v [[0, 1], [2], [3]] : tensor<?x16x577x64xf16> into tensor<?x577x64xf16>
  %count = tensor.dim %qs, %c0 : tensor<?x577x64xf16>
  %e = tensor.empty(%count) : tensor<?x577x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%qs, %ks, %vs, %scale : tensor<?x577x64xf16>, tensor<?x577x64xf16>, tensor<?x577x64xf16>, f32) outs(%e : tensor<?x577x64xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<?x577x64xf16>
  return %r : tensor<?x577x64xf16>
}
