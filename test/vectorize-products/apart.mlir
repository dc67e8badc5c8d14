// Matrices whose numbers lie side by side stand in the lanes; what begins at a tensor stays IREE's.

// DEFINE: %{cpu} = --iree-hal-target-device=local --iree-hal-local-target-device-backends=llvm-cpu --iree-llvmcpu-target-cpu=x86-64-v4
// RUN: attn-compile %s %{cpu} --compile-to=executable-configurations --attn-summary 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=REPORT --input-file=%t.txt

// REPORT-DAG: kernel outgoing_dispatch_0_{{.*}} is vector loops of ours, with matrices across the lanes
// REPORT-DAG: kernel added_dispatch_0_{{.*}} gets no loops of ours: its sums do not begin at a number

// Sums of four rows and four columns of 16 matrices.
// CHECK: func.func @outgoing_dispatch_0_
// CHECK-SAME: #iree_codegen.no_pipeline
// CHECK: scf.for
// CHECK-COUNT-8: vector.load {{.*}}, vector<16xf32>
// CHECK-COUNT-16: arith.mulf {{.*}} : vector<16xf32>
// CHECK-NOT: arith.mulf {{.*}} : vector<16xf32>
// CHECK: scf.yield
func.func @outgoing(%x: tensor<8x40x16xf32>, %y: tensor<12x40x16xf32>) -> tensor<8x12x16xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x12x16xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x12x16xf32>) -> tensor<8x12x16xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j, c, k) -> (i, k, c)>, affine_map<(i, j, c, k) -> (j, k, c)>, affine_map<(i, j, c, k) -> (i, j, c)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%x, %y : tensor<8x40x16xf32>, tensor<12x40x16xf32>) outs(%f : tensor<8x12x16xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<8x12x16xf32>
  return %r : tensor<8x12x16xf32>
}

// CHECK: func.func @added_dispatch_0_
// CHECK-SAME: #iree_cpu.pipeline
func.func @added(%x: tensor<8x40x16xf32>, %y: tensor<12x40x16xf32>, %z: tensor<8x12x16xf32>) -> tensor<8x12x16xf32> {
  %r = linalg.generic {indexing_maps = [affine_map<(i, j, c, k) -> (i, k, c)>, affine_map<(i, j, c, k) -> (j, k, c)>, affine_map<(i, j, c, k) -> (i, j, c)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%x, %y : tensor<8x40x16xf32>, tensor<12x40x16xf32>) outs(%z : tensor<8x12x16xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<8x12x16xf32>
  return %r : tensor<8x12x16xf32>
}
