// RUN: attn-opt %s --attn-decompose --split-input-file --remarks 2> %t.txt -o %t.mlir
// RUN: FileCheck %s < %t.mlir
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt
// WHY: is not written out: its region reads the index of a dim that its scores lack
// WHY: is not written out: its maxima have dims that its scores, sums or output lack
// WHY: is not written out: iree_linalg_ext.attention: it works on buffers, not on tensors

#q = affine_map<(m, n, k1, k2) -> (m, k1)>
#k = affine_map<(m, n, k1, k2) -> (k2, k1)>
#v = affine_map<(m, n, k1, k2) -> (k2, n)>
#s = affine_map<(m, n, k1, k2) -> ()>
#o = affine_map<(m, n, k1, k2) -> (m, n)>

// CHECK-LABEL: func.func @index_of_the_head(
// CHECK: iree_linalg_ext.attention
func.func @index_of_the_head(%q: tensor<4x8xf32>, %k: tensor<12x8xf32>, %v: tensor<12x6xf32>) -> tensor<4x6xf32> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<4x6xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<4x8xf32>, tensor<12x8xf32>, tensor<12x6xf32>, f32) outs(%out : tensor<4x6xf32>) {
    ^bb0(%score: f32):
      %at = iree_linalg_ext.index 2 : index
      %int = arith.index_cast %at : index to i32
      %float = arith.sitofp %int : i32 to f32
      %x = arith.addf %score, %float : f32
      iree_linalg_ext.yield %x : f32
  } -> tensor<4x6xf32>
  return %r : tensor<4x6xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
#r = affine_map<(b, m, n, k1, k2) -> (b, m)>
#t = affine_map<(b, m, n, k1, k2) -> (b)>

// CHECK-LABEL: func.func @sums_of_several_rows(
// CHECK: iree_linalg_ext.online_attention
func.func @sums_of_several_rows(%q: tensor<2x16x8xf32>, %k: tensor<2x24x8xf32>, %v: tensor<2x24x8xf32>, %o: tensor<2x16x8xf32>, %max: tensor<2x16xf32>, %sum: tensor<2xf32>) -> (tensor<2x16x8xf32>, tensor<2x16xf32>, tensor<2xf32>) {
  %scale = arith.constant 0.25 : f32
  %r:3 = iree_linalg_ext.online_attention <indexing_maps = [#q, #k, #v, #s, #o, #r, #t]>
      ins(%q, %k, %v, %scale : tensor<2x16x8xf32>, tensor<2x24x8xf32>, tensor<2x24x8xf32>, f32)
      outs(%o, %max, %sum : tensor<2x16x8xf32>, tensor<2x16xf32>, tensor<2xf32>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x16x8xf32>, tensor<2x16xf32>, tensor<2xf32>
  return %r#0, %r#1, %r#2 : tensor<2x16x8xf32>, tensor<2x16xf32>, tensor<2xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK-LABEL: func.func @buffers(
// CHECK: iree_linalg_ext.attention
func.func @buffers(%q: memref<2x16x8xf32>, %k: memref<2x24x8xf32>, %v: memref<2x24x4xf32>, %o: memref<2x16x4xf32>) {
  %scale = arith.constant 1.0 : f32
  iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : memref<2x16x8xf32>, memref<2x24x8xf32>, memref<2x24x4xf32>, f32) outs(%o : memref<2x16x4xf32>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  }
  return
}
