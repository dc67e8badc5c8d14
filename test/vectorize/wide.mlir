// Heads too wide for a vector of rows: the rows go in groups that the stack has room for, and
// workgroups hold whole groups.

// DEFINE: %{cpu} = --iree-hal-target-device=local --iree-hal-local-target-device-backends=llvm-cpu --iree-llvmcpu-target-cpu=x86-64-v4
// RUN: attn-compile %s %{cpu} --compile-to=executable-configurations --attn-summary 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=REPORT --input-file=%t.txt

// REPORT: each of 3 kernels at {{.*}} is vector loops of ours, with the head dim across the lanes

// CHECK: func.func @main_dispatch_0_attention_2x100x512x512x40()
// CHECK-SAME: #iree_codegen.no_pipeline
// CHECK-DAG: memref.alloca() {{.*}} : memref<10x512xf32>
// CHECK-DAG: memref.alloca() {{.*}} : memref<10x{{[0-9]+}}xf32>
// CHECK-NOT: iree_linalg_ext
// The division goes in steps of four vectors, not of ten rows.
// CHECK-NOT: vector<512xf32>
// CHECK: arith.mulf {{.*}} : vector<64xf32>
// CHECK-NOT: vector<512xf32>
// CHECK: return

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
#all = affine_map<(i, j, k) -> (i, j, k)>
#row = affine_map<(i, j, k) -> (i, j)>
func.func @main(%q: tensor<2x100x512xf32>, %k: tensor<2x40x512xf32>, %v: tensor<2x40x512xf32>) -> tensor<2x100x512xf32> {
  %scale = arith.constant 0.125 : f32
  %out = tensor.empty() : tensor<2x100x512xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x100x512xf32>, tensor<2x40x512xf32>, tensor<2x40x512xf32>, f32) outs(%out : tensor<2x100x512xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x100x512xf32>
  return %r : tensor<2x100x512xf32>
}

// What is done with the quotient goes in the same steps.
// CHECK-LABEL: func.func @weighed_dispatch_0
// CHECK-NOT: vector<512xf32>
// CHECK: arith.mulf {{.*}} : vector<64xf32>
// CHECK-NEXT: vector.broadcast
// CHECK-NEXT: arith.mulf {{.*}} : vector<64xf32>
func.func @weighed(%q: tensor<2x100x512xf32>, %k: tensor<2x40x512xf32>, %v: tensor<2x40x512xf32>, %weights: tensor<2x100xf32>) -> tensor<2x100x512xf32> {
  %scale = arith.constant 0.125 : f32
  %out = tensor.empty() : tensor<2x100x512xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x100x512xf32>, tensor<2x40x512xf32>, tensor<2x40x512xf32>, f32) outs(%out : tensor<2x100x512xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x100x512xf32>
  %w = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%r, %weights : tensor<2x100x512xf32>, tensor<2x100xf32>) outs(%out : tensor<2x100x512xf32>) {
    ^bb0(%x: f32, %y: f32, %z: f32):
      %p = arith.mulf %x, %y : f32
      linalg.yield %p : f32
  } -> tensor<2x100x512xf32>
  return %w : tensor<2x100x512xf32>
}

// Two results: each in steps of its own.
// CHECK-LABEL: func.func @both_dispatch_0
// CHECK-NOT: vector<{{[0-9]+x512|5120}}xf32>
// CHECK: arith.mulf {{.*}} : vector<64xf32>
// CHECK: arith.mulf {{.*}} : vector<64xf32>
// CHECK-NOT: vector<{{[0-9]+x512|5120}}xf32>
// CHECK: return
func.func @both(%q: tensor<2x100x512xf32>, %k: tensor<2x40x512xf32>, %v: tensor<2x40x512xf32>, %weights: tensor<2x100xf32>) -> (tensor<2x100x512xf32>, tensor<2x100x512xf32>) {
  %scale = arith.constant 0.125 : f32
  %out = tensor.empty() : tensor<2x100x512xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x100x512xf32>, tensor<2x40x512xf32>, tensor<2x40x512xf32>, f32) outs(%out : tensor<2x100x512xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x100x512xf32>
  %w = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%r, %weights : tensor<2x100x512xf32>, tensor<2x100xf32>) outs(%out : tensor<2x100x512xf32>) {
    ^bb0(%x: f32, %y: f32, %z: f32):
      %p = arith.mulf %x, %y : f32
      linalg.yield %p : f32
  } -> tensor<2x100x512xf32>
  return %r, %w : tensor<2x100x512xf32>, tensor<2x100x512xf32>
}
