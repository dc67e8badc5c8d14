// Products in registers whose factors have the dims that are summed over in different orders get
// one order: IREE multiplies numbers by their places. Factors that agree stay.

// RUN: attn-compile %s --iree-hal-target-device=cuda --compile-to=executable-configurations --attn-pipeline=attn-hardware-exp2 --iree-cuda-target=sm_80 --attn-summary 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt
// RUN: attn-compile %s --iree-hal-target-device=cuda --compile-to=executable-configurations --attn-pipeline=attn-order-products --iree-cuda-target=sm_80 --attn-summary 2> %t.txt | FileCheck %s --check-prefix=ALONE
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt
// WHY: kernel turned_dispatch_0_attention{{.*}}: 1 product(s) have a factor transposed in registers: IREE 3.13 multiplies other numbers where summed dims stand in another order there
// WHY-NOT: a factor transposed

// CHECK-LABEL: func.func @turned_dispatch_0_attention
// CHECK: %[[E:.*]]:32 = vector.to_elements %{{.*}} : vector<1x1x2x4x{{[1x]*}}4x1xf32>
// CHECK: vector.from_elements %[[E]]#0, %[[E]]#1, %[[E]]#2, %[[E]]#3, %[[E]]#16,
// CHECK: vector.contract

#q = affine_map<(b, m, n, d, e, k) -> (b, m, d, e)>
#k = affine_map<(b, m, n, d, e, k) -> (b, k, e, d)>
#q_apart = affine_map<(b, m, n, d, e, k) -> (b, d, m, e)>
#k_apart = affine_map<(b, m, n, d, e, k) -> (b, d, k, e)>
#v = affine_map<(b, m, n, d, e, k) -> (b, k, n)>
#s = affine_map<(b, m, n, d, e, k) -> ()>
#o = affine_map<(b, m, n, d, e, k) -> (b, m, n)>
func.func @turned(%q: tensor<2x3x4x8xf32>, %k: tensor<2x8x8x4xf32>, %v: tensor<2x8x8xf32>) -> tensor<2x3x8xf32> {
  %scale = arith.constant 0.125 : f32
  %empty = tensor.empty() : tensor<2x3x8xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<2x3x4x8xf32>, tensor<2x8x8x4xf32>, tensor<2x8x8xf32>, f32) outs(%empty : tensor<2x3x8xf32>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x3x8xf32>
  return %r : tensor<2x3x8xf32>
}

// ALONE-LABEL: func.func @turned_dispatch_0_attention
// ALONE: vector.to_elements
// ALONE: vector.contract
// ALONE-LABEL: func.func @straight_dispatch_0_attention
// ALONE-NOT: = vector.from_elements
// ALONE: vector.contract

// CHECK-LABEL: func.func @straight_dispatch_0_attention
// CHECK-NOT: = vector.from_elements
// CHECK: vector.contract
func.func @straight(%q: tensor<2x4x3x8xf32>, %k: tensor<2x4x8x8xf32>, %v: tensor<2x8x8xf32>) -> tensor<2x3x8xf32> {
  %scale = arith.constant 0.125 : f32
  %empty = tensor.empty() : tensor<2x3x8xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q_apart, #k_apart, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<2x4x3x8xf32>, tensor<2x4x8x8xf32>, tensor<2x8x8xf32>, f32) outs(%empty : tensor<2x3x8xf32>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x3x8xf32>
  return %r : tensor<2x3x8xf32>
}
