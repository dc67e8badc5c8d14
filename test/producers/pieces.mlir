// RUN: attn-opt %s --attn-propagate-layout=mode=always,operands=v --split-input-file | FileCheck %s
// RUN: attn-opt %s --attn-propagate-layout=mode=always,operands=v --split-input-file --mlir-print-op-generic | attn-opt --split-input-file | FileCheck %s

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK-LABEL: func.func @concat(
// CHECK: tensor.concat dim(1) %{{.*}}, %{{.*}} : (tensor<2x8x32xf32>, tensor<2x8x32xf32>) -> tensor<2x16x32xf32>
func.func @concat(%q: tensor<2x8x16xf32>, %k: tensor<2x32x16xf32>, %x: tensor<2x32x24xf32>, %w: tensor<2x24x8xf32>) -> tensor<2x8x16xf32> {
  %z = arith.constant 0.0 : f32
  %pe = tensor.empty() : tensor<2x32x8xf32>
  %pf = linalg.fill ins(%z : f32) outs(%pe : tensor<2x32x8xf32>) -> tensor<2x32x8xf32>
  %p = linalg.batch_matmul ins(%x, %w : tensor<2x32x24xf32>, tensor<2x24x8xf32>) outs(%pf : tensor<2x32x8xf32>) -> tensor<2x32x8xf32>
  %v = tensor.concat dim(2) %p, %p : (tensor<2x32x8xf32>, tensor<2x32x8xf32>) -> tensor<2x32x16xf32>
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x8x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x8x16xf32>, tensor<2x32x16xf32>, tensor<2x32x16xf32>, f32) outs(%out : tensor<2x8x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x8x16xf32>
  return %r : tensor<2x8x16xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK-LABEL: func.func @pad(
// CHECK: tensor.pad %{{.*}} low[0, 0, 5] high[0, 0, 7]
// CHECK: tensor<2x16x20xf32> to tensor<2x16x32xf32>
func.func @pad(%q: tensor<2x8x16xf32>, %k: tensor<2x32x16xf32>, %x: tensor<2x20x24xf32>, %w: tensor<2x24x16xf32>) -> tensor<2x8x16xf32> {
  %z = arith.constant 0.0 : f32
  %pe = tensor.empty() : tensor<2x20x16xf32>
  %pf = linalg.fill ins(%z : f32) outs(%pe : tensor<2x20x16xf32>) -> tensor<2x20x16xf32>
  %p = linalg.batch_matmul ins(%x, %w : tensor<2x20x24xf32>, tensor<2x24x16xf32>) outs(%pf : tensor<2x20x16xf32>) -> tensor<2x20x16xf32>
  %v = tensor.pad %p low[0, 5, 0] high[0, 7, 0] {
  ^bb0(%i: index, %j: index, %l: index):
    tensor.yield %z : f32
  } : tensor<2x20x16xf32> to tensor<2x32x16xf32>
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x8x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x8x16xf32>, tensor<2x32x16xf32>, tensor<2x32x16xf32>, f32) outs(%out : tensor<2x8x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x8x16xf32>
  return %r : tensor<2x8x16xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK-LABEL: func.func @insert(
// CHECK: tensor.insert_slice %{{.*}} into %{{.*}}[0, 0, 3] [2, 16, 20] [1, 1, 1] : tensor<2x16x20xf32> into tensor<2x16x32xf32>
func.func @insert(%q: tensor<2x8x16xf32>, %k: tensor<2x32x16xf32>, %x: tensor<2x20x24xf32>, %w: tensor<2x24x16xf32>) -> tensor<2x8x16xf32> {
  %z = arith.constant 0.0 : f32
  %pe = tensor.empty() : tensor<2x20x16xf32>
  %pf = linalg.fill ins(%z : f32) outs(%pe : tensor<2x20x16xf32>) -> tensor<2x20x16xf32>
  %p = linalg.batch_matmul ins(%x, %w : tensor<2x20x24xf32>, tensor<2x24x16xf32>) outs(%pf : tensor<2x20x16xf32>) -> tensor<2x20x16xf32>
  %de = tensor.empty() : tensor<2x32x16xf32>
  %d = linalg.fill ins(%z : f32) outs(%de : tensor<2x32x16xf32>) -> tensor<2x32x16xf32>
  %v = tensor.insert_slice %p into %d[0, 3, 0] [2, 20, 16] [1, 1, 1] : tensor<2x20x16xf32> into tensor<2x32x16xf32>
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x8x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x8x16xf32>, tensor<2x32x16xf32>, tensor<2x32x16xf32>, f32) outs(%out : tensor<2x8x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x8x16xf32>
  return %r : tensor<2x8x16xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// A constant is transposed at compile time.
// CHECK-LABEL: func.func @constant(
// CHECK: arith.constant dense<2.500000e+00> : tensor<2x16x32xf32>
func.func @constant(%q: tensor<2x8x16xf32>, %k: tensor<2x32x16xf32>) -> tensor<2x8x16xf32> {
  %v = arith.constant dense<2.5> : tensor<2x32x16xf32>
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x8x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x8x16xf32>, tensor<2x32x16xf32>, tensor<2x32x16xf32>, f32) outs(%out : tensor<2x8x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x8x16xf32>
  return %r : tensor<2x8x16xf32>
}
