// Copies of a mask along dims of the batch and of rows go; what rows or keys need stays.

// RUN: attn-opt %s --attn-share-masks --split-input-file --report=%t.json | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.json
// WHY-COUNT-7: its heads, sequences or rows read one mask
// WHY-NOT: read one mask

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#b = affine_map<(b, m, n, k1, k2) -> (b, m, k2)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
#all = affine_map<(a, b, c) -> (a, b, c)>

// A mask of indices, made for each head: once is enough.
// CHECK: #[[M:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d1, d4)>
// CHECK-LABEL: func.func @computed(
// CHECK: %[[ONE:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<1x24x40xf32>)
// CHECK-DAG: linalg.index 1
// CHECK-DAG: linalg.index 2
// CHECK: %[[MASK:.*]] = tensor.collapse_shape %[[ONE]]
// CHECK-NOT: tensor<8x24x40xf32>
// CHECK: iree_linalg_ext.attention <indexing_maps = [#{{.*}}, #{{.*}}, #{{.*}}, #{{.*}}, #[[M]], #{{.*}}]> ins({{.*}}, %[[MASK]] :
func.func @computed(%q: tensor<8x24x16xf32>, %k: tensor<8x40x16xf32>) -> tensor<8x24x16xf32> {
  %scale = arith.constant 0.25 : f32
  %zero = arith.constant 0.0 : f32
  %low = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<8x24x40xf32>
  %mask = linalg.generic {indexing_maps = [#all], iterator_types = ["parallel", "parallel", "parallel"]} outs(%e : tensor<8x24x40xf32>) {
  ^bb0(%x: f32):
    %i = linalg.index 1 : index
    %j = linalg.index 2 : index
    %c = arith.cmpi sge, %i, %j : index
    %t = arith.select %c, %zero, %low : f32
    linalg.yield %t : f32
  } -> tensor<8x24x40xf32>
  %out = tensor.empty() : tensor<8x24x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #b, #o]>
      ins(%q, %k, %k, %scale, %mask : tensor<8x24x16xf32>, tensor<8x40x16xf32>, tensor<8x40x16xf32>, f32, tensor<8x24x40xf32>) outs(%out : tensor<8x24x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<8x24x16xf32>
  return %r : tensor<8x24x16xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#b = affine_map<(b, m, n, k1, k2) -> (b, m, k2)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
#one = affine_map<(a, h, c, d) -> (a, 0, c, d)>
#all = affine_map<(a, h, c, d) -> (a, h, c, d)>

// A mask a sequence: batch and heads are two dims of attention from here on.
// CHECK-LABEL: func.func @sequences(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<2x1x24x40xi1>
// CHECK: %[[M:.*]] = tensor.collapse_shape %[[X]] {{.*}} : tensor<2x1x24x40xi1> into tensor<2x24x40xi1>
// CHECK: iree_linalg_ext.attention {{.*}} ins({{.*}}, %[[M]] : tensor<2x4x24x16xf32>, tensor<2x4x40x16xf32>, tensor<2x4x40x16xf32>, f32, tensor<2x24x40xi1>)
func.func @sequences(%q: tensor<8x24x16xf32>, %k: tensor<8x40x16xf32>, %x: tensor<2x1x24x40xi1>) -> tensor<8x24x16xf32> {
  %scale = arith.constant 0.25 : f32
  %e = tensor.empty() : tensor<2x4x24x40xi1>
  %heads = linalg.generic {indexing_maps = [#one, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x : tensor<2x1x24x40xi1>) outs(%e : tensor<2x4x24x40xi1>) {
  ^bb0(%in: i1, %o: i1):
    linalg.yield %in : i1
  } -> tensor<2x4x24x40xi1>
  %mask = tensor.collapse_shape %heads [[0, 1], [2], [3]] : tensor<2x4x24x40xi1> into tensor<8x24x40xi1>
  %out = tensor.empty() : tensor<8x24x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #b, #o]>
      ins(%q, %k, %k, %scale, %mask : tensor<8x24x16xf32>, tensor<8x40x16xf32>, tensor<8x40x16xf32>, f32, tensor<8x24x40xi1>) outs(%out : tensor<8x24x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<8x24x16xf32>
  return %r : tensor<8x24x16xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#b = affine_map<(b, m, n, k1, k2) -> (b, m, k2)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
#key = affine_map<(a, b, c) -> (c)>
#all = affine_map<(a, b, c) -> (a, b, c)>

// Heads and rows share it: attention reads what there is.
// CHECK: #[[M:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d4)>
// CHECK-LABEL: func.func @rows(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<40xi1>
// CHECK-NOT: linalg.generic
// CHECK: iree_linalg_ext.attention <indexing_maps = [#{{.*}}, #{{.*}}, #{{.*}}, #{{.*}}, #[[M]], #{{.*}}]> ins({{.*}}, %[[X]] :
func.func @rows(%q: tensor<8x24x16xf32>, %k: tensor<8x40x16xf32>, %x: tensor<40xi1>) -> tensor<8x24x16xf32> {
  %scale = arith.constant 0.25 : f32
  %e = tensor.empty() : tensor<8x24x40xi1>
  %mask = linalg.generic {indexing_maps = [#key, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<40xi1>) outs(%e : tensor<8x24x40xi1>) {
  ^bb0(%in: i1, %o: i1):
    linalg.yield %in : i1
  } -> tensor<8x24x40xi1>
  %out = tensor.empty() : tensor<8x24x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #b, #o]>
      ins(%q, %k, %k, %scale, %mask : tensor<8x24x16xf32>, tensor<8x40x16xf32>, tensor<8x40x16xf32>, f32, tensor<8x24x40xi1>) outs(%out : tensor<8x24x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<8x24x16xf32>
  return %r : tensor<8x24x16xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#b = affine_map<(b, m, n, k1, k2) -> (b, m, k2)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
#row = affine_map<(a, b, c) -> (b)>
#all = affine_map<(a, b, c) -> (a, b, c)>

// A bias that differs by head and row; one that reads what was there; a configuration of the user's.
// CHECK-LABEL: func.func @kept(
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<8x24x40xf32>)
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<8x24x40xf32>)
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<8x24x40xf32>)
// CHECK-COUNT-3: iree_linalg_ext.attention {{.*}} tensor<8x24x40xf32>)
func.func @kept(%q: tensor<8x24x16xf32>, %k: tensor<8x40x16xf32>, %x: tensor<24xf32>, %was: tensor<8x24x40xf32>) -> (tensor<8x24x16xf32>, tensor<8x24x16xf32>, tensor<8x24x16xf32>) {
  %scale = arith.constant 0.25 : f32
  %e = tensor.empty() : tensor<8x24x40xf32>
  %slopes = linalg.generic {indexing_maps = [#all], iterator_types = ["parallel", "parallel", "parallel"]} outs(%e : tensor<8x24x40xf32>) {
  ^bb0(%o: f32):
    %h = linalg.index 0 : index
    %i = linalg.index 1 : index
    %d = arith.muli %h, %i : index
    %n = arith.index_cast %d : index to i32
    %t = arith.sitofp %n : i32 to f32
    linalg.yield %t : f32
  } -> tensor<8x24x40xf32>
  %sum = linalg.generic {indexing_maps = [#row, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<24xf32>) outs(%was : tensor<8x24x40xf32>) {
  ^bb0(%in: f32, %o: f32):
    %t = arith.addf %in, %o : f32
    linalg.yield %t : f32
  } -> tensor<8x24x40xf32>
  %copies = linalg.generic {indexing_maps = [#row, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<24xf32>) outs(%e : tensor<8x24x40xf32>) {
  ^bb0(%in: f32, %o: f32):
    linalg.yield %in : f32
  } -> tensor<8x24x40xf32>
  %out = tensor.empty() : tensor<8x24x16xf32>
  %r0 = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #b, #o]>
      ins(%q, %k, %k, %scale, %slopes : tensor<8x24x16xf32>, tensor<8x40x16xf32>, tensor<8x40x16xf32>, f32, tensor<8x24x40xf32>) outs(%out : tensor<8x24x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<8x24x16xf32>
  %r1 = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #b, #o]>
      ins(%q, %k, %k, %scale, %sum : tensor<8x24x16xf32>, tensor<8x40x16xf32>, tensor<8x40x16xf32>, f32, tensor<8x24x40xf32>) outs(%out : tensor<8x24x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<8x24x16xf32>
  %r2 = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #b, #o]> {lowering_config = "mine"}
      ins(%q, %k, %k, %scale, %copies : tensor<8x24x16xf32>, tensor<8x40x16xf32>, tensor<8x40x16xf32>, f32, tensor<8x24x40xf32>) outs(%out : tensor<8x24x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<8x24x16xf32>
  return %r0, %r1, %r2 : tensor<8x24x16xf32>, tensor<8x24x16xf32>, tensor<8x24x16xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#b = affine_map<(b, m, n, k1, k2) -> (b, m, k2)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
#key = affine_map<(a, b, c) -> (c)>
#all = affine_map<(a, b, c) -> (a, b, c)>

// Decode: keys stay innermost, behind the only row.
// CHECK-LABEL: func.func @decode(
// CHECK: iree_linalg_ext.attention {{.*}} tensor<1x40xi1>) outs
func.func @decode(%q: tensor<8x1x16xf32>, %k: tensor<8x40x16xf32>, %x: tensor<40xi1>) -> tensor<8x1x16xf32> {
  %scale = arith.constant 0.25 : f32
  %e = tensor.empty() : tensor<8x1x40xi1>
  %mask = linalg.generic {indexing_maps = [#key, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<40xi1>) outs(%e : tensor<8x1x40xi1>) {
  ^bb0(%in: i1, %o: i1):
    linalg.yield %in : i1
  } -> tensor<8x1x40xi1>
  %out = tensor.empty() : tensor<8x1x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #b, #o]>
      ins(%q, %k, %k, %scale, %mask : tensor<8x1x16xf32>, tensor<8x40x16xf32>, tensor<8x40x16xf32>, f32, tensor<8x1x40xi1>) outs(%out : tensor<8x1x16xf32>) {
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
#b = affine_map<(b, m, n, k1, k2) -> (b, m, k2)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
#key = affine_map<(a, c, d) -> (a, d)>
#abc = affine_map<(a, c, d) -> (a, c, d)>
#one = affine_map<(a, h, c, d) -> (a, c, d)>
#all = affine_map<(a, h, c, d) -> (a, h, c, d)>

// Padding as transformers writes it: made for each row, converted and filled there, and only where
// the number of the row is not negative. All of it is made once a sequence.
// CHECK: #[[M:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d5)>
// CHECK-LABEL: func.func @steps(
// CHECK-NOT: x24x40x
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<2x1x40xf32>)
// CHECK: arith.sitofp
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<2x1x40xf32>)
// CHECK: arith.select
// CHECK: %[[MASK:.*]] = tensor.collapse_shape %{{.*}} : tensor<2x1x40xf32> into tensor<2x40xf32>
// CHECK: iree_linalg_ext.attention <indexing_maps = [#{{.*}}, #{{.*}}, #{{.*}}, #{{.*}}, #[[M]], #{{.*}}]> ins({{.*}}, %[[MASK]] :
func.func @steps(%q: tensor<8x24x16xf32>, %k: tensor<8x40x16xf32>, %x: tensor<2x40xi64>) -> tensor<8x24x16xf32> {
  %scale = arith.constant 0.25 : f32
  %zero = arith.constant 0.0 : f32
  %low = arith.constant 0xFF800000 : f32
  %c0 = arith.constant 0 : index
  %ei = tensor.empty() : tensor<2x24x40xi64>
  %rows = linalg.generic {indexing_maps = [#key, #abc], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<2x40xi64>) outs(%ei : tensor<2x24x40xi64>) {
  ^bb0(%in: i64, %o: i64):
    linalg.yield %in : i64
  } -> tensor<2x24x40xi64>
  %ef = tensor.empty() : tensor<2x24x40xf32>
  %numbers = linalg.generic {indexing_maps = [#abc, #abc], iterator_types = ["parallel", "parallel", "parallel"]} ins(%rows : tensor<2x24x40xi64>) outs(%ef : tensor<2x24x40xf32>) {
  ^bb0(%in: i64, %o: f32):
    %t = arith.sitofp %in : i64 to f32
    linalg.yield %t : f32
  } -> tensor<2x24x40xf32>
  %eb = tensor.empty() : tensor<2x24x40xi1>
  %there = linalg.generic {indexing_maps = [#abc], iterator_types = ["parallel", "parallel", "parallel"]} outs(%eb : tensor<2x24x40xi1>) {
  ^bb0(%o: i1):
    %i = linalg.index 1 : index
    %t = arith.cmpi sge, %i, %c0 : index
    linalg.yield %t : i1
  } -> tensor<2x24x40xi1>
  %filled = linalg.generic {indexing_maps = [#abc, #abc, #abc], iterator_types = ["parallel", "parallel", "parallel"]} ins(%numbers, %there : tensor<2x24x40xf32>, tensor<2x24x40xi1>) outs(%ef : tensor<2x24x40xf32>) {
  ^bb0(%in: f32, %c: i1, %o: f32):
    %p = arith.cmpf une, %in, %zero : f32
    %b = arith.andi %p, %c : i1
    %t = arith.select %b, %zero, %low : f32
    linalg.yield %t : f32
  } -> tensor<2x24x40xf32>
  %eh = tensor.empty() : tensor<2x4x24x40xf32>
  %heads = linalg.generic {indexing_maps = [#one, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%filled : tensor<2x24x40xf32>) outs(%eh : tensor<2x4x24x40xf32>) {
  ^bb0(%in: f32, %o: f32):
    linalg.yield %in : f32
  } -> tensor<2x4x24x40xf32>
  %mask = tensor.collapse_shape %heads [[0, 1], [2], [3]] : tensor<2x4x24x40xf32> into tensor<8x24x40xf32>
  %out = tensor.empty() : tensor<8x24x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #b, #o]>
      ins(%q, %k, %k, %scale, %mask : tensor<8x24x16xf32>, tensor<8x40x16xf32>, tensor<8x40x16xf32>, f32, tensor<8x24x40xf32>) outs(%out : tensor<8x24x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<8x24x16xf32>
  return %r : tensor<8x24x16xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#b = affine_map<(b, m, n, k1, k2) -> (b, m, k2)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
#key = affine_map<(a, b, c) -> (c)>
#ij = affine_map<(a, b, c) -> (b, c)>
#row = affine_map<(a, b, c) -> (b)>
#all = affine_map<(a, b, c) -> (a, b, c)>

// Padding in a causal mask: heads share it, rows do not; numbers of rows alone: keys stay.
// CHECK-LABEL: func.func @needed(
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<1x24x40xi1>)
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<1x24x40xf32>)
// CHECK: iree_linalg_ext.attention {{.*}} tensor<24x40xi1>) outs
// CHECK: iree_linalg_ext.attention {{.*}} tensor<24x40xf32>) outs
func.func @needed(%q: tensor<8x24x16xf32>, %k: tensor<8x40x16xf32>, %x: tensor<40xi1>, %y: tensor<24xf32>) -> (tensor<8x24x16xf32>, tensor<8x24x16xf32>) {
  %scale = arith.constant 0.25 : f32
  %e = tensor.empty() : tensor<8x24x40xi1>
  %mask = linalg.generic {indexing_maps = [#key, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<40xi1>) outs(%e : tensor<8x24x40xi1>) {
  ^bb0(%in: i1, %o: i1):
    %i = linalg.index 1 : index
    %j = linalg.index 2 : index
    %c = arith.cmpi sge, %i, %j : index
    %t = arith.andi %c, %in : i1
    linalg.yield %t : i1
  } -> tensor<8x24x40xi1>
  %ef = tensor.empty() : tensor<8x24x40xf32>
  %bias = linalg.generic {indexing_maps = [#row, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%y : tensor<24xf32>) outs(%ef : tensor<8x24x40xf32>) {
  ^bb0(%in: f32, %o: f32):
    %t = arith.addf %in, %in : f32
    linalg.yield %t : f32
  } -> tensor<8x24x40xf32>
  %out = tensor.empty() : tensor<8x24x16xf32>
  %r0 = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #b, #o]>
      ins(%q, %k, %k, %scale, %mask : tensor<8x24x16xf32>, tensor<8x40x16xf32>, tensor<8x40x16xf32>, f32, tensor<8x24x40xi1>) outs(%out : tensor<8x24x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<8x24x16xf32>
  %r1 = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #b, #o]>
      ins(%q, %k, %k, %scale, %bias : tensor<8x24x16xf32>, tensor<8x40x16xf32>, tensor<8x40x16xf32>, f32, tensor<8x24x40xf32>) outs(%out : tensor<8x24x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<8x24x16xf32>
  return %r0, %r1 : tensor<8x24x16xf32>, tensor<8x24x16xf32>
}
