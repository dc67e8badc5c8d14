// RUN: attn-opt %s --attn-propagate-layout=mode=always,operands=v | FileCheck %s --check-prefix=ALWAYS
// RUN: attn-opt %s --attn-propagate-layout=mode=never | FileCheck %s --check-prefix=NEVER
// RUN: attn-opt %s --attn-propagate-layout=mode=cost | FileCheck %s --check-prefix=NEVER
// RUN: attn-opt %s --attn-propagate-layout=mode=cost,target=llvm-cpu | FileCheck %s --check-prefix=NEVER
// RUN: attn-opt %s --attn-propagate-layout=mode=cost,target=gfx942 | FileCheck %s --check-prefix=NEVER
// RUN: attn-opt %s > %t.0 && attn-opt %s --attn-propagate-layout=mode=never > %t.1 && diff %t.0 %t.1

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// ALWAYS-LABEL: func.func @projection
// ALWAYS: outs(%{{.*}} : tensor<2x16x32xf32>)
// NEVER-LABEL: func.func @projection
// NEVER: outs(%{{.*}} : tensor<2x32x16xf32>)
func.func @projection(%q: tensor<2x8x16xf32>, %k: tensor<2x32x16xf32>, %x: tensor<2x32x24xf32>, %w: tensor<2x24x16xf32>) -> tensor<2x8x16xf32> {
  %z = arith.constant 0.0 : f32
  %pe = tensor.empty() : tensor<2x32x16xf32>
  %pf = linalg.fill ins(%z : f32) outs(%pe : tensor<2x32x16xf32>) -> tensor<2x32x16xf32>
  %p = linalg.batch_matmul ins(%x, %w : tensor<2x32x24xf32>, tensor<2x24x16xf32>) outs(%pf : tensor<2x32x16xf32>) -> tensor<2x32x16xf32>
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x8x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %p, %scale : tensor<2x8x16xf32>, tensor<2x32x16xf32>, tensor<2x32x16xf32>, f32) outs(%out : tensor<2x8x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x8x16xf32>
  return %r : tensor<2x8x16xf32>
}
