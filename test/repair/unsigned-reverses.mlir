// Unsigned integers are reversed as signless ones; others as they are.

// RUN: attn-opt %s --attn-unsigned-reverses --remarks 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt
// WHY-COUNT-1: reverses the bits of unsigned integers
// WHY-NOT: reverses the bits

// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[X:[^:]*]]: tensor<2x?xui8>, %[[Y:[^:]*]]: tensor<3xi8>
func.func @main(%x: tensor<2x?xui8>, %y: tensor<3xi8>) -> (tensor<2x?xui8>, tensor<3xi8>) {
  // CHECK: %[[BITS:.*]] = stablehlo.bitcast_convert %[[X]] : (tensor<2x?xui8>) -> tensor<2x?xi8>
  // CHECK: %[[TURNED:.*]] = stablehlo.reverse %[[BITS]], dims = [1] : tensor<2x?xi8>
  // CHECK: %[[BACK:.*]] = stablehlo.bitcast_convert %[[TURNED]] : (tensor<2x?xi8>) -> tensor<2x?xui8>
  // CHECK: stablehlo.reverse %[[Y]], dims = [0]
  // CHECK: return %[[BACK]]
  %a = stablehlo.reverse %x, dims = [1] : tensor<2x?xui8>
  %b = stablehlo.reverse %y, dims = [0] : tensor<3xi8>
  return %a, %b : tensor<2x?xui8>, tensor<3xi8>
}
