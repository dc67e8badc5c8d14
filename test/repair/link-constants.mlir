// Functions that only constants reach are written out for the CPU that IREE evaluates them on,
// whatever the target is. Those of what callers give, and of what is too large, stay.

// RUN: attn-opt %s --attn-link-constants | FileCheck %s

#i = affine_map<(i) -> (i)>
module attributes {hal.device.targets = [#hal.device.target<"cuda", [#hal.executable.target<"cuda", "cuda-nvptx-fb">]> : !hal.device]} {
  // CHECK-LABEL: func.func @evaluated(
  // CHECK-NOT: arith.maxnumf
  // CHECK-NOT: arith.sitofp {{.*}} to bf16
  // CHECK-NOT: math.log10
  func.func @evaluated(%x: tensor<4xf32>) -> (tensor<4xf16>, tensor<4xbf16>, tensor<4xf32>) {
    %c = arith.constant dense<[1.0, 2.0, 3.0, 5.0]> : tensor<4xf16>
    %d = arith.constant dense<[1.0, 10.0, 3.0, 5.0]> : tensor<4xf32>
    %low = arith.constant 2.0 : f16
    %ef = tensor.empty() : tensor<4xf16>
    %m = linalg.generic {indexing_maps = [#i, #i], iterator_types = ["parallel"]} ins(%c : tensor<4xf16>) outs(%ef : tensor<4xf16>) {
    ^bb0(%a: f16, %o: f16):
      %r = arith.maxnumf %a, %low : f16
      linalg.yield %r : f16
    } -> tensor<4xf16>
    %eb = tensor.empty() : tensor<4xbf16>
    %s = linalg.generic {indexing_maps = [#i], iterator_types = ["parallel"]} outs(%eb : tensor<4xbf16>) {
    ^bb0(%o: bf16):
      %j = linalg.index 0 : index
      %k = arith.index_cast %j : index to i64
      %r = arith.sitofp %k : i64 to bf16
      linalg.yield %r : bf16
    } -> tensor<4xbf16>
    %el = tensor.empty() : tensor<4xf32>
    %l = linalg.generic {indexing_maps = [#i, #i], iterator_types = ["parallel"]} ins(%d : tensor<4xf32>) outs(%el : tensor<4xf32>) {
    ^bb0(%a: f32, %o: f32):
      %r = math.log10 %a : f32
      linalg.yield %r : f32
    } -> tensor<4xf32>
    %y = linalg.generic {indexing_maps = [#i, #i, #i], iterator_types = ["parallel"]} ins(%x, %l : tensor<4xf32>, tensor<4xf32>) outs(%el : tensor<4xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %r = arith.addf %a, %b : f32
      linalg.yield %r : f32
    } -> tensor<4xf32>
    return %m, %s, %y : tensor<4xf16>, tensor<4xbf16>, tensor<4xf32>
  }

  // CHECK-LABEL: func.func @kept(
  // CHECK: arith.maxnumf
  // CHECK: arith.maxnumf
  // CHECK: arith.sitofp %{{.*}} : i64 to bf16
  func.func @kept(%x: tensor<4xf16>, %y: f16) -> (tensor<4xf16>, tensor<4xf16>, tensor<1048576xbf16>) {
    %c = arith.constant dense<[1.0, 2.0, 3.0, 5.0]> : tensor<4xf16>
    %low = arith.constant 2.0 : f16
    %ef = tensor.empty() : tensor<4xf16>
    %m = linalg.generic {indexing_maps = [#i, #i], iterator_types = ["parallel"]} ins(%x : tensor<4xf16>) outs(%ef : tensor<4xf16>) {
    ^bb0(%a: f16, %o: f16):
      %r = arith.maxnumf %a, %low : f16
      linalg.yield %r : f16
    } -> tensor<4xf16>
    %n = linalg.generic {indexing_maps = [#i, #i], iterator_types = ["parallel"]} ins(%c : tensor<4xf16>) outs(%ef : tensor<4xf16>) {
    ^bb0(%a: f16, %o: f16):
      %r = arith.maxnumf %a, %y : f16
      linalg.yield %r : f16
    } -> tensor<4xf16>
    %eb = tensor.empty() : tensor<1048576xbf16>
    %s = linalg.generic {indexing_maps = [#i], iterator_types = ["parallel"]} outs(%eb : tensor<1048576xbf16>) {
    ^bb0(%o: bf16):
      %j = linalg.index 0 : index
      %k = arith.index_cast %j : index to i64
      %r = arith.sitofp %k : i64 to bf16
      linalg.yield %r : bf16
    } -> tensor<1048576xbf16>
    return %m, %n, %s : tensor<4xf16>, tensor<4xf16>, tensor<1048576xbf16>
  }
}
