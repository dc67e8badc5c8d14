// Elements of 8 and 16 bits are compared in a kernel of no loops, with the arithmetic before; wider ones,
// those of ops on tensors, and scalars that are no elements are not.

// RUN: attn-opt %s --attn-narrow-scalars --report=%t.json | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.json
// WHY-COUNT-2: is compared in a kernel
// WHY-NOT: is compared in a kernel

// CHECK-LABEL: func.func @whole(
// CHECK: %[[TRUTH:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<i1>)
// CHECK: %[[A:.*]] = tensor.extract %arg0[%{{.*}}] : tensor<3xi16>
// CHECK: %[[C:.*]] = arith.cmpi sge, %[[A]], %{{.*}} : i16
// CHECK: linalg.yield %[[C]] : i1
// CHECK: %[[BIT:.*]] = tensor.extract %[[TRUTH]][] : tensor<i1>
// CHECK: scf.if %[[BIT]]
func.func @whole(%x: tensor<3xi16>, %y: tensor<2xf32>) -> tensor<2xf32> {
  %2 = arith.constant 2 : index
  %two = arith.constant 2 : i16
  %a = tensor.extract %x[%2] : tensor<3xi16>
  %c = arith.cmpi sge, %a, %two : i16
  %r = scf.if %c -> tensor<2xf32> {
    %z = arith.addf %y, %y : tensor<2xf32>
    scf.yield %z : tensor<2xf32>
  } else {
    scf.yield %y : tensor<2xf32>
  }
  return %r : tensor<2xf32>
}

// CHECK-LABEL: func.func @half(
// CHECK: linalg.generic
// CHECK: %[[A:.*]] = tensor.extract %arg0[%{{.*}}] : tensor<?xf16>
// CHECK: %[[M:.*]] = arith.mulf %[[A]], %{{.*}} : f16
// CHECK: arith.cmpf ogt, %[[M]], %{{.*}} : f16
func.func @half(%x: tensor<?xf16>, %at: index) -> i1 {
  %two = arith.constant 2.0 : f16
  %a = tensor.extract %x[%at] : tensor<?xf16>
  %m = arith.mulf %a, %two : f16
  %c = arith.cmpf ogt, %m, %two : f16
  return %c : i1
}

// CHECK-LABEL: func.func @stays(
// CHECK-NOT: linalg.generic
// CHECK: iree_linalg_ext.sort
// CHECK: return
func.func @stays(%x: tensor<3xi32>, %s: i16, %y: tensor<4xi8>) -> (i1, i1, tensor<4xi8>) {
  %2 = arith.constant 2 : index
  %two = arith.constant 2 : i32
  %short = arith.constant 2 : i16
  %a = tensor.extract %x[%2] : tensor<3xi32>
  %c = arith.cmpi sge, %a, %two : i32
  %d = arith.cmpi sge, %s, %short : i16
  %r = iree_linalg_ext.sort dimension(0) outs(%y : tensor<4xi8>) {
  ^bb0(%e: i8, %f: i8):
    %g = arith.cmpi slt, %e, %f : i8
    iree_linalg_ext.yield %g : i1
  } -> tensor<4xi8>
  return %c, %d, %r : i1, i1, tensor<4xi8>
}
