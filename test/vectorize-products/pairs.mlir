// Products of bf16 with many rows go in pairs of the depth where the CPU has an instruction for that,
// and is faster with it, as their factors lie in memory. Constant weights are packed by these loops,
// too. An odd depth, f16 and few rows go in f32.

// DEFINE: %{cpu} = --iree-hal-target-device=local --iree-hal-local-target-device-backends=llvm-cpu
// RUN: attn-compile %s %{cpu} --iree-llvmcpu-target-cpu=znver4 --compile-to=executable-configurations | FileCheck %s
// RUN: attn-compile %s %{cpu} --iree-llvmcpu-target-cpu=emeraldrapids --compile-to=executable-configurations | FileCheck %s --check-prefix=NONE

// NONE-NOT: dpbf16ps
// NONE: no_pipeline
// NONE-NOT: dpbf16ps

// Eight rows times two vectors of columns.
// CHECK-LABEL: func.func @deep_dispatch_0_
// CHECK-SAME: #iree_codegen.no_pipeline
// CHECK: memref.alloca() {{.*}} : memref<96x32xf32>
// CHECK: memref.alloca() {{.*}} : memref<8x96xf32>
// CHECK: vector.bitcast {{.*}} : vector<16x32xbf16> to vector<16x16xf32>
// CHECK-COUNT-16: llvm.call_intrinsic "llvm.x86.avx512bf16.dpbf16ps.512"
func.func @deep(%x: tensor<64x512xbf16>, %w: tensor<256x512xbf16>) -> tensor<64x256xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64x256xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<64x256xf32>) -> tensor<64x256xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<64x512xbf16>, tensor<256x512xbf16>) outs(%f : tensor<64x256xf32>) {
  ^bb0(%a: bf16, %b: bf16, %o: f32):
    %aw = arith.extf %a : bf16 to f32
    %bw = arith.extf %b : bf16 to f32
    %y = arith.mulf %aw, %bw : f32
    %z = arith.addf %o, %y : f32
    linalg.yield %z : f32
  } -> tensor<64x256xf32>
  return %p : tensor<64x256xf32>
}

// CHECK-LABEL: func.func @constant_dispatch_0_
// CHECK-SAME: #iree_codegen.no_pipeline
// CHECK-COUNT-16: llvm.call_intrinsic "llvm.x86.avx512bf16.dpbf16ps.512"
util.global private @weights = #util.byte_pattern<1> : tensor<512x256xbf16>
func.func @constant(%x: tensor<512x512xbf16>) -> tensor<512x256xf32> {
  %w = util.global.load @weights : tensor<512x256xbf16>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<512x256xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<512x256xf32>) -> tensor<512x256xf32>
  %p = linalg.matmul ins(%x, %w : tensor<512x512xbf16>, tensor<512x256xbf16>) outs(%f : tensor<512x256xf32>) -> tensor<512x256xf32>
  return %p : tensor<512x256xf32>
}

// CHECK-LABEL: func.func @odd_dispatch_0_
// CHECK-SAME: #iree_codegen.no_pipeline
// CHECK-NOT: dpbf16ps
func.func @odd(%x: tensor<64x511xbf16>, %w: tensor<511x256xbf16>) -> tensor<64x256xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64x256xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<64x256xf32>) -> tensor<64x256xf32>
  %p = linalg.matmul ins(%x, %w : tensor<64x511xbf16>, tensor<511x256xbf16>) outs(%f : tensor<64x256xf32>) -> tensor<64x256xf32>
  return %p : tensor<64x256xf32>
}

func.func @halves(%x: tensor<64x512xf16>, %w: tensor<512x256xf16>) -> tensor<64x256xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64x256xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<64x256xf32>) -> tensor<64x256xf32>
  %p = linalg.matmul ins(%x, %w : tensor<64x512xf16>, tensor<512x256xf16>) outs(%f : tensor<64x256xf32>) -> tensor<64x256xf32>
  return %p : tensor<64x256xf32>
}

func.func @few(%x: tensor<8x512xbf16>, %w: tensor<512x256xbf16>) -> tensor<8x256xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x256xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x256xf32>) -> tensor<8x256xf32>
  %p = linalg.matmul ins(%x, %w : tensor<8x512xbf16>, tensor<512x256xbf16>) outs(%f : tensor<8x256xf32>) -> tensor<8x256xf32>
  return %p : tensor<8x256xf32>
}
