// Lines that are taken by index are read as they lie, an index for each; elements that are taken one
// by one stay IREE's.

// DEFINE: %{cpu} = --iree-hal-target-device=local --iree-hal-local-target-device-backends=llvm-cpu --iree-llvmcpu-target-cpu=x86-64-v4
// RUN: attn-compile %s %{cpu} --compile-to=executable-configurations --attn-summary 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=REPORT --input-file=%t.txt

// REPORT-DAG: kernel lines_dispatch_0_{{.*}} is vector loops of ours, with lines across the lanes
// REPORT-DAG: kernel bags_dispatch_0_{{.*}} is vector loops of ours, with the last dim across the lanes
// REPORT-NOT: kernel elements_dispatch_0_

// CHECK: func.func @lines_dispatch_0_
// CHECK-SAME: #iree_codegen.no_pipeline
// CHECK: %[[INDEX:.*]] = memref.load {{.*}}xi64
// CHECK: vector.load {{.*}}, vector<64xf32>
// CHECK-NOT: vector.gather
// CHECK: return
func.func @lines(%x: tensor<100x256xf32>, %i: tensor<40xi64>) -> tensor<40x256xf32> {
  %e = tensor.empty() : tensor<40x256xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(m, n) -> (m)>, affine_map<(m, n) -> (m, n)>], iterator_types = ["parallel", "parallel"]} ins(%i : tensor<40xi64>) outs(%e : tensor<40x256xf32>) {
  ^bb0(%a: i64, %o: f32):
    %at = arith.index_cast %a : i64 to index
    %along = linalg.index 1 : index
    %t = tensor.extract %x[%at, %along] : tensor<100x256xf32>
    linalg.yield %t : f32
  } -> tensor<40x256xf32>
  return %r : tensor<40x256xf32>
}

// CHECK: func.func @bags_dispatch_0_
// CHECK-SAME: #iree_codegen.no_pipeline
// CHECK: scf.for {{.*}} -> (vector<64xf32>)
// CHECK: vector.load {{.*}}, vector<64xf32>
// CHECK: return
func.func @bags(%x: tensor<100x64xf32>, %i: tensor<40x20xi64>) -> tensor<40x64xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<40x64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<40x64xf32>) -> tensor<40x64xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%i : tensor<40x20xi64>) outs(%f : tensor<40x64xf32>) {
  ^bb0(%a: i64, %o: f32):
    %at = arith.index_cast %a : i64 to index
    %along = linalg.index 1 : index
    %t = tensor.extract %x[%at, %along] : tensor<100x64xf32>
    %y = arith.addf %o, %t : f32
    linalg.yield %y : f32
  } -> tensor<40x64xf32>
  return %r : tensor<40x64xf32>
}

// CHECK: func.func @elements_dispatch_0_
// CHECK-SAME: #iree_cpu.pipeline
func.func @elements(%x: tensor<40x500xf32>, %i: tensor<40x100xi64>) -> tensor<40x100xf32> {
  %e = tensor.empty() : tensor<40x100xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (m, n)>], iterator_types = ["parallel", "parallel"]} ins(%i : tensor<40x100xi64>) outs(%e : tensor<40x100xf32>) {
  ^bb0(%a: i64, %o: f32):
    %at = arith.index_cast %a : i64 to index
    %row = linalg.index 0 : index
    %t = tensor.extract %x[%row, %at] : tensor<40x500xf32>
    linalg.yield %t : f32
  } -> tensor<40x100xf32>
  return %r : tensor<40x100xf32>
}
