// Passes run in the order of the command line, ours mixed with IREE's and MLIR's; plain
// func.func and util.func may stand in one file.

// RUN: attn-opt %s --attn-bubble-transpose-v --canonicalize=top-down=false --cse --mlir-print-ir-before-all --mlir-print-ir-after-all -o %t 2>&1 | FileCheck %s --check-prefix=ORDER
// RUN: FileCheck %s < %t
// RUN: attn-opt %s --cse --attn-fold-transpose --mlir-timing -o %t 2>&1 | FileCheck %s --check-prefix=TIME
// RUN: attn-opt %s -p 'builtin.module( attn-bubble-transpose-v , func.func(canonicalize , cse), util.func(iree-global-opt-propagate-linalg-transpose{enable-aggressive-propagation=true}) )' --mlir-print-ir-after-all -o %t 2>&1 | FileCheck %s --check-prefix=NESTED

// ORDER: IR Dump Before attn-bubble-transpose-v
// ORDER-NOT: linalg.transpose
// ORDER: IR Dump After attn-bubble-transpose-v
// ORDER: linalg.transpose
// ORDER: IR Dump Before canonicalize{top-down=false}
// ORDER: IR Dump After canonicalize{top-down=false}
// ORDER: IR Dump Before cse
// ORDER: IR Dump After cse

// TIME: attn-opt pass timing
// TIME-NEXT: {{[0-9.]+ +[0-9.]+%}}  cse
// TIME-NEXT: {{[0-9.]+ +[0-9.]+%}}  attn-fold-transpose
// TIME-NEXT: {{[0-9.]+ +}}100.0%  total

// NESTED: IR Dump After attn-bubble-transpose-v
// NESTED: IR Dump After func.func(canonicalize,cse)
// NESTED: IR Dump After util.func(iree-global-opt-propagate-linalg-transpose{enable-aggressive-propagation=true})

#q = affine_map<(m, n, k1, k2) -> (m, k1)>
#k = affine_map<(m, n, k1, k2) -> (k2, k1)>
#v = affine_map<(m, n, k1, k2) -> (k2, n)>
#s = affine_map<(m, n, k1, k2) -> ()>
#o = affine_map<(m, n, k1, k2) -> (m, n)>

// CHECK-LABEL: func.func @plain
// CHECK: linalg.transpose
// CHECK: iree_linalg_ext.attention
func.func @plain(%q: tensor<16x8xf32>, %k: tensor<32x8xf32>, %v: tensor<32x8xf32>) -> tensor<16x8xf32> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<16x8xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<16x8xf32>, tensor<32x8xf32>, tensor<32x8xf32>, f32) outs(%out : tensor<16x8xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<16x8xf32>
  return %r : tensor<16x8xf32>
}

// CHECK-LABEL: util.func public @utility
// CHECK: linalg.transpose
// CHECK: iree_linalg_ext.attention
util.func public @utility(%q: tensor<16x8xf32>, %k: tensor<32x8xf32>, %v: tensor<32x8xf32>) -> tensor<16x8xf32> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<16x8xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<16x8xf32>, tensor<32x8xf32>, tensor<32x8xf32>, f32) outs(%out : tensor<16x8xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<16x8xf32>
  util.return %r : tensor<16x8xf32>
}
