// Maxima of f16 that leave NaN out are comparisons and choices, those of a vector's elements are found
// in f32. Those of other types, and those that propagate NaN, stay.

// RUN: attn-opt %s --attn-half-maxima | FileCheck %s

module attributes {hal.device.targets = [#hal.device.target<"local", [#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64">]> : !hal.device]} {
  // CHECK-LABEL: func.func @main(
  // CHECK: ^bb0(%[[A:.*]]: f16, %[[B:.*]]: f16, %{{.*}}: f16):
  // CHECK: %[[MORE:.*]] = arith.cmpf ogt, %[[A]], %[[B]]
  // CHECK: %[[NAN:.*]] = arith.cmpf une, %[[B]], %[[B]]
  // CHECK: %[[TAKES:.*]] = arith.ori %[[MORE]], %[[NAN]]
  // CHECK: %[[LARGER:.*]] = arith.select %[[TAKES]], %[[A]], %[[B]]
  // CHECK: arith.cmpf olt, %[[LARGER]], %[[B]]
  // CHECK: arith.maximumf %{{.*}} : f16
  // CHECK: arith.maxnumf %{{.*}} : f32
  func.func @main(%x: tensor<8xf16>, %y: tensor<8xf16>, %z: f32) -> (tensor<8xf16>, f32) {
    %e = tensor.empty() : tensor<8xf16>
    %r = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]} ins(%x, %y : tensor<8xf16>, tensor<8xf16>) outs(%e : tensor<8xf16>) {
    ^bb0(%a: f16, %b: f16, %o: f16):
      %l = arith.maxnumf %a, %b : f16
      %m = arith.minnumf %l, %b : f16
      %n = arith.maximumf %m, %b : f16
      linalg.yield %n : f16
    } -> tensor<8xf16>
    %w = arith.maxnumf %z, %z : f32
    return %r, %w : tensor<8xf16>, f32
  }

  // LLVM would narrow what was f16 before.
  // CHECK-LABEL: func.func @widened(
  // CHECK: %[[A:.*]] = arith.extf %arg0
  // CHECK: arith.cmpf ogt, %[[A]], %{{.*}} : vector<4xf32>
  // CHECK: arith.maxnumf %{{.*}}, %arg2 : vector<4xf32>
  func.func @widened(%x: vector<4xf16>, %y: vector<4xf16>, %z: vector<4xf32>) -> vector<4xf32> {
    %a = arith.extf %x : vector<4xf16> to vector<4xf32>
    %b = arith.extf %y : vector<4xf16> to vector<4xf32>
    %l = arith.maxnumf %a, %b : vector<4xf32>
    %m = arith.maxnumf %l, %z : vector<4xf32>
    return %m : vector<4xf32>
  }

  // CHECK-LABEL: func.func @reductions(
  // CHECK-DAG: %[[V:.*]] = arith.extf %arg0 : vector<4xf16> to vector<4xf32>
  // CHECK-DAG: %[[S:.*]] = arith.extf %arg2 : f16 to f32
  // CHECK: %[[L:.*]] = vector.mask %arg1 { vector.reduction <maxnumf>, %[[V]], %[[S]] : vector<4xf32> into f32 } : vector<4xi1> -> f32
  // CHECK: %[[H:.*]] = arith.truncf %[[L]] : f32 to f16
  // CHECK: vector.reduction <minnumf>, %{{.*}} : vector<4xf32> into f32
  // CHECK: vector.reduction <maximumf>, %arg0, %{{.*}} : vector<4xf16> into f16
  func.func @reductions(%x: vector<4xf16>, %m: vector<4xi1>, %s: f16) -> f16 {
    %l = vector.mask %m { vector.reduction <maxnumf>, %x, %s : vector<4xf16> into f16 } : vector<4xi1> -> f16
    %o = vector.reduction <minnumf>, %x, %l : vector<4xf16> into f16
    %p = vector.reduction <maximumf>, %x, %o : vector<4xf16> into f16
    return %p : f16
  }
}
