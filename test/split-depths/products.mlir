// An f32 product of few tiles and much depth is a sum of products of parts of its depth. Many tiles,
// little depth, less than five rows, unknown ones, sums that go on, other types and targets stay.

// RUN: attn-opt %s --attn-split-depths=target=sm_90 --remarks 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt
// RUN: attn-opt %s --attn-split-depths=target=llvm-cpu > %t.1 && attn-opt %s > %t.2 && diff %t.1 %t.2

// WHY: contraction at {{.*}}: is the sum of products of 8 parts of its depth
// WHY: contraction at {{.*}}: is the sum of products of 48 parts of its depth
// WHY-NOT: parts

// CHECK-DAG: #[[A:.+]] = affine_map<(d0, d1, d2, d3) -> (d1, d0, d3)>
// CHECK-DAG: #[[B:.+]] = affine_map<(d0, d1, d2, d3) -> (d2, d0, d3)>
// CHECK-DAG: #[[C:.+]] = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>

#left = affine_map<(m, n, k) -> (m, k)>
#right = affine_map<(m, n, k) -> (n, k)>
#result = affine_map<(m, n, k) -> (m, n)>
module {

// CHECK-LABEL: func.func @deep
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<128x3072xf32>, %[[W:[a-z0-9]+]]: tensor<768x3072xf32>
// CHECK: %[[XP:.*]] = tensor.expand_shape %[[X]] {{.*}} into tensor<128x8x384xf32>
// CHECK: %[[WP:.*]] = tensor.expand_shape %[[W]] {{.*}} into tensor<768x8x384xf32>
// CHECK: %[[P:.*]] = linalg.contract indexing_maps = [#[[A]], #[[B]], #[[C]]] ins(%[[XP]], %[[WP]] {{.*}} -> tensor<8x128x768xf32>
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "reduction"]} ins(%[[P]]
func.func @deep(%x: tensor<128x3072xf32>, %w: tensor<768x3072xf32>) -> tensor<128x768xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<128x768xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<128x768xf32>) -> tensor<128x768xf32>
  %p = linalg.contract indexing_maps = [#left, #right, #result] ins(%x, %w : tensor<128x3072xf32>, tensor<768x3072xf32>) outs(%f : tensor<128x768xf32>) -> tensor<128x768xf32>
  return %p : tensor<128x768xf32>
}

// CHECK-LABEL: func.func @few
// CHECK: linalg.contract {{.*}} -> tensor<48x16x64xf32>
func.func @few(%x: tensor<16x12288xf32>, %w: tensor<64x12288xf32>) -> tensor<16x64xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<16x64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<16x64xf32>) -> tensor<16x64xf32>
  %p = linalg.contract indexing_maps = [#left, #right, #result] ins(%x, %w : tensor<16x12288xf32>, tensor<64x12288xf32>) outs(%f : tensor<16x64xf32>) -> tensor<16x64xf32>
  return %p : tensor<16x64xf32>
}

// CHECK-LABEL: func.func @left
// CHECK-NOT: tensor.expand_shape
// CHECK: return
func.func @left(%x: tensor<2048x4096xf32>, %v: tensor<4096x4096xf32>, %y: tensor<128x768xf32>, %few: tensor<16x3072xf32>, %w: tensor<768x3072xf32>, %u: tensor<768x768xf32>, %open: tensor<?x3072xf32>, %o: tensor<?x768xf32>, %on: tensor<16x768xf32>, %h: tensor<128x3072xf16>, %k: tensor<768x3072xf16>, %four: tensor<4x3072xf32>)
    -> (tensor<2048x4096xf32>, tensor<128x768xf32>, tensor<16x768xf32>, tensor<?x768xf32>, tensor<128x768xf32>, tensor<4x768xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2048x4096xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2048x4096xf32>) -> tensor<2048x4096xf32>
  %many = linalg.contract indexing_maps = [#left, #right, #result] ins(%x, %v : tensor<2048x4096xf32>, tensor<4096x4096xf32>) outs(%f : tensor<2048x4096xf32>) -> tensor<2048x4096xf32>
  %g = tensor.empty() : tensor<128x768xf32>
  %z = linalg.fill ins(%zero : f32) outs(%g : tensor<128x768xf32>) -> tensor<128x768xf32>
  %flat = linalg.contract indexing_maps = [#left, #right, #result] ins(%y, %u : tensor<128x768xf32>, tensor<768x768xf32>) outs(%z : tensor<128x768xf32>) -> tensor<128x768xf32>
  %rows = linalg.contract indexing_maps = [#left, #right, #result] ins(%few, %w : tensor<16x3072xf32>, tensor<768x3072xf32>) outs(%on : tensor<16x768xf32>) -> tensor<16x768xf32>
  %unknown = linalg.contract indexing_maps = [#left, #right, #result] ins(%open, %w : tensor<?x3072xf32>, tensor<768x3072xf32>) outs(%o : tensor<?x768xf32>) -> tensor<?x768xf32>
  %half = linalg.contract indexing_maps = [#left, #right, #result] ins(%h, %k : tensor<128x3072xf16>, tensor<768x3072xf16>) outs(%z : tensor<128x768xf32>) -> tensor<128x768xf32>
  %i = tensor.empty() : tensor<4x768xf32>
  %y4 = linalg.fill ins(%zero : f32) outs(%i : tensor<4x768xf32>) -> tensor<4x768xf32>
  %thin = linalg.contract indexing_maps = [#left, #right, #result] ins(%four, %w : tensor<4x3072xf32>, tensor<768x3072xf32>) outs(%y4 : tensor<4x768xf32>) -> tensor<4x768xf32>
  return %many, %flat, %rows, %unknown, %half, %thin : tensor<2048x4096xf32>, tensor<128x768xf32>, tensor<16x768xf32>, tensor<?x768xf32>, tensor<128x768xf32>, tensor<4x768xf32>
}
}
