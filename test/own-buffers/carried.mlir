// Loops that carry several tensors of unknown sizes begin with copies; those that carry one do not.

// RUN: attn-opt %s --attn-own-buffers --remarks 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt

// WHY-COUNT-1: it begins with copies: IREE 3.13 reads one of several tensors of unknown sizes
// WHY-NOT: it begins with copies

#map = affine_map<(i, j) -> (i, j)>

// CHECK-LABEL: func.func @several(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4x?xf32>, %[[Y:[a-z0-9]+]]: tensor<?x8xf32>
// CHECK: %[[OWN:.*]] = flow.dispatch.region
// CHECK: linalg.copy ins(%[[X]]
// CHECK: %[[OTHER:.*]] = flow.dispatch.region
// CHECK: linalg.copy ins(%[[Y]]
// CHECK: scf.for {{.*}} iter_args(%{{.*}} = %[[OWN]], %{{.*}} = %[[OTHER]])
func.func @several(%x: tensor<4x?xf32>, %y: tensor<?x8xf32>, %count: index, %n: index) -> tensor<4x?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r:2 = scf.for %i = %c0 to %count step %c1 iter_args(%s = %x, %t = %y) -> (tensor<4x?xf32>, tensor<?x8xf32>) {
    %e = tensor.empty(%n) : tensor<4x?xf32>
    %0 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%s : tensor<4x?xf32>) outs(%e : tensor<4x?xf32>) {
    ^bb0(%a: f32, %o: f32):
      %b = math.tanh %a : f32
      linalg.yield %b : f32
    } -> tensor<4x?xf32>
    scf.yield %0, %t : tensor<4x?xf32>, tensor<?x8xf32>
  }
  return %r#0 : tensor<4x?xf32>
}

// CHECK-LABEL: func.func @one(
// CHECK-NOT: flow.dispatch.region
// CHECK: return
func.func @one(%x: tensor<4x?xf32>, %y: tensor<8x8xf32>, %count: index, %n: index) -> tensor<4x?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r:2 = scf.for %i = %c0 to %count step %c1 iter_args(%s = %x, %t = %y) -> (tensor<4x?xf32>, tensor<8x8xf32>) {
    %e = tensor.empty(%n) : tensor<4x?xf32>
    %0 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%s : tensor<4x?xf32>) outs(%e : tensor<4x?xf32>) {
    ^bb0(%a: f32, %o: f32):
      %b = math.tanh %a : f32
      linalg.yield %b : f32
    } -> tensor<4x?xf32>
    scf.yield %0, %t : tensor<4x?xf32>, tensor<8x8xf32>
  }
  return %r#0 : tensor<4x?xf32>
}
