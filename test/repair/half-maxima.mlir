// Maxima of f16 that leave NaN out are comparisons and choices. Those of other types, and those that
// propagate NaN, stay.

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
}
