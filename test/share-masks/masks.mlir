// Copies of a mask along batch dims go; what rows or keys need stays.

// RUN: attn-opt %s --attn-share-masks --split-input-file --report=%t.json | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.json
// WHY-COUNT-4: its heads or sequences read one mask
// WHY-NOT: read one mask

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#b = affine_map<(b, m, n, k1, k2) -> (b, m, k2)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
#all = affine_map<(a, b, c) -> (a, b, c)>

// A mask of indices, made for each head: once is enough, and its indices have other numbers.
// CHECK: #[[M:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d1, d4)>
// CHECK-LABEL: func.func @computed(
// CHECK: %[[MASK:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<24x40xf32>)
// CHECK-DAG: linalg.index 0
// CHECK-DAG: linalg.index 1
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

// Heads and rows share it: rows keep theirs, which `attn-hidden-rows` asks for.
// CHECK-LABEL: func.func @rows(
// CHECK: %[[MASK:.*]] = linalg.generic {{.*}} ins(%{{.*}} : tensor<40xi1>) outs(%{{.*}} : tensor<24x40xi1>)
// CHECK: iree_linalg_ext.attention {{.*}} ins({{.*}}, %[[MASK]] :
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

// A bias that differs by head; one that reads what was there; a configuration of the user's.
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
    %n = arith.index_cast %h : index to i32
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
