// A table that attn-tune wrote goes before the built-in one, for its own target and attention.

// RUN: attn-opt %s --attn-configure="target=llvm-cpu:znver4 source={%S/Inputs/tuned.json}" | FileCheck %s --check-prefix=OTHER
// RUN: attn-opt %s --attn-configure="target=llvm-cpu source={%S/Inputs/tuned.json}" --remarks 2> %t.txt -o %t
// RUN: FileCheck %s < %t
// RUN: FileCheck %s --check-prefix=REPORT --input-file=%t.txt

// REPORT: attention at {{.*}} is configured for llvm-cpu generic from {{.*}}tuned.json: distribution tiles
// REPORT: attention at {{.*}} is configured for llvm-cpu generic: distribution tiles
// REPORT: attention at {{.*}} keeps IREE's own configuration: {{.*}}tuned.json says so

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK-DAG: #[[TUNED:.*]] = #iree_cpu.lowering_config<distribution = [1, 16, 32, 0, 0], vector_common_parallel = [1, 2, 32, 0, 0], vector_reduction = [0, 0, 0, 0, 2]>
// CHECK-DAG: #[[TUNED_INFO:.*]] = #iree_codegen.compilation_info<lowering_config = #[[TUNED]],
// CHECK-DAG: #[[BUILT_IN:.*]] = #iree_cpu.lowering_config<distribution = [1, 64, 64, 0, 0],
// CHECK-DAG: #[[BUILT_IN_INFO:.*]] = #iree_codegen.compilation_info<lowering_config = #[[BUILT_IN]],
// OTHER: vector_common_parallel = [1, 4, 32, 0, 0], vector_reduction = [0, 0, 0, 0, 4]

// CHECK-LABEL: func.func @in_the_table(
// CHECK: iree_linalg_ext.attention {{.*}}{compilation_info = #[[TUNED_INFO]]}
func.func @in_the_table(%q: tensor<2x64x32xf32>, %k: tensor<2x32x32xf32>, %v: tensor<2x32x32xf32>) -> tensor<2x64x32xf32> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x64x32xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x64x32xf32>, tensor<2x32x32xf32>, tensor<2x32x32xf32>, f32) outs(%out : tensor<2x64x32xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x64x32xf32>
  return %r : tensor<2x64x32xf32>
}

// Another head dim of V: the built-in configuration.
// CHECK-LABEL: func.func @not_in_the_table(
// CHECK: iree_linalg_ext.attention {{.*}}{compilation_info = #[[BUILT_IN_INFO]]}
func.func @not_in_the_table(%q: tensor<2x64x32xf32>, %k: tensor<2x32x32xf32>, %v: tensor<2x32x64xf32>) -> tensor<2x64x64xf32> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x64x64xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x64x32xf32>, tensor<2x32x32xf32>, tensor<2x32x64xf32>, f32) outs(%out : tensor<2x64x64xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x64x64xf32>
  return %r : tensor<2x64x64xf32>
}

// Where IREE's own was the fastest, the table has no configuration.
// CHECK-LABEL: func.func @left_by_the_table(
// CHECK-NOT: compilation_info
// CHECK: return
func.func @left_by_the_table(%q: tensor<2x48x32xf32>, %k: tensor<2x32x32xf32>, %v: tensor<2x32x32xf32>) -> tensor<2x48x32xf32> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x48x32xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x48x32xf32>, tensor<2x32x32xf32>, tensor<2x32x32xf32>, f32) outs(%out : tensor<2x48x32xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x48x32xf32>
  return %r : tensor<2x48x32xf32>
}
