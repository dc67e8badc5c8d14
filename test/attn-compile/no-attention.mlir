// What the report says where there is no attention op: written out as products and a softmax, in
// a function that nobody calls, or nothing like it. A softmax of weights that no product reads
// (as of a mixture's experts) is none.

// RUN: attn-compile %s %cpu --split-input-file --compile-to=preprocessing --attn-raise=false --attn-summary -o %t.mlir 2>&1 | FileCheck %s
// RUN: attn-compile %s %cpu --split-input-file --compile-to=preprocessing --attn-raise=false --attn-phase=input --attn-report=%t.json -o %t.mlir
// RUN: attn-compile %s %cpu --split-input-file --compile-to=preprocessing --attn-summary -o %t.mlir 2>&1 | FileCheck %s --check-prefix=RAISED
// RUN: attn-compile %s --iree-hal-target-device=vulkan --split-input-file --compile-to=preprocessing --attn-summary -o %t.mlir 2>&1 | FileCheck %s --check-prefix=VULKAN
// RUN: FileCheck %s --check-prefix=JSON < %t.json

// CHECK: report: 0 attention ops
// CHECK: note: no entry point reaches an attention op, and no product reads a softmax{{.*}}(2 times)
// CHECK: note: products and a softmax at {{.*}}no-attention.mlir:[[# @LINE + 44]]:8 stay as they are: attn-raise, which makes attention ops, is off
// CHECK-NOT: a softmax at

// RAISED: report: 1 attention op
// RAISED: note: products and a softmax at {{.*}}no-attention.mlir:{{.*}} are an attention op now
// RAISED: note: no entry point reaches an attention op{{.*}}(2 times)
// RAISED-NOT: a softmax at

// VULKAN: report: 0 attention ops
// VULKAN: note: products and a softmax at {{.*}}no-attention.mlir:{{.*}} stay as they are: IREE has no fast code for attention ops on vulkan-spirv

// At this phase IREE has not yet removed what nobody calls.
// JSON: "function": "nobody_calls"
// JSON: no-attention.mlir:[[# @LINE + 31]]:8
// JSON: "what": "not-raised"
// JSON: no entry point reaches an attention op
// JSON-NOT: no entry point reaches

#rows = affine_map<(b, m, n) -> (b, m, n)>
#sums = affine_map<(b, m, n) -> (b, m)>
func.func @attention(%q: tensor<2x8x4xf32>, %k: tensor<2x4x8xf32>, %v: tensor<2x8x4xf32>) -> tensor<2x8x4xf32> {
  %zero = arith.constant 0.0 : f32
  %scores = tensor.empty() : tensor<2x8x8xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%scores : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x8x4xf32>, tensor<2x4x8xf32>) outs(%s0 : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %e = linalg.generic {indexing_maps = [#rows, #rows], iterator_types = ["parallel", "parallel", "parallel"]} ins(%s : tensor<2x8x8xf32>) outs(%scores : tensor<2x8x8xf32>) {
  ^bb0(%x: f32, %out: f32):
    %y = math.exp %x : f32
    linalg.yield %y : f32
  } -> tensor<2x8x8xf32>
  %sum = tensor.empty() : tensor<2x8xf32>
  %t0 = linalg.fill ins(%zero : f32) outs(%sum : tensor<2x8xf32>) -> tensor<2x8xf32>
  %t = linalg.generic {indexing_maps = [#rows, #sums], iterator_types = ["parallel", "parallel", "reduction"]} ins(%e : tensor<2x8x8xf32>) outs(%t0 : tensor<2x8xf32>) {
  ^bb0(%x: f32, %sofar: f32):
    %y = arith.addf %x, %sofar : f32
    linalg.yield %y : f32
  } -> tensor<2x8xf32>
  %p = linalg.generic {indexing_maps = [#rows, #sums, #rows], iterator_types = ["parallel", "parallel", "parallel"]} ins(%e, %t : tensor<2x8x8xf32>, tensor<2x8xf32>) outs(%scores : tensor<2x8x8xf32>) {
  ^bb0(%x: f32, %z: f32, %out: f32):
    %y = arith.divf %x, %z : f32
    linalg.yield %y : f32
  } -> tensor<2x8x8xf32>
  %r = tensor.empty() : tensor<2x8x4xf32>
  %r0 = linalg.fill ins(%zero : f32) outs(%r : tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  %o = linalg.batch_matmul ins(%p, %v : tensor<2x8x8xf32>, tensor<2x8x4xf32>) outs(%r0 : tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  return %o : tensor<2x8x4xf32>
}

// -----

func.func private @nobody_calls(%q: tensor<1x16x8xf32>, %k: tensor<1x16x8xf32>, %v: tensor<1x16x8xf32>) -> tensor<1x16x8xf32> {
  %scale = arith.constant 0.35 : f32
  %o = tensor.empty() : tensor<1x16x8xf32>
  %r = iree_linalg_ext.attention <
      indexing_maps = [affine_map<(b, m, n, k1, k2) -> (b, m, k1)>, affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>, affine_map<(b, m, n, k1, k2) -> (b, k2, n)>, affine_map<(b, m, n, k1, k2) -> ()>, affine_map<(b, m, n, k1, k2) -> (b, m, n)>]>
      ins(%q, %k, %v, %scale : tensor<1x16x8xf32>, tensor<1x16x8xf32>, tensor<1x16x8xf32>, f32) outs(%o : tensor<1x16x8xf32>) {
    ^bb0(%s: f32):
      iree_linalg_ext.yield %s : f32
  } -> tensor<1x16x8xf32>
  return %r : tensor<1x16x8xf32>
}
func.func @other(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

#gates = affine_map<(t, e) -> (t, e)>
#totals = affine_map<(t, e) -> (t)>
func.func @experts(%g: tensor<8x4xf32>, %x: tensor<8x4x16xf32>, %w: tensor<64x16xf32>) -> tensor<8x16xf32> {
  %zero = arith.constant 0.0 : f32
  %gates = tensor.empty() : tensor<8x4xf32>
  %e = linalg.generic {indexing_maps = [#gates, #gates], iterator_types = ["parallel", "parallel"]} ins(%g : tensor<8x4xf32>) outs(%gates : tensor<8x4xf32>) {
  ^bb0(%a: f32, %out: f32):
    %y = math.exp %a : f32
    linalg.yield %y : f32
  } -> tensor<8x4xf32>
  %sum = tensor.empty() : tensor<8xf32>
  %t0 = linalg.fill ins(%zero : f32) outs(%sum : tensor<8xf32>) -> tensor<8xf32>
  %t = linalg.generic {indexing_maps = [#gates, #totals], iterator_types = ["parallel", "reduction"]} ins(%e : tensor<8x4xf32>) outs(%t0 : tensor<8xf32>) {
  ^bb0(%a: f32, %sofar: f32):
    %y = arith.addf %a, %sofar : f32
    linalg.yield %y : f32
  } -> tensor<8xf32>
  %all = tensor.empty() : tensor<8x4x16xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(t, e, d) -> (t, e)>, affine_map<(t, e, d) -> (t)>, affine_map<(t, e, d) -> (t, e, d)>, affine_map<(t, e, d) -> (t, e, d)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%e, %t, %x : tensor<8x4xf32>, tensor<8xf32>, tensor<8x4x16xf32>) outs(%all : tensor<8x4x16xf32>) {
  ^bb0(%a: f32, %z: f32, %b: f32, %out: f32):
    %q = arith.divf %a, %z : f32
    %y = arith.mulf %q, %b : f32
    linalg.yield %y : f32
  } -> tensor<8x4x16xf32>
  %flat = tensor.collapse_shape %p [[0], [1, 2]] : tensor<8x4x16xf32> into tensor<8x64xf32>
  %r = tensor.empty() : tensor<8x16xf32>
  %r0 = linalg.fill ins(%zero : f32) outs(%r : tensor<8x16xf32>) -> tensor<8x16xf32>
  %o = linalg.matmul ins(%flat, %w : tensor<8x64xf32>, tensor<64x16xf32>) outs(%r0 : tensor<8x16xf32>) -> tensor<8x16xf32>
  return %o : tensor<8x16xf32>
}
