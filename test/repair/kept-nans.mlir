// What IREE's import from torch bounds stays NaN: of a known bound another comparison asks, of two
// tensors a second one. What keeps NaN stays, as do other comparisons, reductions, and functions
// from elsewhere.

// RUN: attn-opt %s --attn-kept-nans --remarks 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt

// WHY: select at {{.*}}: keeps NaN: IREE's import gives the bound
// WHY: select at {{.*}}: keeps NaN: IREE's import gives the bound
// WHY: select at {{.*}}: is NaN where one is: IREE's import gives the other
// WHY-NOT: select at

#i = affine_map<(i) -> (i)>
#r = affine_map<(i) -> ()>
// CHECK-LABEL: util.func public @imported(
// CHECK: ^bb0(%[[A:[^:]*]]: f32, %[[B:[^:]*]]: f32,
// CHECK: arith.cmpf ugt, %[[A]], %[[ZERO:.*]] : f32
// CHECK-NEXT: %[[RELU:.*]] = arith.select %{{.*}}, %[[A]], %[[ZERO]]
// CHECK-NEXT: %[[MOST:.*]] = arith.cmpf ult, %[[RELU]], %[[SIX:.*]] : f32
// CHECK-NEXT: %[[RELU6:.*]] = arith.select %[[MOST]], %[[RELU]], %[[SIX]]
// CHECK-NEXT: %[[LEAST:.*]] = arith.cmpf olt, %[[RELU6]], %[[ONE:.*]] : f32
// CHECK-NEXT: %[[CLAMPED:.*]] = arith.select %[[LEAST]], %[[ONE]], %[[RELU6]]
// CHECK-NEXT: %[[MORE:.*]] = arith.cmpf ogt, %[[CLAMPED]], %[[B]] : f32
// CHECK-NEXT: %[[LARGER:.*]] = arith.select %[[MORE]], %[[CLAMPED]], %[[B]]
// CHECK-NEXT: %[[NAN:.*]] = arith.cmpf une, %[[CLAMPED]], %[[CLAMPED]] : f32
// CHECK-NEXT: %[[BOTH:.*]] = arith.select %[[NAN]], %[[CLAMPED]], %[[LARGER]]
// CHECK-NEXT: arith.cmpf ogt, %[[BOTH]], %[[B]]
// CHECK-NEXT: %[[CHOSEN:.*]] = arith.select %{{.*}}, %[[B]], %[[ZERO]]
// CHECK-NEXT: linalg.yield %[[CHOSEN]]
// CHECK: ^bb0(%[[A:[^:]*]]: f32, %[[B:[^:]*]]: f32):
// CHECK-NEXT: arith.cmpf ogt, %[[A]], %[[B]]
// CHECK-NEXT: %[[LARGER:.*]] = arith.select %{{.*}}, %[[A]], %[[B]]
// CHECK-NEXT: linalg.yield %[[LARGER]]
util.func public @imported(%x: tensor<8xf32>, %y: tensor<8xf32>, %z: tensor<f32>) -> (tensor<8xf32>, tensor<f32>) attributes {iree.abi.model = "coarse-fences"} {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %six = arith.constant 6.0 : f32
  %e = tensor.empty() : tensor<8xf32>
  %0 = linalg.generic {indexing_maps = [#i, #i, #i], iterator_types = ["parallel"]} ins(%x, %y : tensor<8xf32>, tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %c = arith.cmpf ugt, %a, %zero : f32
    %relu = arith.select %c, %a, %zero : f32
    %d = arith.cmpf olt, %relu, %six : f32
    %relu6 = arith.select %d, %relu, %six : f32
    %f = arith.cmpf ult, %relu6, %one : f32
    %clamped = arith.select %f, %one, %relu6 : f32
    %g = arith.cmpf ogt, %clamped, %b : f32
    %larger = arith.select %g, %clamped, %b : f32
    %h = arith.cmpf ogt, %larger, %b : f32
    %other = arith.select %h, %b, %zero : f32
    linalg.yield %other : f32
  } -> tensor<8xf32>
  %1 = linalg.generic {indexing_maps = [#i, #r], iterator_types = ["reduction"]} ins(%x : tensor<8xf32>) outs(%z : tensor<f32>) {
  ^bb0(%a: f32, %o: f32):
    %c = arith.cmpf ogt, %a, %o : f32
    %larger = arith.select %c, %a, %o : f32
    linalg.yield %larger : f32
  } -> tensor<f32>
  util.return %0, %1 : tensor<8xf32>, tensor<f32>
}

// CHECK-LABEL: util.func public @elsewhere(
// CHECK: arith.cmpf olt, %{{.*}}, %{{.*}} : f32
// CHECK-NEXT: arith.select
// CHECK-NEXT: linalg.yield
util.func public @elsewhere(%x: tensor<8xf32>) -> tensor<8xf32> {
  %six = arith.constant 6.0 : f32
  %e = tensor.empty() : tensor<8xf32>
  %0 = linalg.generic {indexing_maps = [#i, #i], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %d = arith.cmpf olt, %a, %six : f32
    %relu6 = arith.select %d, %a, %six : f32
    linalg.yield %relu6 : f32
  } -> tensor<8xf32>
  util.return %0 : tensor<8xf32>
}
