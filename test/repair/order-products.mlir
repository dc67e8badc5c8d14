// Products that sum over several dims: in registers those of size one are taken from both factors. IREE
// takes them from one, and sums over another of its dims. Loops of a product over one dim that stand in
// another order than its result's dims are put in that. Another product is left for IREE to lower.

// RUN: attn-compile %s --iree-hal-target-device=cuda --compile-to=executable-configurations --attn-pipeline=attn-short-rows,attn-order-products --iree-cuda-target=sm_80 --attn-summary 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt
// WHY: kernel crossed_dispatch_0{{.*}}: 1 summed dim(s) of size one are taken from products first
// WHY: kernel turned_dispatch_0{{.*}}: 1 product(s) have their loops put in the order of the result's dims
// WHY-NOT: kernel straight

// CHECK-LABEL: func.func @crossed_dispatch_0
// CHECK: vector.contract {{.*}}iterator_types = [{{("parallel", )+}}"reduction"]
// CHECK-LABEL: func.func @turned_dispatch_0
// CHECK: vector.contract
// CHECK-LABEL: func.func @straight_dispatch_0
// CHECK-NOT: vector.contract
// CHECK: linalg.generic

func.func @crossed(%x: tensor<6x4x8x16xf32>, %y: tensor<32x8x6xf32>) -> tensor<4x32x16xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x32x16xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<4x32x16xf32>) -> tensor<4x32x16xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(a, b, c, d, e) -> (e, a, d, c)>, affine_map<(a, b, c, d, e) -> (b, d, e)>, affine_map<(a, b, c, d, e) -> (a, b, c)>], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%x, %y : tensor<6x4x8x16xf32>, tensor<32x8x6xf32>) outs(%z : tensor<4x32x16xf32>) {
  ^bb0(%p: f32, %q: f32, %s: f32):
    %m = arith.mulf %p, %q : f32
    %t = arith.addf %s, %m : f32
    linalg.yield %t : f32
  } -> tensor<4x32x16xf32>
  return %r : tensor<4x32x16xf32>
}

func.func @turned(%x: tensor<2x8x4x64xf32>, %y: tensor<8x64xf32>) -> tensor<8x4x2xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x4x2xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<8x4x2xf32>) -> tensor<8x4x2xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(a, b, c, d) -> (a, b, c, d)>, affine_map<(a, b, c, d) -> (b, d)>, affine_map<(a, b, c, d) -> (b, c, a)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%x, %y : tensor<2x8x4x64xf32>, tensor<8x64xf32>) outs(%z : tensor<8x4x2xf32>) {
  ^bb0(%p: f32, %q: f32, %s: f32):
    %m = arith.mulf %p, %q : f32
    %t = arith.addf %s, %m : f32
    linalg.yield %t : f32
  } -> tensor<8x4x2xf32>
  return %r : tensor<8x4x2xf32>
}

func.func @straight(%x: tensor<6x16xf32>, %y: tensor<32x6xf32>) -> tensor<32x16xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<32x16xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<32x16xf32>) -> tensor<32x16xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(a, b, c) -> (c, b)>, affine_map<(a, b, c) -> (a, c)>, affine_map<(a, b, c) -> (a, b)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %y : tensor<6x16xf32>, tensor<32x6xf32>) outs(%z : tensor<32x16xf32>) {
  ^bb0(%p: f32, %q: f32, %s: f32):
    %m = arith.mulf %p, %q : f32
    %t = arith.addf %s, %m : f32
    linalg.yield %t : f32
  } -> tensor<32x16xf32>
  return %r : tensor<32x16xf32>
}
