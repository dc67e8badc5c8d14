// RUN: attn-opt %s --attn-use-products="target=sm_90 mode=always" --split-input-file --remarks > %t.mlir 2> %t.txt
// RUN: FileCheck %s < %t.mlir
// RUN: FileCheck %s --check-prefix=REMARK < %t.txt

// Products that a precompiled kernel computes, with what stands behind them.

#w = affine_map<(m, n, k) -> (n, k)>
#a = affine_map<(m, n, k) -> (m, k)>
#r = affine_map<(m, n, k) -> (m, n)>
#id = affine_map<(m, n) -> (m, n)>
#column = affine_map<(m, n) -> (n)>

// A bias, and torch's GELU by erf; in 7 x 9 tiles of 48 rows and 64 columns, as the kernel is told.
// CHECK-LABEL: func.func @gelu(
// CHECK-SAME: %[[A:[a-z0-9]+]]: tensor<300x64xf16>, %[[W:[a-z0-9]+]]: tensor<520x64xf16>, %[[B:[a-z0-9]+]]: tensor<520xf16>
// CHECK: %[[SHAPE:.*]] = arith.index_cast %c47296 : index to i32
// CHECK: %[[P:.*]]:2 = hal.dispatch.extern "product_f16_tiles_bias_gelu"[%c63, %c1](%{{.*}}, %{{.*}}, %{{.*}}, %[[SHAPE]], %[[A]], %[[W]], %[[B]])
// CHECK-SAME: tensor<40320xi8>
// CHECK-NOT: linalg.generic
// CHECK: return %[[P]]#0
// REMARK: product at {{.*}} is a precompiled kernel now: product_f16_tiles_bias_gelu: about {{[0-9]+}} us instead of {{[0-9]+}}, with a bias and GELU
func.func @gelu(%a: tensor<300x64xf16>, %w: tensor<520x64xf16>, %b: tensor<520xf16>) -> tensor<300x520xf16> {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f16
  %half = arith.constant 0.5 : f16
  %two = arith.constant 2.0 : f16
  %e32 = tensor.empty() : tensor<300x520xf32>
  %e = tensor.empty() : tensor<300x520xf16>
  %f = linalg.fill ins(%zero : f32) outs(%e32 : tensor<300x520xf32>) -> tensor<300x520xf32>
  %p = linalg.matmul indexing_maps = [#a, #w, #r] ins(%a, %w : tensor<300x64xf16>, tensor<520x64xf16>) outs(%f : tensor<300x520xf32>) -> tensor<300x520xf32>
  %c = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%p : tensor<300x520xf32>) outs(%e : tensor<300x520xf16>) {
  ^bb0(%i: f32, %o: f16):
    %t = arith.truncf %i : f32 to f16
    linalg.yield %t : f16
  } -> tensor<300x520xf16>
  %d = linalg.generic {indexing_maps = [#id, #column, #id], iterator_types = ["parallel", "parallel"]} ins(%c, %b : tensor<300x520xf16>, tensor<520xf16>) outs(%e : tensor<300x520xf16>) {
  ^bb0(%i: f16, %j: f16, %o: f16):
    %t = arith.addf %i, %j : f16
    linalg.yield %t : f16
  } -> tensor<300x520xf16>
  %g = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%d : tensor<300x520xf16>) outs(%e : tensor<300x520xf16>) {
  ^bb0(%i: f16, %o: f16):
    %root = math.sqrt %two : f16
    %q = arith.divf %i, %root : f16
    %t = math.erf %q : f16
    %u = arith.addf %t, %one : f16
    %v = arith.mulf %u, %half : f16
    %y = arith.mulf %i, %v : f16
    linalg.yield %y : f16
  } -> tensor<300x520xf16>
  return %g : tensor<300x520xf16>
}

// -----

// Weights as front ends hand them to a batch: transposed and repeated. Any number of rows, of two
// sequences, one behind the other; a residual in their shape.
// CHECK-LABEL: func.func @rows(
// CHECK-SAME: %[[A:[a-z0-9]+]]: tensor<2x?x64xbf16>, %[[W:[a-z0-9]+]]: tensor<264x64xbf16>, %[[X:[a-z0-9]+]]: tensor<2x?x264xbf16>
// CHECK-NOT: linalg.transpose
// CHECK-DAG: %[[ROWS:.*]] = tensor.collapse_shape %[[A]] {{\[}}[0, 1], [2]] : tensor<2x?x64xbf16> into tensor<?x64xbf16>
// CHECK-DAG: %[[OTHER:.*]] = tensor.collapse_shape %[[X]] {{\[}}[0, 1], [2]]
// CHECK: hal.dispatch.extern "product_bf16_tiles_add"[%c132, %c1{{[_0-9]*}}]({{.*}}, %[[ROWS]], %[[W]], %[[OTHER]])
// CHECK: tensor.expand_shape {{.*}} {{\[}}[0, 1], [2]]
// REMARK: with a residual (for 512 rows; their number is known only at run time)
func.func @rows(%a: tensor<2x?x64xbf16>, %w: tensor<264x64xbf16>, %x: tensor<2x?x264xbf16>) -> tensor<2x?x264xbf16> {
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %m = tensor.dim %a, %c1 : tensor<2x?x64xbf16>
  %e32 = tensor.empty(%m) : tensor<2x?x264xf32>
  %e = tensor.empty(%m) : tensor<2x?x264xbf16>
  %et = tensor.empty() : tensor<64x264xbf16>
  %er = tensor.empty() : tensor<2x64x264xbf16>
  %t = linalg.transpose ins(%w : tensor<264x64xbf16>) outs(%et : tensor<64x264xbf16>) permutation = [1, 0]
  %r = linalg.broadcast ins(%t : tensor<64x264xbf16>) outs(%er : tensor<2x64x264xbf16>) dimensions = [0]
  %f = linalg.fill ins(%zero : f32) outs(%e32 : tensor<2x?x264xf32>) -> tensor<2x?x264xf32>
  %p = linalg.batch_matmul ins(%a, %r : tensor<2x?x64xbf16>, tensor<2x64x264xbf16>) outs(%f : tensor<2x?x264xf32>) -> tensor<2x?x264xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(b, m, n) -> (b, m, n)>, affine_map<(b, m, n) -> (b, m, n)>, affine_map<(b, m, n) -> (b, m, n)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%p, %x : tensor<2x?x264xf32>, tensor<2x?x264xbf16>) outs(%e : tensor<2x?x264xbf16>) {
  ^bb0(%i: f32, %j: bf16, %o: bf16):
    %c = arith.truncf %i : f32 to bf16
    %u = arith.addf %j, %c : bf16
    linalg.yield %u : bf16
  } -> tensor<2x?x264xbf16>
  return %s : tensor<2x?x264xbf16>
}

// -----

#id = affine_map<(m, n) -> (m, n)>
#column = affine_map<(m, n) -> (n)>
#line = affine_map<(n) -> (n)>

// torch's addmm in f16, as it is decomposed: all is widened to f32, weights lie as (k, n); and GELU
// by tanh with a cube of a whole power.
// CHECK-LABEL: func.func @addmm(
// CHECK-SAME: %[[A:[a-z0-9]+]]: tensor<300x64xf16>, %[[W:[a-z0-9]+]]: tensor<64x520xf16>, %[[B:[a-z0-9]+]]: tensor<520xf16>
// CHECK-NOT: linalg.transpose
// CHECK: hal.dispatch.extern "product_f16_tiles_kn_bias_gelu_tanh"{{.*}}(%{{.*}}, %{{.*}}, %{{.*}}, %[[A]], %[[W]], %[[B]])
// CHECK-NOT: math.tanh
// REMARK: product_f16_tiles_kn_bias_gelu_tanh: {{.*}}, with a bias and GELU by tanh
func.func @addmm(%a: tensor<300x64xf16>, %w: tensor<64x520xf16>, %b: tensor<520xf16>) -> tensor<300x520xf16> {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f16
  %half = arith.constant 0.5 : f16
  %small = arith.constant 0.044715 : f16
  %root = arith.constant 0.79788456 : f16
  %three = arith.constant 3 : i64
  %ea = tensor.empty() : tensor<300x64xf32>
  %ew = tensor.empty() : tensor<64x520xf32>
  %eb = tensor.empty() : tensor<520xf32>
  %e32 = tensor.empty() : tensor<300x520xf32>
  %e = tensor.empty() : tensor<300x520xf16>
  %a32 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%a : tensor<300x64xf16>) outs(%ea : tensor<300x64xf32>) {
  ^bb0(%i: f16, %o: f32):
    %t = arith.extf %i : f16 to f32
    linalg.yield %t : f32
  } -> tensor<300x64xf32>
  %w32 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%w : tensor<64x520xf16>) outs(%ew : tensor<64x520xf32>) {
  ^bb0(%i: f16, %o: f32):
    %t = arith.extf %i : f16 to f32
    linalg.yield %t : f32
  } -> tensor<64x520xf32>
  %b32 = linalg.generic {indexing_maps = [#line, #line], iterator_types = ["parallel"]} ins(%b : tensor<520xf16>) outs(%eb : tensor<520xf32>) {
  ^bb0(%i: f16, %o: f32):
    %t = arith.extf %i : f16 to f32
    linalg.yield %t : f32
  } -> tensor<520xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e32 : tensor<300x520xf32>) -> tensor<300x520xf32>
  %p = linalg.matmul ins(%a32, %w32 : tensor<300x64xf32>, tensor<64x520xf32>) outs(%f : tensor<300x520xf32>) -> tensor<300x520xf32>
  %d = linalg.generic {indexing_maps = [#id, #column, #id], iterator_types = ["parallel", "parallel"]} ins(%p, %b32 : tensor<300x520xf32>, tensor<520xf32>) outs(%e : tensor<300x520xf16>) {
  ^bb0(%i: f32, %j: f32, %o: f16):
    %s = arith.addf %i, %j : f32
    %t = arith.truncf %s : f32 to f16
    linalg.yield %t : f16
  } -> tensor<300x520xf16>
  %g = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%d : tensor<300x520xf16>) outs(%e : tensor<300x520xf16>) {
  ^bb0(%i: f16, %o: f16):
    %cube = math.fpowi %i, %three : f16, i64
    %q = arith.mulf %cube, %small : f16
    %s = arith.addf %i, %q : f16
    %u = arith.mulf %s, %root : f16
    %v = math.tanh %u : f16
    %x = arith.addf %v, %one : f16
    %h = arith.mulf %i, %half : f16
    %y = arith.mulf %h, %x : f16
    linalg.yield %y : f16
  } -> tensor<300x520xf16>
  return %g : tensor<300x520xf16>
}

// -----

#w = affine_map<(m, n, k) -> (n, k)>
#a = affine_map<(m, n, k) -> (m, k)>
#r = affine_map<(m, n, k) -> (m, n)>
#id = affine_map<(m, n) -> (m, n)>

// Ops on whole tensors: all is widened to f32 in front of the product, the bias is a row of its own,
// and the sum is rounded.
// CHECK-LABEL: func.func @widened(
// CHECK-SAME: %[[A:[a-z0-9]+]]: tensor<1000x64xf16>, %[[W:[a-z0-9]+]]: tensor<4104x64xf16>, %[[B:[a-z0-9]+]]: tensor<4104xf16>
// CHECK-NOT: arith.extf
// CHECK: %[[P:.*]]:2 = hal.dispatch.extern "product_f16_tiles_bias_gelu_tanh"[%{{.*}}](%{{.*}}, %{{.*}}, %{{.*}}, %[[A]], %[[W]], %[[B]])
// CHECK: return %[[P]]#0
func.func @widened(%a: tensor<1000x64xf16>, %w: tensor<4104x64xf16>, %b: tensor<4104xf16>) -> tensor<1000x4104xf16> {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f16
  %half = arith.constant 0.5 : f16
  %bend = arith.constant 0.044715 : f16
  %root = arith.constant 0.7978 : f16
  %three = arith.constant 3 : i64
  %e32 = tensor.empty() : tensor<1000x4104xf32>
  %e = tensor.empty() : tensor<1000x4104xf16>
  %a32 = arith.extf %a : tensor<1000x64xf16> to tensor<1000x64xf32>
  %w32 = arith.extf %w : tensor<4104x64xf16> to tensor<4104x64xf32>
  %b32 = arith.extf %b : tensor<4104xf16> to tensor<4104xf32>
  %row = tensor.expand_shape %b32 [[0, 1]] output_shape [1, 4104] : tensor<4104xf32> into tensor<1x4104xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e32 : tensor<1000x4104xf32>) -> tensor<1000x4104xf32>
  %p = linalg.matmul indexing_maps = [#a, #w, #r] ins(%a32, %w32 : tensor<1000x64xf32>, tensor<4104x64xf32>) outs(%f : tensor<1000x4104xf32>) -> tensor<1000x4104xf32>
  %s = linalg.generic {indexing_maps = [#id, affine_map<(m, n) -> (0, n)>, #id], iterator_types = ["parallel", "parallel"]} ins(%p, %row : tensor<1000x4104xf32>, tensor<1x4104xf32>) outs(%e32 : tensor<1000x4104xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %t = arith.addf %i, %j : f32
    linalg.yield %t : f32
  } -> tensor<1000x4104xf32>
  %c = arith.truncf %s : tensor<1000x4104xf32> to tensor<1000x4104xf16>
  %g = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%c : tensor<1000x4104xf16>) outs(%e : tensor<1000x4104xf16>) {
  ^bb0(%i: f16, %o: f16):
    %q = math.fpowi %i, %three : f16, i64
    %t = arith.mulf %q, %bend : f16
    %u = arith.addf %i, %t : f16
    %v = arith.mulf %u, %root : f16
    %x = math.tanh %v : f16
    %y = arith.addf %x, %one : f16
    %z = arith.mulf %y, %half : f16
    %l = arith.mulf %i, %z : f16
    linalg.yield %l : f16
  } -> tensor<1000x4104xf16>
  return %g : tensor<1000x4104xf16>
}

// -----

#w = affine_map<(m, n, k) -> (n, k)>
#a = affine_map<(m, n, k) -> (m, k)>
#r = affine_map<(m, n, k) -> (m, n)>
#id = affine_map<(m, n) -> (m, n)>

// A bias that is repeated for each row, and a residual, by ops on whole tensors.
// CHECK-LABEL: func.func @mapped(
// CHECK-SAME: %[[A:[a-z0-9]+]]: tensor<300x64xbf16>, %[[W:[a-z0-9]+]]: tensor<264x64xbf16>, %[[B:[a-z0-9]+]]: tensor<264xbf16>, %[[X:[a-z0-9]+]]: tensor<300x264xbf16>
// CHECK: %[[P:.*]]:2 = hal.dispatch.extern "product_bf16_tiles_bias_add"[%{{.*}}](%{{.*}}, %{{.*}}, %{{.*}}, %[[A]], %[[W]], %[[B]], %[[X]])
// CHECK: return %[[P]]#0
func.func @mapped(%a: tensor<300x64xbf16>, %w: tensor<264x64xbf16>, %b: tensor<264xbf16>, %x: tensor<300x264xbf16>) -> tensor<300x264xbf16> {
  %zero = arith.constant 0.0 : f32
  %e32 = tensor.empty() : tensor<300x264xf32>
  %e = tensor.empty() : tensor<300x264xbf16>
  %f = linalg.fill ins(%zero : f32) outs(%e32 : tensor<300x264xf32>) -> tensor<300x264xf32>
  %p = linalg.matmul indexing_maps = [#a, #w, #r] ins(%a, %w : tensor<300x64xbf16>, tensor<264x64xbf16>) outs(%f : tensor<300x264xf32>) -> tensor<300x264xf32>
  %r = linalg.broadcast ins(%b : tensor<264xbf16>) outs(%e : tensor<300x264xbf16>) dimensions = [0]
  %c = arith.truncf %p : tensor<300x264xf32> to tensor<300x264xbf16>
  %s = arith.addf %c, %r : tensor<300x264xbf16>
  %t = arith.addf %x, %s : tensor<300x264xbf16>
  return %t : tensor<300x264xbf16>
}

// -----

#w = affine_map<(m, n, k) -> (n, k)>
#a = affine_map<(m, n, k) -> (m, k)>
#r = affine_map<(m, n, k) -> (m, n)>
#id = affine_map<(m, n) -> (m, n)>
#column = affine_map<(m, n) -> (n)>

// GELU as x * (0.5 + 0.5 * erf(x / sqrt(2))), rounded once.
// CHECK-LABEL: func.func @half_and_half(
// CHECK: hal.dispatch.extern "product_f16_tiles_bias_gelu"
// CHECK-NOT: linalg.generic
// REMARK: product_f16_tiles_bias_gelu: {{.*}}, with a bias and GELU
func.func @half_and_half(%a: tensor<300x64xf16>, %w: tensor<520x64xf16>, %b: tensor<520xf16>) -> tensor<300x520xf16> {
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
    %q = arith.mulf %x, %root : f32
    %v = math.erf %q : f32
    %u = arith.mulf %v, %half : f32
    %s = arith.addf %u, %half : f32
    %y = arith.mulf %x, %s : f32
    %t = arith.truncf %y : f32 to f16
    linalg.yield %t : f16
  } -> tensor<300x520xf16>
  return %g : tensor<300x520xf16>
}

// -----

#w = affine_map<(m, n, k) -> (n, k)>
#a = affine_map<(m, n, k) -> (m, k)>
#r = affine_map<(m, n, k) -> (m, n)>
#id = affine_map<(m, n) -> (m, n)>
#column = affine_map<(m, n) -> (n)>

// GELU by tanh, of x * (1 + 0.044715 * x * x).
// CHECK-LABEL: func.func @factored(
// CHECK: hal.dispatch.extern "product_f16_tiles_bias_gelu_tanh"
// CHECK-NOT: linalg.generic
// REMARK: product_f16_tiles_bias_gelu_tanh: {{.*}}, with a bias and GELU by tanh
func.func @factored(%a: tensor<300x64xf16>, %w: tensor<520x64xf16>, %b: tensor<520xf16>) -> tensor<300x520xf16> {
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
    %sq = arith.mulf %x, %x : f32
    %q = arith.mulf %sq, %small : f32
    %u = arith.addf %q, %one : f32
    %v = arith.mulf %u, %x : f32
    %c = arith.mulf %v, %bent : f32
    %h = math.tanh %c : f32
    %s = arith.addf %one, %h : f32
    %d = arith.mulf %x, %half : f32
    %y = arith.mulf %d, %s : f32
    %t = arith.truncf %y : f32 to f16
    linalg.yield %t : f16
  } -> tensor<300x520xf16>
  return %g : tensor<300x520xf16>
}

// -----

#w = affine_map<(m, n, k) -> (n, k)>
#a = affine_map<(m, n, k) -> (m, k)>
#r = affine_map<(m, n, k) -> (m, n)>
#id = affine_map<(m, n) -> (m, n)>
#column = affine_map<(m, n) -> (n)>

// The same by a sigmoid of twice the argument.
// CHECK-LABEL: func.func @as_sigmoid(
// CHECK: hal.dispatch.extern "product_f16_tiles_bias_gelu_tanh"
// CHECK-NOT: linalg.generic
// REMARK: product_f16_tiles_bias_gelu_tanh: {{.*}}, with a bias and GELU by tanh
func.func @as_sigmoid(%a: tensor<300x64xf16>, %w: tensor<520x64xf16>, %b: tensor<520xf16>) -> tensor<300x520xf16> {
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
    %sq = arith.mulf %x, %x : f32
    %cube = arith.mulf %sq, %x : f32
    %q = arith.mulf %cube, %small : f32
    %u = arith.addf %x, %q : f32
    %c = arith.mulf %u, %twice : f32
    %n = arith.negf %c : f32
    %h = math.exp %n : f32
    %s = arith.addf %one, %h : f32
    %y = arith.divf %x, %s : f32
    %t = arith.truncf %y : f32 to f16
    linalg.yield %t : f16
  } -> tensor<300x520xf16>
  return %g : tensor<300x520xf16>
}
