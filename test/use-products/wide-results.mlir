// What no kernel does behind a product, in front of its rounding (a sigmoid that is neither SiLU's nor
// GELU's, a router's choice), reads the product in f32: where it is large that pays.

// RUN: attn-opt %s --attn-use-products="target=sm_90 mode=always" | FileCheck %s
// RUN: attn-opt %s --attn-use-products="target=sm_90 mode=cost" --remarks 2>&1 | FileCheck %s --check-prefix=COST
// CHECK: hal.dispatch.extern "product_f16_tile128_clamp_general_wide"
// CHECK: linalg.generic
// CHECK: math.exp
// COST: {{.*}} about 4 us beside it, no win

#w = affine_map<(m, n, k) -> (n, k)>
#a = affine_map<(m, n, k) -> (m, k)>
#r = affine_map<(m, n, k) -> (m, n)>
#id = affine_map<(m, n) -> (m, n)>
#column = affine_map<(m, n) -> (n)>

func.func @quick(%a: tensor<300x64xf16>, %w: tensor<520x64xf16>, %b: tensor<520xf16>) -> tensor<300x520xf16> {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %half = arith.constant 0.5 : f32
  %small = arith.constant 0.044715 : f32
  %root = arith.constant 0.70710678 : f32
  %bent = arith.constant 0.7978845608 : f32
  %twice = arith.constant 1.5957691216 : f32
  %e32 = tensor.empty() : tensor<300x520xf32>
  %e = tensor.empty() : tensor<300x520xf16>
  %f = linalg.fill ins(%zero : f32) outs(%e32 : tensor<300x520xf32>) -> tensor<300x520xf32>
  %p = linalg.matmul indexing_maps = [#a, #w, #r] ins(%a, %w : tensor<300x64xf16>, tensor<520x64xf16>) outs(%f : tensor<300x520xf32>) -> tensor<300x520xf32>
  %g = linalg.generic {indexing_maps = [#id, #column, #id], iterator_types = ["parallel", "parallel"]} ins(%p, %b : tensor<300x520xf32>, tensor<520xf16>) outs(%e : tensor<300x520xf16>) {
  ^bb0(%i: f32, %j: f16, %o: f16):
    %wide = arith.extf %j : f16 to f32
    %x = arith.addf %i, %wide : f32
    %c = arith.mulf %x, %twice : f32
    %n = arith.negf %c : f32
    %h = math.exp %n : f32
    %s = arith.addf %h, %one : f32
    %y = arith.divf %x, %s : f32
    %t = arith.truncf %y : f32 to f16
    linalg.yield %t : f16
  } -> tensor<300x520xf16>
  return %g : tensor<300x520xf16>
}
