// Regions on f16 and bf16 take and yield f32, and compute in it what keeps its meaning there.

// RUN: attn-opt %s --attn-mask-positions | FileCheck %s

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK-LABEL: func.func @cap(
// CHECK: ^bb0(%[[X:.*]]: f32):
// CHECK: %[[CAP:.*]] = arith.extf %{{.*}} : f16 to f32
// CHECK: %[[D:.*]] = arith.divf %[[X]], %[[CAP]] : f32
// CHECK: %[[T:.*]] = math.tanh %[[D]] : f32
// CHECK: %[[TWO:.*]] = arith.constant 2.000000e+00 : f32
// CHECK: %[[U:.*]] = arith.mulf %[[T]], %[[TWO]] : f32
// CHECK: %[[N:.*]] = arith.truncf %[[U]] : f32 to f16
// CHECK: %[[I:.*]] = arith.bitcast %[[N]] : f16 to i16
// CHECK: %[[F:.*]] = arith.bitcast %[[I]] : i16 to f16
// CHECK: %[[R:.*]] = arith.extf %[[F]] : f16 to f32
// CHECK: iree_linalg_ext.yield %[[R]] : f32
func.func @cap(%q: tensor<2x4x8xf16>, %k: tensor<2x6x8xf16>, %v: tensor<2x6x8xf16>, %cap: f16) -> tensor<2x4x8xf16> {
  %scale = arith.constant 0.25 : f16
  %two = arith.constant 2.0 : f16
  %out = tensor.empty() : tensor<2x4x8xf16>
  %a = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x4x8xf16>, tensor<2x6x8xf16>, tensor<2x6x8xf16>, f16) outs(%out : tensor<2x4x8xf16>) {
    ^bb0(%score: f16):
      %w = arith.extf %score : f16 to f32
      %x = arith.truncf %w : f32 to f16
      %d = arith.divf %x, %cap : f16
      %t = math.tanh %d : f16
      %u = arith.mulf %t, %two : f16
      %i = arith.bitcast %u : f16 to i16
      %f = arith.bitcast %i : i16 to f16
      iree_linalg_ext.yield %f : f16
  } -> tensor<2x4x8xf16>
  return %a : tensor<2x4x8xf16>
}

// CHECK-LABEL: func.func @nothing(
// CHECK: ^bb0(%[[X:.*]]: f32):
// CHECK-NEXT: iree_linalg_ext.yield %[[X]] : f32
func.func @nothing(%q: tensor<2x4x8xbf16>, %k: tensor<2x6x8xbf16>, %v: tensor<2x6x8xbf16>) -> tensor<2x4x8xbf16> {
  %scale = arith.constant 0.25 : bf16
  %out = tensor.empty() : tensor<2x4x8xbf16>
  %a = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x4x8xbf16>, tensor<2x6x8xbf16>, tensor<2x6x8xbf16>, bf16) outs(%out : tensor<2x4x8xbf16>) {
    ^bb0(%score: bf16):
      iree_linalg_ext.yield %score : bf16
  } -> tensor<2x4x8xbf16>
  return %a : tensor<2x4x8xbf16>
}
