// RUN: attn-opt %s --attn-propagate-layout | FileCheck %s
// RUN: attn-compile %s --iree-hal-target-device=local --iree-hal-local-target-device-backends=llvm-cpu --iree-llvmcpu-target-cpu=generic --compile-to=flow | FileCheck %s --check-prefix=FUSED

// Attention reads V as the projection made it. IREE would not fuse the bias into a product with a
// batch of one: it becomes one of matrices. A batch of two stays.

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK-LABEL: func.func @one(
// CHECK-NOT: linalg.batch_matmul
// CHECK: linalg.contract {{.*}} ins(%{{.*}}, %{{.*}} : tensor<32x24xf32>, tensor<24x64xf32>) outs(%{{.*}} : tensor<32x64xf32>)
// CHECK: tensor.expand_shape {{.*}} : tensor<32x64xf32> into tensor<1x32x64xf32>
// CHECK-NOT: linalg.transpose
// CHECK: iree_linalg_ext.attention
// FUSED-LABEL: util.func public @one(
// FUSED-COUNT-2: flow.dispatch @
// FUSED-NOT: flow.dispatch @
// FUSED-LABEL: util.func public @two(
func.func @one(%q: tensor<4x32x16xf32>, %k: tensor<4x32x16xf32>, %x: tensor<1x32x24xf32>, %w: tensor<24x64xf32>, %c: tensor<64xf32>) -> tensor<4x32x16xf32> {
  %z = arith.constant 0.0 : f32
  %we = tensor.empty() : tensor<1x24x64xf32>
  %wb = linalg.generic {indexing_maps = [affine_map<(a, b, c) -> (b, c)>, affine_map<(a, b, c) -> (a, b, c)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%w : tensor<24x64xf32>) outs(%we : tensor<1x24x64xf32>) {
  ^bb0(%in: f32, %o: f32):
    linalg.yield %in : f32
  } -> tensor<1x24x64xf32>
  %pe = tensor.empty() : tensor<1x32x64xf32>
  %pf = linalg.fill ins(%z : f32) outs(%pe : tensor<1x32x64xf32>) -> tensor<1x32x64xf32>
  %vp = linalg.batch_matmul ins(%x, %wb : tensor<1x32x24xf32>, tensor<1x24x64xf32>) outs(%pf : tensor<1x32x64xf32>) -> tensor<1x32x64xf32>
  %vb = linalg.generic {indexing_maps = [affine_map<(a, b, c) -> (a, b, c)>, affine_map<(a, b, c) -> (c)>, affine_map<(a, b, c) -> (a, b, c)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%vp, %c : tensor<1x32x64xf32>, tensor<64xf32>) outs(%pe : tensor<1x32x64xf32>) {
  ^bb0(%in: f32, %bias: f32, %o: f32):
    %t = arith.addf %in, %bias : f32
    linalg.yield %t : f32
  } -> tensor<1x32x64xf32>
  %v4 = tensor.expand_shape %vb [[0], [1], [2, 3]] output_shape [1, 32, 4, 16] : tensor<1x32x64xf32> into tensor<1x32x4x16xf32>
  %te = tensor.empty() : tensor<1x4x32x16xf32>
  %vt = linalg.transpose ins(%v4 : tensor<1x32x4x16xf32>) outs(%te : tensor<1x4x32x16xf32>) permutation = [0, 2, 1, 3]
  %v = tensor.collapse_shape %vt [[0, 1], [2], [3]] : tensor<1x4x32x16xf32> into tensor<4x32x16xf32>
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<4x32x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<4x32x16xf32>, tensor<4x32x16xf32>, tensor<4x32x16xf32>, f32) outs(%out : tensor<4x32x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<4x32x16xf32>
  return %r : tensor<4x32x16xf32>
}

// CHECK-LABEL: func.func @two(
// CHECK: linalg.batch_matmul
// CHECK-NOT: linalg.transpose
// CHECK: iree_linalg_ext.attention
func.func @two(%q: tensor<8x32x16xf32>, %k: tensor<8x32x16xf32>, %x: tensor<2x32x24xf32>, %w: tensor<24x64xf32>, %c: tensor<64xf32>) -> tensor<8x32x16xf32> {
  %z = arith.constant 0.0 : f32
  %we = tensor.empty() : tensor<2x24x64xf32>
  %wb = linalg.generic {indexing_maps = [affine_map<(a, b, c) -> (b, c)>, affine_map<(a, b, c) -> (a, b, c)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%w : tensor<24x64xf32>) outs(%we : tensor<2x24x64xf32>) {
  ^bb0(%in: f32, %o: f32):
    linalg.yield %in : f32
  } -> tensor<2x24x64xf32>
  %pe = tensor.empty() : tensor<2x32x64xf32>
  %pf = linalg.fill ins(%z : f32) outs(%pe : tensor<2x32x64xf32>) -> tensor<2x32x64xf32>
  %vp = linalg.batch_matmul ins(%x, %wb : tensor<2x32x24xf32>, tensor<2x24x64xf32>) outs(%pf : tensor<2x32x64xf32>) -> tensor<2x32x64xf32>
  %vb = linalg.generic {indexing_maps = [affine_map<(a, b, c) -> (a, b, c)>, affine_map<(a, b, c) -> (c)>, affine_map<(a, b, c) -> (a, b, c)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%vp, %c : tensor<2x32x64xf32>, tensor<64xf32>) outs(%pe : tensor<2x32x64xf32>) {
  ^bb0(%in: f32, %bias: f32, %o: f32):
    %t = arith.addf %in, %bias : f32
    linalg.yield %t : f32
  } -> tensor<2x32x64xf32>
  %v4 = tensor.expand_shape %vb [[0], [1], [2, 3]] output_shape [2, 32, 4, 16] : tensor<2x32x64xf32> into tensor<2x32x4x16xf32>
  %te = tensor.empty() : tensor<2x4x32x16xf32>
  %vt = linalg.transpose ins(%v4 : tensor<2x32x4x16xf32>) outs(%te : tensor<2x4x32x16xf32>) permutation = [0, 2, 1, 3]
  %v = tensor.collapse_shape %vt [[0, 1], [2], [3]] : tensor<2x4x32x16xf32> into tensor<8x32x16xf32>
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<8x32x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<8x32x16xf32>, tensor<8x32x16xf32>, tensor<8x32x16xf32>, f32) outs(%out : tensor<8x32x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<8x32x16xf32>
  return %r : tensor<8x32x16xf32>
}
