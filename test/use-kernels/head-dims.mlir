// RUN: attn-opt %s --attn-use-kernels="target=sm_90 mode=always" --split-input-file --remarks > %t.mlir 2> %t.txt
// RUN: FileCheck %s < %t.mlir
// RUN: FileCheck %s --check-prefix=REMARK < %t.txt

// Head dims that are no powers of two.

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// Rows of 72 elements are nine units of 16 bytes: the kernel for 80 is told so, and fills them up.
// CHECK-LABEL: func.func @siglip(
// The distances of rows of Q, K, V and the result are as many.
// CHECK-COUNT-4: arith.index_cast %c9{{.*}} : index to i32
// CHECK: %[[COLUMNS:.*]] = arith.index_cast %c9{{.*}} : index to i32
// CHECK: hal.dispatch.extern "attention_f16_d80"[%c96, %c1]
// CHECK-SAME: %[[COLUMNS]], %{{[a-z0-9]+}}, %arg0, %arg1, %arg2) : (
// CHECK-NOT: iree_linalg_ext.attention
// REMARK: output kernel: attention_f16_d80: about
func.func @siglip(%q: tensor<16x729x72xf16>, %k: tensor<16x729x72xf16>, %v: tensor<16x729x72xf16>) -> tensor<16x729x72xf16> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<16x729x72xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<16x729x72xf16>, tensor<16x729x72xf16>, tensor<16x729x72xf16>, f32) outs(%e : tensor<16x729x72xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<16x729x72xf16>
  return %r : tensor<16x729x72xf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK-LABEL: func.func @sd1(
// CHECK: hal.dispatch.extern "attention_f16_d48_wide"
// REMARK: output kernel: attention_f16_d48_wide: about
func.func @sd1(%q: tensor<16x4096x40xf16>, %k: tensor<16x4096x40xf16>, %v: tensor<16x4096x40xf16>) -> tensor<16x4096x40xf16> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<16x4096x40xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<16x4096x40xf16>, tensor<16x4096x40xf16>, tensor<16x4096x40xf16>, f32) outs(%e : tensor<16x4096x40xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<16x4096x40xf16>
  return %r : tensor<16x4096x40xf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// V has another head dim than Q and K.
// CHECK-LABEL: func.func @deepseek(
// CHECK: hal.dispatch.extern "attention_bf16_d192x128"
// CHECK-SAME: -> (tensor<16x1024x128xbf16>, tensor<
// REMARK: output kernel: attention_bf16_d192x128: about
func.func @deepseek(%q: tensor<16x1024x192xbf16>, %k: tensor<16x1024x192xbf16>, %v: tensor<16x1024x128xbf16>) -> tensor<16x1024x128xbf16> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<16x1024x128xbf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<16x1024x192xbf16>, tensor<16x1024x192xbf16>, tensor<16x1024x128xbf16>, f32) outs(%e : tensor<16x1024x128xbf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<16x1024x128xbf16>
  return %r : tensor<16x1024x128xbf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#mask = affine_map<(b, m, n, k1, k2) -> (m, k2)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// Masks are for the kernels of 96, which take what is smaller.
// CHECK-LABEL: func.func @masked(
// CHECK: hal.dispatch.extern "attention_f16_d96_mask_i8_aligned"
// REMARK: output kernel: attention_f16_d96_mask_i8_aligned: about
func.func @masked(%q: tensor<16x1024x80xf16>, %k: tensor<16x1024x80xf16>, %v: tensor<16x1024x80xf16>, %mask: tensor<1024x1024xi1>) -> tensor<16x1024x80xf16> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<16x1024x80xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #mask, #o]> ins(%q, %k, %v, %scale, %mask : tensor<16x1024x80xf16>, tensor<16x1024x80xf16>, tensor<16x1024x80xf16>, f32, tensor<1024x1024xi1>) outs(%e : tensor<16x1024x80xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<16x1024x80xf16>
  return %r : tensor<16x1024x80xf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK-LABEL: func.func @misaligned(
// CHECK-NOT: hal.dispatch.extern
// REMARK: output refused: its head dims are 100 and 100; kernels for f16 have multiples of 8 up to 128, 192 with 128, 256
func.func @misaligned(%q: tensor<16x1024x100xf16>, %k: tensor<16x1024x100xf16>, %v: tensor<16x1024x100xf16>) -> tensor<16x1024x100xf16> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<16x1024x100xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<16x1024x100xf16>, tensor<16x1024x100xf16>, tensor<16x1024x100xf16>, f32) outs(%e : tensor<16x1024x100xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<16x1024x100xf16>
  return %r : tensor<16x1024x100xf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK-LABEL: func.func @capped(
// CHECK-NOT: hal.dispatch.extern
// REMARK: output refused: no kernel for f16 has its kind of mask and a soft-cap
func.func @capped(%q: tensor<16x1024x192xf16>, %k: tensor<16x1024x192xf16>, %v: tensor<16x1024x128xf16>) -> tensor<16x1024x128xf16> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<16x1024x128xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<16x1024x192xf16>, tensor<16x1024x192xf16>, tensor<16x1024x128xf16>, f32) outs(%e : tensor<16x1024x128xf16>) {
  ^bb0(%x: f32):
    %c = arith.constant 5.000000e+01 : f32
    %d = arith.divf %x, %c : f32
    %t = math.tanh %d : f32
    %y = arith.mulf %t, %c : f32
    iree_linalg_ext.yield %y : f32
  } -> tensor<16x1024x128xf16>
  return %r : tensor<16x1024x128xf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK-LABEL: func.func @step(
// CHECK: hal.dispatch.extern "cached_f16_d128_by
// REMARK: output kernel: cached_f16_d128_by
func.func @step(%q: tensor<16x1x96xf16>, %k: tensor<16x?x96xf16>, %v: tensor<16x?x96xf16>) -> tensor<16x1x96xf16> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<16x1x96xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<16x1x96xf16>, tensor<16x?x96xf16>, tensor<16x?x96xf16>, f32) outs(%e : tensor<16x1x96xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<16x1x96xf16>
  return %r : tensor<16x1x96xf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK-LABEL: func.func @wide_step(
// CHECK-NOT: hal.dispatch.extern
// REMARK: output refused: there is no decode kernel for head dims 192 and 128, and how many keys is not known
func.func @wide_step(%q: tensor<16x1x192xf16>, %k: tensor<16x?x192xf16>, %v: tensor<16x?x128xf16>) -> tensor<16x1x128xf16> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<16x1x128xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<16x1x192xf16>, tensor<16x?x192xf16>, tensor<16x?x128xf16>, f32) outs(%e : tensor<16x1x128xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<16x1x128xf16>
  return %r : tensor<16x1x128xf16>
}
