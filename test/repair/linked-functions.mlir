// Functions that IREE links no library for are written out; those that it has code for stay.

// RUN: attn-opt %s --attn-linked-functions --remarks 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt

// WHY-DAG: is written out: IREE links no log10 in f16
// WHY-DAG: is written out: IREE links no tanh in f64
// WHY-DAG: is written out: IREE's powf in f32 rounds its exponent
// WHY-DAG: is written out: IREE's erf takes longer
// WHY-NOT: tanh in f32

module attributes {hal.device.targets = [#hal.device.target<"local", [#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64">]> : !hal.device]} {

// CHECK-LABEL: func.func @functions(
// CHECK: ^bb0(%[[X:.*]]: f16, %[[Y:.*]]: f64, %[[Z:.*]]: f32,
// CHECK: %[[WIDE:.*]] = arith.extf %[[X]] : f16 to f32
// CHECK: %[[LOG:.*]] = math.log %[[WIDE]]
// CHECK: arith.mulf %[[LOG]]
// CHECK: arith.truncf
// CHECK: math.exp
// CHECK: math.copysign %{{.*}}, %[[Y]] : f64
// CHECK: math.tanh %[[Z]] : f32
// CHECK-NOT: math.{{erf|fma}}
// CHECK: %[[ERF:.*]] = arith.divf %{{.*}}, %{{.*}} : f32
// CHECK: arith.cmpf olt, %[[ERF]], %{{.*}} : f32
// CHECK: math.powf %{{.*}}, %{{.*}} : f32
// CHECK: arith.bitcast %{{.*}} : f64 to i64
// CHECK-NOT: math.{{log|exp}}
func.func @functions(%x: tensor<8xf16>, %y: tensor<8xf64>, %z: tensor<8xf32>) -> (tensor<8xf16>, tensor<8xf64>, tensor<8xf32>) {
  %a = tensor.empty() : tensor<8xf16>
  %b = tensor.empty() : tensor<8xf64>
  %c = tensor.empty() : tensor<8xf32>
  %0:3 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%x, %y, %z : tensor<8xf16>, tensor<8xf64>, tensor<8xf32>) outs(%a, %b, %c : tensor<8xf16>, tensor<8xf64>, tensor<8xf32>) {
  ^bb0(%p: f16, %q: f64, %r: f32, %o: f16, %s: f64, %t: f32):
    %u = math.log10 %p : f16
    %v = math.tanh %q : f64
    %a1 = math.tanh %r : f32
    %half = arith.constant 0.5 : f32
    %e = math.erf %a1 : f32
    %a2 = math.powf %e, %half : f32
    %w = math.powf %a2, %r : f32
    linalg.yield %u, %v, %w : f16, f64, f32
  } -> (tensor<8xf16>, tensor<8xf64>, tensor<8xf32>)
  return %0#0, %0#1, %0#2 : tensor<8xf16>, tensor<8xf64>, tensor<8xf32>
}
}
