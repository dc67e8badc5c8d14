// GELU by tanh has PyTorch's factor; one of another sum keeps its own.

// RUN: attn-opt %s --attn-gelu-tanh --remarks 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt

// WHY: tanh at {{.*}}: the factor of GELU by tanh is the root of 2 / pi, where IREE's import has 0.797724
// WHY-NOT: tanh at

// CHECK-LABEL: func.func @main(
// CHECK: ^bb0(%[[X:[^:]*]]: f32,
// CHECK: %[[SUM:.*]] = arith.addf %[[X]]
// CHECK: %[[ROOT:.*]] = arith.constant 0.797884583 : f32
// CHECK: arith.mulf %[[SUM]], %[[ROOT]]
// CHECK: math.tanh
// CHECK-LABEL: func.func @other(
// CHECK: %[[GIVEN:.*]] = arith.constant 7.977240e-01 : f32
// CHECK: arith.mulf %{{.*}}, %[[GIVEN]]
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %cubic = arith.constant 4.471500e-02 : f32
  %factor = arith.constant 7.977240e-01 : f32
  %e = tensor.empty() : tensor<8xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.mulf %a, %a : f32
    %c = arith.mulf %s, %a : f32
    %m = arith.mulf %c, %cubic : f32
    %t = arith.addf %a, %m : f32
    %u = arith.mulf %t, %factor : f32
    %y = math.tanh %u : f32
    linalg.yield %y : f32
  } -> tensor<8xf32>
  return %r : tensor<8xf32>
}
func.func @other(%x: f32) -> f32 {
  %one = arith.constant 1.0 : f32
  %factor = arith.constant 7.977240e-01 : f32
  %t = arith.addf %x, %one : f32
  %u = arith.mulf %t, %factor : f32
  %y = math.tanh %u : f32
  return %y : f32
}
