// RUN: attn-opt %s --attn-propagate-layout=mode=always,operands=v --split-input-file --remarks --verify-diagnostics
// RUN: attn-opt %s --split-input-file > %t.0 && attn-opt %s --attn-propagate-layout=mode=always,operands=v --split-input-file > %t.1 && diff %t.0 %t.1

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

func.func @stride(%q: tensor<2x8x16xf32>, %k: tensor<2x32x16xf32>, %x: tensor<2x64x24xf32>, %w: tensor<2x24x16xf32>) -> tensor<2x8x16xf32> {
  %z = arith.constant 0.0 : f32
  %pe = tensor.empty() : tensor<2x64x16xf32>
  %pf = linalg.fill ins(%z : f32) outs(%pe : tensor<2x64x16xf32>) -> tensor<2x64x16xf32>
  %p = linalg.batch_matmul ins(%x, %w : tensor<2x64x24xf32>, tensor<2x24x16xf32>) outs(%pf : tensor<2x64x16xf32>) -> tensor<2x64x16xf32>
  %v = tensor.extract_slice %p[0, 0, 0] [2, 32, 16] [1, 2, 1] : tensor<2x64x16xf32> to tensor<2x32x16xf32>
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x8x16xf32>
  // expected-remark @below {{value refused: V^T cannot be absorbed: it slices with a stride}}
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
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

func.func @offset(%q: tensor<2x8x16xf32>, %k: tensor<2x32x16xf32>, %x: tensor<2x64x24xf32>, %w: tensor<2x24x16xf32>, %i: index) -> tensor<2x8x16xf32> {
  %z = arith.constant 0.0 : f32
  %pe = tensor.empty() : tensor<2x64x16xf32>
  %pf = linalg.fill ins(%z : f32) outs(%pe : tensor<2x64x16xf32>) -> tensor<2x64x16xf32>
  %p = linalg.batch_matmul ins(%x, %w : tensor<2x64x24xf32>, tensor<2x24x16xf32>) outs(%pf : tensor<2x64x16xf32>) -> tensor<2x64x16xf32>
  %v = tensor.extract_slice %p[0, %i, 0] [2, 32, 16] [1, 1, 1] : tensor<2x64x16xf32> to tensor<2x32x16xf32>
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x8x16xf32>
  // expected-remark @below {{value refused: V^T cannot be absorbed: the slice's offset is known only at run time}}
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x8x16xf32>, tensor<2x32x16xf32>, tensor<2x32x16xf32>, f32) outs(%out : tensor<2x8x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x8x16xf32>
  return %r : tensor<2x8x16xf32>
}
