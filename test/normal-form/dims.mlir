// Iteration dims get the order b, m, n, k1, k2; nothing is moved. The score function reads the same
// dims under their new numbers. In f32 on NVIDIA GPUs dims stand in the order of the result's.

// RUN: attn-opt %s --attn-normal-form --split-input-file | FileCheck %s
// RUN: attn-opt %s --attn-order-dims --split-input-file | FileCheck %s
// RUN: attn-opt %s --target=sm_80 --attn-order-dims --split-input-file | FileCheck %s --check-prefix=LANES

#q = affine_map<(k2, n, m, k1, b) -> (b, m, k1)>
#k = affine_map<(k2, n, m, k1, b) -> (b, k1, k2)>
#v = affine_map<(k2, n, m, k1, b) -> (k2, b, n)>
#s = affine_map<(k2, n, m, k1, b) -> ()>
#o = affine_map<(k2, n, m, k1, b) -> (b, n, m)>

// CHECK-DAG: #[[Q:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d3)>
// CHECK-DAG: #[[K:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d3, d4)>
// CHECK-DAG: #[[V:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d4, d0, d2)>
// CHECK-DAG: #[[S:.*]] = affine_map<(d0, d1, d2, d3, d4) -> ()>
// CHECK-DAG: #[[O:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d2, d1)>
// LANES-DAG: #[[Q:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d2, d3)>
// LANES-DAG: #[[K:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d3, d4)>
// LANES-DAG: #[[V:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d4, d0, d1)>
// LANES-DAG: #[[S:.*]] = affine_map<(d0, d1, d2, d3, d4) -> ()>
// LANES-DAG: #[[O:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2)>
// CHECK-LABEL: func.func @ordered(
// CHECK-NOT: transpose
// CHECK: iree_linalg_ext.attention <indexing_maps = [#[[Q]], #[[K]], #[[V]], #[[S]], #[[O]]]>
// CHECK: iree_linalg_ext.index 4
// CHECK: iree_linalg_ext.index 1
// LANES: iree_linalg_ext.attention <indexing_maps = [#[[Q]], #[[K]], #[[V]], #[[S]], #[[O]]]>
// LANES: iree_linalg_ext.index 4
// LANES: iree_linalg_ext.index 2
func.func @ordered(%q: tensor<2x8x16xf32>, %k: tensor<2x16x36xf32>, %v: tensor<36x2x20xf32>) -> tensor<2x20x8xf32> {
  %scale = arith.constant 0.25 : f32
  %e = tensor.empty() : tensor<2x20x8xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x8x16xf32>, tensor<2x16x36xf32>, tensor<36x2x20xf32>, f32) outs(%e : tensor<2x20x8xf32>) {
    ^bb0(%y: f32):
      %i = iree_linalg_ext.index 0 : index
      %j = iree_linalg_ext.index 2 : index
      %d = arith.subi %i, %j : index
      %n = arith.index_cast %d : index to i32
      %f = arith.sitofp %n : i32 to f32
      %t = arith.addf %y, %f : f32
      iree_linalg_ext.yield %t : f32
  } -> tensor<2x20x8xf32>
  return %r : tensor<2x20x8xf32>
}

// -----

#q = affine_map<(m, b, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(m, b, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(m, b, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(m, b, n, k1, k2) -> ()>
#o = affine_map<(m, b, n, k1, k2) -> (b, m, n)>

// A configuration of the op's own counts dims as they are.
// CHECK: affine_map<(d0, d1, d2, d3, d4) -> (d1, d0, d3)>
// CHECK-LABEL: func.func @configured(
// CHECK: lowering_config
func.func @configured(%q: tensor<2x8x16xf32>, %k: tensor<2x36x16xf32>, %v: tensor<2x36x16xf32>) -> tensor<2x8x16xf32> {
  %scale = arith.constant 0.25 : f32
  %e = tensor.empty() : tensor<2x8x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      {lowering_config = #iree_cpu.lowering_config<distribution = [4, 1, 16, 0, 0]>}
      ins(%q, %k, %v, %scale : tensor<2x8x16xf32>, tensor<2x36x16xf32>, tensor<2x36x16xf32>, f32) outs(%e : tensor<2x8x16xf32>) {
    ^bb0(%y: f32):
      iree_linalg_ext.yield %y : f32
  } -> tensor<2x8x16xf32>
  return %r : tensor<2x8x16xf32>
}

// -----

#q = affine_map<(m, n, k1, i, j) -> (m, k1)>
#k = affine_map<(m, n, k1, i, j) -> (i, j, k1)>
#v = affine_map<(m, n, k1, i, j) -> (n, j, i)>
#s = affine_map<(m, n, k1, i, j) -> ()>
#o = affine_map<(m, n, k1, i, j) -> (m, n)>

// Two key dims that V has in another order than K cannot be joined: the one of unknown size goes
// first.
// CHECK-DAG: #[[K:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d4, d3, d2)>
// CHECK-DAG: #[[V:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d1, d3, d4)>
// CHECK-LABEL: func.func @apart(
// CHECK: iree_linalg_ext.attention <indexing_maps = [#{{.*}}, #[[K]], #[[V]], #{{.*}}, #{{.*}}]>
func.func @apart(%q: tensor<6x72xf32>, %k: tensor<32x?x72xf32>, %v: tensor<64x?x32xf32>) -> tensor<6x64xf32> {
  %scale = arith.constant 0.25 : f32
  %e = tensor.empty() : tensor<6x64xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<6x72xf32>, tensor<32x?x72xf32>, tensor<64x?x32xf32>, f32) outs(%e : tensor<6x64xf32>) {
    ^bb0(%y: f32):
      iree_linalg_ext.yield %y : f32
  } -> tensor<6x64xf32>
  return %r : tensor<6x64xf32>
}

// -----

#q = affine_map<(m, n, k1, i, j) -> (m, k1)>
#k = affine_map<(m, n, k1, i, j) -> (i, j, k1)>
#w = affine_map<(m, n, k1, i, j) -> (i, j, n)>
#s = affine_map<(m, n, k1, i, j) -> ()>
#o = affine_map<(m, n, k1, i, j) -> (m, n)>

// In one order everywhere they stay neighbours, which IREE joins.
// CHECK-DAG: #[[K:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d3, d4, d2)>
// CHECK-LABEL: func.func @together(
// CHECK: iree_linalg_ext.attention <indexing_maps = [#{{.*}}, #[[K]],
func.func @together(%q: tensor<6x72xf32>, %k: tensor<32x?x72xf32>, %v: tensor<32x?x64xf32>) -> tensor<6x64xf32> {
  %scale = arith.constant 0.25 : f32
  %e = tensor.empty() : tensor<6x64xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #w, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<6x72xf32>, tensor<32x?x72xf32>, tensor<32x?x64xf32>, f32) outs(%e : tensor<6x64xf32>) {
    ^bb0(%y: f32):
      iree_linalg_ext.yield %y : f32
  } -> tensor<6x64xf32>
  return %r : tensor<6x64xf32>
}
