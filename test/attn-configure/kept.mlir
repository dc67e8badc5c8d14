// RUN: attn-opt %s --attn-configure=target=llvm-cpu --split-input-file --remarks 2> %t.txt -o %t.mlir
// RUN: FileCheck %s < %t.mlir
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt
// WHY: keeps IREE's own configuration: it has a lowering_config
// WHY: keeps IREE's own configuration: head dim 2048 is too wide for vectors of 16 bytes
// WHY: keeps IREE's own configuration: nothing was measured for f8E4M3FN
// WHY: keeps IREE's own configuration: its head dim is known only at run time, so its vectors have no bound
// WHY: keeps IREE's own configuration: it has unit dims, which IREE folds: its rank is not final before phase 'flow'
// WHY: keeps IREE's own configuration: its scores depend on positions, which IREE 3.13 gets wrong in tiles on a CPU

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK-LABEL: func.func @configured(
// CHECK: lowering_config = "mine"
// CHECK-NOT: compilation_info
func.func @configured(%q: tensor<2x8x16xf32>, %k: tensor<2x32x16xf32>, %v: tensor<2x32x16xf32>) -> tensor<2x8x16xf32> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x8x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> {lowering_config = "mine"}
      ins(%q, %k, %v, %scale : tensor<2x8x16xf32>, tensor<2x32x16xf32>, tensor<2x32x16xf32>, f32) outs(%out : tensor<2x8x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x8x16xf32>
  return %r : tensor<2x8x16xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK-LABEL: func.func @wide(
// CHECK-NOT: compilation_info
func.func @wide(%q: tensor<2x8x2048xf32>, %k: tensor<2x32x2048xf32>, %v: tensor<2x32x2048xf32>) -> tensor<2x8x2048xf32> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x8x2048xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x8x2048xf32>, tensor<2x32x2048xf32>, tensor<2x32x2048xf32>, f32) outs(%out : tensor<2x8x2048xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x8x2048xf32>
  return %r : tensor<2x8x2048xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK-LABEL: func.func @eight_bits(
// CHECK-NOT: compilation_info
func.func @eight_bits(%q: tensor<2x8x16xf8E4M3FN>, %k: tensor<2x32x16xf8E4M3FN>, %v: tensor<2x32x16xf8E4M3FN>) -> tensor<2x8x16xf32> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x8x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x8x16xf8E4M3FN>, tensor<2x32x16xf8E4M3FN>, tensor<2x32x16xf8E4M3FN>, f32) outs(%out : tensor<2x8x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x8x16xf32>
  return %r : tensor<2x8x16xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK-LABEL: func.func @unknown_head(
// CHECK-NOT: compilation_info
func.func @unknown_head(%q: tensor<2x8x16xf32>, %k: tensor<2x32x16xf32>, %v: tensor<2x32x?xf32>) -> tensor<2x8x?xf32> {
  %scale = arith.constant 0.25 : f32
  %c2 = arith.constant 2 : index
  %d = tensor.dim %v, %c2 : tensor<2x32x?xf32>
  %out = tensor.empty(%d) : tensor<2x8x?xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x8x16xf32>, tensor<2x32x16xf32>, tensor<2x32x?xf32>, f32) outs(%out : tensor<2x8x?xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x8x?xf32>
  return %r : tensor<2x8x?xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK-LABEL: func.func @unit(
// CHECK-NOT: compilation_info
func.func @unit(%q: tensor<1x8x16xf32>, %k: tensor<1x32x16xf32>, %v: tensor<1x32x16xf32>) -> tensor<1x8x16xf32> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<1x8x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<1x8x16xf32>, tensor<1x32x16xf32>, tensor<1x32x16xf32>, f32) outs(%out : tensor<1x8x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<1x8x16xf32>
  return %r : tensor<1x8x16xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK-LABEL: func.func @positions(
// CHECK-NOT: compilation_info
func.func @positions(%q: tensor<2x8x16xf32>, %k: tensor<2x32x16xf32>, %v: tensor<2x32x16xf32>) -> tensor<2x8x16xf32> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x8x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x8x16xf32>, tensor<2x32x16xf32>, tensor<2x32x16xf32>, f32) outs(%out : tensor<2x8x16xf32>) {
    ^bb0(%score: f32):
      %i = iree_linalg_ext.index 4 : index
      %j = arith.index_cast %i : index to i32
      %bias = arith.sitofp %j : i32 to f32
      %sum = arith.addf %score, %bias : f32
      iree_linalg_ext.yield %sum : f32
  } -> tensor<2x8x16xf32>
  return %r : tensor<2x8x16xf32>
}
