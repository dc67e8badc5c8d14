// Where a row could see no key, attention is taken apart, and the division by its sum of weights
// gives 0 where that is 0. What sees all of a known number of keys is left alone. Twice is once.

// RUN: attn-opt %s --attn-fully-masked-rows --remarks 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt
// RUN: attn-opt %s --attn-fully-masked-rows --report=- -o %t.once.mlir
// RUN: attn-opt %s --attn-fully-masked-rows --attn-fully-masked-rows --report=- -o %t.twice.mlir
// RUN: diff %t.once.mlir %t.twice.mlir
// RUN: attn-opt %s --attn-fully-masked-rows --attn-fuse-normalization | FileCheck %s --check-prefix=WHOLE

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
#ot = affine_map<(b, m, n, k1, k2) -> (m, b, n)>
#mask = affine_map<(b, m, n, k1, k2) -> (k2, b, m)>
#rows = affine_map<(b, m, n, k1, k2) -> (m, k2)>

!q = tensor<2x4x8xf32>
!kv = tensor<2x6x8xf32>

#pair = affine_map<(m, n, k1, i, j) -> (m, k1)>
#kpair = affine_map<(m, n, k1, i, j) -> (i, j, k1)>
#vpair = affine_map<(m, n, k1, i, j) -> (i, j, n)>
#spair = affine_map<(m, n, k1, i, j) -> ()>
#mpair = affine_map<(m, n, k1, i, j) -> (m, i, j)>
#opair = affine_map<(m, n, k1, i, j) -> (m, n)>

// WHOLE-NOT: online_attention

// WHY: attention at {{.*}}: rows whose keys are all hidden by the lowest finite number are the mean of V
// WHY: attention at {{.*}}:{{[0-9]+}}:8: rows that see no key are 0, as in PyTorch; IREE gives NaN

// CHECK-DAG: #[[ALL:.*]] = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
// CHECK-DAG: #[[ROWS:.*]] = affine_map<(d0, d1, d2) -> (d0, d1)>
// CHECK-LABEL: func.func @booleans(
// CHECK: arith.constant -3.40282347E+38
// CHECK: %[[R:.*]]:3 = iree_linalg_ext.online_attention {{.*}}ins(%arg0, %arg1, %arg2, %arg4, %arg3 : {{.*}}) outs(%{{.*}}, %{{.*}}, %{{.*}} : tensor<4x2x8xf32>, tensor<4x2xf32>, tensor<4x2xf32>)
// CHECK: %[[OUT:.*]] = linalg.generic {indexing_maps = [#[[ALL]], #[[ROWS]], #[[ALL]]], {{.*}}} ins(%[[R]]#0, %[[R]]#2 : tensor<4x2x8xf32>, tensor<4x2xf32>)
// CHECK: ^bb0(%[[X:.*]]: f32, %[[SUM:.*]]: f32,
// CHECK: %[[Q:.*]] = arith.divf %[[X]], %[[SUM]]
// CHECK: %[[NONE:.*]] = arith.cmpf oeq, %[[SUM]], %{{.*}} : f32
// CHECK: arith.select %[[NONE]], %{{.*}}, %[[Q]] : f32
// CHECK: return %[[OUT]]
func.func @booleans(%q: !q, %k: !kv, %v: !kv, %mask: tensor<6x2x4xi1>, %s: f32) -> tensor<4x2x8xf32> {
  %e = tensor.empty() : tensor<4x2x8xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #mask, #ot]> ins(%q, %k, %v, %s, %mask : !q, !kv, !kv, f32, tensor<6x2x4xi1>) outs(%e : tensor<4x2x8xf32>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<4x2x8xf32>
  return %r : tensor<4x2x8xf32>
}

// The sums are f32, whatever the result is. Of rows whose number is known only at run time, too.
// CHECK-LABEL: func.func @halves(
// CHECK: iree_linalg_ext.online_attention {{.*}} outs(%{{.*}} : tensor<2x?x8xf32>, tensor<2x?xf32>, tensor<2x?xf32>)
// CHECK: arith.select {{.*}} : f32
// CHECK: arith.truncf {{.*}} f32 to f16
func.func @halves(%q: tensor<2x?x8xf16>, %k: tensor<2x6x8xf16>, %v: tensor<2x6x8xf16>, %mask: tensor<?x6xf16>, %s: f16) -> tensor<2x?x8xf16> {
  %c1 = arith.constant 1 : index
  %n = tensor.dim %q, %c1 : tensor<2x?x8xf16>
  %e = tensor.empty(%n) : tensor<2x?x8xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #rows, #o]> ins(%q, %k, %v, %s, %mask : tensor<2x?x8xf16>, tensor<2x6x8xf16>, tensor<2x6x8xf16>, f16, tensor<?x6xf16>) outs(%e : tensor<2x?x8xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x?x8xf16>
  return %r : tensor<2x?x8xf16>
}

// One row, two key dims.
// CHECK-LABEL: func.func @pages(
// CHECK: online_attention
// CHECK: arith.select
func.func @pages(%q: tensor<1x8xf32>, %k: tensor<2x3x8xf32>, %v: tensor<2x3x8xf32>, %mask: tensor<1x2x3xi1>, %s: f32) -> tensor<1x8xf32> {
  %e = tensor.empty() : tensor<1x8xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#pair, #kpair, #vpair, #spair, #mpair, #opair]> ins(%q, %k, %v, %s, %mask : tensor<1x8xf32>, tensor<2x3x8xf32>, tensor<2x3x8xf32>, f32, tensor<1x2x3xi1>) outs(%e : tensor<1x8xf32>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<1x8xf32>
  return %r : tensor<1x8xf32>
}

// No key at run time.
// CHECK-LABEL: func.func @unknown(
// CHECK: online_attention
// CHECK: arith.select
func.func @unknown(%q: !q, %k: tensor<2x?x8xf32>, %v: tensor<2x?x8xf32>, %s: f32) -> !q {
  %e = tensor.empty() : !q
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %s : !q, tensor<2x?x8xf32>, tensor<2x?x8xf32>, f32) outs(%e : !q) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> !q
  return %r : !q
}

// Kept: six keys, and nothing hides one.
// CHECK-LABEL: func.func @all(
// CHECK: iree_linalg_ext.attention
// CHECK-NEXT: bb0
// CHECK-NEXT: yield
// CHECK-NEXT: ->
// CHECK-NEXT: return
func.func @all(%q: !q, %k: !kv, %v: !kv, %s: f32) -> !q {
  %e = tensor.empty() : !q
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %s : !q, !kv, !kv, f32) outs(%e : !q) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> !q
  return %r : !q
}

// The lowest number: the mean of V.
// CHECK-LABEL: func.func @lowest(
// CHECK: arith.maximumf
// CHECK: online_attention
func.func @lowest(%q: !q, %k: !kv, %v: !kv, %mask: tensor<4x6xf32>, %s: f32) -> !q {
  %e = tensor.empty() : !q
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #rows, #o]> ins(%q, %k, %v, %s, %mask : !q, !kv, !kv, f32, tensor<4x6xf32>) outs(%e : !q) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> !q
  return %r : !q
}
