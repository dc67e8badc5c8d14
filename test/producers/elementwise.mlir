// RUN: attn-opt %s --attn-propagate-layout=mode=always,operands=v --split-input-file | FileCheck %s
// RUN: attn-opt %s --attn-propagate-layout=mode=always,operands=v --split-input-file --mlir-print-op-generic | attn-opt --split-input-file | FileCheck %s

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// A bias: the whole nest is permuted, the bias read through a new map, no transpose left.
// CHECK-DAG: #[[ID:.*]] = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
// CHECK-DAG: #[[B:.*]] = affine_map<(d0, d1, d2) -> (d1)>
// CHECK-LABEL: func.func @bias(
// CHECK: %[[P:.*]] = linalg.batch_matmul {{.*}} outs(%{{.*}} : tensor<2x16x32xf32>)
// CHECK: linalg.generic {indexing_maps = [#[[ID]], #[[B]], #[[ID]]], {{.*}}} ins(%[[P]], %{{.*}} : tensor<2x16x32xf32>, tensor<16xf32>)
// CHECK-NOT: linalg.transpose
// CHECK: return
func.func @bias(%q: tensor<2x8x16xf32>, %k: tensor<2x32x16xf32>, %x: tensor<2x32x24xf32>, %w: tensor<2x24x16xf32>, %c: tensor<16xf32>) -> tensor<2x8x16xf32> {
  %z = arith.constant 0.0 : f32
  %pe = tensor.empty() : tensor<2x32x16xf32>
  %pf = linalg.fill ins(%z : f32) outs(%pe : tensor<2x32x16xf32>) -> tensor<2x32x16xf32>
  %p = linalg.batch_matmul ins(%x, %w : tensor<2x32x24xf32>, tensor<2x24x16xf32>) outs(%pf : tensor<2x32x16xf32>) -> tensor<2x32x16xf32>
  %v = linalg.generic {indexing_maps = [affine_map<(a, b, c) -> (a, b, c)>, affine_map<(a, b, c) -> (c)>, affine_map<(a, b, c) -> (a, b, c)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%p, %c : tensor<2x32x16xf32>, tensor<16xf32>) outs(%pe : tensor<2x32x16xf32>) {
  ^bb0(%in: f32, %bias: f32, %o: f32):
    %t = arith.addf %in, %bias : f32
    linalg.yield %t : f32
  } -> tensor<2x32x16xf32>
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x8x16xf32>
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

// An operand that comes in as an argument is read through a permuted map: a cast, the scale
// of a quantised value. `linalg.index` follows its loop.
// CHECK-DAG: #[[T:.*]] = affine_map<(d0, d1, d2) -> (d0, d2, d1)>
// CHECK-LABEL: func.func @dequantise(
// CHECK: linalg.generic {indexing_maps = [#[[T]], #{{.*}}], {{.*}}} ins(%{{.*}} : tensor<2x32x16xf8E4M3FN>) outs(%{{.*}} : tensor<2x16x32xf32>)
// CHECK: linalg.index 2 : index
func.func @dequantise(%q: tensor<2x8x16xf32>, %k: tensor<2x32x16xf32>, %x: tensor<2x32x16xf8E4M3FN>) -> tensor<2x8x16xf32> {
  %e = tensor.empty() : tensor<2x32x16xf32>
  %v = linalg.generic {indexing_maps = [affine_map<(a, b, c) -> (a, b, c)>, affine_map<(a, b, c) -> (a, b, c)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<2x32x16xf8E4M3FN>) outs(%e : tensor<2x32x16xf32>) {
  ^bb0(%in: f8E4M3FN, %o: f32):
    %i = linalg.index 1 : index
    %i1 = arith.index_cast %i : index to i32
    %i2 = arith.sitofp %i1 : i32 to f32
    %w = arith.extf %in : f8E4M3FN to f32
    %t = arith.mulf %w, %i2 : f32
    linalg.yield %t : f32
  } -> tensor<2x32x16xf32>
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x8x16xf32>
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

// The index of a dim that is split is put together again.
// CHECK-LABEL: func.func @index(
// CHECK: %[[OUTER:.*]] = linalg.index 0
// CHECK: %[[INNER:.*]] = linalg.index 2
// CHECK: %[[C32:.*]] = arith.constant 32
// CHECK: %[[ROW:.*]] = arith.muli %[[OUTER]], %[[C32]]
// CHECK: %[[INDEX:.*]] = arith.addi %[[ROW]], %[[INNER]]
// CHECK: arith.index_cast %[[INDEX]]
func.func @index(%q: tensor<2x8x16xf32>, %k: tensor<2x32x16xf32>, %x: tensor<64x16xf32>) -> tensor<2x8x16xf32> {
  %e = tensor.empty() : tensor<64x16xf32>
  %g = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<64x16xf32>) outs(%e : tensor<64x16xf32>) {
  ^bb0(%in: f32, %o: f32):
    %i = linalg.index 0 : index
    %i1 = arith.index_cast %i : index to i32
    %i2 = arith.sitofp %i1 : i32 to f32
    %t = arith.mulf %in, %i2 : f32
    linalg.yield %t : f32
  } -> tensor<64x16xf32>
  %v = tensor.expand_shape %g [[0, 1], [2]] output_shape [2, 32, 16] : tensor<64x16xf32> into tensor<2x32x16xf32>
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x8x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x8x16xf32>, tensor<2x32x16xf32>, tensor<2x32x16xf32>, f32) outs(%out : tensor<2x8x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x8x16xf32>
  return %r : tensor<2x8x16xf32>
}
