// RUN: attn-opt %s --attn-configure=target=llvm-cpu | FileCheck %s
// RUN: attn-opt %s --attn-configure=source=none | FileCheck %s --check-prefix=NONE
// NONE-NOT: compilation_info

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// Four rows, all of V's head dim and four keys at a time; k1 is never tiled.
// CHECK: #[[CONFIG:.*]] = #iree_cpu.lowering_config<distribution = [1, 8, 16, 0, 0], vector_common_parallel = [1, 4, 16, 0, 0], vector_reduction = [0, 0, 0, 0, 4]>
// CHECK: #[[INFO:.*]] = #iree_codegen.compilation_info<lowering_config = #[[CONFIG]],
// CHECK-LABEL: func.func @prefill(
// CHECK: iree_linalg_ext.attention {{.*}}{compilation_info = #[[INFO]]}
func.func @prefill(%q: tensor<2x8x16xf32>, %k: tensor<2x32x16xf32>, %v: tensor<2x32x16xf32>) -> tensor<2x8x16xf32> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x8x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x8x16xf32>, tensor<2x32x16xf32>, tensor<2x32x16xf32>, f32) outs(%out : tensor<2x8x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x8x16xf32>
  return %r : tensor<2x8x16xf32>
}
