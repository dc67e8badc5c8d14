// fp8 casts: instructions from sm_89 on, integer arithmetic below; above the range NaN or
// infinity, as on a CPU, whether exp2 is replaced or not. Types without a rule are left, with the
// reason.

// DEFINE: %{kernels} = --iree-hal-target-device=cuda --compile-to=executable-configurations
// RUN: attn-compile %s %{kernels} --iree-cuda-target=sm_89 --attn-summary 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt
// RUN: attn-compile %s %{kernels} --iree-cuda-target=sm_80 | FileCheck %s --check-prefix=OLD
// RUN: attn-compile %s %{kernels} --iree-cuda-target=sm_89 --attn-hardware-exp2=false | FileCheck %s

// CHECK-LABEL: func.func @narrow_dispatch_0
// CHECK-SAME: #iree_codegen.no_pipeline
// CHECK: %[[X:.*]]:4 = vector.to_elements %[[V:.*]] : vector<4xf32>
// CHECK: llvm.inline_asm "cvt.rn.satfinite.e4m3x2.f32 $0, $1, $2;", "=h,f,f" %[[X]]#1, %[[X]]#0 : (f32, f32) -> i16
// CHECK: llvm.inline_asm "cvt.rn.satfinite.e4m3x2.f32 $0, $1, $2;", "=h,f,f" %[[X]]#3, %[[X]]#2 : (f32, f32) -> i16
// CHECK: math.absf %[[V]] : vector<4xf32>
// CHECK: arith.constant 4.640000e+02 : f32
// CHECK: arith.cmpf ogt
// CHECK: arith.select %{{.*}} : i16
// CHECK: arith.ori %{{.*}} : i16
// CHECK: arith.bitcast %{{.*}} : vector<4xi8> to vector<4xf8E4M3FN>
// CHECK-NOT: arith.truncf
// CHECK-LABEL: func.func @widen_dispatch_0
// CHECK-SAME: #iree_codegen.no_pipeline
// CHECK: llvm.inline_asm "cvt.rn.f16x2.e5m2x2 $0, $1;", "=r,h" %{{.*}} : (i16) -> i32
// CHECK: arith.extf %{{.*}} : vector<16xf16> to vector<16xf32>
// CHECK-LABEL: func.func @other_dispatch_0
// CHECK-SAME: #iree_gpu.pipeline
// CHECK: arith.truncf %{{.*}} : f32 to f8E4M3FNUZ

// WHY: kernel narrow_dispatch_0{{.*}} uses cvt.rn.satfinite.e4m3x2.f32 for 4 element(s)
// WHY: kernel widen_dispatch_0{{.*}} uses cvt.rn.f16x2.e5m2x2 for 16 element(s)
// WHY: kernel other_dispatch_0{{.*}} keeps 1 arith.truncf from f32 to f8E4M3FNUZ: no instruction and no arithmetic for these types

// OLD-LABEL: func.func @narrow_dispatch_0
// OLD-NOT: arith.truncf %{{.*}} to vector<4xf8E4M3FN>
// OLD: arith.trunci %{{.*}} : vector<4xi32> to vector<4xi8>
// OLD-NOT: llvm.inline_asm
// OLD-LABEL: func.func @widen_dispatch_0
// OLD: arith.shli
// OLD: arith.bitcast %{{.*}} : vector<16xi16> to vector<16xf16>
// OLD-NOT: llvm.inline_asm

#i = affine_map<(i) -> (i)>
func.func @narrow(%x: tensor<4096xf32>) -> tensor<4096xf8E4M3FN> {
  %e = tensor.empty() : tensor<4096xf8E4M3FN>
  %r = linalg.generic {indexing_maps = [#i, #i], iterator_types = ["parallel"]} ins(%x : tensor<4096xf32>) outs(%e : tensor<4096xf8E4M3FN>) {
  ^bb0(%a: f32, %o: f8E4M3FN):
    %c = arith.truncf %a : f32 to f8E4M3FN
    linalg.yield %c : f8E4M3FN
  } -> tensor<4096xf8E4M3FN>
  return %r : tensor<4096xf8E4M3FN>
}

func.func @widen(%x: tensor<4096xf8E5M2>) -> tensor<4096xf32> {
  %e = tensor.empty() : tensor<4096xf32>
  %r = linalg.generic {indexing_maps = [#i, #i], iterator_types = ["parallel"]} ins(%x : tensor<4096xf8E5M2>) outs(%e : tensor<4096xf32>) {
  ^bb0(%a: f8E5M2, %o: f32):
    %c = arith.extf %a : f8E5M2 to f32
    linalg.yield %c : f32
  } -> tensor<4096xf32>
  return %r : tensor<4096xf32>
}

func.func @other(%x: tensor<4096xf32>) -> tensor<4096xf8E4M3FNUZ> {
  %e = tensor.empty() : tensor<4096xf8E4M3FNUZ>
  %r = linalg.generic {indexing_maps = [#i, #i], iterator_types = ["parallel"]} ins(%x : tensor<4096xf32>) outs(%e : tensor<4096xf8E4M3FNUZ>) {
  ^bb0(%a: f32, %o: f8E4M3FNUZ):
    %c = arith.truncf %a : f32 to f8E4M3FNUZ
    linalg.yield %c : f8E4M3FNUZ
  } -> tensor<4096xf8E4M3FNUZ>
  return %r : tensor<4096xf8E4M3FNUZ>
}

// Arithmetic is in f32.
// CHECK-LABEL: func.func @sum_dispatch_0
// CHECK-SAME: #iree_codegen.no_pipeline
// CHECK: arith.addf {{.*}} : vector<{{[0-9]+}}xf32>
// CHECK: arith.bitcast %{{.*}} : vector<{{[0-9]+}}xi8> to vector<{{[0-9]+}}xf8E4M3FN>
func.func @sum(%x: tensor<4096xf8E4M3FN>) -> tensor<4096xf8E4M3FN> {
  %e = tensor.empty() : tensor<4096xf8E4M3FN>
  %r = linalg.generic {indexing_maps = [#i, #i], iterator_types = ["parallel"]} ins(%x : tensor<4096xf8E4M3FN>) outs(%e : tensor<4096xf8E4M3FN>) {
  ^bb0(%a: f8E4M3FN, %o: f8E4M3FN):
    %c = arith.addf %a, %a : f8E4M3FN
    linalg.yield %c : f8E4M3FN
  } -> tensor<4096xf8E4M3FN>
  return %r : tensor<4096xf8E4M3FN>
}
