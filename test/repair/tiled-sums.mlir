// A kernel for ROCm whose second sum has tiles, of two that a norm has, has the first in the same. Tiles
// of odd sizes become single numbers. A sum along other loops stays.

// RUN: attn-opt %s --attn-tiled-sums --remarks 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt
// RUN: attn-opt %s --attn-tiled-sums > %t.1 && attn-opt %t.1 --attn-tiled-sums > %t.2 && diff %t.1 %t.2
// WHY-COUNT-2: its sums have the tiles of one
// WHY-NOT: its sums

#target = #hal.executable.target<"rocm", "rocm-hsaco-fb">
#whole = affine_map<(a, b) -> (a, b)>
#row = affine_map<(a, b) -> (a)>
#tiles = #iree_gpu.lowering_config<{reduction = [0, 4], thread = [1, 0], workgroup = [64, 0]}>
#odd = #iree_gpu.lowering_config<{reduction = [0, 5], thread = [1, 0], workgroup = [64, 0]}>
#info = #iree_codegen.translation_info<pipeline = #iree_gpu.pipeline<TileAndFuse> workgroup_size = [64, 1, 1] subgroup_size = 64>
hal.executable private @kernels {
  hal.executable.variant public @rocm target(#target) {
    builtin.module {
      // CHECK: func.func @norm(
      // CHECK: linalg.generic {{.*}}lowering_config = #iree_gpu.lowering_config<{reduction = [0, 4], thread = [1, 0]}>
      // CHECK: linalg.generic {{.*}}lowering_config = #iree_gpu.lowering_config<{reduction = [0, 4], thread = [1, 0], workgroup = [64, 0]}>
      func.func @norm(%x: tensor<?x1000xf32>, %o: tensor<?xf32>) -> (tensor<?xf32>, tensor<?xf32>) attributes {translation_info = #info} {
        %m = linalg.generic {indexing_maps = [#whole, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<?x1000xf32>) outs(%o : tensor<?xf32>) {
        ^bb0(%a: f32, %b: f32):
          %s = arith.addf %a, %b : f32
          linalg.yield %s : f32
        } -> tensor<?xf32>
        %v = linalg.generic {indexing_maps = [#whole, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<?x1000xf32>) outs(%o : tensor<?xf32>) attrs = {lowering_config = #tiles} {
        ^bb0(%a: f32, %b: f32):
          %p = arith.mulf %a, %a : f32
          %s = arith.addf %p, %b : f32
          linalg.yield %s : f32
        } -> tensor<?xf32>
        return %m, %v : tensor<?xf32>, tensor<?xf32>
      }
      // CHECK: func.func @others(
      // CHECK: ins(%arg0 : tensor<?x1000xf32>) {{.*}}<{reduction = [0, 1], thread = [1, 0]}>
      // CHECK: ins(%arg1 : tensor<?x500xf32>) outs(%arg2 : tensor<?xf32>) {
      // CHECK: ins(%arg0 : tensor<?x1000xf32>) {{.*}}<{reduction = [0, 1], thread = [1, 0], workgroup = [64, 0]}>
      func.func @others(%x: tensor<?x1000xf32>, %y: tensor<?x500xf32>, %o: tensor<?xf32>) -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) attributes {translation_info = #info} {
        %m = linalg.generic {indexing_maps = [#whole, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<?x1000xf32>) outs(%o : tensor<?xf32>) {
        ^bb0(%a: f32, %b: f32):
          %s = arith.maximumf %a, %b : f32
          linalg.yield %s : f32
        } -> tensor<?xf32>
        %n = linalg.generic {indexing_maps = [#whole, #row], iterator_types = ["parallel", "reduction"]} ins(%y : tensor<?x500xf32>) outs(%o : tensor<?xf32>) {
        ^bb0(%a: f32, %b: f32):
          %s = arith.addf %a, %b : f32
          linalg.yield %s : f32
        } -> tensor<?xf32>
        %v = linalg.generic {indexing_maps = [#whole, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<?x1000xf32>) outs(%o : tensor<?xf32>) attrs = {lowering_config = #odd} {
        ^bb0(%a: f32, %b: f32):
          %s = arith.addf %a, %b : f32
          linalg.yield %s : f32
        } -> tensor<?xf32>
        return %m, %n, %v : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>
      }
    }
  }
}
