// RUN: attn-opt %s --attn-propagate-layout=mode=always,operands=v --split-input-file | FileCheck %s
// RUN: attn-opt %s --attn-propagate-layout=mode=always,operands=v --split-input-file --mlir-print-op-generic | attn-opt --split-input-file | FileCheck %s

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// The signatures of both private functions change, and all their calls.
// CHECK-LABEL: func.func private @project(
// CHECK-SAME: -> tensor<2x16x32xf32>
// CHECK: return %{{.*}} : tensor<2x16x32xf32>
func.func private @project(%x: tensor<2x32x24xf32>, %w: tensor<2x24x16xf32>) -> tensor<2x32x16xf32> {
  %z = arith.constant 0.0 : f32
  %pe = tensor.empty() : tensor<2x32x16xf32>
  %pf = linalg.fill ins(%z : f32) outs(%pe : tensor<2x32x16xf32>) -> tensor<2x32x16xf32>
  %p = linalg.batch_matmul ins(%x, %w : tensor<2x32x24xf32>, tensor<2x24x16xf32>) outs(%pf : tensor<2x32x16xf32>) -> tensor<2x32x16xf32>
  return %p : tensor<2x32x16xf32>
}

// CHECK-LABEL: util.func private @layer(
// CHECK-SAME: %[[V:[a-z0-9]+]]: tensor<2x16x32xf32>) -> tensor<2x8x16xf32>
// CHECK: iree_linalg_ext.attention {{.*}} ins(%{{[^,]*}}, %{{[^,]*}}, %[[V]],
util.func private @layer(%q: tensor<2x8x16xf32>, %k: tensor<2x32x16xf32>, %v: tensor<2x32x16xf32>) -> tensor<2x8x16xf32> {
  %scale = arith.constant 0.25 : f32
  %rout = tensor.empty() : tensor<2x8x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x8x16xf32>, tensor<2x32x16xf32>, tensor<2x32x16xf32>, f32) outs(%rout : tensor<2x8x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x8x16xf32>
  util.return %r : tensor<2x8x16xf32>
}

// CHECK-LABEL: func.func @main(
// CHECK: %[[A:.*]] = call @project({{.*}} -> tensor<2x16x32xf32>
// CHECK: %[[B:.*]] = call @project({{.*}} -> tensor<2x16x32xf32>
// CHECK-NOT: linalg.transpose
// CHECK: util.call @layer(%{{.*}}, %{{.*}}, %[[A]]) : (tensor<2x8x16xf32>, tensor<2x32x16xf32>, tensor<2x16x32xf32>) -> tensor<2x8x16xf32>
// CHECK: util.call @layer(%{{.*}}, %{{.*}}, %[[B]]) : (tensor<2x8x16xf32>, tensor<2x32x16xf32>, tensor<2x16x32xf32>) -> tensor<2x8x16xf32>
func.func @main(%q: tensor<2x8x16xf32>, %k: tensor<2x32x16xf32>, %x: tensor<2x32x24xf32>, %w: tensor<2x24x16xf32>, %y: tensor<2x32x24xf32>) -> tensor<2x8x16xf32> {
  %a = call @project(%x, %w) : (tensor<2x32x24xf32>, tensor<2x24x16xf32>) -> tensor<2x32x16xf32>
  %b = call @project(%y, %w) : (tensor<2x32x24xf32>, tensor<2x24x16xf32>) -> tensor<2x32x16xf32>
  %r = util.call @layer(%q, %k, %a) : (tensor<2x8x16xf32>, tensor<2x32x16xf32>, tensor<2x32x16xf32>) -> tensor<2x8x16xf32>
  %t = util.call @layer(%r, %k, %b) : (tensor<2x8x16xf32>, tensor<2x32x16xf32>, tensor<2x32x16xf32>) -> tensor<2x8x16xf32>
  return %t : tensor<2x8x16xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// A function that calls itself hands its own argument on.
// CHECK-LABEL: func.func private @again(
// CHECK-SAME: %[[V:[a-z0-9]+]]: tensor<2x16x32xf32>, %{{.*}}: i1) -> tensor<2x8x16xf32>
// CHECK: func.call @again(%{{.*}}, %{{.*}}, %[[V]], %{{.*}}) : (tensor<2x8x16xf32>, tensor<2x32x16xf32>, tensor<2x16x32xf32>, i1) -> tensor<2x8x16xf32>
func.func private @again(%q: tensor<2x8x16xf32>, %k: tensor<2x32x16xf32>, %v: tensor<2x32x16xf32>, %c: i1) -> tensor<2x8x16xf32> {
  %scale = arith.constant 0.25 : f32
  %rout = tensor.empty() : tensor<2x8x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x8x16xf32>, tensor<2x32x16xf32>, tensor<2x32x16xf32>, f32) outs(%rout : tensor<2x8x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x8x16xf32>
  %t = scf.if %c -> (tensor<2x8x16xf32>) {
    %u = func.call @again(%r, %k, %v, %c) : (tensor<2x8x16xf32>, tensor<2x32x16xf32>, tensor<2x32x16xf32>, i1) -> tensor<2x8x16xf32>
    scf.yield %u : tensor<2x8x16xf32>
  } else {
    scf.yield %r : tensor<2x8x16xf32>
  }
  return %t : tensor<2x8x16xf32>
}
// CHECK-LABEL: func.func @main(
// CHECK: %[[P:.*]] = linalg.batch_matmul {{.*}} outs(%{{.*}} : tensor<2x16x32xf32>)
// CHECK: call @again(%{{.*}}, %{{.*}}, %[[P]], %{{.*}})
func.func @main(%q: tensor<2x8x16xf32>, %k: tensor<2x32x16xf32>, %x: tensor<2x32x24xf32>, %w: tensor<2x24x16xf32>, %c: i1) -> tensor<2x8x16xf32> {
  %z = arith.constant 0.0 : f32
  %pe = tensor.empty() : tensor<2x32x16xf32>
  %pf = linalg.fill ins(%z : f32) outs(%pe : tensor<2x32x16xf32>) -> tensor<2x32x16xf32>
  %p = linalg.batch_matmul ins(%x, %w : tensor<2x32x24xf32>, tensor<2x24x16xf32>) outs(%pf : tensor<2x32x16xf32>) -> tensor<2x32x16xf32>
  %r = call @again(%q, %k, %p, %c) : (tensor<2x8x16xf32>, tensor<2x32x16xf32>, tensor<2x32x16xf32>, i1) -> tensor<2x8x16xf32>
  return %r : tensor<2x8x16xf32>
}
