// A region that minds factors of the score is given the score that it was written for, once.

// RUN: attn-opt %s --attn-natural-scores --remarks 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt
// RUN: attn-opt %s --attn-natural-scores --attn-natural-scores | FileCheck %s
// RUN: attn-opt %s --attn-natural-scores "--attn-use-kernels=target=sm_90 mode=always" --remarks 2> %t.late.txt -o %t.mlir
// RUN: FileCheck %s --check-prefix=LATE --input-file=%t.late.txt

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// WHY: attention at {{.*}}:{{[0-9]+}}:8: its score function is given scores in the units that it was written for
// LATE: its region was made for IREE's own code by attn-natural-scores
// CHECK-LABEL: func.func @cap(
// CHECK: ^bb0(%[[S:.*]]: f32):
// CHECK-NEXT: %[[LN2:.*]] = arith.constant 0.693147182 : f32
// CHECK-NEXT: %[[X:.*]] = arith.mulf %[[S]], %[[LN2]] : f32
// CHECK-NEXT: arith.divf %[[X]]
// CHECK-NEXT: math.tanh
// CHECK-NEXT: %[[C:.*]] = arith.mulf
// CHECK-NEXT: %[[LOG2E:.*]] = arith.constant 1.44269502 : f32
// CHECK-NEXT: %[[Y:.*]] = arith.mulf %[[C]], %[[LOG2E]] : f32
// CHECK-NEXT: iree_linalg_ext.yield %[[Y]] : f32
func.func @cap(%q: tensor<2x16x64xf16>, %k: tensor<2x24x64xf16>, %v: tensor<2x24x64xf16>) -> tensor<2x16x64xf16> {
  %scale = arith.constant 0.25 : f16
  %cap = arith.constant 50.0 : f32
  %e = tensor.empty() : tensor<2x16x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<2x16x64xf16>, tensor<2x24x64xf16>, tensor<2x24x64xf16>, f16) outs(%e : tensor<2x16x64xf16>) {
  ^bb0(%x: f32):
    %d = arith.divf %x, %cap : f32
    %t = math.tanh %d : f32
    %y = arith.mulf %t, %cap : f32
    iree_linalg_ext.yield %y : f32
  } -> tensor<2x16x64xf16>
  return %r : tensor<2x16x64xf16>
}

// 8-bit scores are scaled behind the region.
// CHECK-LABEL: func.func @narrow(
// CHECK: %[[ONE:.*]] = arith.constant 1.000000e+00 : f32
// CHECK: iree_linalg_ext.attention {{.*}} ins(%arg0, %arg1, %arg2, %[[ONE]] :
// CHECK-NEXT: ^bb0(%[[S:.*]]: f32):
// CHECK-NEXT: %[[X:.*]] = arith.mulf %[[S]], %arg3 : f32
// CHECK-NEXT: %[[Y:.*]] = arith.mulf %[[X]], %[[X]] : f32
// CHECK-NEXT: iree_linalg_ext.yield %[[Y]] : f32
func.func @narrow(%q: tensor<2x16x64xf8E4M3FN>, %k: tensor<2x24x64xf8E4M3FN>, %v: tensor<2x24x64xf8E4M3FN>, %scale: f32) -> tensor<2x16x64xf16> {
  %e = tensor.empty() : tensor<2x16x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<2x16x64xf8E4M3FN>, tensor<2x24x64xf8E4M3FN>, tensor<2x24x64xf8E4M3FN>, f32) outs(%e : tensor<2x16x64xf16>) {
  ^bb0(%x: f32):
    %y = arith.mulf %x, %x : f32
    iree_linalg_ext.yield %y : f32
  } -> tensor<2x16x64xf16>
  return %r : tensor<2x16x64xf16>
}

// What does as much to a score that is larger stays: factors, limits at 0, hidden keys.
// CHECK-LABEL: func.func @factor(
// CHECK: ^bb0(%[[S:.*]]: f32):
// CHECK-NEXT: arith.mulf %[[S]], %arg3 : f32
// CHECK-NEXT: arith.maximumf
// CHECK-NEXT: %[[Y:.*]] = arith.select
// CHECK-NEXT: iree_linalg_ext.yield %[[Y]] : f32
func.func @factor(%q: tensor<2x16x64xf16>, %k: tensor<2x24x64xf16>, %v: tensor<2x24x64xf16>, %by: f32, %seen: i1) -> tensor<2x16x64xf16> {
  %scale = arith.constant 0.25 : f16
  %zero = arith.constant 0.0 : f32
  %hidden = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<2x16x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<2x16x64xf16>, tensor<2x24x64xf16>, tensor<2x24x64xf16>, f16) outs(%e : tensor<2x16x64xf16>) {
  ^bb0(%x: f32):
    %f = arith.mulf %x, %by : f32
    %p = arith.maximumf %f, %zero : f32
    %y = arith.select %seen, %p, %hidden : f32
    iree_linalg_ext.yield %y : f32
  } -> tensor<2x16x64xf16>
  return %r : tensor<2x16x64xf16>
}

// The lowest number stays finite times log2(e): a row of nothing else is the mean of V.
// CHECK-LABEL: func.func @lowest(
// CHECK: ^bb0(
// CHECK: %[[LOW:.*]] = arith.constant -2.3{{.*}}+38 : f32
// CHECK: arith.select %{{.*}}, %{{.*}}, %[[LOW]] : f32
func.func @lowest(%q: tensor<2x16x64xf16>, %k: tensor<2x24x64xf16>, %v: tensor<2x24x64xf16>) -> tensor<2x16x64xf16> {
  %scale = arith.constant 0.25 : f16
  %limit = arith.constant 1.0 : f32
  %lowest = arith.constant -3.40282347E+38 : f32
  %e = tensor.empty() : tensor<2x16x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<2x16x64xf16>, tensor<2x24x64xf16>, tensor<2x24x64xf16>, f16) outs(%e : tensor<2x16x64xf16>) {
  ^bb0(%x: f32):
    %near = arith.cmpf olt, %x, %limit : f32
    %y = arith.select %near, %x, %lowest : f32
    iree_linalg_ext.yield %y : f32
  } -> tensor<2x16x64xf16>
  return %r : tensor<2x16x64xf16>
}
