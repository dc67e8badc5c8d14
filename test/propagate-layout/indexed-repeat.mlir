// A grouped-query repeat that is read by index, computed or from a table: attention reads the
// cache itself, as it does behind a broadcast.
// RUN: attn-opt %s --attn-explicit-repeats --attn-propagate-layout=mode=cost,target=sm_80 --split-input-file --remarks 2>&1 | FileCheck %s

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
#id = affine_map<(a, b, c) -> (a, b, c)>
#head = affine_map<(a, b, c) -> (a)>

// CHECK-COUNT-3: remark: value folded: {{.*}}the grouped-query broadcast is folded into attention's maps
// CHECK: remark: value kept

// Heads of K by division, those of V from a table whose last entry counts from the end; the
// number of keys is known at run time.
// CHECK-LABEL: func.func @divided_and_listed
// CHECK-SAME: %[[K:[a-z0-9]+]]: tensor<3x?x64xf16>, %[[V:[a-z0-9]+]]: tensor<3x?x64xf16>
// CHECK-NOT: linalg.generic
// CHECK: iree_linalg_ext.attention {{.*}} ins(%{{[^,]+}}, %[[K]], %[[V]],
func.func @divided_and_listed(%q: tensor<6x1x64xf16>, %kc: tensor<3x?x64xf16>, %vc: tensor<3x?x64xf16>) -> tensor<6x1x64xf16> {
  %one = arith.constant 1 : index
  %two = arith.constant 2 : index
  %nk = tensor.dim %kc, %one : tensor<3x?x64xf16>
  %nv = tensor.dim %vc, %one : tensor<3x?x64xf16>
  %ke = tensor.empty(%nk) : tensor<6x?x64xf16>
  %ve = tensor.empty(%nv) : tensor<6x?x64xf16>
  %k = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel", "parallel", "parallel"]} outs(%ke : tensor<6x?x64xf16>) {
  ^bb0(%out: f16):
    %h = linalg.index 0 : index
    %s = linalg.index 1 : index
    %d = linalg.index 2 : index
    %g = arith.divui %h, %two : index
    %x = tensor.extract %kc[%g, %s, %d] : tensor<3x?x64xf16>
    linalg.yield %x : f16
  } -> tensor<6x?x64xf16>
  %table = arith.constant dense<[0, 0, 1, 1, -1, -1]> : tensor<6xi64>
  %v = linalg.generic {indexing_maps = [#head, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%table : tensor<6xi64>) outs(%ve : tensor<6x?x64xf16>) {
  ^bb0(%in: i64, %out: f16):
    %c3 = arith.constant 3 : i64
    %c0 = arith.constant 0 : i64
    %before = arith.cmpi slt, %in, %c0 : i64
    %wrapped = arith.addi %in, %c3 : i64
    %i = arith.select %before, %wrapped, %in : i64
    %g = arith.index_cast %i : i64 to index
    %s = linalg.index 1 : index
    %d = linalg.index 2 : index
    %x = tensor.extract %vc[%g, %s, %d] : tensor<3x?x64xf16>
    linalg.yield %x : f16
  } -> tensor<6x?x64xf16>
  %scale = arith.constant 0.25 : f16
  %o = tensor.empty() : tensor<6x1x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<6x1x64xf16>, tensor<6x?x64xf16>, tensor<6x?x64xf16>, f16) outs(%o : tensor<6x1x64xf16>) {
    ^bb0(%score: f16):
      iree_linalg_ext.yield %score : f16
  } -> tensor<6x1x64xf16>
  return %r : tensor<6x1x64xf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// Gathers; the table repeats the heads as a whole.
// CHECK-LABEL: func.func @gathered
// CHECK-SAME: %[[K:[a-z0-9]+]]: tensor<3x4096x64xf16>, %[[V:[a-z0-9]+]]: tensor<3x4096x64xf16>
// CHECK-NOT: iree_linalg_ext.gather
// CHECK: iree_linalg_ext.attention {{.*}} ins(%{{[^,]+}}, %[[K]], %[[V]],
func.func @gathered(%q: tensor<6x1x64xf16>, %kc: tensor<3x4096x64xf16>, %vc: tensor<3x4096x64xf16>) -> tensor<6x1x64xf16> {
  %table = arith.constant dense<[0, 1, 2, 0, 1, 2]> : tensor<6xi32>
  %e = tensor.empty() : tensor<6x4096x64xf16>
  %k = iree_linalg_ext.gather dimension_map = [0] ins(%kc, %table : tensor<3x4096x64xf16>, tensor<6xi32>) outs(%e : tensor<6x4096x64xf16>) -> tensor<6x4096x64xf16>
  %v = iree_linalg_ext.gather dimension_map = [0] ins(%vc, %table : tensor<3x4096x64xf16>, tensor<6xi32>) outs(%e : tensor<6x4096x64xf16>) -> tensor<6x4096x64xf16>
  %scale = arith.constant 0.25 : f16
  %o = tensor.empty() : tensor<6x1x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<6x1x64xf16>, tensor<6x4096x64xf16>, tensor<6x4096x64xf16>, f16) outs(%o : tensor<6x1x64xf16>) {
    ^bb0(%score: f16):
      iree_linalg_ext.yield %score : f16
  } -> tensor<6x1x64xf16>
  return %r : tensor<6x1x64xf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
#id = affine_map<(a, b, c, d) -> (a, b, c, d)>

// The index of a head is computed by a program of its own: i / 2, held back to the last head.
// CHECK-LABEL: func.func @computed_table
// CHECK-SAME: %[[K:[a-z0-9]+]]: tensor<6x4096x64xf16>, %[[V:[a-z0-9]+]]: tensor<1x3x4096x64xf16>
// CHECK-NOT: tensor.extract %
// CHECK: iree_linalg_ext.attention
func.func @computed_table(%q: tensor<6x1x64xf16>, %k: tensor<6x4096x64xf16>, %vc: tensor<1x3x4096x64xf16>) -> tensor<6x1x64xf16> {
  %te = tensor.empty() : tensor<6xi64>
  %table = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>], iterator_types = ["parallel"]} outs(%te : tensor<6xi64>) {
  ^bb0(%out: i64):
    %h = linalg.index 0 : index
    %i = arith.index_cast %h : index to i64
    %c2 = arith.constant 2 : i64
    %g = arith.floordivsi %i, %c2 : i64
    %last = arith.constant 2 : i64
    %held = arith.minsi %g, %last : i64
    linalg.yield %held : i64
  } -> tensor<6xi64>
  %ve = tensor.empty() : tensor<1x6x4096x64xf16>
  %v4 = linalg.generic {indexing_maps = [affine_map<(a, b, c, d) -> (b)>, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%table : tensor<6xi64>) outs(%ve : tensor<1x6x4096x64xf16>) {
  ^bb0(%in: i64, %out: f16):
    %b = linalg.index 0 : index
    %g = arith.index_cast %in : i64 to index
    %s = linalg.index 2 : index
    %d = linalg.index 3 : index
    %x = tensor.extract %vc[%b, %g, %s, %d] : tensor<1x3x4096x64xf16>
    linalg.yield %x : f16
  } -> tensor<1x6x4096x64xf16>
  %v = tensor.collapse_shape %v4 [[0, 1], [2], [3]] : tensor<1x6x4096x64xf16> into tensor<6x4096x64xf16>
  %scale = arith.constant 0.25 : f16
  %o = tensor.empty() : tensor<6x1x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<6x1x64xf16>, tensor<6x4096x64xf16>, tensor<6x4096x64xf16>, f16) outs(%o : tensor<6x1x64xf16>) {
    ^bb0(%score: f16):
      iree_linalg_ext.yield %score : f16
  } -> tensor<6x1x64xf16>
  return %r : tensor<6x1x64xf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// No repeat: the last head is read three times, the second once. The gathers stay.
// CHECK-LABEL: func.func @uneven
// CHECK-COUNT-2: iree_linalg_ext.gather
func.func @uneven(%q: tensor<6x1x64xf16>, %kc: tensor<3x4096x64xf16>, %vc: tensor<3x4096x64xf16>) -> tensor<6x1x64xf16> {
  %table = arith.constant dense<[0, 0, 1, 2, 2, 2]> : tensor<6xi32>
  %e = tensor.empty() : tensor<6x4096x64xf16>
  %k = iree_linalg_ext.gather dimension_map = [0] ins(%kc, %table : tensor<3x4096x64xf16>, tensor<6xi32>) outs(%e : tensor<6x4096x64xf16>) -> tensor<6x4096x64xf16>
  %v = iree_linalg_ext.gather dimension_map = [0] ins(%vc, %table : tensor<3x4096x64xf16>, tensor<6xi32>) outs(%e : tensor<6x4096x64xf16>) -> tensor<6x4096x64xf16>
  %scale = arith.constant 0.25 : f16
  %o = tensor.empty() : tensor<6x1x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<6x1x64xf16>, tensor<6x4096x64xf16>, tensor<6x4096x64xf16>, f16) outs(%o : tensor<6x1x64xf16>) {
    ^bb0(%score: f16):
      iree_linalg_ext.yield %score : f16
  } -> tensor<6x1x64xf16>
  return %r : tensor<6x1x64xf16>
}
