// Turns are taken off angles in f64, those of 16 bits too; angles in f64 have code of their own.

// RUN: attn-opt %s --attn-exact-angles --remarks 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt

// WHY-COUNT-2: takes turns off its angle in f64
// WHY-NOT: takes turns

module attributes {hal.device.targets = [#hal.device.target<"cuda", [#hal.executable.target<"cuda", "cuda-nvptx-fb">]> : !hal.device]} {

// CHECK-LABEL: func.func @angles(
// CHECK: ^bb0(%[[X:.*]]: f32, %[[Y:.*]]: f16, %[[Z:.*]]: f64,
// CHECK: arith.extf %[[X]] : f32 to f64
// CHECK: arith.truncf %{{.*}} : f64 to f32
// CHECK: arith.bitcast %{{.*}} : f64 to i64
// CHECK: arith.xori
// CHECK-NOT: math.sin
// CHECK: arith.extf %[[Y]] : f16 to f64
// CHECK: arith.divf
// CHECK: arith.truncf %{{.*}} : f32 to f16
// CHECK: math.cos %[[Z]] : f64
func.func @angles(%x: tensor<8xf32>, %y: tensor<8xf16>, %z: tensor<8xf64>) -> (tensor<8xf32>, tensor<8xf16>, tensor<8xf64>) {
  %a = tensor.empty() : tensor<8xf32>
  %b = tensor.empty() : tensor<8xf16>
  %c = tensor.empty() : tensor<8xf64>
  %0:3 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%x, %y, %z : tensor<8xf32>, tensor<8xf16>, tensor<8xf64>) outs(%a, %b, %c : tensor<8xf32>, tensor<8xf16>, tensor<8xf64>) {
  ^bb0(%p: f32, %q: f16, %r: f64, %o: f32, %s: f16, %t: f64):
    %u = math.sin %p : f32
    %v = math.tan %q : f16
    %w = math.cos %r : f64
    linalg.yield %u, %v, %w : f32, f16, f64
  } -> (tensor<8xf32>, tensor<8xf16>, tensor<8xf64>)
  return %0#0, %0#1, %0#2 : tensor<8xf32>, tensor<8xf16>, tensor<8xf64>
}
}
