// 8-bit operands are cast to 16 bits in front of attention where the target says that it pays: on
// Hopper, whose mma.sync of 8 bits is one of 16, and where IREE has no tensor cores for the types.

// RUN: attn-opt %s --attn-widen=target=sm_90 --remarks 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt
// RUN: attn-opt %s --attn-widen=target=sm_89 --remarks 2> %t.txt | FileCheck %s --check-prefix=ADA
// RUN: FileCheck %s --check-prefix=ADAWHY --input-file=%t.txt
// RUN: attn-opt %s --attn-widen="target=sm_90 mode=never" > %t.0 && attn-opt %s > %t.1 && diff %t.0 %t.1
// RUN: attn-opt %s --attn-widen=target=gfx942 > %t.0 && diff %t.0 %t.1

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
#id = affine_map<(i, j, k) -> (i, j, k)>
#r = affine_map<(b, m, n, k1, k2) -> (b, m)>

// CHECK-LABEL: func.func @all(
// CHECK: %[[Q:.+]] = linalg.generic {{.*}} ins(%arg0 : tensor<32x4096x128xf8E4M3FN>)
// CHECK: arith.extf %{{.*}} : f8E4M3FN to f16
// CHECK: %[[BQ:.+]] = iree_tensor_ext.compute_barrier.start %[[Q]]
// CHECK: %[[BK:.+]] = iree_tensor_ext.compute_barrier.start
// CHECK: %[[BV:.+]] = iree_tensor_ext.compute_barrier.start
// CHECK: iree_linalg_ext.attention {{.*}} ins(%[[BQ]], %[[BK]], %[[BV]], %{{.+}} : tensor<32x4096x128xf16>, tensor<32x4096x128xf16>, tensor<32x4096x128xf16>, f32)
// WHY: the query and the key and the value are widened to f16: Hopper's mma.sync has no 8-bit products
// ADA-LABEL: func.func @all(
// ADA-NOT: arith.extf
// ADAWHY: keeps its 8-bit operands: the 8-bit tensor cores of sm_89 were not measured
func.func @all(%q: tensor<32x4096x128xf8E4M3FN>, %k: tensor<32x4096x128xf8E4M3FN>, %v: tensor<32x4096x128xf8E4M3FN>) -> tensor<32x4096x128xf16> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<32x4096x128xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<32x4096x128xf8E4M3FN>, tensor<32x4096x128xf8E4M3FN>, tensor<32x4096x128xf8E4M3FN>, f32) outs(%e : tensor<32x4096x128xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<32x4096x128xf16>
  return %r : tensor<32x4096x128xf16>
}

// CHECK-LABEL: func.func @mixed(
// CHECK-COUNT-2: arith.extf %{{.*}} : f8E4M3FN to bf16
// CHECK: iree_linalg_ext.attention {{.*}} ins(%{{.+}}, %{{.+}}, %arg2,
// WHY: the query and the key are widened to bf16
// ADA-LABEL: func.func @mixed(
// ADA-NOT: arith.extf
// ADAWHY: keeps its 8-bit operands: the 8-bit tensor cores of sm_89 were not measured
func.func @mixed(%q: tensor<32x4096x128xf8E4M3FN>, %k: tensor<32x4096x128xf8E4M3FN>, %v: tensor<32x4096x128xbf16>) -> tensor<32x4096x128xbf16> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<32x4096x128xbf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<32x4096x128xf8E4M3FN>, tensor<32x4096x128xf8E4M3FN>, tensor<32x4096x128xbf16>, f32) outs(%e : tensor<32x4096x128xbf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<32x4096x128xbf16>
  return %r : tensor<32x4096x128xbf16>
}

// Not even Ada has code for these.
// CHECK-LABEL: func.func @cache(
// CHECK: arith.extf %{{.*}} : f8E4M3FN to f16
// CHECK: arith.extf %{{.*}} : f8E5M2 to f16
// WHY: the key and the value are widened to f16: IREE has no tensor-core tile for its types
// ADA-LABEL: func.func @cache(
// ADA-COUNT-2: arith.extf
// ADAWHY: the key and the value are widened to f16: IREE has no tensor-core tile for its types
func.func @cache(%q: tensor<32x4096x128xf16>, %k: tensor<32x4096x128xf8E4M3FN>, %v: tensor<32x4096x128xf8E5M2>) -> tensor<32x4096x128xf16> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<32x4096x128xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<32x4096x128xf16>, tensor<32x4096x128xf8E4M3FN>, tensor<32x4096x128xf8E5M2>, f32) outs(%e : tensor<32x4096x128xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<32x4096x128xf16>
  return %r : tensor<32x4096x128xf16>
}

// CHECK-LABEL: func.func @decode(
// CHECK-NOT: arith.extf
// WHY: keeps its 8-bit operands: with 1 query row(s) the bytes of K and V are what counts
func.func @decode(%q: tensor<32x1x128xf8E4M3FN>, %k: tensor<32x4096x128xf8E4M3FN>, %v: tensor<32x4096x128xf8E4M3FN>) -> tensor<32x1x128xf16> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<32x1x128xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<32x1x128xf8E4M3FN>, tensor<32x4096x128xf8E4M3FN>, tensor<32x4096x128xf8E4M3FN>, f32) outs(%e : tensor<32x1x128xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<32x1x128xf16>
  return %r : tensor<32x1x128xf16>
}

// CHECK-LABEL: func.func @small(
// CHECK-NOT: arith.extf
// WHY: keeps its 8-bit operands: the casts would take longer than they save
func.func @small(%q: tensor<1x128x128xf8E4M3FN>, %k: tensor<1x256x128xf8E4M3FN>, %v: tensor<1x256x128xf8E4M3FN>) -> tensor<1x128x128xf16> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<1x128x128xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<1x128x128xf8E4M3FN>, tensor<1x256x128xf8E4M3FN>, tensor<1x256x128xf8E4M3FN>, f32) outs(%e : tensor<1x128x128xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<1x128x128xf16>
  return %r : tensor<1x128x128xf16>
}

// Nothing to widen, or nothing to widen to.
// CHECK-LABEL: func.func @wide(
// CHECK-NOT: arith.extf
func.func @wide(%q: tensor<32x4096x128xf16>, %k: tensor<32x4096x128xf16>, %v: tensor<32x4096x128xf16>) -> tensor<32x4096x128xf16> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<32x4096x128xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<32x4096x128xf16>, tensor<32x4096x128xf16>, tensor<32x4096x128xf16>, f32) outs(%e : tensor<32x4096x128xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<32x4096x128xf16>
  return %r : tensor<32x4096x128xf16>
}

// CHECK-LABEL: func.func @two_types(
// CHECK-NOT: arith.extf
// WHY-NOT: 8-bit operands
func.func @two_types(%q: tensor<32x4096x128xf8E4M3FN>, %k: tensor<32x4096x128xf16>, %v: tensor<32x4096x128xbf16>) -> tensor<32x4096x128xf16> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<32x4096x128xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<32x4096x128xf8E4M3FN>, tensor<32x4096x128xf16>, tensor<32x4096x128xbf16>, f32) outs(%e : tensor<32x4096x128xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<32x4096x128xf16>
  return %r : tensor<32x4096x128xf16>
}

// CHECK-LABEL: func.func @online(
// CHECK: arith.extf
// CHECK: %{{.+}}:3 = iree_linalg_ext.online_attention {{.*}} tensor<32x4096x128xf16>, tensor<32x4096x128xf16>, tensor<32x4096x128xf16>, f32)
// CHECK: return %{{.+}}#0, %{{.+}}#1, %{{.+}}#2
// WHY: online_attention at {{.*}}: the query and the key and the value are widened to f16
func.func @online(%q: tensor<32x4096x128xf8E4M3FN>, %k: tensor<32x4096x128xf8E4M3FN>, %v: tensor<32x4096x128xf8E4M3FN>, %e: tensor<32x4096x128xf32>, %l: tensor<32x4096xf32>) -> (tensor<32x4096x128xf32>, tensor<32x4096xf32>, tensor<32x4096xf32>) {
  %scale = arith.constant 0.125 : f32
  %r:3 = iree_linalg_ext.online_attention <indexing_maps = [#q, #k, #v, #s, #o, #r, #r]>
      ins(%q, %k, %v, %scale : tensor<32x4096x128xf8E4M3FN>, tensor<32x4096x128xf8E4M3FN>, tensor<32x4096x128xf8E4M3FN>, f32)
      outs(%e, %l, %l : tensor<32x4096x128xf32>, tensor<32x4096xf32>, tensor<32x4096xf32>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<32x4096x128xf32>, tensor<32x4096xf32>, tensor<32x4096xf32>
  return %r#0, %r#1, %r#2 : tensor<32x4096x128xf32>, tensor<32x4096xf32>, tensor<32x4096xf32>
}

// Casts of the model to 16 bits stay in front of attention, but for decode.
// CHECK-LABEL: func.func @own_casts(
// CHECK: %[[K:.+]] = linalg.generic {{.*}} ins(%arg1
// CHECK: %[[V:.+]] = linalg.generic {{.*}} ins(%arg2
// CHECK: %[[BK:.+]] = iree_tensor_ext.compute_barrier.start %[[K]]
// CHECK: %[[BV:.+]] = iree_tensor_ext.compute_barrier.start %[[V]]
// CHECK: iree_linalg_ext.attention {{.*}} ins(%arg0, %[[BK]], %[[BV]],
// WHY: the key and the value are widened before it, not within: within it, each tile would be widened again
func.func @own_casts(%q: tensor<32x4096x128xf16>, %k8: tensor<32x4096x128xf8E4M3FN>, %v8: tensor<32x4096x128xf8E4M3FN>) -> tensor<32x4096x128xf16> {
  %k0 = tensor.empty() : tensor<32x4096x128xf16>
  %k = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%k8 : tensor<32x4096x128xf8E4M3FN>) outs(%k0 : tensor<32x4096x128xf16>) {
  ^bb0(%a: f8E4M3FN, %b: f16):
    %w = arith.extf %a : f8E4M3FN to f16
    linalg.yield %w : f16
  } -> tensor<32x4096x128xf16>
  %v0 = tensor.empty() : tensor<32x4096x128xf16>
  %v = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v8 : tensor<32x4096x128xf8E4M3FN>) outs(%v0 : tensor<32x4096x128xf16>) {
  ^bb0(%a: f8E4M3FN, %b: f16):
    %w = arith.extf %a : f8E4M3FN to f16
    linalg.yield %w : f16
  } -> tensor<32x4096x128xf16>
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<32x4096x128xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<32x4096x128xf16>, tensor<32x4096x128xf16>, tensor<32x4096x128xf16>, f32) outs(%e : tensor<32x4096x128xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<32x4096x128xf16>
  return %r : tensor<32x4096x128xf16>
}

// CHECK-LABEL: func.func @own_casts_decode(
// CHECK-NOT: compute_barrier
// CHECK: iree_linalg_ext.attention
// WHY-NOT: widened before it
func.func @own_casts_decode(%q: tensor<32x1x128xf16>, %k8: tensor<32x4096x128xf8E4M3FN>, %v8: tensor<32x4096x128xf8E4M3FN>) -> tensor<32x1x128xf16> {
  %k0 = tensor.empty() : tensor<32x4096x128xf16>
  %k = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%k8 : tensor<32x4096x128xf8E4M3FN>) outs(%k0 : tensor<32x4096x128xf16>) {
  ^bb0(%a: f8E4M3FN, %b: f16):
    %w = arith.extf %a : f8E4M3FN to f16
    linalg.yield %w : f16
  } -> tensor<32x4096x128xf16>
  %v0 = tensor.empty() : tensor<32x4096x128xf16>
  %v = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v8 : tensor<32x4096x128xf8E4M3FN>) outs(%v0 : tensor<32x4096x128xf16>) {
  ^bb0(%a: f8E4M3FN, %b: f16):
    %w = arith.extf %a : f8E4M3FN to f16
    linalg.yield %w : f16
  } -> tensor<32x4096x128xf16>
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<32x1x128xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<32x1x128xf16>, tensor<32x4096x128xf16>, tensor<32x4096x128xf16>, f32) outs(%e : tensor<32x1x128xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<32x1x128xf16>
  return %r : tensor<32x1x128xf16>
}

// CHECK-LABEL: func.func @own_casts_f32(
// CHECK-NOT: compute_barrier
// CHECK: iree_linalg_ext.attention
func.func @own_casts_f32(%q: tensor<32x4096x128xf32>, %k8: tensor<32x4096x128xf8E4M3FN>, %v8: tensor<32x4096x128xf8E4M3FN>) -> tensor<32x4096x128xf32> {
  %k0 = tensor.empty() : tensor<32x4096x128xf32>
  %k = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%k8 : tensor<32x4096x128xf8E4M3FN>) outs(%k0 : tensor<32x4096x128xf32>) {
  ^bb0(%a: f8E4M3FN, %b: f32):
    %w = arith.extf %a : f8E4M3FN to f32
    linalg.yield %w : f32
  } -> tensor<32x4096x128xf32>
  %v0 = tensor.empty() : tensor<32x4096x128xf32>
  %v = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v8 : tensor<32x4096x128xf8E4M3FN>) outs(%v0 : tensor<32x4096x128xf32>) {
  ^bb0(%a: f8E4M3FN, %b: f32):
    %w = arith.extf %a : f8E4M3FN to f32
    linalg.yield %w : f32
  } -> tensor<32x4096x128xf32>
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<32x4096x128xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<32x4096x128xf32>, tensor<32x4096x128xf32>, tensor<32x4096x128xf32>, f32) outs(%e : tensor<32x4096x128xf32>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<32x4096x128xf32>
  return %r : tensor<32x4096x128xf32>
}
