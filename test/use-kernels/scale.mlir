// Kernels take scales above zero: others give their sign to the query.

// RUN: attn-opt %s --attn-use-kernels="target=sm_90 mode=always kernel=attention_*" --split-input-file --remarks > %t.mlir 2> %t.txt
// RUN: FileCheck %s < %t.mlir
// RUN: FileCheck %s --check-prefix=REMARK < %t.txt

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK-LABEL: func.func @below_zero(
// CHECK-SAME: %[[Q:[a-z0-9]+]]: tensor<2x512x64xf16>
// CHECK: %[[N:.*]] = linalg.generic {{.*}} ins(%[[Q]] :
// CHECK: arith.negf
// CHECK: arith.constant 1.250000e-01 : f16
// CHECK: hal.dispatch.extern "attention_f16_d64{{.*}}(%{{.*}}, %[[N]],
// REMARK: output kernel: {{.*}} to negate the query, as the scale is below zero
func.func @below_zero(%q: tensor<2x512x64xf16>, %k: tensor<2x512x64xf16>, %v: tensor<2x512x64xf16>) -> tensor<2x512x64xf16> {
  %scale = arith.constant -0.125 : f16
  %e = tensor.empty() : tensor<2x512x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<2x512x64xf16>, tensor<2x512x64xf16>, tensor<2x512x64xf16>, f16) outs(%e : tensor<2x512x64xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x512x64xf16>
  return %r : tensor<2x512x64xf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// Of an argument nothing is known: a branch copies the query where it must.
// CHECK-LABEL: func.func @argument(
// CHECK-SAME: %[[SCALE:[a-z0-9]+]]: f32
// CHECK: %[[BELOW:.*]] = arith.cmpf olt, %[[SCALE]]
// CHECK: scf.if %[[BELOW]]
// CHECK: arith.negf
// CHECK: else
// CHECK: math.absf %[[SCALE]]
// CHECK: arith.maximumf
// CHECK: hal.dispatch.extern
func.func @argument(%q: tensor<2x512x64xf16>, %k: tensor<2x512x64xf16>, %v: tensor<2x512x64xf16>, %scale: f32) -> tensor<2x512x64xf16> {
  %e = tensor.empty() : tensor<2x512x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<2x512x64xf16>, tensor<2x512x64xf16>, tensor<2x512x64xf16>, f32) outs(%e : tensor<2x512x64xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x512x64xf16>
  return %r : tensor<2x512x64xf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// One over the root of a size is not below zero.
// CHECK-LABEL: func.func @of_a_size(
// CHECK-NOT: linalg.generic
// CHECK: %[[SCALE:.*]] = math.rsqrt
// CHECK: hal.dispatch.extern
// CHECK-NOT: arith.maximumf
func.func @of_a_size(%q: tensor<2x512x64xf16>, %k: tensor<2x?x64xf16>, %v: tensor<2x?x64xf16>) -> tensor<2x512x64xf16> {
  %one = arith.constant 1 : index
  %size = tensor.dim %k, %one : tensor<2x?x64xf16>
  %number = arith.index_cast %size : index to i32
  %float = arith.sitofp %number : i32 to f32
  %scale = math.rsqrt %float : f32
  %e = tensor.empty() : tensor<2x512x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<2x512x64xf16>, tensor<2x?x64xf16>, tensor<2x?x64xf16>, f32) outs(%e : tensor<2x512x64xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x512x64xf16>
  return %r : tensor<2x512x64xf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK-LABEL: func.func @eight_bits(
// CHECK: %[[BITS:.*]] = arith.bitcast %{{.*}} : f8E4M3FN to i8
// CHECK: %[[FLIPPED:.*]] = arith.xori %[[BITS]]
// CHECK: arith.bitcast %[[FLIPPED]] : i8 to f8E4M3FN
// CHECK: hal.dispatch.extern "attention_f8e4m3fn_d128
func.func @eight_bits(%q: tensor<2x512x128xf8E4M3FN>, %k: tensor<2x512x128xf8E4M3FN>, %v: tensor<2x512x128xf8E4M3FN>, %scale: f32) -> tensor<2x512x128xf16> {
  %e = tensor.empty() : tensor<2x512x128xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<2x512x128xf8E4M3FN>, tensor<2x512x128xf8E4M3FN>, tensor<2x512x128xf8E4M3FN>, f32) outs(%e : tensor<2x512x128xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x512x128xf16>
  return %r : tensor<2x512x128xf16>
}
