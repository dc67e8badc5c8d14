// Of key dims that V has in another order than K, the one that IREE's tiles fill goes last, on
// CPUs; where they fill none of them, attention is written out: IREE would mask the rest wrong.

// RUN: attn-opt %s --target=llvm-cpu --attn-normal-form --split-input-file | FileCheck %s
// RUN: attn-opt %s --pass-pipeline='attn-normal-form,attn-decompose{only=wrong target=llvm-cpu}' --target=llvm-cpu --split-input-file --remarks 2> %t.txt | FileCheck %s --check-prefix=OUT
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt
// WHY: products and a softmax in f32 now: IREE 3.13 masks the innermost of several key dims wrong where it fills no tiles
// WHY: products and a softmax in f32 now: IREE 3.13 masks the innermost of several key dims wrong where it fills no tiles
// WHY-NOT: products and a softmax

#q = affine_map<(m, n, k1, i, j) -> (m, k1)>
#k = affine_map<(m, n, k1, i, j) -> (i, j, k1)>
#v = affine_map<(m, n, k1, i, j) -> (n, j, i)>
#s = affine_map<(m, n, k1, i, j) -> ()>
#o = affine_map<(m, n, k1, i, j) -> (m, n)>

// CHECK-DAG: #[[K:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d4, d3, d2)>
// CHECK-LABEL: func.func @few_inside(
// CHECK: iree_linalg_ext.attention <indexing_maps = [#{{.*}}, #[[K]],
// OUT-LABEL: func.func @few_inside(
// OUT: iree_linalg_ext.attention
func.func @few_inside(%q: tensor<6x72xf32>, %k: tensor<48x3x72xf32>, %v: tensor<64x3x48xf32>) -> tensor<6x64xf32> {
  %scale = arith.constant 0.25 : f32
  %e = tensor.empty() : tensor<6x64xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<6x72xf32>, tensor<48x3x72xf32>, tensor<64x3x48xf32>, f32) outs(%e : tensor<6x64xf32>) {
    ^bb0(%y: f32):
      iree_linalg_ext.yield %y : f32
  } -> tensor<6x64xf32>
  return %r : tensor<6x64xf32>
}

// -----

#q = affine_map<(m, n, k1, i, j) -> (m, k1)>
#k = affine_map<(m, n, k1, i, j) -> (i, j, k1)>
#v = affine_map<(m, n, k1, i, j) -> (n, j, i)>
#s = affine_map<(m, n, k1, i, j) -> ()>
#o = affine_map<(m, n, k1, i, j) -> (m, n)>

// CHECK-DAG: #[[K:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d3, d4, d2)>
// CHECK-LABEL: func.func @no_tiles(
// CHECK: iree_linalg_ext.attention <indexing_maps = [#{{.*}}, #[[K]],
// OUT-LABEL: func.func @no_tiles(
// OUT-NOT: iree_linalg_ext.attention
func.func @no_tiles(%q: tensor<6x72xf32>, %k: tensor<9x3x72xf32>, %v: tensor<64x3x9xf32>) -> tensor<6x64xf32> {
  %scale = arith.constant 0.25 : f32
  %e = tensor.empty() : tensor<6x64xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<6x72xf32>, tensor<9x3x72xf32>, tensor<64x3x9xf32>, f32) outs(%e : tensor<6x64xf32>) {
    ^bb0(%y: f32):
      iree_linalg_ext.yield %y : f32
  } -> tensor<6x64xf32>
  return %r : tensor<6x64xf32>
}

// -----

#q = affine_map<(m, n, k1, i, j) -> (m, k1)>
#k = affine_map<(m, n, k1, i, j) -> (i, j, k1)>
#v = affine_map<(m, n, k1, i, j) -> (n, i, j)>
#s = affine_map<(m, n, k1, i, j) -> ()>
#o = affine_map<(m, n, k1, i, j) -> (m, n)>

// Neighbours everywhere, which IREE joins.
// OUT-LABEL: func.func @joined(
// OUT: iree_linalg_ext.attention
func.func @joined(%q: tensor<6x72xf32>, %k: tensor<9x3x72xf32>, %v: tensor<64x9x3xf32>) -> tensor<6x64xf32> {
  %scale = arith.constant 0.25 : f32
  %e = tensor.empty() : tensor<6x64xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<6x72xf32>, tensor<9x3x72xf32>, tensor<64x9x3xf32>, f32) outs(%e : tensor<6x64xf32>) {
    ^bb0(%y: f32):
      iree_linalg_ext.yield %y : f32
  } -> tensor<6x64xf32>
  return %r : tensor<6x64xf32>
}

// -----

#q = affine_map<(m, n, k1, i, j) -> (m, k1)>
#k = affine_map<(m, n, k1, i, j) -> (i, j, k1)>
#v = affine_map<(m, n, k1, i, j) -> (i, j, n)>
#s = affine_map<(m, n, k1, i, j) -> ()>
#o = affine_map<(m, n, k1, i, j) -> (m, n)>

// The key dims are neighbours in V, and not in what it is a transpose of, which IREE reads.
// OUT-LABEL: func.func @apart_below(
// OUT-NOT: iree_linalg_ext.attention
func.func @apart_below(%q: tensor<6x72xf32>, %k: tensor<9x3x72xf32>, %t: tensor<9x64x3xf32>) -> tensor<6x64xf32> {
  %scale = arith.constant 0.25 : f32
  %f = tensor.empty() : tensor<9x3x64xf32>
  %v = linalg.transpose ins(%t : tensor<9x64x3xf32>) outs(%f : tensor<9x3x64xf32>) permutation = [0, 2, 1]
  %e = tensor.empty() : tensor<6x64xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<6x72xf32>, tensor<9x3x72xf32>, tensor<9x3x64xf32>, f32) outs(%e : tensor<6x64xf32>) {
    ^bb0(%y: f32):
      iree_linalg_ext.yield %y : f32
  } -> tensor<6x64xf32>
  return %r : tensor<6x64xf32>
}
