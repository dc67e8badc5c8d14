// What is added to 16-bit scores and is made of products alone, as biases of relative positions are,
// hides no key: the mask stays in 16 bits, as it is, and products that it repeats are stored. Another
// tensor may hide keys.

// RUN: attn-opt %s --attn-raise | FileCheck %s

#all = affine_map<(b, m, n) -> (b, m, n)>
#column = affine_map<(b, m, n) -> (b, n)>

// CHECK-LABEL: func.func @positions(
// CHECK: %[[BIAS:.*]] = linalg.batch_matvec
// CHECK: %[[STORED:.*]] = iree_tensor_ext.compute_barrier.start %[[BIAS]]
// CHECK: %[[MASK:.*]] = linalg.generic {{.*}} ins(%[[STORED]], {{.*}} outs(%{{.*}} : tensor<2x6x5xf16>)
// CHECK-NOT: arith.select
// CHECK: iree_linalg_ext.attention

// CHECK-LABEL: func.func @given(
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<2x6x5xf32>)
// CHECK: arith.select
// CHECK: iree_linalg_ext.attention

func.func @positions(%q: tensor<2x6x8xf16>, %k: tensor<2x8x5xf16>, %v: tensor<2x5x8xf16>, %r: tensor<2x5x8xf16>, %kr: tensor<2x8x5xf16>, %p: tensor<2x8xf16>) -> tensor<2x6x8xf16> {
  %zero = arith.constant 0.0 : f16
  %e = tensor.empty() : tensor<2x6x5xf16>
  %eo = tensor.empty() : tensor<2x6x8xf16>
  %wide = tensor.empty() : tensor<2x6x5xf32>
  %b0 = tensor.empty() : tensor<2x5xf16>
  %b1 = linalg.fill ins(%zero : f16) outs(%b0 : tensor<2x5xf16>) -> tensor<2x5xf16>
  %bias = linalg.batch_matvec ins(%r, %p : tensor<2x5x8xf16>, tensor<2x8xf16>) outs(%b1 : tensor<2x5xf16>) -> tensor<2x5xf16>
  %s0 = linalg.fill ins(%zero : f16) outs(%e : tensor<2x6x5xf16>) -> tensor<2x6x5xf16>
  %o0 = linalg.fill ins(%zero : f16) outs(%eo : tensor<2x6x8xf16>) -> tensor<2x6x8xf16>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x6x8xf16>, tensor<2x8x5xf16>) outs(%s0 : tensor<2x6x5xf16>) -> tensor<2x6x5xf16>
  %more = linalg.batch_matmul ins(%q, %kr : tensor<2x6x8xf16>, tensor<2x8x5xf16>) outs(%s0 : tensor<2x6x5xf16>) -> tensor<2x6x5xf16>
  %t = linalg.generic {indexing_maps = [#all, #column, #all, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%s, %bias, %more : tensor<2x6x5xf16>, tensor<2x5xf16>, tensor<2x6x5xf16>) outs(%e : tensor<2x6x5xf16>) {
  ^bb0(%a: f16, %b: f16, %m: f16, %c: f16):
    %f = arith.addf %a, %b : f16
    %d = arith.addf %f, %m : f16
    linalg.yield %d : f16
  } -> tensor<2x6x5xf16>
  %u = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%t : tensor<2x6x5xf16>) outs(%wide : tensor<2x6x5xf32>) {
  ^bb0(%a: f16, %c: f32):
    %d = arith.extf %a : f16 to f32
    linalg.yield %d : f32
  } -> tensor<2x6x5xf32>
  %w = linalg.softmax dimension(2) ins(%u : tensor<2x6x5xf32>) outs(%wide : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %x = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%w : tensor<2x6x5xf32>) outs(%e : tensor<2x6x5xf16>) {
  ^bb0(%a: f32, %c: f16):
    %d = arith.truncf %a : f32 to f16
    linalg.yield %d : f16
  } -> tensor<2x6x5xf16>
  %y = linalg.batch_matmul ins(%x, %v : tensor<2x6x5xf16>, tensor<2x5x8xf16>) outs(%o0 : tensor<2x6x8xf16>) -> tensor<2x6x8xf16>
  return %y : tensor<2x6x8xf16>
}

func.func @given(%q: tensor<2x6x8xf16>, %k: tensor<2x8x5xf16>, %v: tensor<2x5x8xf16>, %r: tensor<2x5x8xf16>, %kr: tensor<2x8x5xf16>, %bias: tensor<2x5xf16>) -> tensor<2x6x8xf16> {
  %zero = arith.constant 0.0 : f16
  %e = tensor.empty() : tensor<2x6x5xf16>
  %eo = tensor.empty() : tensor<2x6x8xf16>
  %wide = tensor.empty() : tensor<2x6x5xf32>
  %s0 = linalg.fill ins(%zero : f16) outs(%e : tensor<2x6x5xf16>) -> tensor<2x6x5xf16>
  %o0 = linalg.fill ins(%zero : f16) outs(%eo : tensor<2x6x8xf16>) -> tensor<2x6x8xf16>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x6x8xf16>, tensor<2x8x5xf16>) outs(%s0 : tensor<2x6x5xf16>) -> tensor<2x6x5xf16>
  %more = linalg.batch_matmul ins(%q, %kr : tensor<2x6x8xf16>, tensor<2x8x5xf16>) outs(%s0 : tensor<2x6x5xf16>) -> tensor<2x6x5xf16>
  %t = linalg.generic {indexing_maps = [#all, #column, #all, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%s, %bias, %more : tensor<2x6x5xf16>, tensor<2x5xf16>, tensor<2x6x5xf16>) outs(%e : tensor<2x6x5xf16>) {
  ^bb0(%a: f16, %b: f16, %m: f16, %c: f16):
    %f = arith.addf %a, %b : f16
    %d = arith.addf %f, %m : f16
    linalg.yield %d : f16
  } -> tensor<2x6x5xf16>
  %u = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%t : tensor<2x6x5xf16>) outs(%wide : tensor<2x6x5xf32>) {
  ^bb0(%a: f16, %c: f32):
    %d = arith.extf %a : f16 to f32
    linalg.yield %d : f32
  } -> tensor<2x6x5xf32>
  %w = linalg.softmax dimension(2) ins(%u : tensor<2x6x5xf32>) outs(%wide : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %x = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%w : tensor<2x6x5xf32>) outs(%e : tensor<2x6x5xf16>) {
  ^bb0(%a: f32, %c: f16):
    %d = arith.truncf %a : f32 to f16
    linalg.yield %d : f16
  } -> tensor<2x6x5xf16>
  %y = linalg.batch_matmul ins(%x, %v : tensor<2x6x5xf16>, tensor<2x5x8xf16>) outs(%o0 : tensor<2x6x8xf16>) -> tensor<2x6x8xf16>
  return %y : tensor<2x6x8xf16>
}
