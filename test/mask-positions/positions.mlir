// What positions do to a score becomes a mask; what is no mask becomes products and a softmax.

// RUN: attn-opt %s --attn-mask-positions --split-input-file --remarks --report=%t.json 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt
// RUN: FileCheck %s --check-prefix=WRONG --input-file=%t.json

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
#w = affine_map<(b, m, n, k1, k2) -> (m, k2)>

// Hidden keys under a soft-cap, and a mask that the op has: one mask of both.
// WHY: attention at {{.*}}:{{[0-9]+}}:8: what positions do to its scores is a mask now
// CHECK: #[[MK:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d1, d4)>
// CHECK-LABEL: func.func @causal(
// CHECK: %[[M:.*]] = linalg.generic {{.*}} ins(%arg3 : tensor<16x24xi1>) outs(%{{.*}} : tensor<16x24xi1>) {
// CHECK: ^bb0(%[[GIVEN:.*]]: i1, %{{.*}}: i1):
// CHECK-DAG: %[[I:.*]] = linalg.index 0 : index
// CHECK-DAG: %[[J:.*]] = linalg.index 1 : index
// CHECK: %[[C:.*]] = arith.cmpi sge, %[[I]], %[[J]] : index
// CHECK: %[[BOTH:.*]] = arith.andi %[[GIVEN]], %[[C]] : i1
// CHECK: linalg.yield %[[BOTH]] : i1
// CHECK: iree_linalg_ext.attention <indexing_maps = [#{{map[^,]*, #map[^,]*, #map[^,]*, #map[^,]*}}, #[[MK]], #{{map[^,]*}}]>
// CHECK-SAME: ins(%arg0, %arg1, %arg2, %{{.*}}, %[[M]] :
// CHECK-NEXT: ^bb0(%[[S:.*]]: f32):
// CHECK-NEXT: arith.divf %[[S]]
// CHECK-NEXT: math.tanh
// CHECK-NEXT: %[[Y:.*]] = arith.mulf
// CHECK-NEXT: iree_linalg_ext.yield %[[Y]] : f32
func.func @causal(%q: tensor<2x16x32xf16>, %k: tensor<2x24x32xf16>, %v: tensor<2x24x32xf16>, %mask: tensor<16x24xi1>) -> tensor<2x16x32xf16> {
  %scale = arith.constant 0.25 : f16
  %cap = arith.constant 50.0 : f32
  %hidden = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<2x16x32xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #w, #o]> ins(%q, %k, %v, %scale, %mask : tensor<2x16x32xf16>, tensor<2x24x32xf16>, tensor<2x24x32xf16>, f16, tensor<16x24xi1>) outs(%e : tensor<2x16x32xf16>) {
  ^bb0(%x: f32):
    %d = arith.divf %x, %cap : f32
    %t = math.tanh %d : f32
    %c = arith.mulf %t, %cap : f32
    %i = iree_linalg_ext.index 1 : index
    %j = iree_linalg_ext.index 4 : index
    %seen = arith.cmpi sge, %i, %j : index
    %y = arith.select %seen, %c, %hidden : f32
    iree_linalg_ext.yield %y : f32
  } -> tensor<2x16x32xf16>
  return %r : tensor<2x16x32xf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// A bias of rank-0 tensors, as importers write it, on an unknown number of keys; then hidden keys.
// CHECK: #[[BK:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d4)>
// CHECK-LABEL: func.func @bias(
// CHECK: %[[N:.*]] = tensor.dim %arg1, %{{.*}} : tensor<2x?x32xf32>
// CHECK: %[[E:.*]] = tensor.empty(%[[N]]) : tensor<2x?xf32>
// CHECK: %[[M:.*]] = linalg.generic {{.*}} outs(%[[E]] : tensor<2x?xf32>) {
// CHECK: %[[B:.*]] = arith.sitofp
// CHECK: %[[SUM:.*]] = arith.addf %{{.*}}, %[[B]] : f32
// CHECK: arith.select %{{.*}}, %{{.*}}, %[[SUM]] : f32
// CHECK: iree_linalg_ext.attention {{.*}}, #[[BK]], #{{map[^,]*}}]> ins(%arg0, %arg1, %arg2, %{{.*}}, %[[M]] :
// CHECK-NEXT: ^bb0(%[[S:.*]]: f32):
// CHECK-NEXT: iree_linalg_ext.yield %[[S]] : f32
func.func @bias(%q: tensor<2x16x32xf32>, %k: tensor<2x?x32xf32>, %v: tensor<2x?x32xf32>) -> tensor<2x16x32xf32> {
  %scale = arith.constant 0.25 : f32
  %hidden = arith.constant 0xFF800000 : f32
  %c7 = arith.constant 7 : index
  %e = tensor.empty() : tensor<2x16x32xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<2x16x32xf32>, tensor<2x?x32xf32>, tensor<2x?x32xf32>, f32) outs(%e : tensor<2x16x32xf32>) {
  ^bb0(%x: f32):
    %j = iree_linalg_ext.index 4 : index
    %h = iree_linalg_ext.index 0 : index
    %p = arith.muli %j, %h : index
    %p1 = arith.index_cast %p : index to i32
    %t = tensor.from_elements %p1 : tensor<i32>
    %g0 = tensor.empty() : tensor<f32>
    %g = linalg.generic {indexing_maps = [affine_map<() -> ()>, affine_map<() -> ()>], iterator_types = []} ins(%t : tensor<i32>) outs(%g0 : tensor<f32>) {
    ^bb1(%in: i32, %out: f32):
      %f = arith.sitofp %in : i32 to f32
      linalg.yield %f : f32
    } -> tensor<f32>
    %b = tensor.extract %g[] : tensor<f32>
    %z = arith.addf %x, %b : f32
    %far = arith.cmpi sgt, %j, %c7 : index
    %y = arith.select %far, %hidden, %z : f32
    iree_linalg_ext.yield %y : f32
  } -> tensor<2x16x32xf32>
  return %r : tensor<2x16x32xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// A factor by position is no mask.
// WHY: two products and a softmax now, which get positions right: positions decide what its arith.mulf makes of a score
// CHECK-LABEL: func.func @factor(
// CHECK-NOT: attention
// CHECK: linalg.index 2 : index
// CHECK: arith.maximumf
// CHECK: math.exp
// CHECK: arith.truncf %{{.*}} : f32 to f16
func.func @factor(%q: tensor<2x16x32xf16>, %k: tensor<2x24x32xf16>, %v: tensor<2x24x32xf16>) -> tensor<2x16x32xf16> {
  %scale = arith.constant 0.25 : f16
  %e = tensor.empty() : tensor<2x16x32xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<2x16x32xf16>, tensor<2x24x32xf16>, tensor<2x24x32xf16>, f16) outs(%e : tensor<2x16x32xf16>) {
  ^bb0(%x: f32):
    %j = iree_linalg_ext.index 4 : index
    %j1 = arith.index_cast %j : index to i32
    %f = arith.sitofp %j1 : i32 to f32
    %y = arith.mulf %x, %f : f32
    iree_linalg_ext.yield %y : f32
  } -> tensor<2x16x32xf16>
  return %r : tensor<2x16x32xf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
#r = affine_map<(b, m, n, k1, k2) -> (b, m)>

// The parts of attention, written out.
// WHY: online_attention at {{.*}}: two products and a softmax now, which get positions right: positions decide what its arith.mulf makes of a score
// CHECK-LABEL: func.func @parts(
// CHECK-NOT: online_attention
// CHECK: linalg.index 2 : index
// CHECK: math.exp2
func.func @parts(%q: tensor<2x16x32xf32>, %k: tensor<2x24x32xf32>, %v: tensor<2x24x32xf32>, %e: tensor<2x16x32xf32>, %max: tensor<2x16xf32>, %sum: tensor<2x16xf32>) -> (tensor<2x16x32xf32>, tensor<2x16xf32>, tensor<2x16xf32>) {
  %scale = arith.constant 0.25 : f32
  %r:3 = iree_linalg_ext.online_attention <indexing_maps = [#q, #k, #v, #s, #o, #r, #r]> ins(%q, %k, %v, %scale : tensor<2x16x32xf32>, tensor<2x24x32xf32>, tensor<2x24x32xf32>, f32) outs(%e, %max, %sum : tensor<2x16x32xf32>, tensor<2x16xf32>, tensor<2x16xf32>) {
  ^bb0(%x: f32):
    %j = iree_linalg_ext.index 4 : index
    %j1 = arith.index_cast %j : index to i32
    %f = arith.sitofp %j1 : i32 to f32
    %y = arith.mulf %x, %f : f32
    iree_linalg_ext.yield %y : f32
  } -> tensor<2x16x32xf32>, tensor<2x16xf32>, tensor<2x16xf32>
  return %r#0, %r#1, %r#2 : tensor<2x16x32xf32>, tensor<2x16xf32>, tensor<2x16xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// Scores have no such position: the op says nothing that could be computed.
// WRONG: it cannot be written out: its region reads the index of a dim that its scores lack
// CHECK-LABEL: func.func @no_position(
// CHECK: iree_linalg_ext.attention
func.func @no_position(%q: tensor<2x16x32xf32>, %k: tensor<2x24x32xf32>, %v: tensor<2x24x32xf32>) -> tensor<2x16x32xf32> {
  %scale = arith.constant 0.25 : f32
  %e = tensor.empty() : tensor<2x16x32xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<2x16x32xf32>, tensor<2x24x32xf32>, tensor<2x24x32xf32>, f32) outs(%e : tensor<2x16x32xf32>) {
  ^bb0(%x: f32):
    %j = iree_linalg_ext.index 3 : index
    %j1 = arith.index_cast %j : index to i32
    %f = arith.sitofp %j1 : i32 to f32
    %y = arith.addf %x, %f : f32
    iree_linalg_ext.yield %y : f32
  } -> tensor<2x16x32xf32>
  return %r : tensor<2x16x32xf32>
}
