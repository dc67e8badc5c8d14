// A product whose rows get other dims, as many as before, in front of the bias: what the kernel
// writes has those. Windows of an image are such (SAM).
//
// RUN: attn-opt %s --attn-use-products="target=sm_90 mode=always" | FileCheck %s

#rows = affine_map<(a, b, n, k) -> (a, b, k)>
#weights = affine_map<(a, b, n, k) -> (n, k)>
#sums = affine_map<(a, b, n, k) -> (a, b, n)>
#all = affine_map<(a, b, n) -> (a, b, n)>
#columns = affine_map<(a, b, n) -> (n)>

// CHECK-LABEL: func.func @windows(
// CHECK: %[[MADE:[0-9]+]]:2 = hal.dispatch.extern "product_f16_tile{{s|256}}_bias"
// CHECK: %[[OUT:.*]] = tensor.expand_shape %[[MADE]]#0 {{\[\[}}0, 1], [2]] output_shape [75, 40, 520]
// CHECK: return %[[OUT]] : tensor<75x40x520xf16>
func.func @windows(%x: tensor<50x60x64xf16>, %w: tensor<520x64xf16>, %b: tensor<520xf16>) -> tensor<75x40x520xf16> {
  %zero = arith.constant 0.0 : f32
  %wide = tensor.empty() : tensor<50x60x520xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%wide : tensor<50x60x520xf32>) -> tensor<50x60x520xf32>
  %p = linalg.generic {indexing_maps = [#rows, #weights, #sums], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<50x60x64xf16>, tensor<520x64xf16>) outs(%zeros : tensor<50x60x520xf32>) {
  ^bb0(%i: f16, %j: f16, %s: f32):
    %ie = arith.extf %i : f16 to f32
    %je = arith.extf %j : f16 to f32
    %m = arith.mulf %ie, %je : f32
    %t = arith.addf %s, %m : f32
    linalg.yield %t : f32
  } -> tensor<50x60x520xf32>
  %flat = tensor.collapse_shape %p [[0, 1], [2]] : tensor<50x60x520xf32> into tensor<3000x520xf32>
  %cut = tensor.expand_shape %flat [[0, 1], [2]] output_shape [75, 40, 520] : tensor<3000x520xf32> into tensor<75x40x520xf32>
  %space = tensor.empty() : tensor<75x40x520xf16>
  %r = linalg.generic {indexing_maps = [#all, #columns, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%cut, %b : tensor<75x40x520xf32>, tensor<520xf16>) outs(%space : tensor<75x40x520xf16>) {
  ^bb0(%s: f32, %c: f16, %out: f16):
    %t = arith.truncf %s : f32 to f16
    %u = arith.addf %t, %c : f16
    linalg.yield %u : f16
  } -> tensor<75x40x520xf16>
  return %r : tensor<75x40x520xf16>
}

// Of an unknown number: the sizes behind the reshape are those that the program gives.
//
// CHECK-LABEL: func.func @some_windows(
// CHECK-SAME: %[[COUNT:[a-z0-9]+]]: index)
// CHECK: %[[MADE:[0-9]+]]:2 = hal.dispatch.extern "product_f16_tiles_bias"
// CHECK: tensor.expand_shape %[[MADE]]#0 {{\[\[}}0, 1], [2]] output_shape [%[[COUNT]], 40, 520]
func.func @some_windows(%x: tensor<?x60x64xf16>, %w: tensor<520x64xf16>, %b: tensor<520xf16>, %n: index, %count: index) -> tensor<?x40x520xf16> {
  %zero = arith.constant 0.0 : f32
  %wide = tensor.empty(%n) : tensor<?x60x520xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%wide : tensor<?x60x520xf32>) -> tensor<?x60x520xf32>
  %p = linalg.generic {indexing_maps = [#rows, #weights, #sums], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<?x60x64xf16>, tensor<520x64xf16>) outs(%zeros : tensor<?x60x520xf32>) {
  ^bb0(%i: f16, %j: f16, %s: f32):
    %ie = arith.extf %i : f16 to f32
    %je = arith.extf %j : f16 to f32
    %m = arith.mulf %ie, %je : f32
    %t = arith.addf %s, %m : f32
    linalg.yield %t : f32
  } -> tensor<?x60x520xf32>
  %flat = tensor.collapse_shape %p [[0, 1], [2]] : tensor<?x60x520xf32> into tensor<?x520xf32>
  %cut = tensor.expand_shape %flat [[0, 1], [2]] output_shape [%count, 40, 520] : tensor<?x520xf32> into tensor<?x40x520xf32>
  %space = tensor.empty(%count) : tensor<?x40x520xf16>
  %r = linalg.generic {indexing_maps = [#all, #columns, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%cut, %b : tensor<?x40x520xf32>, tensor<520xf16>) outs(%space : tensor<?x40x520xf16>) {
  ^bb0(%s: f32, %c: f16, %out: f16):
    %t = arith.truncf %s : f32 to f16
    %u = arith.addf %t, %c : f16
    linalg.yield %u : f16
  } -> tensor<?x40x520xf16>
  return %r : tensor<?x40x520xf16>
}
