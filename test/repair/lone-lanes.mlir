// A reduction for CUDA whose lanes all do the same, in three subgroups, gets one; one whose lanes
// share the work stays, and nine of eight lanes get three. Attention over eight subgroups of four lanes along the keys gets four.

// RUN: attn-opt %s --attn-lone-lanes | FileCheck %s
// RUN: attn-opt %s --attn-lone-lanes > %t.1 && attn-opt %t.1 --attn-lone-lanes > %t.2 && diff %t.1 %t.2

#layout = #hal.pipeline.layout<bindings = [#hal.pipeline.binding<storage_buffer>]>
#target = #hal.executable.target<"cuda", "cuda-nvptx-fb">
#left = affine_map<(m, a, b) -> (m, a, b)>
#right = affine_map<(m, a, b) -> (b, a)>
#out = affine_map<(m, a, b) -> (m)>
// CHECK: workgroup_size = [32, 1, 1]
// CHECK: workgroup_size = [96, 1, 1]
// CHECK: workgroup_size = [128, 1, 1]
hal.executable private @kernels {
  hal.executable.variant public @cuda target(#target) {
    builtin.module {
      // CHECK: func.func @alone(
      // CHECK: partial_reduction = [0, 1, 1], subgroup_basis = {{\[\[}}1, 1, 1]
      func.func @alone(%q: tensor<4x64x3xf32>, %k: tensor<3x64xf32>, %o: tensor<4xf32>) -> tensor<4xf32> attributes {translation_info = #iree_codegen.translation_info<pipeline = #iree_gpu.pipeline<VectorDistribute> workgroup_size = [96, 1, 1] subgroup_size = 32>} {
        %r = linalg.generic {indexing_maps = [#left, #right, #out], iterator_types = ["parallel", "reduction", "reduction"]} ins(%q, %k : tensor<4x64x3xf32>, tensor<3x64xf32>) outs(%o : tensor<4xf32>) attrs = {lowering_config = #iree_gpu.lowering_config<{lane_basis = [[1, 1, 1], [0, 1, 2]], partial_reduction = [0, 1, 3], subgroup_basis = [[1, 1, 3], [0, 1, 2]], thread = [0, 1, 1], workgroup = [1, 0, 0]}>} {
        ^bb0(%a: f32, %b: f32, %c: f32):
          %p = arith.mulf %a, %b : f32
          %s = arith.addf %p, %c : f32
          linalg.yield %s : f32
        } -> tensor<4xf32>
        return %r : tensor<4xf32>
      }
      // CHECK: func.func @shared(
      // CHECK: partial_reduction = [0, 1, 96], subgroup_basis = {{\[\[}}1, 1, 3]
      func.func @shared(%q: tensor<4x2x96xf32>, %k: tensor<96x2xf32>, %o: tensor<4xf32>) -> tensor<4xf32> attributes {translation_info = #iree_codegen.translation_info<pipeline = #iree_gpu.pipeline<VectorDistribute> workgroup_size = [96, 1, 1] subgroup_size = 32>} {
        %r = linalg.generic {indexing_maps = [#left, #right, #out], iterator_types = ["parallel", "reduction", "reduction"]} ins(%q, %k : tensor<4x2x96xf32>, tensor<96x2xf32>) outs(%o : tensor<4xf32>) attrs = {lowering_config = #iree_gpu.lowering_config<{lane_basis = [[1, 1, 32], [0, 1, 2]], partial_reduction = [0, 1, 96], subgroup_basis = [[1, 1, 3], [0, 1, 2]], thread = [0, 1, 1], workgroup = [1, 0, 0]}>} {
        ^bb0(%a: f32, %b: f32, %c: f32):
          %p = arith.mulf %a, %b : f32
          %s = arith.addf %p, %c : f32
          linalg.yield %s : f32
        } -> tensor<4xf32>
        return %r : tensor<4xf32>
      }
      // CHECK: func.func @few(
      // CHECK: partial_reduction = [0, 1, 24], subgroup_basis = {{\[\[}}1, 1, 3]
      func.func @few(%q: tensor<4x2x72xf32>, %k: tensor<72x2xf32>, %o: tensor<4xf32>) -> tensor<4xf32> attributes {translation_info = #iree_codegen.translation_info<pipeline = #iree_gpu.pipeline<VectorDistribute> workgroup_size = [288, 1, 1] subgroup_size = 32>} {
        %r = linalg.generic {indexing_maps = [#left, #right, #out], iterator_types = ["parallel", "reduction", "reduction"]} ins(%q, %k : tensor<4x2x72xf32>, tensor<72x2xf32>) outs(%o : tensor<4xf32>) attrs = {lowering_config = #iree_gpu.lowering_config<{lane_basis = [[1, 1, 8], [0, 1, 2]], partial_reduction = [0, 1, 72], subgroup_basis = [[1, 1, 9], [0, 1, 2]], thread = [0, 1, 1], workgroup = [1, 0, 0]}>} {
        ^bb0(%a: f32, %b: f32, %c: f32):
          %p = arith.mulf %a, %b : f32
          %s = arith.addf %p, %c : f32
          linalg.yield %s : f32
        } -> tensor<4xf32>
        return %r : tensor<4xf32>
      }
      // CHECK: func.func @keys(
      // CHECK: subgroup_basis = {{\[\[}}1, 1, 1, 4], [0, 1, 3]]
      // CHECK-SAME: subgroup_basis = {{\[\[}}1, 1, 1, 4], [0, 2, 3]]
      // CHECK-SAME: partial_reduction = [0, 0, 0, 16]
      func.func @keys(%q: tensor<16x8xf16>, %k: tensor<32x8xf16>, %v: tensor<32x64xf16>, %s: f16, %o: tensor<16x64xf32>, %m: tensor<16xf32>, %t: tensor<16xf32>) -> tensor<16x64xf32> attributes {translation_info = #iree_codegen.translation_info<pipeline = #iree_gpu.pipeline<VectorDistribute> workgroup_size = [256, 1, 1] subgroup_size = 32>} {
        %r:3 = iree_linalg_ext.online_attention <indexing_maps = [affine_map<(m, n, c, k) -> (m, c)>, affine_map<(m, n, c, k) -> (k, c)>, affine_map<(m, n, c, k) -> (k, n)>, affine_map<(m, n, c, k) -> ()>, affine_map<(m, n, c, k) -> (m, n)>, affine_map<(m, n, c, k) -> (m)>, affine_map<(m, n, c, k) -> (m)>], decomposition_config = {pv_attrs = {lowering_config = #iree_gpu.lowering_config<{lane_basis = [[1, 1, 8, 4], [0, 1, 3]], subgroup_basis = [[1, 1, 1, 8], [0, 1, 3]], thread = [0, 8, 0]}>}, qk_attrs = {lowering_config = #iree_gpu.lowering_config<{lane_basis = [[1, 1, 8, 4], [0, 2, 3]], subgroup_basis = [[1, 1, 1, 8], [0, 2, 3]], thread = [0, 8, 0]}>}}> {lowering_config = #iree_gpu.lowering_config<{partial_reduction = [0, 0, 0, 32], workgroup = [1, 128, 0, 0]}>} ins(%q, %k, %v, %s : tensor<16x8xf16>, tensor<32x8xf16>, tensor<32x64xf16>, f16) outs(%o, %m, %t : tensor<16x64xf32>, tensor<16xf32>, tensor<16xf32>) {
        ^bb0(%x: f32):
          iree_linalg_ext.yield %x : f32
        } -> tensor<16x64xf32>, tensor<16xf32>, tensor<16xf32>
        return %r#0 : tensor<16x64xf32>
      }
    }
  }
}
