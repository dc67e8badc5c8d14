// Repeats of K and V that attention reads past: in front of a transpose, for all heads, and of what
// is read by index.

// RUN: attn-opt %s --attn-propagate-layout=mode=cost,operands=v,k,q --split-input-file | FileCheck %s
// RUN: attn-opt %s --attn-propagate-layout=mode=cost,operands=v,k,q --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=WHY
// WHY-COUNT-2: attention reads it as it lies before its transpose and its grouped-query broadcast

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
#in = affine_map<(b, s, h, g, d) -> (b, s, h, d)>
#all = affine_map<(b, s, h, g, d) -> (b, s, h, g, d)>

// A cache of (batch, sequence, heads, head dim), as Llama's authors write it.
// CHECK-DAG: #[[K:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d5, d0, d4)>
// CHECK-DAG: #[[V:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d5, d0, d3)>
// CHECK-LABEL: func.func @sequence_major(
// CHECK-NOT: linalg.generic
// CHECK-NOT: linalg.transpose
// CHECK: iree_linalg_ext.attention <indexing_maps = [#{{.*}}, #[[K]], #[[V]], #{{.*}}, #{{.*}}]> ins({{.*}} : tensor<2x4x1x16xf32>, tensor<32x2x16xf32>, tensor<32x2x16xf32>, f32)
func.func @sequence_major(%q: tensor<8x1x16xf32>, %kc: tensor<1x32x2x16xf32>, %vc: tensor<1x32x2x16xf32>) -> tensor<8x1x16xf32> {
  %e = tensor.empty() : tensor<1x32x2x4x16xf32>
  %te = tensor.empty() : tensor<1x8x32x16xf32>
  %kr = linalg.generic {indexing_maps = [#in, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%kc : tensor<1x32x2x16xf32>) outs(%e : tensor<1x32x2x4x16xf32>) {
  ^bb0(%in: f32, %o: f32):
    linalg.yield %in : f32
  } -> tensor<1x32x2x4x16xf32>
  %k4 = tensor.collapse_shape %kr [[0], [1], [2, 3], [4]] : tensor<1x32x2x4x16xf32> into tensor<1x32x8x16xf32>
  %kt = linalg.transpose ins(%k4 : tensor<1x32x8x16xf32>) outs(%te : tensor<1x8x32x16xf32>) permutation = [0, 2, 1, 3]
  %k = tensor.collapse_shape %kt [[0, 1], [2], [3]] : tensor<1x8x32x16xf32> into tensor<8x32x16xf32>
  %vr = linalg.generic {indexing_maps = [#in, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%vc : tensor<1x32x2x16xf32>) outs(%e : tensor<1x32x2x4x16xf32>) {
  ^bb0(%in: f32, %o: f32):
    linalg.yield %in : f32
  } -> tensor<1x32x2x4x16xf32>
  %v4 = tensor.collapse_shape %vr [[0], [1], [2, 3], [4]] : tensor<1x32x2x4x16xf32> into tensor<1x32x8x16xf32>
  %vt = linalg.transpose ins(%v4 : tensor<1x32x8x16xf32>) outs(%te : tensor<1x8x32x16xf32>) permutation = [0, 2, 1, 3]
  %v = tensor.collapse_shape %vt [[0, 1], [2], [3]] : tensor<1x8x32x16xf32> into tensor<8x32x16xf32>
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<8x1x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<8x1x16xf32>, tensor<8x32x16xf32>, tensor<8x32x16xf32>, f32) outs(%out : tensor<8x1x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<8x1x16xf32>
  return %r : tensor<8x1x16xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
#in = affine_map<(h, s, d) -> (s, d)>
#all = affine_map<(h, s, d) -> (h, s, d)>

// Multi-query attention of one sequence, its result transposed: IREE would repeat K and V.
// CHECK-LABEL: func.func @multi_query(
// CHECK-SAME: %{{.*}}: tensor<8x24x16xf32>, %[[K:[a-z0-9]+]]: tensor<32x16xf32>
// CHECK-NOT: tensor<8x32x16xf32>
// CHECK: iree_linalg_ext.attention {{.*}} ins(%{{.*}}, %[[K]], %[[K]], %{{.*}} : tensor<8x24x16xf32>, tensor<32x16xf32>, tensor<32x16xf32>, f32)
// WHY: value folded{{.*}}the grouped-query broadcast is folded into attention's maps
func.func @multi_query(%q: tensor<8x24x16xf32>, %kv: tensor<32x16xf32>) -> tensor<24x8x16xf32> {
  %e = tensor.empty() : tensor<8x32x16xf32>
  %k = linalg.generic {indexing_maps = [#in, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%kv : tensor<32x16xf32>) outs(%e : tensor<8x32x16xf32>) {
  ^bb0(%in: f32, %o: f32):
    linalg.yield %in : f32
  } -> tensor<8x32x16xf32>
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<8x24x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %k, %scale : tensor<8x24x16xf32>, tensor<8x32x16xf32>, tensor<8x32x16xf32>, f32) outs(%out : tensor<8x24x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<8x24x16xf32>
  %te = tensor.empty() : tensor<24x8x16xf32>
  %t = linalg.transpose ins(%r : tensor<8x24x16xf32>) outs(%te : tensor<24x8x16xf32>) permutation = [1, 0, 2]
  return %t : tensor<24x8x16xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
#in = affine_map<(h, g, s, d) -> (h, s, d)>
#all = affine_map<(h, g, s, d) -> (h, g, s, d)>

// Groups of heads, with the result transposed: IREE splits the heads and folds the repeat.
// CHECK-LABEL: func.func @groups(
// CHECK: linalg.generic
// CHECK: iree_linalg_ext.attention {{.*}} ins({{.*}} : tensor<8x24x16xf32>, tensor<8x32x16xf32>, tensor<8x32x16xf32>, f32)
// WHY: value kept
func.func @groups(%q: tensor<8x24x16xf32>, %kv: tensor<2x32x16xf32>) -> tensor<24x8x16xf32> {
  %e = tensor.empty() : tensor<2x4x32x16xf32>
  %k4 = linalg.generic {indexing_maps = [#in, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%kv : tensor<2x32x16xf32>) outs(%e : tensor<2x4x32x16xf32>) {
  ^bb0(%in: f32, %o: f32):
    linalg.yield %in : f32
  } -> tensor<2x4x32x16xf32>
  %k = tensor.collapse_shape %k4 [[0, 1], [2], [3]] : tensor<2x4x32x16xf32> into tensor<8x32x16xf32>
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<8x24x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %k, %scale : tensor<8x24x16xf32>, tensor<8x32x16xf32>, tensor<8x32x16xf32>, f32) outs(%out : tensor<8x24x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<8x24x16xf32>
  %te = tensor.empty() : tensor<24x8x16xf32>
  %t = linalg.transpose ins(%r : tensor<8x24x16xf32>) outs(%te : tensor<24x8x16xf32>) permutation = [1, 0, 2]
  return %t : tensor<24x8x16xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
#in = affine_map<(h, g, s, d) -> (h, s, d)>
#all = affine_map<(h, g, s, d) -> (h, g, s, d)>
#three = affine_map<(h, s, d) -> (h, s, d)>

// Two sequences with one head of V, read by index (Falcon): IREE would read it for each head.
// K, which is computed, is left to IREE.
// CHECK: #[[VM:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d5, d3)>
// CHECK-LABEL: func.func @read_by_index(
// CHECK: %[[X:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<2x32x16xf32>)
// CHECK: tensor.extract
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<2x4x32x16xf32>)
// CHECK-NOT: linalg.generic {{.*}}ins(%[[X]]
// CHECK: iree_linalg_ext.attention <indexing_maps = [#{{.*}}, #{{.*}}, #[[VM]], #{{.*}}, #{{.*}}]> ins(%{{.*}}, %{{.*}}, %[[X]], %{{.*}} : tensor<2x4x24x16xf32>, tensor<2x4x32x16xf32>, tensor<2x32x16xf32>, f32)
// WHY: value folded{{.*}}attention reads what is read by index at {{.*}}, not its repeats
func.func @read_by_index(%q: tensor<8x24x16xf32>, %kx: tensor<2x32x16xf32>, %packed: tensor<2x32x6x16xf32>) -> tensor<24x8x16xf32> {
  %c5 = arith.constant 5 : index
  %ex = tensor.empty() : tensor<2x32x16xf32>
  %e = tensor.empty() : tensor<2x4x32x16xf32>
  %x = linalg.generic {indexing_maps = [#three], iterator_types = ["parallel", "parallel", "parallel"]} outs(%ex : tensor<2x32x16xf32>) {
  ^bb0(%o: f32):
    %a = linalg.index 0 : index
    %b = linalg.index 1 : index
    %c = linalg.index 2 : index
    %y = tensor.extract %packed[%a, %b, %c5, %c] : tensor<2x32x6x16xf32>
    linalg.yield %y : f32
  } -> tensor<2x32x16xf32>
  %v4 = linalg.generic {indexing_maps = [#in, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x : tensor<2x32x16xf32>) outs(%e : tensor<2x4x32x16xf32>) {
  ^bb0(%in: f32, %o: f32):
    linalg.yield %in : f32
  } -> tensor<2x4x32x16xf32>
  %v = tensor.collapse_shape %v4 [[0, 1], [2], [3]] : tensor<2x4x32x16xf32> into tensor<8x32x16xf32>
  %k4 = linalg.generic {indexing_maps = [#in, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%kx : tensor<2x32x16xf32>) outs(%e : tensor<2x4x32x16xf32>) {
  ^bb0(%in: f32, %o: f32):
    linalg.yield %in : f32
  } -> tensor<2x4x32x16xf32>
  %k = tensor.collapse_shape %k4 [[0, 1], [2], [3]] : tensor<2x4x32x16xf32> into tensor<8x32x16xf32>
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<8x24x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<8x24x16xf32>, tensor<8x32x16xf32>, tensor<8x32x16xf32>, f32) outs(%out : tensor<8x24x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<8x24x16xf32>
  %te = tensor.empty() : tensor<24x8x16xf32>
  %t = linalg.transpose ins(%r : tensor<8x24x16xf32>) outs(%te : tensor<24x8x16xf32>) permutation = [1, 0, 2]
  return %t : tensor<24x8x16xf32>
}
