// RUN: attn-opt %s --attn-use-products="target=sm_90 mode=always" --split-input-file --remarks > %t.mlir 2> %t.txt
// RUN: FileCheck %s < %t.mlir
// RUN: FileCheck %s --check-prefix=REMARK < %t.txt

// Columns and depths that 8 does not divide are filled up with zeros, and the columns cut again.

#w = affine_map<(m, n, k) -> (n, k)>
#a = affine_map<(m, n, k) -> (m, k)>
#r = affine_map<(m, n, k) -> (m, n)>
#id = affine_map<(m, n) -> (m, n)>
#column = affine_map<(m, n) -> (n)>

// Weights that are constant are filled up by a pad, which IREE does once; a bias, too.
// REMARK: product_f16_tiles_bias_add
// CHECK-LABEL: func.func @constant
// CHECK-SAME: %[[A:[^:]*]]: tensor<2x?x60xf16>, %[[B:[^:]*]]: tensor<521xf16>, %[[O:[^:]*]]: tensor<2x?x521xf16>
// CHECK-DAG: %[[W:.*]] = util.global.load @w
// CHECK-DAG: tensor.pad %[[W]] low[0, 0] high[7, 4]
// CHECK-DAG: tensor.pad %[[B]] low[0] high[7]
// CHECK-DAG: linalg.generic {{.*}} ins(%[[A]] : tensor<2x?x60xf16>)
// CHECK-DAG: linalg.generic {{.*}} ins(%[[O]] : tensor<2x?x521xf16>)
// CHECK: hal.dispatch.extern
// CHECK-SAME: tensor<?x64xf16>{{.*}}, tensor<528x64xf16>, tensor<528xf16>, tensor<?x528xf16>{{.*}} -> (tensor<?x528xf16>
// CHECK: %[[CUT:.*]] = tensor.extract_slice %{{.*}}[0, 0] [%{{.*}}, 521] [1, 1]
// CHECK: linalg.generic {{.*}} ins(%[[CUT]] : tensor<?x521xf16>)
// CHECK: arith.select
util.global private @w = #flow.parameter.named<"model"::"w"> : tensor<521x60xf16>
func.func @constant(%a: tensor<2x?x60xf16>, %b: tensor<521xf16>, %o: tensor<2x?x521xf16>) -> tensor<2x?x521xf16> {
  %zero = arith.constant 0.0 : f32
  %c1 = arith.constant 1 : index
  %m = tensor.dim %a, %c1 : tensor<2x?x60xf16>
  %w = util.global.load @w : tensor<521x60xf16>
  %e32 = tensor.empty(%m) : tensor<2x?x521xf32>
  %e = tensor.empty(%m) : tensor<2x?x521xf16>
  %f = linalg.fill ins(%zero : f32) outs(%e32 : tensor<2x?x521xf32>) -> tensor<2x?x521xf32>
  %p = linalg.contract indexing_maps = [affine_map<(b, m, n, k) -> (b, m, k)>, affine_map<(b, m, n, k) -> (n, k)>, affine_map<(b, m, n, k) -> (b, m, n)>] ins(%a, %w : tensor<2x?x60xf16>, tensor<521x60xf16>) outs(%f : tensor<2x?x521xf32>) -> tensor<2x?x521xf32>
  %g = linalg.generic {indexing_maps = [affine_map<(b, m, n) -> (b, m, n)>, affine_map<(b, m, n) -> (n)>, affine_map<(b, m, n) -> (b, m, n)>, affine_map<(b, m, n) -> (b, m, n)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%p, %b, %o : tensor<2x?x521xf32>, tensor<521xf16>, tensor<2x?x521xf16>) outs(%e : tensor<2x?x521xf16>) {
  ^bb0(%i: f32, %j: f16, %l: f16, %z: f16):
    %jw = arith.extf %j : f16 to f32
    %lw = arith.extf %l : f16 to f32
    %x = arith.addf %i, %jw : f32
    %y = arith.addf %x, %lw : f32
    %t = arith.truncf %y : f32 to f16
    linalg.yield %t : f16
  } -> tensor<2x?x521xf16>
  return %g : tensor<2x?x521xf16>
}

// -----

#w = affine_map<(m, n, k) -> (n, k)>
#a = affine_map<(m, n, k) -> (m, k)>
#r = affine_map<(m, n, k) -> (m, n)>

// A kernel is told that weights (n, k) lack 7 of the result's columns: 7 << 12.
// CHECK-LABEL: func.func @argument
// CHECK-NOT: tensor.pad
// CHECK: arith.index_cast %c28672
// CHECK: hal.dispatch.extern "product_f16_tile128_clamp_general"
// CHECK-SAME: tensor<521x64xf16>{{.*}} -> (tensor<300x528xf16>
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<300x521xf16>)
func.func @argument(%a: tensor<300x64xf16>, %w: tensor<521x64xf16>) -> tensor<300x521xf16> {
  %zero = arith.constant 0.0 : f16
  %e = tensor.empty() : tensor<300x521xf16>
  %f = linalg.fill ins(%zero : f16) outs(%e : tensor<300x521xf16>) -> tensor<300x521xf16>
  %p = linalg.matmul indexing_maps = [#a, #w, #r] ins(%a, %w : tensor<300x64xf16>, tensor<521x64xf16>) outs(%f : tensor<300x521xf16>) -> tensor<300x521xf16>
  return %p : tensor<300x521xf16>
}

// -----

// Of a batch both operands are filled up by loops, and so are the columns cut where they are given
// away.
// REMARK: product_f16_batched_tile
// CHECK-LABEL: func.func @batch
// CHECK-SAME: %[[A:[^:]*]]: tensor<6x300x60xf16>, %[[W:[^:]*]]: tensor<6x60x521xf16>
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<6x300x64xf16>)
// CHECK: tensor.extract %[[A]]
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<6x64x528xf16>)
// CHECK: tensor.extract %[[W]]
// CHECK: %[[MADE:.*]]:2 = hal.dispatch.extern
// CHECK-SAME: tensor<6x300x64xf16>, tensor<6x64x528xf16>) -> (tensor<1800x528xf16>
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<1800x521xf16>)
// CHECK: tensor.extract %[[MADE]]#0
func.func @batch(%a: tensor<6x300x60xf16>, %w: tensor<6x60x521xf16>) -> tensor<6x300x521xf16> {
  %zero = arith.constant 0.0 : f16
  %e = tensor.empty() : tensor<6x300x521xf16>
  %f = linalg.fill ins(%zero : f16) outs(%e : tensor<6x300x521xf16>) -> tensor<6x300x521xf16>
  %p = linalg.batch_matmul ins(%a, %w : tensor<6x300x60xf16>, tensor<6x60x521xf16>) outs(%f : tensor<6x300x521xf16>) -> tensor<6x300x521xf16>
  return %p : tensor<6x300x521xf16>
}

// -----

// Weights that lie as (n, k) become longer by rows; rows of whole pieces stay, as do unknown ones.
// CHECK-LABEL: func.func @columns
// CHECK-SAME: %[[A:[^:]*]]: tensor<6x?x64xf16>, %[[W:[^:]*]]: tensor<6x77x64xf16>
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<6x80x64xf16>)
// CHECK: hal.dispatch.extern
// CHECK-SAME: tensor<6x?x64xf16>{{.*}}, tensor<6x80x64xf16>) -> (tensor<?x80xf16>
// CHECK: %[[CUT:.*]] = tensor.extract_slice %{{.*}}[0, 0] [%{{.*}}, 77] [1, 1]
// CHECK: linalg.generic {{.*}} ins(%[[CUT]] : tensor<?x77xf16>)
func.func @columns(%a: tensor<6x?x64xf16>, %w: tensor<6x77x64xf16>) -> tensor<6x?x77xf16> {
  %zero = arith.constant 0.0 : f16
  %c1 = arith.constant 1 : index
  %m = tensor.dim %a, %c1 : tensor<6x?x64xf16>
  %e = tensor.empty(%m) : tensor<6x?x77xf16>
  %f = linalg.fill ins(%zero : f16) outs(%e : tensor<6x?x77xf16>) -> tensor<6x?x77xf16>
  %p = linalg.contract indexing_maps = [affine_map<(b, m, n, k) -> (b, m, k)>, affine_map<(b, m, n, k) -> (b, n, k)>, affine_map<(b, m, n, k) -> (b, m, n)>] ins(%a, %w : tensor<6x?x64xf16>, tensor<6x77x64xf16>) outs(%f : tensor<6x?x77xf16>) -> tensor<6x?x77xf16>
  return %p : tensor<6x?x77xf16>
}

// -----

// A bias of each product has its line filled up, not all lines together.
// CHECK-LABEL: func.func @lines
// CHECK-SAME: %[[B:[^:]*]]: tensor<6x77xf16>
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<6x80xf16>)
// CHECK: tensor.extract %[[B]]
// CHECK: hal.dispatch.extern
// CHECK-SAME: tensor<480xf16>
func.func @lines(%a: tensor<6x300x64xf16>, %w: tensor<6x77x64xf16>, %b: tensor<6x77xf16>) -> tensor<6x300x77xf16> {
  %zero = arith.constant 0.0 : f32
  %e32 = tensor.empty() : tensor<6x300x77xf32>
  %e = tensor.empty() : tensor<6x300x77xf16>
  %f = linalg.fill ins(%zero : f32) outs(%e32 : tensor<6x300x77xf32>) -> tensor<6x300x77xf32>
  %p = linalg.contract indexing_maps = [affine_map<(b, m, n, k) -> (b, m, k)>, affine_map<(b, m, n, k) -> (b, n, k)>, affine_map<(b, m, n, k) -> (b, m, n)>] ins(%a, %w : tensor<6x300x64xf16>, tensor<6x77x64xf16>) outs(%f : tensor<6x300x77xf32>) -> tensor<6x300x77xf32>
  %g = linalg.generic {indexing_maps = [affine_map<(b, m, n) -> (b, m, n)>, affine_map<(b, m, n) -> (b, n)>, affine_map<(b, m, n) -> (b, m, n)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%p, %b : tensor<6x300x77xf32>, tensor<6x77xf16>) outs(%e : tensor<6x300x77xf16>) {
  ^bb0(%i: f32, %j: f16, %z: f16):
    %jw = arith.extf %j : f16 to f32
    %x = arith.addf %i, %jw : f32
    %t = arith.truncf %x : f32 to f16
    linalg.yield %t : f16
  } -> tensor<6x300x77xf16>
  return %g : tensor<6x300x77xf16>
}
