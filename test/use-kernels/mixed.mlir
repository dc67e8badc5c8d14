// RUN: attn-opt %s --attn-use-kernels="target=sm_90" --split-input-file --remarks > %t.mlir 2> %t.txt
// RUN: FileCheck %s < %t.mlir
// RUN: FileCheck %s --check-prefix=REMARK < %t.txt

// Q and K of 8 bits before V of 16: kernels that multiply each as it is.

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#vt = affine_map<(b, m, n, k1, k2) -> (b, n, k2)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#mask = affine_map<(b, m, n, k1, k2) -> (m, k2)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// The scale of both operands together is the one of attention, and may be known at run time only:
// kernels get it without its sign, which goes to the query.
// CHECK-LABEL: func.func @row_major(
// CHECK-SAME: %[[Q:[a-z0-9]+]]: tensor<32x4096x128xf8E4M3FN>, %[[K:[a-z0-9]+]]: tensor<32x4096x128xf8E4M3FN>, %[[V:[a-z0-9]+]]: tensor<32x4096x128xf16>, %[[S:[a-z0-9]+]]: f32
// CHECK-NOT: arith.extf
// CHECK: %[[SIGNED:.+]] = scf.if
// CHECK: else
// CHECK-NEXT: scf.yield %[[Q]]
// CHECK: %[[POSITIVE:.+]] = math.absf %[[S]]
// CHECK: %[[NUMBER:.+]] = arith.maximumf %[[POSITIVE]]
// CHECK: %[[BITS:.+]] = arith.bitcast %[[NUMBER]] : f32 to i32
// CHECK: hal.dispatch.extern "attention_f8e4m3fn_f16_d128"
// CHECK-SAME: %[[BITS]], %[[SIGNED]], %[[K]], %[[V]])
// REMARK: output kernel: attention_f8e4m3fn_f16_d128: about
func.func @row_major(%q: tensor<32x4096x128xf8E4M3FN>, %k: tensor<32x4096x128xf8E4M3FN>, %v: tensor<32x4096x128xf16>, %scale: f32) -> tensor<32x4096x128xf16> {
  %e = tensor.empty() : tensor<32x4096x128xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<32x4096x128xf8E4M3FN>, tensor<32x4096x128xf8E4M3FN>, tensor<32x4096x128xf16>, f32) outs(%e : tensor<32x4096x128xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<32x4096x128xf16>
  return %r : tensor<32x4096x128xf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#vt = affine_map<(b, m, n, k1, k2) -> (b, n, k2)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#mask = affine_map<(b, m, n, k1, k2) -> (m, k2)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// V^T is read as it is, too.
// CHECK-LABEL: func.func @transposed(
// CHECK-NOT: arith.extf
// CHECK-NOT: linalg.transpose
// CHECK: hal.dispatch.extern "attention_f8e4m3fn_bf16_d128_vt"
// REMARK: output kernel: attention_f8e4m3fn_bf16_d128_vt: about
func.func @transposed(%q: tensor<32x4096x128xf8E4M3FN>, %k: tensor<32x4096x128xf8E4M3FN>, %v: tensor<32x128x4096xbf16>) -> tensor<32x4096x128xbf16> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<32x4096x128xbf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #vt, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<32x4096x128xf8E4M3FN>, tensor<32x4096x128xf8E4M3FN>, tensor<32x128x4096xbf16>, f32) outs(%e : tensor<32x4096x128xbf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<32x4096x128xbf16>
  return %r : tensor<32x4096x128xbf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#vt = affine_map<(b, m, n, k1, k2) -> (b, n, k2)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#mask = affine_map<(b, m, n, k1, k2) -> (m, k2)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// A causal mask, and any number of rows and keys.
// CHECK-LABEL: func.func @causal(
// CHECK-NOT: arith.extf
// CHECK: hal.dispatch.extern "attention_f8e4m3fn_bf16_d128_causal"
// REMARK: output kernel: attention_f8e4m3fn_bf16_d128_causal: about
func.func @causal(%q: tensor<32x?x128xf8E4M3FN>, %k: tensor<32x?x128xf8E4M3FN>, %v: tensor<32x?x128xbf16>) -> tensor<32x?x128xbf16> {
  %c1 = arith.constant 1 : index
  %m = tensor.dim %q, %c1 : tensor<32x?x128xf8E4M3FN>
  %blank = tensor.empty(%m, %m) : tensor<?x?xi1>
  %mask = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} outs(%blank : tensor<?x?xi1>) {
  ^bb0(%out: i1):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %seen = arith.cmpi sge, %i, %j : index
    linalg.yield %seen : i1
  } -> tensor<?x?xi1>
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty(%m) : tensor<32x?x128xbf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #mask, #o]>
      ins(%q, %k, %v, %scale, %mask : tensor<32x?x128xf8E4M3FN>, tensor<32x?x128xf8E4M3FN>, tensor<32x?x128xbf16>, f32, tensor<?x?xi1>) outs(%e : tensor<32x?x128xbf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<32x?x128xbf16>
  return %r : tensor<32x?x128xbf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#vt = affine_map<(b, m, n, k1, k2) -> (b, n, k2)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#mask = affine_map<(b, m, n, k1, k2) -> (m, k2)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// There is none for a mask that is a tensor: Q and K are widened for the kernel that has it.
// CHECK-LABEL: func.func @masked(
// CHECK-COUNT-2: arith.extf %{{.*}} : f8E4M3FN to f16
// CHECK: hal.dispatch.extern "attention_f16_d128_mask_f16_aligned"
// REMARK: output kernel: attention_f16_d128_mask_f16_aligned: {{.*}} to widen the query and the key to f16
func.func @masked(%q: tensor<32x4096x128xf8E4M3FN>, %k: tensor<32x4096x128xf8E4M3FN>, %v: tensor<32x4096x128xf16>, %mask: tensor<4096x4096xf16>) -> tensor<32x4096x128xf16> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<32x4096x128xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #mask, #o]>
      ins(%q, %k, %v, %scale, %mask : tensor<32x4096x128xf8E4M3FN>, tensor<32x4096x128xf8E4M3FN>, tensor<32x4096x128xf16>, f32, tensor<4096x4096xf16>) outs(%e : tensor<32x4096x128xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<32x4096x128xf16>
  return %r : tensor<32x4096x128xf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#vt = affine_map<(b, m, n, k1, k2) -> (b, n, k2)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#mask = affine_map<(b, m, n, k1, k2) -> (m, k2)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// None reads V^T under a causal mask: V is transposed for the one that reads it row-major.
// CHECK-LABEL: func.func @causal_transposed(
// CHECK-NOT: arith.extf
// CHECK: linalg.transpose ins(%arg2 : tensor<32x128x4096xf16>)
// CHECK: hal.dispatch.extern "attention_f8e4m3fn_f16_d128_causal"
// REMARK: output kernel: attention_f8e4m3fn_f16_d128_causal: {{.*}} to transpose the value
func.func @causal_transposed(%q: tensor<32x4096x128xf8E4M3FN>, %k: tensor<32x4096x128xf8E4M3FN>, %v: tensor<32x128x4096xf16>) -> tensor<32x4096x128xf16> {
  %blank = tensor.empty() : tensor<4096x4096xi1>
  %mask = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} outs(%blank : tensor<4096x4096xi1>) {
  ^bb0(%out: i1):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %seen = arith.cmpi sge, %i, %j : index
    linalg.yield %seen : i1
  } -> tensor<4096x4096xi1>
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<32x4096x128xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #vt, #s, #mask, #o]>
      ins(%q, %k, %v, %scale, %mask : tensor<32x4096x128xf8E4M3FN>, tensor<32x4096x128xf8E4M3FN>, tensor<32x128x4096xf16>, f32, tensor<4096x4096xi1>) outs(%e : tensor<32x4096x128xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<32x4096x128xf16>
  return %r : tensor<32x4096x128xf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#vt = affine_map<(b, m, n, k1, k2) -> (b, n, k2)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#mask = affine_map<(b, m, n, k1, k2) -> (m, k2)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// Nor e5m2 keys.
// CHECK-LABEL: func.func @e5m2(
// CHECK-COUNT-2: arith.extf
// CHECK: hal.dispatch.extern "attention_f16_d128"
// REMARK: output kernel: attention_f16_d128: {{.*}} to widen the query and the key to f16
func.func @e5m2(%q: tensor<32x4096x128xf8E4M3FN>, %k: tensor<32x4096x128xf8E5M2>, %v: tensor<32x4096x128xf16>) -> tensor<32x4096x128xf16> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<32x4096x128xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<32x4096x128xf8E4M3FN>, tensor<32x4096x128xf8E5M2>, tensor<32x4096x128xf16>, f32) outs(%e : tensor<32x4096x128xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<32x4096x128xf16>
  return %r : tensor<32x4096x128xf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#vt = affine_map<(b, m, n, k1, k2) -> (b, n, k2)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#mask = affine_map<(b, m, n, k1, k2) -> (m, k2)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// Results have the type of V.
// CHECK-LABEL: func.func @output(
// CHECK-NOT: hal.dispatch.extern
// REMARK: output refused: the kernels for f8E4M3FN, f8E4M3FN, f16 write f16, not f32; widened to f16: the kernels for f16 write f16, not f32
func.func @output(%q: tensor<32x4096x128xf8E4M3FN>, %k: tensor<32x4096x128xf8E4M3FN>, %v: tensor<32x4096x128xf16>) -> tensor<32x4096x128xf32> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<32x4096x128xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<32x4096x128xf8E4M3FN>, tensor<32x4096x128xf8E4M3FN>, tensor<32x4096x128xf16>, f32) outs(%e : tensor<32x4096x128xf32>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<32x4096x128xf32>
  return %r : tensor<32x4096x128xf32>
}
