// Integers become bf16 by way of f32; to f16 they go as they are.

// RUN: attn-opt %s --attn-integers-to-bf16 --remarks 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt

// WHY: sitofp at {{.*}}: goes by way of f32
// WHY: uitofp at {{.*}}: goes by way of f32
// WHY: sitofp at {{.*}}: goes by way of f32
// WHY-NOT: itofp at

// CHECK-LABEL: func.func @main(
// CHECK: ^bb0(%[[I:[^:]*]]: i8, %[[B:[^:]*]]: i1,
// CHECK: %[[F:.*]] = arith.sitofp %[[I]] : i8 to f32
// CHECK: %[[BITS:.*]] = arith.bitcast %[[F]] : f32 to i32
// CHECK: %[[KEPT:.*]] = arith.shrui %[[BITS]], %{{.*}} : i32
// CHECK: %[[ODD:.*]] = arith.andi %[[KEPT]], %{{.*}} : i32
// CHECK: %[[MORE:.*]] = arith.addi %{{.*}}, %[[ODD]] : i32
// CHECK: %[[SUM:.*]] = arith.addi %[[BITS]], %[[MORE]] : i32
// CHECK: %[[HIGH:.*]] = arith.shrui %[[SUM]], %{{.*}} : i32
// CHECK: %[[SHORT:.*]] = arith.trunci %[[HIGH]] : i32 to i16
// CHECK: %[[A:.*]] = arith.bitcast %[[SHORT]] : i16 to bf16
// CHECK: arith.uitofp %[[B]] : i1 to f32
// CHECK: %[[C:.*]] = arith.bitcast %{{.*}} : i16 to bf16
// CHECK: arith.mulf %[[A]], %[[C]] : bf16
#x = affine_map<(i) -> (i)>
module attributes {hal.device.targets = [#hal.device.target<"local", [#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64">]> : !hal.device]} {
func.func @main(%x: tensor<8xi8>, %m: tensor<8xi1>) -> tensor<8xbf16> {
  %e = tensor.empty() : tensor<8xbf16>
  %r = linalg.generic {indexing_maps = [#x, #x, #x], iterator_types = ["parallel"]} ins(%x, %m : tensor<8xi8>, tensor<8xi1>) outs(%e : tensor<8xbf16>) {
  ^bb0(%i: i8, %b: i1, %o: bf16):
    %f = arith.sitofp %i : i8 to bf16
    %g = arith.uitofp %b : i1 to bf16
    %y = arith.mulf %f, %g : bf16
    linalg.yield %y : bf16
  } -> tensor<8xbf16>
  return %r : tensor<8xbf16>
}

// CHECK-LABEL: func.func @vectors(
// CHECK: arith.sitofp %{{.*}} : vector<2x4xi8> to vector<2x4xf32>
// CHECK: arith.trunci %{{.*}} : vector<2x4xi32> to vector<2x4xi16>
// CHECK: arith.bitcast %{{.*}} : vector<2x4xi16> to vector<2x4xbf16>
func.func @vectors(%x: vector<2x4xi8>) -> vector<2x4xbf16> {
  %f = arith.sitofp %x : vector<2x4xi8> to vector<2x4xbf16>
  return %f : vector<2x4xbf16>
}

// CHECK-LABEL: func.func @half(
// CHECK: arith.sitofp %{{.*}} : i8 to f16
func.func @half(%x: i8) -> f16 {
  %r = arith.sitofp %x : i8 to f16
  return %r : f16
}
}
