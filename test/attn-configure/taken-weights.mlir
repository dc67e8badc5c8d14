// Few rows times weights that are taken by index and lie as (k, n) have lanes along the columns; those that
// lie as (n, k) keep IREE's configuration, and those whose columns no tile divides.

// RUN: attn-compile %s --iree-hal-target-device=cuda --iree-cuda-target=sm_90 --compile-to=executable-configurations --attn-report=%t.json | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.json
// WHY: its weights are no multiples of 64 x 64

// CHECK-LABEL: func.func @columns_dispatch_0
// CHECK: iree_linalg_ext.gather
// CHECK: lane_basis = {{\[\[}}1, 8, 4], [0, 1, 2]], partial_reduction = [0, 0, 64], subgroup_basis = {{\[\[}}1, 1, 4], [0, 1, 2]], thread = [0, 8, 4], workgroup = [1, 64, 0]
// CHECK-LABEL: func.func @odd_dispatch_0
// CHECK-NOT: lane_basis = {{\[\[}}1, 8, 4]
func.func @columns(%w: tensor<8x256x128xf16>, %at: tensor<2xi64>, %x: tensor<2x1x256xf16>) -> tensor<2x1x128xf32> {
  %c = arith.constant 0.0 : f32
  %s = tensor.empty() : tensor<2x256x128xf16>
  %g = iree_linalg_ext.gather dimension_map = [0] ins(%w, %at : tensor<8x256x128xf16>, tensor<2xi64>) outs(%s : tensor<2x256x128xf16>) -> tensor<2x256x128xf16>
  %e = tensor.empty() : tensor<2x1x128xf32>
  %f = linalg.fill ins(%c : f32) outs(%e : tensor<2x1x128xf32>) -> tensor<2x1x128xf32>
  %p = linalg.batch_matmul ins(%x, %g : tensor<2x1x256xf16>, tensor<2x256x128xf16>) outs(%f : tensor<2x1x128xf32>) -> tensor<2x1x128xf32>
  return %p : tensor<2x1x128xf32>
}
func.func @odd(%w: tensor<8x256x96xf16>, %at: tensor<2xi64>, %x: tensor<2x1x256xf16>) -> tensor<2x1x96xf32> {
  %c = arith.constant 0.0 : f32
  %s = tensor.empty() : tensor<2x256x96xf16>
  %g = iree_linalg_ext.gather dimension_map = [0] ins(%w, %at : tensor<8x256x96xf16>, tensor<2xi64>) outs(%s : tensor<2x256x96xf16>) -> tensor<2x256x96xf16>
  %e = tensor.empty() : tensor<2x1x96xf32>
  %f = linalg.fill ins(%c : f32) outs(%e : tensor<2x1x96xf32>) -> tensor<2x1x96xf32>
  %p = linalg.batch_matmul ins(%x, %g : tensor<2x1x256xf16>, tensor<2x256x96xf16>) outs(%f : tensor<2x1x96xf32>) -> tensor<2x1x96xf32>
  return %p : tensor<2x1x96xf32>
}
