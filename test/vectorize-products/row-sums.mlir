// Kernels that sum up rows go by a row and eight or four vectors a step, by the whole of a short row,
// or by four with a rest; those that sum up columns by four vectors of these. Fewer keep IREE's steps.
// A kernel that reads a sum in steps that leave a rest is lowered here, but for sums over windows; one
// that reads none keeps IREE's steps.
// Elementwise kernels that turn a matrix go by squares, where these divide it.

// DEFINE: %{cpu} = --iree-hal-target-device=local --iree-hal-local-target-device-backends=llvm-cpu --iree-llvmcpu-target-cpu=x86-64-v4
// RUN: attn-compile %s %{cpu} --compile-to=executable-configurations --attn-summary 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=REPORT --input-file=%t.txt

// REPORT-NOT: kernel few
// REPORT-DAG: kernel norm_dispatch_0_{{.*}} sums up its rows by 128 elements at a time
// REPORT-NOT: kernel uneven
// REPORT-DAG: kernel down_dispatch_0_{{.*}} sums up 64 columns at a time
// REPORT-DAG: kernel rest_dispatch_0_{{.*}} sums up 64 columns at a time
// REPORT-DAG: kernel rest_dispatch_0_{{.*}} is vector loops of ours, with the last dim across the lanes
// REPORT-DAG: kernel turned_dispatch_0_{{.*}} turns squares of a vector's rows and columns
// REPORT-NOT: kernel few
// REPORT-NOT: turns squares

// CHECK: func.func @norm_dispatch_0_
// CHECK: #iree_cpu.lowering_config<{{.*}}vector_common_parallel = [1, 0], vector_reduction = [0, 128]>
// CHECK: #iree_cpu.lowering_config<vector_common_parallel = [1, 0], vector_inner_parallel = [0, 128]>
func.func @norm(%x: tensor<64x768xf32>) -> tensor<64x768xf32> {
  %zero = arith.constant 0.0 : f32
  %s = tensor.empty() : tensor<64xf32>
  %e = tensor.empty() : tensor<64x768xf32>
  %f = linalg.fill ins(%zero : f32) outs(%s : tensor<64xf32>) -> tensor<64xf32>
  %sum = linalg.generic {indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (m)>], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<64x768xf32>) outs(%f : tensor<64xf32>) {
  ^bb0(%a: f32, %o: f32):
    %p = arith.mulf %a, %a : f32
    %y = arith.addf %p, %o : f32
    linalg.yield %y : f32
  } -> tensor<64xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (m)>, affine_map<(m, n) -> (m, n)>], iterator_types = ["parallel", "parallel"]}
      ins(%x, %sum : tensor<64x768xf32>, tensor<64xf32>) outs(%e : tensor<64x768xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %c = math.rsqrt %b : f32
    %y = arith.mulf %a, %c : f32
    linalg.yield %y : f32
  } -> tensor<64x768xf32>
  return %r : tensor<64x768xf32>
}

// CHECK: func.func @uneven_dispatch_0_
// CHECK-NOT: vector_reduction = [0, 64]
func.func @uneven(%x: tensor<64x1000xf32>) -> tensor<64xf32> {
  %zero = arith.constant 0.0 : f32
  %s = tensor.empty() : tensor<64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%s : tensor<64xf32>) -> tensor<64xf32>
  %sum = linalg.generic {indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (m)>], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<64x1000xf32>) outs(%f : tensor<64xf32>) {
  ^bb0(%a: f32, %o: f32):
    %y = arith.addf %a, %o : f32
    linalg.yield %y : f32
  } -> tensor<64xf32>
  return %sum : tensor<64xf32>
}

// CHECK: func.func @down_dispatch_0_
// CHECK: distribution = [64, 0], vector_common_parallel = [64, 0], vector_reduction = [0, 1]
func.func @down(%x: tensor<768x128xf32>) -> tensor<128xf32> {
  %zero = arith.constant 0.0 : f32
  %s = tensor.empty() : tensor<128xf32>
  %f = linalg.fill ins(%zero : f32) outs(%s : tensor<128xf32>) -> tensor<128xf32>
  %sum = linalg.generic {indexing_maps = [affine_map<(m, n) -> (n, m)>, affine_map<(m, n) -> (m)>], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<768x128xf32>) outs(%f : tensor<128xf32>) {
  ^bb0(%a: f32, %o: f32):
    %y = arith.addf %a, %o : f32
    linalg.yield %y : f32
  } -> tensor<128xf32>
  return %sum : tensor<128xf32>
}

// CHECK: func.func @few_dispatch_0_
// CHECK-NOT: vector_common_parallel = [1, 0]
// CHECK: return
func.func @few(%x: tensor<64x100xf32>) -> tensor<64xf32> {
  %zero = arith.constant 0.0 : f32
  %s = tensor.empty() : tensor<64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%s : tensor<64xf32>) -> tensor<64xf32>
  %sum = linalg.generic {indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (m)>], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<64x100xf32>) outs(%f : tensor<64xf32>) {
  ^bb0(%a: f32, %o: f32):
    %y = arith.addf %a, %o : f32
    linalg.yield %y : f32
  } -> tensor<64xf32>
  return %sum : tensor<64xf32>
}

// CHECK: func.func @few_columns_dispatch_0_
// CHECK: vector_common_parallel = [4, 0]
// CHECK: return
func.func @few_columns(%x: tensor<768x48xf32>) -> tensor<48xf32> {
  %zero = arith.constant 0.0 : f32
  %s = tensor.empty() : tensor<48xf32>
  %f = linalg.fill ins(%zero : f32) outs(%s : tensor<48xf32>) -> tensor<48xf32>
  %sum = linalg.generic {indexing_maps = [affine_map<(m, n) -> (n, m)>, affine_map<(m, n) -> (m)>], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<768x48xf32>) outs(%f : tensor<48xf32>) {
  ^bb0(%a: f32, %o: f32):
    %y = arith.addf %a, %o : f32
    linalg.yield %y : f32
  } -> tensor<48xf32>
  return %sum : tensor<48xf32>
}

// CHECK: func.func @rest_dispatch_0_{{.*}}<pipeline = #iree_codegen.no_pipeline>
// CHECK: iter_args({{.*}} -> (vector<64xf32>)
// CHECK-NOT: vector<1xf32>
// CHECK: iter_args({{.*}} -> (vector<64xf32>)
// CHECK-NOT: {{iter_args|vector<1xf32>}}
// CHECK: return
func.func @rest(%x: tensor<70x1001xf32>) -> tensor<70x1001xf32> {
  %zero = arith.constant 0.0 : f32
  %s = tensor.empty() : tensor<1001xf32>
  %e = tensor.empty() : tensor<70x1001xf32>
  %f = linalg.fill ins(%zero : f32) outs(%s : tensor<1001xf32>) -> tensor<1001xf32>
  %sum = linalg.generic {indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (n)>], iterator_types = ["reduction", "parallel"]}
      ins(%x : tensor<70x1001xf32>) outs(%f : tensor<1001xf32>) {
  ^bb0(%a: f32, %o: f32):
    %p = arith.mulf %a, %a : f32
    %y = arith.addf %p, %o : f32
    linalg.yield %y : f32
  } -> tensor<1001xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (n)>, affine_map<(m, n) -> (m, n)>], iterator_types = ["parallel", "parallel"]}
      ins(%x, %sum : tensor<70x1001xf32>, tensor<1001xf32>) outs(%e : tensor<70x1001xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %c = math.rsqrt %b : f32
    %y = arith.mulf %a, %c : f32
    linalg.yield %y : f32
  } -> tensor<70x1001xf32>
  return %r : tensor<70x1001xf32>
}

// CHECK: func.func @turned_dispatch_0_
// CHECK: vector_common_parallel = [16, 16]
func.func @turned(%x: tensor<64x160xf32>, %b: tensor<160xf32>) -> tensor<160x64xf32> {
  %e = tensor.empty() : tensor<160x64xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(m, n) -> (n, m)>, affine_map<(m, n) -> (m)>, affine_map<(m, n) -> (m, n)>], iterator_types = ["parallel", "parallel"]}
      ins(%x, %b : tensor<64x160xf32>, tensor<160xf32>) outs(%e : tensor<160x64xf32>) {
  ^bb0(%a: f32, %c: f32, %o: f32):
    %y = arith.mulf %a, %c : f32
    linalg.yield %y : f32
  } -> tensor<160x64xf32>
  return %r : tensor<160x64xf32>
}

// CHECK: func.func @half_squares_dispatch_0_
// CHECK: vector_common_parallel = [1, 16]
func.func @half_squares(%x: tensor<64x168xf32>, %b: tensor<168xf32>) -> tensor<168x64xf32> {
  %e = tensor.empty() : tensor<168x64xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(m, n) -> (n, m)>, affine_map<(m, n) -> (m)>, affine_map<(m, n) -> (m, n)>], iterator_types = ["parallel", "parallel"]}
      ins(%x, %b : tensor<64x168xf32>, tensor<168xf32>) outs(%e : tensor<168x64xf32>) {
  ^bb0(%a: f32, %c: f32, %o: f32):
    %y = arith.mulf %a, %c : f32
    linalg.yield %y : f32
  } -> tensor<168x64xf32>
  return %r : tensor<168x64xf32>
}

// CHECK: func.func @few_windows_dispatch_0_{{.*}} attributes {translation_info = {{.*}}<ConvTileAndDecomposeExpert>
func.func @few_windows(%x: tensor<1x64x112x112xf32>, %w: tensor<2x2xf32>) -> tensor<1x64x56x56xf32> {
  %zero = arith.constant 0.0 : f32
  %part = arith.constant 0.25 : f32
  %e = tensor.empty() : tensor<1x64x56x56xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x64x56x56xf32>) -> tensor<1x64x56x56xf32>
  %sum = linalg.pooling_nchw_sum {dilations = dense<1> : vector<2xi64>, strides = dense<2> : vector<2xi64>} ins(%x, %w : tensor<1x64x112x112xf32>, tensor<2x2xf32>) outs(%f : tensor<1x64x56x56xf32>) -> tensor<1x64x56x56xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(b, c, y, x) -> (b, c, y, x)>, affine_map<(b, c, y, x) -> (b, c, y, x)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%sum : tensor<1x64x56x56xf32>) outs(%e : tensor<1x64x56x56xf32>) {
  ^bb0(%a: f32, %o: f32):
    %y = arith.mulf %a, %part : f32
    linalg.yield %y : f32
  } -> tensor<1x64x56x56xf32>
  return %r : tensor<1x64x56x56xf32>
}
