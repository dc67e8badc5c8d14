// Numbers of masks that log2(e) would make infinite become the lowest that it does not. Masks that
// cannot hold such numbers, or that show each row a key, are left alone. Twice is once.

// RUN: attn-opt %s --attn-lowest-masks --remarks 2> %t.txt -o %t.once.mlir
// RUN: FileCheck %s --input-file=%t.once.mlir
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt
// RUN: attn-opt %s --attn-lowest-masks --attn-lowest-masks -o %t.twice.mlir
// RUN: diff %t.once.mlir %t.twice.mlir

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
#rows = affine_map<(b, m, n, k1, k2) -> (m, k2)>
#ij = affine_map<(i, j) -> (i, j)>

!q = tensor<2x4x8xf32>
!kv = tensor<2x6x8xf32>

// WHY: attention at {{.*}}: rows whose keys are all hidden by the lowest finite number are the mean of V, as in PyTorch; IREE gives NaN

// The caller's: -infinity stays.
// CHECK-LABEL: func.func @given(
// CHECK: %[[RAISED:.*]] = linalg.generic {{.*}} ins(%arg3 : tensor<4x6xf32>)
// CHECK: ^bb0(%[[X:.*]]: f32, %{{.*}}: f32):
// CHECK: %[[LOW:.*]] = arith.constant -2.3{{.*}}+38 : f32
// CHECK: %[[HIDDEN:.*]] = arith.constant 0xFF800000 : f32
// CHECK: %[[HIGH:.*]] = arith.maximumf %[[X]], %[[LOW]]
// CHECK: %[[IS:.*]] = arith.cmpf oeq, %[[X]], %[[HIDDEN]]
// CHECK: arith.select %[[IS]], %[[HIDDEN]], %[[HIGH]]
// CHECK: iree_linalg_ext.attention {{.*}}%[[RAISED]] :
func.func @given(%q: !q, %k: !kv, %v: !kv, %mask: tensor<4x6xf32>, %s: f32) -> !q {
  %e = tensor.empty() : !q
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #rows, #o]> ins(%q, %k, %v, %s, %mask : !q, !kv, !kv, f32, tensor<4x6xf32>) outs(%e : !q) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> !q
  return %r : !q
}

// 0 or the lowest number, computed here: there is no infinity to keep.
// CHECK-LABEL: func.func @finite(
// CHECK: %[[MASK:.*]] = linalg.generic {{.*}} ins(%arg3, %{{.*}}) outs
// CHECK: %[[RAISED:.*]] = linalg.generic {{.*}} ins(%[[MASK]] : tensor<4x6xf32>)
// CHECK: arith.maximumf
// CHECK-NOT: arith.select
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

// Behind a score function the caller's mask comes in a sum.
// CHECK-LABEL: func.func @added(
// CHECK: arith.addf
// CHECK: arith.maximumf
func.func @added(%q: !q, %k: !kv, %v: !kv, %mask: tensor<4x6xf32>, %bias: tensor<4x6xf32>, %s: f32) -> !q {
  %me = tensor.empty() : tensor<4x6xf32>
  %both = linalg.generic {indexing_maps = [#ij, #ij, #ij], iterator_types = ["parallel", "parallel"]} ins(%mask, %bias : tensor<4x6xf32>, tensor<4x6xf32>) outs(%me : tensor<4x6xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %x = arith.addf %a, %b : f32
    linalg.yield %x : f32
  } -> tensor<4x6xf32>
  %e = tensor.empty() : !q
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #rows, #o]> ins(%q, %k, %v, %s, %both : !q, !kv, !kv, f32, tensor<4x6xf32>) outs(%e : !q) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> !q
  return %r : !q
}

// Kept: no f16 is so low.
// CHECK-LABEL: func.func @half(
// CHECK-NOT: arith.maximumf
func.func @half(%q: !q, %k: !kv, %v: !kv, %mask: tensor<4x6xf16>, %s: f32) -> !q {
  %me = tensor.empty() : tensor<4x6xf32>
  %wide = linalg.generic {indexing_maps = [#ij, #ij], iterator_types = ["parallel", "parallel"]} ins(%mask : tensor<4x6xf16>) outs(%me : tensor<4x6xf32>) {
  ^bb0(%a: f16, %o: f32):
    %x = arith.extf %a : f16 to f32
    linalg.yield %x : f32
  } -> tensor<4x6xf32>
  %e = tensor.empty() : !q
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #rows, #o]> ins(%q, %k, %v, %s, %wide : !q, !kv, !kv, f32, tensor<4x6xf32>) outs(%e : !q) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> !q
  return %r : !q
}

// Kept: a causal mask, whose row i sees key i.
// CHECK-LABEL: func.func @causal(
// CHECK-NOT: arith.maximumf
func.func @causal(%q: !q, %k: !kv, %v: !kv, %s: f32) -> !q {
  %low = arith.constant -3.40282347E+38 : f32
  %zero = arith.constant 0.0 : f32
  %me = tensor.empty() : tensor<4x6xf32>
  %mask = linalg.generic {indexing_maps = [#ij], iterator_types = ["parallel", "parallel"]} outs(%me : tensor<4x6xf32>) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %seen = arith.cmpi ule, %j, %i : index
    %x = arith.select %seen, %zero, %low : f32
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
// CHECK-NOT: arith.maximumf
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

// A mask that is kept in memory is stored with its new numbers.
// CHECK-LABEL: func.func @stored(
// CHECK: %[[RAISED:.*]] = linalg.generic {{.*}} ins(%arg3 : tensor<4x6xf32>)
// CHECK: %[[STORED:.*]] = iree_tensor_ext.compute_barrier.start %[[RAISED]]
// CHECK: iree_linalg_ext.attention {{.*}}%[[STORED]] :
func.func @stored(%q: !q, %k: !kv, %v: !kv, %mask: tensor<4x6xf32>, %s: f32) -> !q {
  %e = tensor.empty() : !q
  %m = iree_tensor_ext.compute_barrier.start %mask : tensor<4x6xf32> -> tensor<4x6xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #rows, #o]> ins(%q, %k, %v, %s, %m : !q, !kv, !kv, f32, tensor<4x6xf32>) outs(%e : !q) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> !q
  return %r : !q
}

// Constants of bf16, with the lowest number and without.
// CHECK-LABEL: func.func @constant(
// CHECK: arith.maximumf
// CHECK: iree_linalg_ext.attention
// CHECK-LABEL: func.func @constant_bias(
// CHECK-NOT: arith.maximumf
!qb = tensor<2x2x8xbf16>
!kb = tensor<2x3x8xbf16>
func.func @constant(%q: !qb, %k: !kb, %v: !kb, %s: f32) -> !qb {
  %mask = arith.constant dense<[[0.0, -3.389531e+38, -3.389531e+38], [0.0, 0.0, 1.0]]> : tensor<2x3xbf16>
  %e = tensor.empty() : !qb
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #rows, #o]> ins(%q, %k, %v, %s, %mask : !qb, !kb, !kb, f32, tensor<2x3xbf16>) outs(%e : !qb) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> !qb
  return %r : !qb
}
func.func @constant_bias(%q: !qb, %k: !kb, %v: !kb, %s: f32) -> !qb {
  %mask = arith.constant dense<[[0.0, -3.0, 2.0], [0.0, 0.0, 1.0]]> : tensor<2x3xbf16>
  %e = tensor.empty() : !qb
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #rows, #o]> ins(%q, %k, %v, %s, %mask : !qb, !kb, !kb, f32, tensor<2x3xbf16>) outs(%e : !qb) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> !qb
  return %r : !qb
}
