// Whether a number is infinite, or normal, is asked by comparisons; what IREE has code for stays, and
// so do types of 8 bits.

// RUN: attn-opt %s --attn-plain-tests --remarks 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt
// WHY-COUNT-2: is a comparison
// WHY-NOT: is a comparison

// CHECK-LABEL: func.func @main(
// CHECK: %[[SIZE:.*]] = math.absf %arg0 : f16
// CHECK: %[[BOUND:.*]] = arith.constant 0x7C00 : f16
// CHECK: %[[INF:.*]] = arith.cmpf oeq, %[[SIZE]], %[[BOUND]] : f16
// CHECK: %[[OTHER:.*]] = math.absf %arg0 : f16
// CHECK: %[[LEAST:.*]] = arith.constant 6.103520e-05 : f16
// CHECK: %[[LARGE:.*]] = arith.cmpf oge, %[[OTHER]], %[[LEAST]] : f16
// CHECK: %[[FINITE:.*]] = arith.cmpf olt, %[[OTHER]], %{{.*}} : f16
// CHECK: %[[NORMAL:.*]] = arith.andi %[[LARGE]], %[[FINITE]] : i1
// CHECK: math.isnan
// CHECK: math.isfinite
// CHECK: math.isinf %arg1 : f8E5M2
// CHECK: return %[[INF]], %[[NORMAL]]
func.func @main(%x: f16, %y: f8E5M2) -> (i1, i1, i1, i1, i1) {
  %i = math.isinf %x : f16
  %n = math.isnormal %x : f16
  %a = math.isnan %x : f16
  %f = math.isfinite %x : f16
  %e = math.isinf %y : f8E5M2
  return %i, %n, %a, %f, %e : i1, i1, i1, i1, i1
}
