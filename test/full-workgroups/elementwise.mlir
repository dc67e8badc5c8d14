// Elementwise kernels have workgroups of four subgroups, or as many as divide a row; where few would be
// left, or a tensor lies across, they stay IREE's.
//
// RUN: attn-compile %s --iree-hal-target-device=cuda --iree-cuda-target=sm_80 --iree-opt-level=O2 --compile-to=executable-configurations --attn-report=%t.json | FileCheck %s
// RUN: FileCheck %s --check-prefix=TOLD < %t.json
// RUN: attn-compile %s --iree-hal-target-device=cuda --iree-cuda-target=sm_80 --iree-opt-level=O2 --compile-to=executable-configurations --attn-configure=false | FileCheck %s --check-prefix=OFF

#all = affine_map<(r, d) -> (r, d)>
#row = affine_map<(r, d) -> (r)>

// CHECK-LABEL: func.func @scaled_dispatch_0
// CHECK-SAME: workgroup_size = [128, 1, 1]
// CHECK: thread = [1, 8], workgroup = [1, 1024]
// TOLD: a workgroup of it has 128 threads, not 32
// OFF-LABEL: func.func @scaled_dispatch_0
// OFF-SAME: workgroup_size = [32, 1, 1]
// OFF: thread = [1, 8], workgroup = [1, 256]
func.func @scaled(%x: tensor<4096x2048xf16>, %by: tensor<4096xf16>) -> tensor<4096x2048xf16> {
  %space = tensor.empty() : tensor<4096x2048xf16>
  %made = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x, %by : tensor<4096x2048xf16>, tensor<4096xf16>) outs(%space : tensor<4096x2048xf16>) {
  ^bb0(%a: f16, %b: f16, %o: f16):
    %c = arith.mulf %a, %b : f16
    linalg.yield %c : f16
  } -> tensor<4096x2048xf16>
  return %made : tensor<4096x2048xf16>
}

// A row of three tiles.
// CHECK-LABEL: func.func @threes_dispatch_0
// CHECK-SAME: workgroup_size = [96, 1, 1]
// CHECK: thread = [1, 8], workgroup = [1, 768]
// TOLD: a workgroup of it has 96 threads, not 32
func.func @threes(%x: tensor<?x768xf16>, %by: tensor<?xf16>) -> tensor<?x768xf16> {
  %zero = arith.constant 0 : index
  %rows = tensor.dim %x, %zero : tensor<?x768xf16>
  %space = tensor.empty(%rows) : tensor<?x768xf16>
  %made = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x, %by : tensor<?x768xf16>, tensor<?xf16>) outs(%space : tensor<?x768xf16>) {
  ^bb0(%a: f16, %b: f16, %o: f16):
    %c = arith.mulf %a, %b : f16
    linalg.yield %c : f16
  } -> tensor<?x768xf16>
  return %made : tensor<?x768xf16>
}

// A thread makes all taps of a channel, which lanes write side by side.
// CHECK-LABEL: func.func @taps_dispatch_0
// CHECK-SAME: workgroup_size = [128, 1, 1]
// CHECK: thread = [1, 1, 9], workgroup = [1, 128, 9]
// TOLD: a workgroup of it has 128 threads, not 32
// OFF-LABEL: func.func @taps_dispatch_0
// OFF: thread = [1, 1, 1], workgroup = [1, 32, 1]
func.func @taps(%x: tensor<640x640x9xf16>) -> tensor<640x9x640xf16> {
  %space = tensor.empty() : tensor<640x9x640xf16>
  %made = linalg.transpose ins(%x : tensor<640x640x9xf16>) outs(%space : tensor<640x9x640xf16>) permutation = [0, 2, 1]
  return %made : tensor<640x9x640xf16>
}

// A loop makes each element: one a thread.
// CHECK-LABEL: func.func @sums_dispatch_0
// CHECK-SAME: workgroup_size = [128, 1, 1]
// CHECK: thread = [1, 1], workgroup = [1, 128]
// TOLD: a thread of it does one element's loop
// TOLD: a workgroup of it has 128 threads, not 32
// OFF-LABEL: func.func @sums_dispatch_0
// OFF: thread = [1, 4], workgroup = [1, 128]
func.func @sums(%x: tensor<64x4096xf32>, %ends: tensor<1024xi32>) -> tensor<1024x4096xf32> {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %none = arith.constant 0.0 : f32
  %space = tensor.empty() : tensor<1024x4096xf32>
  %made = linalg.generic {indexing_maps = [#row, #all], iterator_types = ["parallel", "parallel"]}
      ins(%ends : tensor<1024xi32>) outs(%space : tensor<1024x4096xf32>) {
  ^bb0(%a: i32, %o: f32):
    %end = arith.index_cast %a : i32 to index
    %d = linalg.index 1 : index
    %s = scf.for %n = %zero to %end step %one iter_args(%t = %none) -> (f32) {
      %e = tensor.extract %x[%n, %d] : tensor<64x4096xf32>
      %more = arith.addf %t, %e : f32
      scf.yield %more : f32
    }
    linalg.yield %s : f32
  } -> tensor<1024x4096xf32>
  return %made : tensor<1024x4096xf32>
}

// Of unknown sizes threads lie side by side along lines, or along several that are short.
// CHECK-LABEL: func.func @unknown_dispatch_0
// CHECK-SAME: workgroup_size = [128, 1, 1]
// CHECK: thread = [1], workgroup = [512]
// TOLD: a workgroup of it has 128 threads, not 32
// CHECK-LABEL: func.func @heads_dispatch_0
// CHECK-SAME: workgroup_size = [128, 1, 1]
// CHECK: thread = [1, 1, 1], workgroup = [1, 1, 128]
// TOLD: a workgroup of it has 128 threads, not 32
// CHECK-LABEL: func.func @short_dispatch_0
// CHECK-SAME: workgroup_size = [96, 1, 1]
// CHECK: thread = [1, 4], workgroup = [32, 12]
// TOLD: a workgroup of it has 96 threads, not 32
// OFF-LABEL: func.func @short_dispatch_0
// OFF: thread = [1, 1], workgroup = [1, 32]
func.func @unknown(%x: tensor<?xf16>) -> tensor<?xf16> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?xf16>
  %e = tensor.empty(%n) : tensor<?xf16>
  %r = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]} ins(%x : tensor<?xf16>) outs(%e : tensor<?xf16>) {
  ^bb0(%u: f16, %o: f16):
    %s = math.exp %u : f16
    linalg.yield %s : f16
  } -> tensor<?xf16>
  return %r : tensor<?xf16>
}

func.func @heads(%x: tensor<?x12x?xf16>, %by: tensor<?x?xf16>) -> tensor<?x12x?xf16> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = tensor.dim %by, %c0 : tensor<?x?xf16>
  %k = tensor.dim %by, %c1 : tensor<?x?xf16>
  %e = tensor.empty(%n, %k) : tensor<?x12x?xf16>
  %r = linalg.generic {indexing_maps = [affine_map<(a, b, c) -> (a, b, c)>, affine_map<(a, b, c) -> (a, c)>, affine_map<(a, b, c) -> (a, b, c)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x, %by : tensor<?x12x?xf16>, tensor<?x?xf16>) outs(%e : tensor<?x12x?xf16>) {
  ^bb0(%u: f16, %v: f16, %o: f16):
    %s = arith.addf %u, %v : f16
    linalg.yield %s : f16
  } -> tensor<?x12x?xf16>
  return %r : tensor<?x12x?xf16>
}

func.func @short(%x: tensor<?x12xf16>) -> tensor<?x12xf16> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x12xf16>
  %e = tensor.empty(%n) : tensor<?x12xf16>
  %r = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<?x12xf16>) outs(%e : tensor<?x12xf16>) {
  ^bb0(%u: f16, %o: f16):
    %s = math.exp %u : f16
    linalg.yield %s : f16
  } -> tensor<?x12xf16>
  return %r : tensor<?x12xf16>
}

// CHECK-LABEL: func.func @few_dispatch_0
// CHECK-SAME: workgroup_size = [32, 1, 1]
// TOLD-NOT: a workgroup of it has
func.func @few(%x: tensor<64x2048xf16>, %by: tensor<64xf16>) -> tensor<64x2048xf16> {
  %space = tensor.empty() : tensor<64x2048xf16>
  %made = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x, %by : tensor<64x2048xf16>, tensor<64xf16>) outs(%space : tensor<64x2048xf16>) {
  ^bb0(%a: f16, %b: f16, %o: f16):
    %c = arith.mulf %a, %b : f16
    linalg.yield %c : f16
  } -> tensor<64x2048xf16>
  return %made : tensor<64x2048xf16>
}

// What lies across is turned in tiles of attn-moves.
// CHECK-LABEL: func.func @across_dispatch_0
// CHECK-SAME: no_pipeline workgroup_size = [256, 1, 1]
func.func @across(%x: tensor<4096x2048xf16>, %y: tensor<2048x4096xf16>) -> tensor<4096x2048xf16> {
  %space = tensor.empty() : tensor<4096x2048xf16>
  %made = linalg.generic {indexing_maps = [#all, affine_map<(r, d) -> (d, r)>, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x, %y : tensor<4096x2048xf16>, tensor<2048x4096xf16>) outs(%space : tensor<4096x2048xf16>) {
  ^bb0(%a: f16, %b: f16, %o: f16):
    %c = arith.mulf %a, %b : f16
    linalg.yield %c : f16
  } -> tensor<4096x2048xf16>
  return %made : tensor<4096x2048xf16>
}
