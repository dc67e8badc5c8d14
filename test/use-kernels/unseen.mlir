// Precompiled kernels subtract a row's maximum, rounded, from scores that are not: a row of large
// negative numbers is moved to begin at 0, and what is far below hides its key. Rows that see no key
// are 0 by themselves. Where scores would not change a row's numbers, these have a number that says
// so to prefill kernels; for others the query is 0 there.

// RUN: attn-opt %s "--attn-use-kernels=target=sm_90 mode=always kernel=attention_*" | FileCheck %s --check-prefix=SETTLED
// RUN: attn-opt %s "--attn-use-kernels=target=sm_90 mode=always kernel=divided_*" | FileCheck %s

// SETTLED-LABEL: func.func @booleans(
// SETTLED: %[[R:[0-9]+]]{{.*}} = hal.dispatch.extern "attention_f16_d128_mask_i8
// SETTLED-NOT: dispatch.region
// SETTLED: return %[[R]]#0

// SETTLED-LABEL: func.func @numbers(
// SETTLED: %[[MOST:.*]] = flow.dispatch.region -> (tensor<2x512xf32>)
// SETTLED: arith.maximumf
// SETTLED: %[[MASK:.*]] = linalg.generic {{.*}} ins(%arg3, %[[MOST]] : tensor<2x512x512xf32>, tensor<2x512xf32>)
// SETTLED: %[[NEAR:.*]] = arith.subf
// SETTLED: %[[EVEN:.*]] = arith.constant 0xCC190000 : f32
// SETTLED: %[[SHOWN:.*]] = arith.select %{{.*}}, %[[EVEN]], %[[NEAR]]
// SETTLED: arith.select %{{.*}}, %{{.*}}, %[[SHOWN]]
// SETTLED: %[[R:[0-9]+]]{{.*}} = hal.dispatch.extern "attention_f16_d128_mask_f32{{.*}}%arg0, %arg1, %arg2, %[[MASK]]
// SETTLED-NOT: dispatch.region
// SETTLED: return %[[R]]#0

// SETTLED-LABEL: func.func @halves(
// SETTLED-NOT: linalg.generic
// SETTLED: hal.dispatch.extern "attention_f16_d128_mask_f16{{.*}}%arg0, %arg1, %arg2, %arg3
// SETTLED-NOT: linalg.generic

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#mask = affine_map<(b, m, n, k1, k2) -> (b, m, k2)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
!t = tensor<2x512x128xf16>

// CHECK-LABEL: func.func @booleans(
// CHECK: %[[R:[0-9]+]]{{.*}} = hal.dispatch.extern "divided_f16_d128_{{.*}}mask_i8
// CHECK-NOT: dispatch.region
// CHECK: return %[[R]]#0
func.func @booleans(%q: !t, %k: !t, %v: !t, %mask: tensor<2x512x512xi1>) -> !t {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : !t
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #mask, #o]> ins(%q, %k, %v, %scale, %mask : !t, !t, !t, f32, tensor<2x512x512xi1>) outs(%e : !t) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> !t
  return %r : !t
}

// CHECK-LABEL: func.func @numbers(
// CHECK: %[[MOST:.*]] = flow.dispatch.region -> (tensor<2x512xf32>)
// CHECK: arith.maximumf
// CHECK: %[[Q:.*]] = linalg.generic {{.*}} ins(%arg0, %[[MOST]] : tensor<2x512x128xf16>, tensor<2x512xf32>)
// CHECK: arith.cmpf olt
// CHECK: arith.cmpf une
// CHECK: arith.select
// CHECK: %[[MASK:.*]] = linalg.generic {{.*}} ins(%arg3, %[[MOST]] : tensor<2x512x512xf32>, tensor<2x512xf32>)
// CHECK: %[[BASE:.*]] = arith.select
// CHECK: %[[NEAR:.*]] = arith.subf %{{.*}}, %[[BASE]]
// CHECK: %[[LOW:.*]] = arith.cmpf olt, %[[NEAR]]
// CHECK: arith.select %[[LOW]], %{{.*}}, %[[NEAR]]
// CHECK: %[[R:[0-9]+]]{{.*}} = hal.dispatch.extern "divided_f16_d128_{{.*}}mask_f32{{.*}}%[[Q]], %arg1, %arg2, %[[MASK]]
// CHECK-NOT: dispatch.region
// CHECK: return %[[R]]#0
func.func @numbers(%q: !t, %k: !t, %v: !t, %mask: tensor<2x512x512xf32>) -> !t {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : !t
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #mask, #o]> ins(%q, %k, %v, %scale, %mask : !t, !t, !t, f32, tensor<2x512x512xf32>) outs(%e : !t) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> !t
  return %r : !t
}

// No f16 is so low.
// CHECK-LABEL: func.func @halves(
// CHECK-NOT: arith.cmpf olt
// CHECK: hal.dispatch.extern "divided_f16_d128_{{.*}}mask_f16
// CHECK-NOT: arith.maximumf
func.func @halves(%q: !t, %k: !t, %v: !t, %mask: tensor<2x512x512xf16>) -> !t {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : !t
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #mask, #o]> ins(%q, %k, %v, %scale, %mask : !t, !t, !t, f32, tensor<2x512x512xf16>) outs(%e : !t) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> !t
  return %r : !t
}
