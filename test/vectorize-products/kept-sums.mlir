// Kernels that sum up columns and read a vector along them keep IREE's steps.

// DEFINE: %{cpu} = --iree-hal-target-device=local --iree-hal-local-target-device-backends=llvm-cpu --iree-llvmcpu-target-cpu=x86-64-v4
// RUN: attn-compile %s %{cpu} --compile-to=executable-configurations --attn-summary 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=REPORT --input-file=%t.txt

// REPORT-NOT: {{fallback|kernel crossed}}

// CHECK: func.func @crossed_dispatch_0_{{.*}} attributes {translation_info = {{.*}}<DoubleTilingExpert>
func.func @crossed(%x: tensor<?x8x8xf32>, %w: tensor<8xf32>, %u: tensor<?xf32>) -> tensor<8x8xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x8xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<8x8xf32>) -> tensor<8x8xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(a, b, k) -> (k, a, b)>,
      affine_map<(a, b, k) -> (a)>, affine_map<(a, b, k) -> (k)>, affine_map<(a, b, k) -> (a, b)>],
      iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w, %u : tensor<?x8x8xf32>, tensor<8xf32>, tensor<?xf32>)
      outs(%f : tensor<8x8xf32>) {
  ^bb0(%a: f32, %v: f32, %n: f32, %o: f32):
    %q = math.rsqrt %n : f32
    %h = arith.mulf %a, %q : f32
    %m = arith.addf %h, %v : f32
    %c = math.absf %m : f32
    %y = arith.addf %c, %o : f32
    linalg.yield %y : f32
  } -> tensor<8x8xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a, b)>],
      iterator_types = ["parallel", "parallel"]} ins(%s : tensor<8x8xf32>)
      outs(%e : tensor<8x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %c = math.sqrt %a : f32
    linalg.yield %c : f32
  } -> tensor<8x8xf32>
  return %r : tensor<8x8xf32>
}
