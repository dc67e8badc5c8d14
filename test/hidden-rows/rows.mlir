// Rows whose mask hides every key become 0, by a reduction of the mask and a choice behind
// attention. Masks that show each row a key or that hold no infinity
// are left alone. The lowest finite number, which IREE would make infinite, becomes a higher one.

// RUN: attn-opt %s --attn-hidden-rows --report=%t.json | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.json

// WHY: attention at {{.*}}:{{[0-9]+}}:8: rows whose mask hides every key are 0, as in PyTorch; IREE gives NaN

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
#ot = affine_map<(b, m, n, k1, k2) -> (m, b, n)>
#mask = affine_map<(b, m, n, k1, k2) -> (k2, b, m)>
#rows = affine_map<(b, m, n, k1, k2) -> (m, k2)>
#keys = affine_map<(b, m, n, k1, k2) -> (b, k2)>
#ij = affine_map<(i, j) -> (i, j)>

!q = tensor<2x4x8xf32>
!kv = tensor<2x6x8xf32>

// CHECK-DAG: #[[ALL:.*]] = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
// CHECK-DAG: #[[KEPT:.*]] = affine_map<(d0, d1, d2) -> (d1, d2)>
// CHECK-DAG: #[[TURNED:.*]] = affine_map<(d0, d1, d2) -> (d1, d0)>
// CHECK-LABEL: func.func @booleans(
// CHECK: %[[R:.*]] = iree_linalg_ext.attention
// CHECK: %[[SEEN:.*]] = linalg.generic {indexing_maps = [#[[ALL]], #[[KEPT]]], iterator_types = ["reduction", "parallel", "parallel"]} ins(%arg3 : tensor<6x2x4xi1>)
// CHECK: arith.extui
// CHECK: arith.maxui
// CHECK: } -> tensor<2x4xi32>
// CHECK: %[[OUT:.*]] = linalg.generic {indexing_maps = [#[[ALL]], #[[TURNED]], #[[ALL]]], {{.*}}} ins(%[[R]], %[[SEEN]] : tensor<4x2x8xf32>, tensor<2x4xi32>)
// CHECK: arith.select
// CHECK: return %[[OUT]]
func.func @booleans(%q: !q, %k: !kv, %v: !kv, %mask: tensor<6x2x4xi1>, %s: f32) -> tensor<4x2x8xf32> {
  %e = tensor.empty() : tensor<4x2x8xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #mask, #ot]> ins(%q, %k, %v, %s, %mask : !q, !kv, !kv, f32, tensor<6x2x4xi1>) outs(%e : tensor<4x2x8xf32>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<4x2x8xf32>
  return %r : tensor<4x2x8xf32>
}

// Numbers hide a key by -infinity alone; sizes may be known only at run time.
// CHECK-LABEL: func.func @numbers(
// CHECK: iree_linalg_ext.attention
// CHECK: tensor.empty(%{{.*}}) : tensor<?xi32>
// CHECK: arith.constant 0xFC00 : f16
// CHECK: arith.cmpf ogt
// CHECK: arith.select
func.func @numbers(%q: tensor<2x?x8xf32>, %k: !kv, %v: !kv, %mask: tensor<?x6xf16>, %s: f32) -> tensor<2x?x8xf32> {
  %c1 = arith.constant 1 : index
  %n = tensor.dim %q, %c1 : tensor<2x?x8xf32>
  %e = tensor.empty(%n) : tensor<2x?x8xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #rows, #o]> ins(%q, %k, %v, %s, %mask : tensor<2x?x8xf32>, !kv, !kv, f32, tensor<?x6xf16>) outs(%e : tensor<2x?x8xf32>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x?x8xf32>
  return %r : tensor<2x?x8xf32>
}

// Kept: a causal mask, whose row i sees key i.
// CHECK-LABEL: func.func @causal(
// CHECK-NOT: reduction
func.func @causal(%q: !q, %k: !kv, %v: !kv, %s: f32) -> !q {
  %me = tensor.empty() : tensor<4x6xi1>
  %mask = linalg.generic {indexing_maps = [#ij], iterator_types = ["parallel", "parallel"]} outs(%me : tensor<4x6xi1>) {
  ^bb0(%o: i1):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %seen = arith.cmpi ule, %j, %i : index
    linalg.yield %seen : i1
  } -> tensor<4x6xi1>
  %e = tensor.empty() : !q
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #rows, #o]> ins(%q, %k, %v, %s, %mask : !q, !kv, !kv, f32, tensor<4x6xi1>) outs(%e : !q) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> !q
  return %r : !q
}

// All rows of a sequence share the mask: one number a sequence says whether it has a key.
// CHECK-LABEL: func.func @shared(
// CHECK: %[[SEEN:.*]] = linalg.generic {{.*}} iterator_types = ["parallel", "reduction"]} ins(%{{.*}} : tensor<2x6xi1>) outs(%{{.*}} : tensor<2xi32>)
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %[[SEEN]] : tensor<2x4x8xf32>, tensor<2xi32>)
func.func @shared(%q: !q, %k: !kv, %v: !kv, %mask: tensor<2x6xi1>, %s: f32) -> !q {
  %e = tensor.empty() : !q
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #keys, #o]> ins(%q, %k, %v, %s, %mask : !q, !kv, !kv, f32, tensor<2x6xi1>) outs(%e : !q) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> !q
  return %r : !q
}

// 0 or the lowest number: rows of that alone are the mean of V.
// WHY: attention at {{.*}}: rows whose keys are all hidden by the lowest finite number are the mean of V, as in PyTorch; IREE gives NaN
// CHECK-LABEL: func.func @finite(
// CHECK-NOT: reduction
// CHECK: %[[MASK:.*]] = linalg.generic {{.*}} ins(%arg3, %{{.*}}) outs
// CHECK: %[[RAISED:.*]] = linalg.generic {{.*}} ins(%[[MASK]] : tensor<4x6xf32>)
// CHECK: arith.cmpf olt, %{{.*}}, %{{.*}} : f32
// CHECK: arith.cmpf ogt
// CHECK: arith.andi
// CHECK: arith.select %{{.*}}, %{{.*}}, %in : f32
// CHECK: iree_linalg_ext.attention {{.*}}%[[RAISED]] :
func.func @finite(%q: !q, %k: !kv, %v: !kv, %seen: tensor<4x6xi1>, %s: f32) -> !q {
  %low = arith.constant dense<-3.40282347E+38> : tensor<f32>
  %zero = arith.constant 0.0 : f32
  %me = tensor.empty() : tensor<4x6xf32>
  %mask = linalg.generic {indexing_maps = [#ij, affine_map<(i, j) -> ()>, #ij], iterator_types = ["parallel", "parallel"]} ins(%seen, %low : tensor<4x6xi1>, tensor<f32>) outs(%me : tensor<4x6xf32>) {
  ^bb0(%c: i1, %l: f32, %o: f32):
    %x = arith.select %c, %zero, %l : f32
    linalg.yield %x : f32
  } -> tensor<4x6xf32>
  %e = tensor.empty() : !q
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #rows, #o]> ins(%q, %k, %v, %s, %mask : !q, !kv, !kv, f32, tensor<4x6xf32>) outs(%e : !q) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> !q
  return %r : !q
}

// Kept: numbers that log2(e) leaves finite.
// CHECK-LABEL: func.func @low(
// CHECK-NOT: reduction
// CHECK-NOT: arith.cmpf
func.func @low(%q: !q, %k: !kv, %v: !kv, %seen: tensor<4x6xi1>, %s: f32) -> !q {
  %low = arith.constant -1.0e30 : f32
  %zero = arith.constant 0.0 : f32
  %me = tensor.empty() : tensor<4x6xf32>
  %mask = linalg.generic {indexing_maps = [#ij, #ij], iterator_types = ["parallel", "parallel"]} ins(%seen : tensor<4x6xi1>) outs(%me : tensor<4x6xf32>) {
  ^bb0(%c: i1, %o: f32):
    %x = arith.select %c, %zero, %low : f32
    linalg.yield %x : f32
  } -> tensor<4x6xf32>
  %e = tensor.empty() : !q
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #rows, #o]> ins(%q, %k, %v, %s, %mask : !q, !kv, !kv, f32, tensor<4x6xf32>) outs(%e : !q) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> !q
  return %r : !q
}

// A window of two keys: of 9 rows over 6 keys, the last sees none.
// CHECK-LABEL: func.func @window(
// CHECK: iterator_types = ["parallel", "reduction"]
func.func @window(%q: tensor<2x9x8xf32>, %k: !kv, %v: !kv, %s: f32) -> tensor<2x9x8xf32> {
  %me = tensor.empty() : tensor<9x6xi1>
  %mask = linalg.generic {indexing_maps = [#ij], iterator_types = ["parallel", "parallel"]} outs(%me : tensor<9x6xi1>) {
  ^bb0(%o: i1):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %one = arith.constant 1 : index
    %next = arith.addi %j, %one : index
    %early = arith.cmpi sle, %j, %i : index
    %late = arith.cmpi sge, %next, %i : index
    %seen = arith.andi %early, %late : i1
    linalg.yield %seen : i1
  } -> tensor<9x6xi1>
  %e = tensor.empty() : tensor<2x9x8xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #rows, #o]> ins(%q, %k, %v, %s, %mask : tensor<2x9x8xf32>, !kv, !kv, f32, tensor<9x6xi1>) outs(%e : tensor<2x9x8xf32>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x9x8xf32>
  return %r : tensor<2x9x8xf32>
}
