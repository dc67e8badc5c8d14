// A pass's options may be written in any of these ways.

// RUN: attn-opt %s --attn-propagate-layout=mode=always,operands=v > %t.commas
// RUN: attn-opt %s "--attn-propagate-layout=mode=always operands=v" > %t.spaces
// RUN: attn-opt %s "--attn-propagate-layout={mode=always operands=v}" > %t.braces
// RUN: attn-opt %s "--attn-propagate-layout{operands={v} mode=always}" > %t.list
// RUN: attn-opt %s -p 'attn-propagate-layout{mode=always operands=v}' > %t.bare
// RUN: attn-opt %s --pass-pipeline='builtin.module(attn-propagate-layout{mode=always,operands=v})' > %t.anchored
// RUN: attn-opt < %s - --attn-propagate-layout=mode=always,operands=v -o %t.output
// RUN: diff %t.commas %t.spaces
// RUN: diff %t.commas %t.braces
// RUN: diff %t.commas %t.list
// RUN: diff %t.commas %t.bare
// RUN: diff %t.commas %t.anchored
// RUN: diff %t.commas %t.output
// RUN: FileCheck %s < %t.commas
// RUN: attn-opt %s --attn-propagate-layout=mode=never,operands=v | FileCheck %s --check-prefix=NEVER

#q = affine_map<(m, n, k1, k2) -> (m, k1)>
#k = affine_map<(m, n, k1, k2) -> (k2, k1)>
#v = affine_map<(m, n, k1, k2) -> (k2, n)>
#s = affine_map<(m, n, k1, k2) -> ()>
#o = affine_map<(m, n, k1, k2) -> (m, n)>

// CHECK-LABEL: @projection
// CHECK: linalg.matmul
// CHECK-SAME: -> tensor<8x32xf32>
// NEVER-LABEL: @projection
// NEVER: linalg.matmul
// NEVER-SAME: -> tensor<32x8xf32>
func.func @projection(%q: tensor<16x8xf32>, %k: tensor<32x8xf32>, %x: tensor<32x24xf32>, %w: tensor<24x8xf32>) -> tensor<16x8xf32> {
  %scale = arith.constant 0.25 : f32
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<32x8xf32>
  %init = linalg.fill ins(%zero : f32) outs(%e : tensor<32x8xf32>) -> tensor<32x8xf32>
  %v = linalg.matmul ins(%x, %w : tensor<32x24xf32>, tensor<24x8xf32>) outs(%init : tensor<32x8xf32>) -> tensor<32x8xf32>
  %out = tensor.empty() : tensor<16x8xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<16x8xf32>, tensor<32x8xf32>, tensor<32x8xf32>, f32) outs(%out : tensor<16x8xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<16x8xf32>
  return %r : tensor<16x8xf32>
}
