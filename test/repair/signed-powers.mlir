// Powers whose exponent is computed get the sign of their base, those by whole numbers are products,
// and one by a negative integer is 1 by another; others stay.

// RUN: attn-opt %s --attn-signed-powers --remarks 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt

// WHY-COUNT-1: has the sign of its base: IREE's power of a negative number is NaN
// WHY-COUNT-1: is products: IREE's power of a negative number is NaN
// WHY-COUNT-1: is 1 by a power: IREE's of 0 by a negative integer is minus infinity
// WHY: is made in f32: IREE rounds each of its products
// WHY: has the sign of its base: IREE's power
// WHY: has a number for minus infinity: IREE's is NaN
// WHY-NOT: power

module attributes {hal.device.targets = [#hal.device.target<"local", [#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64">]> : !hal.device]} {

// CHECK-LABEL: func.func @powers(
// CHECK: ^bb0(%[[X:.*]]: f32, %[[Y:.*]]: f32, %{{.*}}: f32):
// CHECK: %[[SIZE:.*]] = math.absf %[[X]]
// CHECK: math.powf %[[SIZE]], %[[Y]]
// CHECK: arith.fptosi
// CHECK: math.copysign
// CHECK-COUNT-3: arith.select
// CHECK-NOT: math.powf
// CHECK: linalg.yield
func.func @powers(%x: tensor<8xf32>, %y: tensor<8xf32>, %e: tensor<8xf32>) -> tensor<8xf32> {
  %0 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%x, %y : tensor<8xf32>, tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = math.powf %a, %b : f32
    linalg.yield %p : f32
  } -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// A number as the exponent, and frequencies of positions.
// CHECK-LABEL: func.func @numbers(
// CHECK-NOT: math.absf
func.func @numbers(%x: tensor<8xf32>, %e: tensor<8xf32>) -> tensor<8xf32> {
  %cubed = arith.constant 3.0 : f32
  %base = arith.constant 10000.0 : f32
  %0 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %p = math.powf %a, %cubed : f32
    %q = math.powf %base, %p : f32
    linalg.yield %q : f32
  } -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// CHECK-LABEL: func.func @whole(
// CHECK: ^bb0(%[[X:.*]]: f32, %{{.*}}: f32):
// CHECK: %[[FOUR:.*]] = arith.constant 4 : i64
// CHECK: %[[P:.*]] = math.fpowi %[[X]], %[[FOUR]]
// CHECK: %[[TWO:.*]] = arith.constant 2 : i32
// CHECK: %[[SQUARE:.*]] = math.fpowi %[[P]], %[[TWO]]
// CHECK: arith.divf %{{.*}}, %[[SQUARE]]
func.func @whole(%x: tensor<8xf32>, %e: tensor<8xf32>) -> tensor<8xf32> {
  %four = arith.constant 4.0 : f32
  %minus = arith.constant -2 : i32
  %0 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %p = math.powf %a, %four : f32
    %q = math.fpowi %p, %minus : f32, i32
    linalg.yield %q : f32
  } -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// Of narrow types in f32.
// CHECK-LABEL: func.func @narrow(
// CHECK: %[[WIDE:.*]] = arith.extf %{{.*}} : f16 to f32
// CHECK: %[[P:.*]] = math.fpowi %[[WIDE]]
// CHECK: %[[NARROW:.*]] = arith.truncf %[[P]] : f32 to f16
// CHECK: math.fpowi %[[NARROW]], %{{.*}} : f16, i32
func.func @narrow(%x: tensor<8xf16>, %e: tensor<8xf16>) -> tensor<8xf16> {
  %seven = arith.constant 7 : i32
  %three = arith.constant 3 : i32
  %0 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%x : tensor<8xf16>) outs(%e : tensor<8xf16>) {
  ^bb0(%a: f16, %o: f16):
    %p = math.fpowi %a, %seven : f16, i32
    %q = math.fpowi %p, %three : f16, i32
    linalg.yield %q : f16
  } -> tensor<8xf16>
  return %0 : tensor<8xf16>
}
// By integers that are known at run time: as by floats.
// CHECK-LABEL: func.func @counted(
// CHECK: %[[Y:.*]] = arith.sitofp %{{.*}} : i32 to f32
// CHECK: math.powf %{{.*}}, %[[Y]] : f32
// CHECK: math.copysign
func.func @counted(%x: tensor<8xf32>, %y: tensor<8xi32>, %e: tensor<8xf32>) -> tensor<8xf32> {
  %0 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%x, %y : tensor<8xf32>, tensor<8xi32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %b: i32, %o: f32):
    %p = math.fpowi %a, %b : f32, i32
    linalg.yield %p : f32
  } -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// By a fraction; square roots stay.
// CHECK-LABEL: func.func @fractions(
// CHECK: %[[P:.*]] = math.powf %[[X:.*]], %{{.*}} : f32
// CHECK: %[[IS:.*]] = arith.cmpf oeq, %[[X]],
// CHECK: %[[FOUND:.*]] = arith.select %[[IS]], %{{.*}}, %[[P]]
// CHECK: %[[ROOT:.*]] = math.powf %[[FOUND]], %{{.*}} : f32
// CHECK-NEXT: %[[OVER:.*]] = math.powf %[[ROOT]], %{{.*}} : f32
// CHECK-NEXT: linalg.yield %[[OVER]]
func.func @fractions(%x: tensor<8xf32>, %e: tensor<8xf32>) -> tensor<8xf32> {
  %quarter = arith.constant 2.5e-01 : f32
  %half = arith.constant 5.0e-01 : f32
  %minus = arith.constant -5.0e-01 : f32
  %0 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %p = math.powf %a, %quarter : f32
    %q = math.powf %p, %half : f32
    %r = math.powf %q, %minus : f32
    linalg.yield %r : f32
  } -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
}
