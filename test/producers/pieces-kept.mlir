// RUN: attn-opt %s --attn-propagate-layout=mode=always,operands=v --split-input-file --remarks --verify-diagnostics
// RUN: attn-opt %s --split-input-file > %t.0 && attn-opt %s --attn-propagate-layout=mode=always,operands=v --split-input-file > %t.1 && diff %t.0 %t.1

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// The old cache of a decode step is an argument: it would be copied at every step.
func.func @cache(%q: tensor<2x8x16xf32>, %k: tensor<2x32x16xf32>, %x: tensor<2x1x24xf32>, %w: tensor<2x24x16xf32>, %c: tensor<2x31x16xf32>) -> tensor<2x8x16xf32> {
  %z = arith.constant 0.0 : f32
  %pe = tensor.empty() : tensor<2x1x16xf32>
  %pf = linalg.fill ins(%z : f32) outs(%pe : tensor<2x1x16xf32>) -> tensor<2x1x16xf32>
  %p = linalg.batch_matmul ins(%x, %w : tensor<2x1x24xf32>, tensor<2x24x16xf32>) outs(%pf : tensor<2x1x16xf32>) -> tensor<2x1x16xf32>
  %v = tensor.concat dim(1) %c, %p : (tensor<2x31x16xf32>, tensor<2x1x16xf32>) -> tensor<2x32x16xf32>
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x8x16xf32>
  // expected-remark @below {{value kept: V stays as it is: V^T cannot be absorbed whole, it takes 1 more launch(es)}}
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

func.func @place(%q: tensor<2x8x16xf32>, %k: tensor<2x32x16xf32>, %x: tensor<2x20x24xf32>, %w: tensor<2x24x16xf32>) -> tensor<2x8x16xf32> {
  %z = arith.constant 0.0 : f32
  %pe = tensor.empty() : tensor<2x20x16xf32>
  %pf = linalg.fill ins(%z : f32) outs(%pe : tensor<2x20x16xf32>) -> tensor<2x20x16xf32>
  %p = linalg.batch_matmul ins(%x, %w : tensor<2x20x24xf32>, tensor<2x24x16xf32>) outs(%pf : tensor<2x20x16xf32>) -> tensor<2x20x16xf32>
  %v = tensor.pad %p low[0, 5, 0] high[0, 7, 0] {
  ^bb0(%i: index, %j: index, %l: index):
    %n = arith.index_cast %j : index to i32
    %y = arith.sitofp %n : i32 to f32
    tensor.yield %y : f32
  } : tensor<2x20x16xf32> to tensor<2x32x16xf32>
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x8x16xf32>
  // expected-remark @below {{value refused: V^T cannot be absorbed: its padding value depends on the place}}
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

func.func @rank(%q: tensor<2x8x16xf32>, %k: tensor<2x32x16xf32>, %x: tensor<32x24xf32>, %w: tensor<24x16xf32>) -> tensor<2x8x16xf32> {
  %z = arith.constant 0.0 : f32
  %de = tensor.empty() : tensor<2x32x16xf32>
  %d = linalg.fill ins(%z : f32) outs(%de : tensor<2x32x16xf32>) -> tensor<2x32x16xf32>
  %p = tensor.empty() : tensor<32x16xf32>
  %v = tensor.insert_slice %p into %d[1, 0, 0] [1, 32, 16] [1, 1, 1] : tensor<32x16xf32> into tensor<2x32x16xf32>
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x8x16xf32>
  // expected-remark @below {{value refused: V^T cannot be absorbed: it inserts a slice of lower rank}}
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

func.func @resource(%q: tensor<2x8x16xf32>, %k: tensor<2x32x16xf32>) -> tensor<2x8x16xf32> {
  %v = arith.constant dense_resource<blob> : tensor<2x32x16xf32>
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x8x16xf32>
  // expected-remark @below {{value refused: V^T cannot be absorbed: it is a resource whose bytes are not in the module}}
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x8x16xf32>, tensor<2x32x16xf32>, tensor<2x32x16xf32>, f32) outs(%out : tensor<2x8x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x8x16xf32>
  return %r : tensor<2x8x16xf32>
}
