// What becomes f16 below 2^-14 is rounded by its bits, and f16 is computed in f32, where a CPU has no
// cast to f16. Casts from f64, and to other types, stay.

// RUN: attn-opt %s --split-input-file --attn-small-halves --remarks 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt

// WHY: truncf at {{.*}}: what becomes f16 is rounded by its bits below 2^-14
// WHY-NOT: is rounded by its bits

// CHECK-LABEL: func.func @main(
// CHECK: ^bb0(%[[X:[^:]*]]: f32, %[[H:[^:]*]]: f16, %[[D:[^:]*]]: f64,
// CHECK: %[[BITS:.*]] = arith.bitcast %[[X]] : f32 to i32
// CHECK: %[[SIZE:.*]] = arith.bitcast %{{.*}} : i32 to f32
// CHECK: %[[MOVED:.*]] = arith.addf %[[SIZE]], %{{.*}} : f32
// CHECK: %[[SMALL:.*]] = arith.cmpf olt, %[[SIZE]], %{{.*}} : f32
// CHECK: %[[NORMAL:.*]] = arith.truncf %[[X]] : f32 to f16
// CHECK: %[[CAST:.*]] = arith.bitcast %{{.*}} : i16 to f16
// CHECK: %[[A:.*]] = arith.select %[[SMALL]], %[[CAST]], %[[NORMAL]] : f16
// CHECK: arith.extf %[[A]] : f16 to f32
// CHECK: arith.extf %[[H]] : f16 to f32
// CHECK: arith.mulf %{{.*}}, %{{.*}} : f32
// CHECK: arith.truncf %[[D]] : f64 to f16
// CHECK: arith.truncf %[[X]] : f32 to bf16
#x = affine_map<(i) -> (i)>
module attributes {hal.device.targets = [#hal.device.target<"local", [#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {cpu_features = "+sse,+sse2"}>]> : !hal.device]} {
func.func @main(%x: tensor<8xf32>, %h: tensor<8xf16>, %d: tensor<8xf64>) -> (tensor<8xf16>, tensor<8xf16>, tensor<8xbf16>) {
  %e = tensor.empty() : tensor<8xf16>
  %eb = tensor.empty() : tensor<8xbf16>
  %r:3 = linalg.generic {indexing_maps = [#x, #x, #x, #x, #x, #x], iterator_types = ["parallel"]} ins(%x, %h, %d : tensor<8xf32>, tensor<8xf16>, tensor<8xf64>) outs(%e, %e, %eb : tensor<8xf16>, tensor<8xf16>, tensor<8xbf16>) {
  ^bb0(%a: f32, %b: f16, %c: f64, %o: f16, %p: f16, %q: bf16):
    %s = arith.truncf %a : f32 to f16
    %y = arith.mulf %s, %b : f16
    %z = arith.truncf %c : f64 to f16
    %w = arith.truncf %a : f32 to bf16
    linalg.yield %y, %z, %w : f16, f16, bf16
  } -> (tensor<8xf16>, tensor<8xf16>, tensor<8xbf16>)
  return %r#0, %r#1, %r#2 : tensor<8xf16>, tensor<8xf16>, tensor<8xbf16>
}
}

// -----

// CHECK-LABEL: func.func @has_casts(
// CHECK-NOT: arith.bitcast
#x = affine_map<(i) -> (i)>
module attributes {hal.device.targets = [#hal.device.target<"local", [#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {cpu_features = "+avx2,+f16c"}>]> : !hal.device]} {
func.func @has_casts(%x: tensor<8xf32>) -> tensor<8xf16> {
  %e = tensor.empty() : tensor<8xf16>
  %r = linalg.generic {indexing_maps = [#x, #x], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%e : tensor<8xf16>) {
  ^bb0(%a: f32, %o: f16):
    %s = arith.truncf %a : f32 to f16
    linalg.yield %s : f16
  } -> tensor<8xf16>
  return %r : tensor<8xf16>
}
}

// -----

// Bodies of named ops say what their names do.
// CHECK-LABEL: func.func @named(
// CHECK-NOT: arith.bitcast
// CHECK: linalg.matmul
module attributes {hal.device.targets = [#hal.device.target<"local", [#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {cpu_features = "+avx2"}>]> : !hal.device]} {
func.func @named(%x: tensor<8x8xf16>, %y: tensor<8x8xf16>, %z: tensor<8x8xf16>) -> tensor<8x8xf16> {
  %r = linalg.matmul ins(%x, %y : tensor<8x8xf16>, tensor<8x8xf16>) outs(%z : tensor<8x8xf16>) -> tensor<8x8xf16>
  return %r : tensor<8x8xf16>
}
}
