// Sums read their terms from memory where these hang on no element of a tensor; others stay.

// RUN: attn-opt %s --attn-read-terms --remarks 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt

// WHY-COUNT-6: IREE 3.13 adds up
// WHY-NOT: adds up

#map = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
#column = affine_map<(i, j) -> (j)>

// A sum of ones.
// CHECK-LABEL: func.func @filled(
// CHECK: %[[ONES:.*]] = linalg.fill {{.*}} -> tensor<4x?xf32>
// CHECK: %[[COPY:.*]] = flow.dispatch.region
// CHECK: linalg.copy ins(%[[ONES]]
// CHECK: linalg.generic {{.*}} ins(%[[COPY]]
func.func @filled(%n: index) -> tensor<4xf32> {
  %one = arith.constant 1.0 : f32
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%n) : tensor<4x?xf32>
  %x = linalg.fill ins(%one : f32) outs(%e : tensor<4x?xf32>) -> tensor<4x?xf32>
  %m = tensor.empty() : tensor<4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%m : tensor<4xf32>) -> tensor<4xf32>
  %0 = linalg.generic {indexing_maps = [#map, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x?xf32>) outs(%f : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %a, %o : f32
    linalg.yield %s : f32
  } -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// What divides an average pool, made of what fills a tensor.
// CHECK-LABEL: func.func @pooled(
// CHECK: %[[HALVES:.*]] = linalg.generic
// CHECK: %[[COPY:.*]] = flow.dispatch.region
// CHECK: linalg.copy ins(%[[HALVES]]
// CHECK: linalg.pooling_nhwc_sum {{.*}} ins(%[[COPY]],
func.func @pooled() -> tensor<1x3x3x2xf32> {
  %one = arith.constant 1.0 : f32
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x5x4x2xf32>
  %x = linalg.fill ins(%one : f32) outs(%e : tensor<1x5x4x2xf32>) -> tensor<1x5x4x2xf32>
  %h = linalg.generic {indexing_maps = [affine_map<(a, b, c, d) -> (a, b, c, d)>, affine_map<(a, b, c, d) -> (a, b, c, d)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x : tensor<1x5x4x2xf32>) outs(%e : tensor<1x5x4x2xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.negf %a : f32
    linalg.yield %s : f32
  } -> tensor<1x5x4x2xf32>
  %m = tensor.empty() : tensor<1x3x3x2xf32>
  %f = linalg.fill ins(%zero : f32) outs(%m : tensor<1x3x3x2xf32>) -> tensor<1x3x3x2xf32>
  %w = tensor.empty() : tensor<3x2xf32>
  %0 = linalg.pooling_nhwc_sum {dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>} ins(%h, %w : tensor<1x5x4x2xf32>, tensor<3x2xf32>) outs(%f : tensor<1x3x3x2xf32>) -> tensor<1x3x3x2xf32>
  return %0 : tensor<1x3x3x2xf32>
}

// A count beside a sum: the sum's terms are read.
// CHECK-LABEL: func.func @counted(
// CHECK: %[[ONES:.*]] = linalg.generic
// CHECK: linalg.yield %{{.*}} : i32
// CHECK: } -> tensor<6xi32>
// CHECK: %[[COPY:.*]] = flow.dispatch.region
// CHECK: linalg.copy ins(%[[ONES]]
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %[[COPY]] : tensor<4x6xi32>, tensor<6xi32>)
// CHECK-NEXT: ^bb0(%[[X:.*]]: i32, %[[ONE:.*]]: i32, %[[COUNT:.*]]: i32, %[[SUM:.*]]: i32)
// CHECK-NEXT: %[[A:.*]] = arith.addi %[[COUNT]], %[[ONE]]
// CHECK-NEXT: %[[B:.*]] = arith.addi %[[SUM]], %[[X]]
// CHECK-NEXT: linalg.yield %[[A]], %[[B]]
func.func @counted(%x: tensor<4x6xi32>) -> (tensor<4xi32>, tensor<4xi32>) {
  %one = arith.constant 1 : i32
  %f = arith.constant dense<0> : tensor<4xi32>
  %0:2 = linalg.generic {indexing_maps = [#map, #row, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x6xi32>) outs(%f, %f : tensor<4xi32>, tensor<4xi32>) {
  ^bb0(%a: i32, %o: i32, %p: i32):
    %s = arith.addi %o, %one : i32
    %t = arith.addi %p, %a : i32
    linalg.yield %s, %t : i32, i32
  } -> (tensor<4xi32>, tensor<4xi32>)
  return %0#0, %0#1 : tensor<4xi32>, tensor<4xi32>
}

// Indices, of summed loops and others, and what a tensor holds there.
// CHECK-LABEL: func.func @indices(
// CHECK: linalg.index 0
// CHECK: tensor.extract
// CHECK: } -> tensor<4x6xf32>
// CHECK: %[[COPY:.*]] = flow.dispatch.region
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %[[COPY]] : tensor<4x6xf32>, tensor<4x6xf32>)
func.func @indices(%x: tensor<4x6xf32>, %t: tensor<4xf32>) -> tensor<4xf32> {
  %f = arith.constant dense<0.0> : tensor<4xf32>
  %0 = linalg.generic {indexing_maps = [#map, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x6xf32>) outs(%f : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %i = linalg.index 0 : index
    %v = tensor.extract %t[%i] : tensor<4xf32>
    %s = arith.addf %o, %v : f32
    linalg.yield %s : f32
  } -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// What a global has got in the same block.
util.global private mutable @state = dense<2.0> : tensor<4x6xf32>
// CHECK-LABEL: func.func @global(
// CHECK: %[[LOADED:.*]] = util.global.load @state
// CHECK: linalg.copy ins(%[[LOADED]]
func.func @global() -> tensor<4xf32> {
  %one = arith.constant 1.0 : f32
  %f = arith.constant dense<0.0> : tensor<4xf32>
  %e = tensor.empty() : tensor<4x6xf32>
  %x = linalg.fill ins(%one : f32) outs(%e : tensor<4x6xf32>) -> tensor<4x6xf32>
  util.global.store %x, @state : tensor<4x6xf32>
  %y = util.global.load @state : tensor<4x6xf32>
  %0 = linalg.reduce {arith.addf} ins(%y : tensor<4x6xf32>) outs(%f : tensor<4xf32>) dimensions = [1]
  return %0 : tensor<4xf32>
}

// A product of f16, added up in f32.
// CHECK-LABEL: func.func @narrow(
// CHECK: flow.dispatch.region -> (tensor<6xf16>)
func.func @narrow(%x: tensor<4x6xf16>) -> tensor<4xf32> {
  %half = arith.constant 0.5 : f16
  %f = arith.constant dense<0.0> : tensor<4xf32>
  %0 = linalg.generic {indexing_maps = [#map, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x6xf16>) outs(%f : tensor<4xf32>) {
  ^bb0(%a: f16, %o: f32):
    %w = arith.extf %half : f16 to f32
    %s = arith.addf %o, %w : f32
    linalg.yield %s : f32
  } -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// What is read stays, by one index or all; so does the largest of equal numbers.
// CHECK-LABEL: func.func @read(
// CHECK-NOT: flow.dispatch.region
func.func @read(%x: tensor<4x6xf32>, %v: tensor<6xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %one = arith.constant 1.0 : f32
  %f = arith.constant dense<0.0> : tensor<4xf32>
  %0 = linalg.generic {indexing_maps = [#map, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x6xf32>) outs(%f : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = arith.mulf %a, %one : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<4xf32>
  %1 = linalg.generic {indexing_maps = [#map, #column, #row], iterator_types = ["parallel", "reduction"]} ins(%x, %v : tensor<4x6xf32>, tensor<6xf32>) outs(%f : tensor<4xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.addf %o, %b : f32
    linalg.yield %s : f32
  } -> tensor<4xf32>
  %2 = linalg.generic {indexing_maps = [#map, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x6xf32>) outs(%f : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.maximumf %o, %one : f32
    linalg.yield %s : f32
  } -> tensor<4xf32>
  return %0, %1, %2 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
