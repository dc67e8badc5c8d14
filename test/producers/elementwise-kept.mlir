// RUN: attn-opt %s --attn-propagate-layout=mode=always,operands=v --split-input-file --remarks --verify-diagnostics
// RUN: attn-opt %s --split-input-file > %t.0 && attn-opt %s --attn-propagate-layout=mode=always,operands=v --split-input-file > %t.1 && diff %t.0 %t.1

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

func.func @results(%q: tensor<2x8x16xf32>, %k: tensor<2x32x16xf32>, %x: tensor<2x32x16xf32>) -> tensor<2x8x16xf32> {
  %e = tensor.empty() : tensor<2x32x16xf32>
  %v, %u = linalg.generic {indexing_maps = [affine_map<(a, b, c) -> (a, b, c)>, affine_map<(a, b, c) -> (a, b, c)>, affine_map<(a, b, c) -> (a, b, c)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<2x32x16xf32>) outs(%e, %e : tensor<2x32x16xf32>, tensor<2x32x16xf32>) {
  ^bb0(%in: f32, %o: f32, %o1: f32):
    linalg.yield %in, %in : f32, f32
  } -> (tensor<2x32x16xf32>, tensor<2x32x16xf32>)
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x8x16xf32>
  // expected-remark @below {{value refused: V^T cannot be absorbed: it has several results (linalg.generic at}}
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

func.func @index(%q: tensor<2x8x16xf32>, %k: tensor<2x32x16xf32>, %x: tensor<?x16xf32>, %n: index, %m: index) -> tensor<2x8x16xf32> {
  %e = tensor.empty(%m) : tensor<?x16xf32>
  %g = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<?x16xf32>) outs(%e : tensor<?x16xf32>) {
  ^bb0(%in: f32, %o: f32):
    %i = linalg.index 0 : index
    %i1 = arith.index_cast %i : index to i32
    %i2 = arith.sitofp %i1 : i32 to f32
    %t = arith.mulf %in, %i2 : f32
    linalg.yield %t : f32
  } -> tensor<?x16xf32>
  %d = tensor.expand_shape %g [[0, 1], [2]] output_shape [2, %n, 16] : tensor<?x16xf32> into tensor<2x?x16xf32>
  %v = tensor.cast %d : tensor<2x?x16xf32> to tensor<2x32x16xf32>
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x8x16xf32>
  // expected-remark @below {{value refused: V^T cannot be absorbed: its body reads the index of a dim of dynamic factors}}
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x8x16xf32>, tensor<2x32x16xf32>, tensor<2x32x16xf32>, f32) outs(%out : tensor<2x8x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x8x16xf32>
  return %r : tensor<2x8x16xf32>
}
