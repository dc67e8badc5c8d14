// RUN: attn-opt %s --attn-propagate-layout=mode=always,operands=v --split-input-file | FileCheck %s
// RUN: attn-opt %s --attn-propagate-layout=mode=always,operands=v --split-input-file --mlir-print-op-generic | attn-opt --split-input-file | FileCheck %s

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// A batch_matmul whose operands both have the batch stays one, its operands swapped.
// CHECK-DAG: #[[L:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d3, d1)>
// CHECK-DAG: #[[R:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>
// CHECK-DAG: #[[VT:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d2, d4)>
// CHECK-LABEL: func.func @batched(
// CHECK-SAME: %[[Q:[a-z0-9]*]]: tensor<2x8x16xf32>, %[[K:[a-z0-9]*]]: tensor<2x32x16xf32>, %[[X:[a-z0-9]*]]: tensor<2x32x24xf32>, %[[W:[a-z0-9]*]]: tensor<2x24x16xf32>)
// CHECK: %[[P:.*]] = linalg.batch_matmul indexing_maps = [#[[L]], #[[R]], #{{.*}}] ins(%[[W]], %[[X]] : tensor<2x24x16xf32>, tensor<2x32x24xf32>) outs(%{{.*}} : tensor<2x16x32xf32>)
// CHECK-NOT: linalg.transpose
// CHECK: iree_linalg_ext.attention <indexing_maps = [#{{.*}}, #{{.*}}, #[[VT]], #{{.*}}, #{{.*}}]> ins(%[[Q]], %[[K]], %[[P]],
func.func @batched(%q: tensor<2x8x16xf32>, %k: tensor<2x32x16xf32>, %x: tensor<2x32x24xf32>, %w: tensor<2x24x16xf32>) -> tensor<2x8x16xf32> {
  %z = arith.constant 0.0 : f32
  %pe = tensor.empty() : tensor<2x32x16xf32>
  %pf = linalg.fill ins(%z : f32) outs(%pe : tensor<2x32x16xf32>) -> tensor<2x32x16xf32>
  %p = linalg.batch_matmul ins(%x, %w : tensor<2x32x24xf32>, tensor<2x24x16xf32>) outs(%pf : tensor<2x32x16xf32>) -> tensor<2x32x16xf32>
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x8x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %p, %scale : tensor<2x8x16xf32>, tensor<2x32x16xf32>, tensor<2x32x16xf32>, f32) outs(%out : tensor<2x8x16xf32>) {
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

// A weight that was only repeated over the batch is read un-repeated, by a contract; the
// input that carries the innermost dim of V^T comes second.
// CHECK-DAG: #[[W2:.*]] = affine_map<(d0, d1, d2, d3) -> (d3, d1)>
// CHECK-DAG: #[[X2:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>
// CHECK-LABEL: func.func @repeated(
// CHECK-SAME: %[[X:[a-z0-9]*]]: tensor<2x32x24xf32>, %[[W:[a-z0-9]*]]: tensor<24x16xf32>)
// CHECK-NOT: linalg.generic
// CHECK: linalg.contract indexing_maps = [#[[W2]], #[[X2]], #{{.*}}] ins(%[[W]], %[[X]] : tensor<24x16xf32>, tensor<2x32x24xf32>) outs(%{{.*}} : tensor<2x16x32xf32>)
func.func @repeated(%q: tensor<2x8x16xf32>, %k: tensor<2x32x16xf32>, %x: tensor<2x32x24xf32>, %w0: tensor<24x16xf32>) -> tensor<2x8x16xf32> {
  %we = tensor.empty() : tensor<2x24x16xf32>
  %w = linalg.generic {indexing_maps = [affine_map<(a, b, c) -> (b, c)>, affine_map<(a, b, c) -> (a, b, c)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%w0 : tensor<24x16xf32>) outs(%we : tensor<2x24x16xf32>) {
  ^bb0(%in: f32, %o: f32):
    linalg.yield %in : f32
  } -> tensor<2x24x16xf32>
  %z = arith.constant 0.0 : f32
  %pe = tensor.empty() : tensor<2x32x16xf32>
  %pf = linalg.fill ins(%z : f32) outs(%pe : tensor<2x32x16xf32>) -> tensor<2x32x16xf32>
  %p = linalg.batch_matmul ins(%x, %w : tensor<2x32x24xf32>, tensor<2x24x16xf32>) outs(%pf : tensor<2x32x16xf32>) -> tensor<2x32x16xf32>
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x8x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %p, %scale : tensor<2x8x16xf32>, tensor<2x32x16xf32>, tensor<2x32x16xf32>, f32) outs(%out : tensor<2x8x16xf32>) {
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

// A plain matmul stays one, and a generic one gets its inputs and block arguments swapped.
// CHECK-LABEL: func.func @generic(
// CHECK-SAME: %[[X:[a-z0-9]*]]: tensor<32x24xf16>, %[[W:[a-z0-9]*]]: tensor<16x24xf16>)
// CHECK: linalg.generic
// CHECK-SAME: iterator_types = ["parallel", "parallel", "reduction"]
// CHECK-SAME: ins(%[[W]], %[[X]] : tensor<16x24xf16>, tensor<32x24xf16>) outs(%{{.*}} : tensor<16x32xf32>)
func.func @generic(%q: tensor<1x8x16xf32>, %k: tensor<1x32x16xf32>, %x: tensor<32x24xf16>, %w: tensor<16x24xf16>) -> tensor<1x8x16xf32> {
  %z = arith.constant 0.0 : f32
  %pe = tensor.empty() : tensor<32x16xf32>
  %pf = linalg.fill ins(%z : f32) outs(%pe : tensor<32x16xf32>) -> tensor<32x16xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (j, k)>, affine_map<(i, j, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<32x24xf16>, tensor<16x24xf16>) outs(%pf : tensor<32x16xf32>) {
  ^bb0(%a: f16, %c: f16, %o: f32):
    %a1 = arith.extf %a : f16 to f32
    %c1 = arith.extf %c : f16 to f32
    %m = arith.mulf %a1, %c1 : f32
    %t = arith.addf %o, %m : f32
    linalg.yield %t : f32
  } -> tensor<32x16xf32>
  %v = tensor.expand_shape %p [[0, 1], [2]] output_shape [1, 32, 16] : tensor<32x16xf32> into tensor<1x32x16xf32>
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

// CHECK-LABEL: func.func @named(
// CHECK: linalg.matmul indexing_maps = [#{{.*}}, #{{.*}}, #{{.*}}] ins(%arg3, %arg2 : tensor<24x16xf32>, tensor<32x24xf32>) outs(%{{.*}} : tensor<16x32xf32>)
func.func @named(%q: tensor<1x8x16xf32>, %k: tensor<1x32x16xf32>, %x: tensor<32x24xf32>, %w: tensor<24x16xf32>) -> tensor<1x8x16xf32> {
  %z = arith.constant 0.0 : f32
  %pe = tensor.empty() : tensor<32x16xf32>
  %pf = linalg.fill ins(%z : f32) outs(%pe : tensor<32x16xf32>) -> tensor<32x16xf32>
  %p = linalg.matmul ins(%x, %w : tensor<32x24xf32>, tensor<24x16xf32>) outs(%pf : tensor<32x16xf32>) -> tensor<32x16xf32>
  %v = tensor.expand_shape %p [[0, 1], [2]] output_shape [1, 32, 16] : tensor<32x16xf32> into tensor<1x32x16xf32>
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

// An einsum projection: 64 rows are (batch, seq), which no permutation of [64, 16] separates.
// The contraction gets one more loop.
// CHECK-LABEL: func.func @split(
// CHECK-SAME: %[[X:[a-z0-9]*]]: tensor<64x24xf32>, %[[W:[a-z0-9]*]]: tensor<24x16xf32>)
// CHECK: %[[XE:.*]] = tensor.expand_shape %[[X]] {{\[\[}}0, 1], [2]] output_shape [2, 32, 24]
// CHECK: linalg.contract {{.*}} ins(%[[W]], %[[XE]] : tensor<24x16xf32>, tensor<2x32x24xf32>) outs(%{{.*}} : tensor<2x16x32xf32>)
func.func @split(%q: tensor<2x8x16xf32>, %k: tensor<2x32x16xf32>, %x: tensor<64x24xf32>, %w: tensor<24x16xf32>) -> tensor<2x8x16xf32> {
  %z = arith.constant 0.0 : f32
  %pe = tensor.empty() : tensor<64x16xf32>
  %pf = linalg.fill ins(%z : f32) outs(%pe : tensor<64x16xf32>) -> tensor<64x16xf32>
  %p = linalg.matmul ins(%x, %w : tensor<64x24xf32>, tensor<24x16xf32>) outs(%pf : tensor<64x16xf32>) -> tensor<64x16xf32>
  %v = tensor.expand_shape %p [[0, 1], [2]] output_shape [2, 32, 16] : tensor<64x16xf32> into tensor<2x32x16xf32>
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x8x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x8x16xf32>, tensor<2x32x16xf32>, tensor<2x32x16xf32>, f32) outs(%out : tensor<2x8x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x8x16xf32>
  return %r : tensor<2x8x16xf32>
}
