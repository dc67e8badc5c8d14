// Casts from f64 to f16 go by way of f32, with an odd last bit where they round; other casts stay.

// RUN: attn-opt %s --attn-double-halves --remarks 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt
// WHY-COUNT-2: is a cast to f32 before
// WHY-NOT: is a cast

module attributes {hal.device.targets = [#hal.device.target<"local", [#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64">]> : !hal.device]} {
  // CHECK-LABEL: func.func @main(
  // CHECK: %[[NEAR:.*]] = arith.truncf %arg0 : f64 to f32
  // CHECK: %[[BACK:.*]] = arith.extf %[[NEAR]] : f32 to f64
  // CHECK: %[[BITS:.*]] = arith.bitcast %[[NEAR]] : f32 to i32
  // CHECK: %[[ABOVE:.*]] = arith.cmpf ogt
  // CHECK: %[[BELOW:.*]] = arith.subi %[[BITS]]
  // CHECK: %[[TOWARDS:.*]] = arith.select %[[ABOVE]], %[[BELOW]], %[[BITS]]
  // CHECK: %[[ODD:.*]] = arith.ori %[[TOWARDS]]
  // CHECK: %[[ROUNDED:.*]] = arith.cmpf one, %[[BACK]], %arg0
  // CHECK: %[[OURS:.*]] = arith.select %[[ROUNDED]], %[[ODD]], %[[BITS]]
  // CHECK: %[[SHORT:.*]] = arith.bitcast %[[OURS]] : i32 to f32
  // CHECK: arith.truncf %[[SHORT]] : f32 to f16
  // CHECK: arith.truncf %{{.*}} : vector<4xf32> to vector<4xf16>
  // CHECK: arith.truncf %arg0 : f64 to bf16
  func.func @main(%x: f64, %y: vector<4xf64>) -> (f16, vector<4xf16>, bf16) {
    %h = arith.truncf %x : f64 to f16
    %v = arith.truncf %y : vector<4xf64> to vector<4xf16>
    %b = arith.truncf %x : f64 to bf16
    return %h, %v, %b : f16, vector<4xf16>, bf16
  }
}
