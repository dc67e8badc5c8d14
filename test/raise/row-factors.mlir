// What multiplies or divides the scores of a row alike, as temperatures of heads do, is Q's: in f16
// as smaller numbers, since Q may be larger than the scores, which the scale makes up for. A
// refusal stands in refusals.mlir.

// RUN: attn-opt %s --attn-raise --canonicalize --cse --split-input-file --remarks 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt
// WHY-COUNT-3: are an attention op now
// WHY-NOT: stay as they are

#a = affine_map<(b, m, k) -> (b, m, k)>

// CHECK-LABEL: func.func @scale_of_a_caller
// CHECK-DAG: %[[LEFT:.*]] = arith.constant 3.200000e+01 : f32
// CHECK-DAG: %[[SHRUNK:.*]] = arith.constant 3.125000e-02 : f32
// CHECK: %[[Q:.*]] = linalg.generic
// CHECK: %[[WIDE:.*]] = arith.extf %{{.*}} : f16 to f32
// CHECK-NEXT: %[[SMALL:.*]] = arith.mulf %[[WIDE]], %[[SHRUNK]] : f32
// CHECK: %[[TIMES:.*]] = arith.mulf %[[SMALL]], %{{.*}} : f32
// CHECK-NEXT: arith.truncf %[[TIMES]] : f32 to f16
// CHECK: iree_linalg_ext.attention
// CHECK-SAME: ins(%[[Q]], %{{.*}}, %{{.*}}, %[[LEFT]] : tensor<2x6x8xf16>
func.func @scale_of_a_caller(%q: tensor<2x6x8xf16>, %k: tensor<2x8x5xf16>, %v: tensor<2x5x8xf16>, %given: f32) -> tensor<2x6x8xf16> {
  %zero = arith.constant 0.0 : f32
  %third = arith.constant 0.33333333 : f32
  %e = tensor.empty() : tensor<2x6x5xf32>
  %eh = tensor.empty() : tensor<2x6x5xf16>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x6x8xf16>, tensor<2x8x5xf16>) outs(%s0 : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %scaled = linalg.generic {indexing_maps = [#a, #a], iterator_types = ["parallel", "parallel", "parallel"]} ins(%s : tensor<2x6x5xf32>) outs(%eh : tensor<2x6x5xf16>) {
  ^bb0(%x: f32, %o: f16):
    %y = arith.truncf %x : f32 to f16
    %c = arith.truncf %given : f32 to f16
    %z = arith.mulf %y, %c : f16
    linalg.yield %z : f16
  } -> tensor<2x6x5xf16>
  %w = linalg.softmax dimension(2) ins(%scaled : tensor<2x6x5xf16>) outs(%eh : tensor<2x6x5xf16>) -> tensor<2x6x5xf16>
  %eo = tensor.empty() : tensor<2x6x8xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%eo : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  %r = linalg.batch_matmul ins(%w, %v : tensor<2x6x5xf16>, tensor<2x5x8xf16>) outs(%o0 : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  %en = tensor.empty() : tensor<2x6x8xf16>
  %h = linalg.generic {indexing_maps = [#a, #a], iterator_types = ["parallel", "parallel", "parallel"]} ins(%r : tensor<2x6x8xf32>) outs(%en : tensor<2x6x8xf16>) {
  ^bb0(%x: f32, %o: f16):
    %y = arith.truncf %x : f32 to f16
    linalg.yield %y : f16
  } -> tensor<2x6x8xf16>
  return %h : tensor<2x6x8xf16>
}

// -----

#a = affine_map<(b, m, k) -> (b, m, k)>
#h = affine_map<(b, m, k) -> (b)>

// Swin v2: a temperature of each head, and a bias, in bf16, which has the range of f32.
// CHECK-LABEL: func.func @temperature_and_bias
// CHECK-DAG: %[[ONE:.*]] = arith.constant 1.000000e+00 : f32
// CHECK: %[[Q:.*]] = linalg.generic
// CHECK: %[[WIDE:.*]] = arith.extf %{{.*}} : bf16 to f32
// CHECK: arith.mulf %[[WIDE]], %{{.*}} : f32
// CHECK: iree_linalg_ext.attention
// CHECK-SAME: ins(%[[Q]], %{{.*}}, %{{.*}}, %[[ONE]], %{{.*}} : tensor<2x6x8xbf16>
func.func @temperature_and_bias(%q: tensor<2x6x8xbf16>, %k: tensor<2x8x5xbf16>, %v: tensor<2x5x8xbf16>, %t: tensor<2xbf16>, %bias: tensor<2x6x5xbf16>) -> tensor<2x6x8xbf16> {
  %zero = arith.constant 0.0 : bf16
  %e = tensor.empty() : tensor<2x6x5xbf16>
  %s0 = linalg.fill ins(%zero : bf16) outs(%e : tensor<2x6x5xbf16>) -> tensor<2x6x5xbf16>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x6x8xbf16>, tensor<2x8x5xbf16>) outs(%s0 : tensor<2x6x5xbf16>) -> tensor<2x6x5xbf16>
  %scaled = linalg.generic {indexing_maps = [#a, #h, #a, #a], iterator_types = ["parallel", "parallel", "parallel"]} ins(%s, %t, %bias : tensor<2x6x5xbf16>, tensor<2xbf16>, tensor<2x6x5xbf16>) outs(%e : tensor<2x6x5xbf16>) {
  ^bb0(%x: bf16, %c: bf16, %b: bf16, %o: bf16):
    %y = arith.mulf %x, %c : bf16
    %z = arith.addf %y, %b : bf16
    linalg.yield %z : bf16
  } -> tensor<2x6x5xbf16>
  %w = linalg.softmax dimension(2) ins(%scaled : tensor<2x6x5xbf16>) outs(%e : tensor<2x6x5xbf16>) -> tensor<2x6x5xbf16>
  %eo = tensor.empty() : tensor<2x6x8xbf16>
  %o0 = linalg.fill ins(%zero : bf16) outs(%eo : tensor<2x6x8xbf16>) -> tensor<2x6x8xbf16>
  %r = linalg.batch_matmul ins(%w, %v : tensor<2x6x5xbf16>, tensor<2x5x8xbf16>) outs(%o0 : tensor<2x6x8xbf16>) -> tensor<2x6x8xbf16>
  return %r : tensor<2x6x8xbf16>
}

// -----

#a = affine_map<(b, m, k) -> (b, m, k)>
#h = affine_map<(b, m, k) -> (b)>

// CHECK-LABEL: func.func @divided
// CHECK: %[[Q:.*]] = linalg.generic
// CHECK: arith.divf %{{.*}}, %{{.*}} : f32
// CHECK: iree_linalg_ext.attention
// CHECK-SAME: ins(%[[Q]], %{{.*}}, %{{.*}}, %{{.*}} : tensor<2x?x8xf32>
func.func @divided(%q: tensor<2x?x8xf32>, %k: tensor<2x8x?xf32>, %v: tensor<2x?x8xf32>, %t: tensor<2xf32>) -> tensor<2x?x8xf32> {
  %zero = arith.constant 0.0 : f32
  %c1 = arith.constant 1 : index
  %m = tensor.dim %q, %c1 : tensor<2x?x8xf32>
  %n = tensor.dim %v, %c1 : tensor<2x?x8xf32>
  %e = tensor.empty(%m, %n) : tensor<2x?x?xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x?x?xf32>) -> tensor<2x?x?xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x?x8xf32>, tensor<2x8x?xf32>) outs(%s0 : tensor<2x?x?xf32>) -> tensor<2x?x?xf32>
  %scaled = linalg.generic {indexing_maps = [#a, #h, #a], iterator_types = ["parallel", "parallel", "parallel"]} ins(%s, %t : tensor<2x?x?xf32>, tensor<2xf32>) outs(%e : tensor<2x?x?xf32>) {
  ^bb0(%x: f32, %c: f32, %o: f32):
    %y = arith.divf %x, %c : f32
    linalg.yield %y : f32
  } -> tensor<2x?x?xf32>
  %w = linalg.softmax dimension(2) ins(%scaled : tensor<2x?x?xf32>) outs(%e : tensor<2x?x?xf32>) -> tensor<2x?x?xf32>
  %eo = tensor.empty(%m) : tensor<2x?x8xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%eo : tensor<2x?x8xf32>) -> tensor<2x?x8xf32>
  %r = linalg.batch_matmul ins(%w, %v : tensor<2x?x?xf32>, tensor<2x?x8xf32>) outs(%o0 : tensor<2x?x8xf32>) -> tensor<2x?x8xf32>
  return %r : tensor<2x?x8xf32>
}
