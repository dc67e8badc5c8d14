// V^T is absorbed by the projection before IREE gets to its own transpose of V, and the flow
// dialect shows attention reading it; with `never` V stays as it was, since IREE's own
// transpose is off; with --attn-disable IREE decides.

// RUN: attn-compile %s %cpu --attn-mode=always --compile-to=flow | FileCheck %s --check-prefix=ALWAYS
// RUN: attn-compile %s %cpu --attn-mode=never --compile-to=flow | FileCheck %s --check-prefix=NEVER
// RUN: attn-compile %s %cpu --attn-mode=always --compile-to=preprocessing | FileCheck %s --check-prefix=PRE
// RUN: attn-compile %s %cpu --attn-mode=always --compile-to=input --attn-report=- 2>&1 | FileCheck %s --check-prefix=EARLY

// PRE: %[[V:.*]] = linalg.matmul indexing_maps =
// PRE-SAME: -> tensor<8x16xf32>
// PRE: tensor.expand_shape %[[V]] {{\[\[}}0, 1], [2]] output_shape [1, 8, 16]
// PRE: iree_linalg_ext.attention
// PRE-SAME: affine_map<(d0, d1, d2, d3, d4) -> (d0, d2, d4)>

// ALWAYS-DAG: linalg.generic{{.*}}"reduction"{{.*}}outs({{.*}} : tensor<8x16xf32>)
// ALWAYS-DAG: iree_linalg_ext.attention{{.*}}tensor<16x8xf32>, tensor<16x8xf32>, tensor<8x16xf32>

// NEVER-DAG: linalg.generic{{.*}}"reduction"{{.*}}outs({{.*}} : tensor<16x8xf32>)
// NEVER-DAG: iree_linalg_ext.attention{{.*}}tensor<16x8xf32>, tensor<16x8xf32>, tensor<16x8xf32>

// EARLY: linalg.matmul ins({{.*}}) outs({{.*}}) -> tensor<16x8xf32>
// EARLY: not run: {{.*}}attn-raise, {{.*}}attn-propagate-layout, {{.*}}attn-split-k, {{.*}}attn-decompose, {{.*}}works at phase 'preprocessing', outside 'start' to 'input'

func.func @main(%x: tensor<16x32xf32>, %wv: tensor<32x8xf32>, %q: tensor<1x16x8xf32>, %k: tensor<1x16x8xf32>) -> tensor<1x16x8xf32> {
  %zero = arith.constant 0.0 : f32
  %scale = arith.constant 0.35 : f32
  %e = tensor.empty() : tensor<16x8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<16x8xf32>) -> tensor<16x8xf32>
  %v0 = linalg.matmul ins(%x, %wv : tensor<16x32xf32>, tensor<32x8xf32>) outs(%f : tensor<16x8xf32>) -> tensor<16x8xf32>
  %v = tensor.expand_shape %v0 [[0, 1], [2]] output_shape [1, 16, 8] : tensor<16x8xf32> into tensor<1x16x8xf32>
  %o = tensor.empty() : tensor<1x16x8xf32>
  %r = iree_linalg_ext.attention <
      indexing_maps = [affine_map<(b, m, n, k1, k2) -> (b, m, k1)>, affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>, affine_map<(b, m, n, k1, k2) -> (b, k2, n)>, affine_map<(b, m, n, k1, k2) -> ()>, affine_map<(b, m, n, k1, k2) -> (b, m, n)>]>
      ins(%q, %k, %v, %scale : tensor<1x16x8xf32>, tensor<1x16x8xf32>, tensor<1x16x8xf32>, f32) outs(%o : tensor<1x16x8xf32>) {
    ^bb0(%s: f32):
      iree_linalg_ext.yield %s : f32
  } -> tensor<1x16x8xf32>
  return %r : tensor<1x16x8xf32>
}
