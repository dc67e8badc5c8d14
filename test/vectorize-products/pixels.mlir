// Registers of 32 bytes: columns that are no whole vectors have loops where they are pixels of several
// lines, which are written into an image with a border, of few weights, too; of one line they have not.

// DEFINE: %{cpu} = --iree-hal-target-device=local --iree-hal-local-target-device-backends=llvm-cpu --iree-llvmcpu-target-cpu=haswell
// RUN: attn-compile %s %{cpu} --compile-to=executable-configurations --attn-summary 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=REPORT --input-file=%t.txt

// REPORT-DAG: kernel lines_dispatch_{{.*}} is vector loops of ours, with columns across the lanes
// REPORT-DAG: kernel line_dispatch_{{.*}} gets no loops of ours: 60 columns are cut into no whole vectors, and weights are few

// CHECK: func.func @lines_dispatch_
// CHECK-SAME: #iree_codegen.no_pipeline
func.func @lines(%x: tensor<240x40xf32>, %image: tensor<28x28x40xf32>) -> tensor<240x30x30xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<240x28x28xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<240x28x28xf32>) -> tensor<240x28x28xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(c, y, x, k) -> (c, k)>, affine_map<(c, y, x, k) -> (y, x, k)>, affine_map<(c, y, x, k) -> (c, y, x)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%x, %image : tensor<240x40xf32>, tensor<28x28x40xf32>) outs(%f : tensor<240x28x28xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<240x28x28xf32>
  %p = tensor.pad %r low[0, 1, 1] high[0, 1, 1] {
  ^bb0(%a: index, %b: index, %c: index):
    tensor.yield %zero : f32
  } : tensor<240x28x28xf32> to tensor<240x30x30xf32>
  return %p : tensor<240x30x30xf32>
}

// CHECK: func.func @line_dispatch_
// CHECK-SAME: #iree_cpu.pipeline
func.func @line(%x: tensor<240x40xf32>, %line: tensor<60x40xf32>) -> tensor<240x60xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<240x60xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<240x60xf32>) -> tensor<240x60xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(c, x, k) -> (c, k)>, affine_map<(c, x, k) -> (x, k)>, affine_map<(c, x, k) -> (c, x)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %line : tensor<240x40xf32>, tensor<60x40xf32>) outs(%f : tensor<240x60xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<240x60xf32>
  return %r : tensor<240x60xf32>
}
