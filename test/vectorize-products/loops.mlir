// Products of few rows are loops that read each weight once: the depth stands in the lanes, or the
// columns do, whichever is innermost in the weights. Memory is fetched ahead.

// DEFINE: %{cpu} = --iree-hal-target-device=local --iree-hal-local-target-device-backends=llvm-cpu --iree-llvmcpu-target-cpu=x86-64-v4
// RUN: attn-compile %s %{cpu} --compile-to=executable-configurations --attn-summary 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=REPORT --input-file=%t.txt

// REPORT-DAG: kernel deep_dispatch_0_{{.*}} is vector loops of ours, with the depth across the lanes
// REPORT-DAG: each of 3 kernels at {{.*}} is vector loops of ours, with columns across the lanes

// Three rows of 512 on the stack, times four columns of halves: 12 sums. A line of the cache is
// fetched for two vectors of a column. What stands behind is in the kernel.
// CHECK: func.func @deep_dispatch_0_
// CHECK-SAME: #iree_codegen.no_pipeline
// CHECK: memref.alloca() {{.*}} : memref<3x512xf32>
// CHECK: scf.for
// CHECK: iter_args({{.*}}) -> (vector<16xf32>, {{.*}}) {
// CHECK-COUNT-4: memref.prefetch {{.*}}, read, locality<2>, data
// CHECK-NOT: memref.prefetch
// CHECK: math.absf
// CHECK-NOT: linalg
// CHECK: return
func.func @deep(%x: tensor<3x512xf16>, %w: tensor<256x512xf16>) -> tensor<3x256xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<3x256xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<3x256xf32>) -> tensor<3x256xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<3x512xf16>, tensor<256x512xf16>) outs(%f : tensor<3x256xf32>) {
  ^bb0(%a: f16, %b: f16, %o: f32):
    %aw = arith.extf %a : f16 to f32
    %bw = arith.extf %b : f16 to f32
    %y = arith.mulf %aw, %bw : f32
    %z = arith.addf %o, %y : f32
    linalg.yield %z : f32
  } -> tensor<3x256xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (m, n)>], iterator_types = ["parallel", "parallel"]} ins(%p : tensor<3x256xf32>) outs(%e : tensor<3x256xf32>) {
  ^bb0(%a: f32, %o: f32):
    %y = math.absf %a : f32
    linalg.yield %y : f32
  } -> tensor<3x256xf32>
  return %r : tensor<3x256xf32>
}

// Blocks of 16 lines of 32 columns, two vectors and lines of the cache.
// CHECK: func.func @wide_dispatch_0_
// CHECK-SAME: #iree_codegen.no_pipeline
// CHECK: memref.alloca() {{.*}} : memref<2x16xf32>
// CHECK: scf.for
// CHECK: scf.for
// CHECK-SAME: -> (vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>)
// CHECK-COUNT-2: memref.prefetch {{.*}}, read, locality<2>, data
// CHECK-NOT: memref.prefetch
// CHECK-NOT: linalg
// CHECK: return
func.func @wide(%x: tensor<2x256xf32>, %w: tensor<256x512xf32>) -> tensor<2x512xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x512xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2x512xf32>) -> tensor<2x512xf32>
  %r = linalg.matmul ins(%x, %w : tensor<2x256xf32>, tensor<256x512xf32>) outs(%f : tensor<2x512xf32>) -> tensor<2x512xf32>
  return %r : tensor<2x512xf32>
}

// Tiles of 104 rows and 32 columns: blocks of 96 are packed, two times 16 x 16 turned at once, and 8
// rows go through them, then 4, 2 and 1. Rows are widened beside, those of the next block fetched.
// CHECK: func.func @tall_dispatch_0_
// CHECK-SAME: #iree_codegen.no_pipeline
// CHECK-DAG: memref.alloca() {{.*}} : memref<96x32xf32>
// CHECK-DAG: memref.alloca() {{.*}} : memref<8x96xf32>
// CHECK: scf.for
// CHECK-COUNT-32: memref.prefetch {{.*}} : memref<32x2688xf16
// CHECK: scf.for
// CHECK-COUNT-24: memref.prefetch {{.*}} : memref<?x2688xf16
// CHECK: %{{[0-9]+}}:16 = scf.for {{.*}} -> (vector<16xf32>, {{.*}}) {
// CHECK-NOT: linalg
// CHECK: return
func.func @tall(%x: tensor<1000x2688xf16>, %w: tensor<256x2688xf16>) -> tensor<1000x256xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1000x256xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1000x256xf32>) -> tensor<1000x256xf32>
  %r = linalg.matmul indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>]
      ins(%x, %w : tensor<1000x2688xf16>, tensor<256x2688xf16>) outs(%f : tensor<1000x256xf32>) -> tensor<1000x256xf32>
  return %r : tensor<1000x256xf32>
}

// The last of five tiles has 8 columns of 32: code of its own, with masks.
// CHECK: func.func @half_vectors_dispatch_0_
// CHECK-SAME: #iree_codegen.no_pipeline
// CHECK: scf.if
// CHECK-NOT: vector.maskedload
// CHECK: } else {
// CHECK: vector.maskedload
func.func @half_vectors(%x: tensor<64x512xf32>, %w: tensor<512x136xf32>) -> tensor<64x136xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64x136xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<64x136xf32>) -> tensor<64x136xf32>
  %r = linalg.matmul ins(%x, %w : tensor<64x512xf32>, tensor<512x136xf32>) outs(%f : tensor<64x136xf32>) -> tensor<64x136xf32>
  return %r : tensor<64x136xf32>
}
