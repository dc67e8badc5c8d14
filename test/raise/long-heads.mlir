// Attention over channels, whose head dim is a sequence, stays products around a softmax of few
// scores on NVIDIA GPUs; of heads that kernels have it is an op.

// RUN: attn-opt %s --attn-raise --target=sm_90 --split-input-file --remarks 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt

// CHECK-LABEL: func.func @channels
// CHECK-NOT: iree_linalg_ext.attention
// CHECK: return
// WHY: stay as they are: a head dim of 196 is long beside 48 keys: products around a softmax of so few scores are faster
func.func @channels(%q: tensor<4x48x196xf16>, %k: tensor<4x196x48xf16>, %v: tensor<4x48x196xf16>) -> tensor<4x48x196xf16> {
  %zero = arith.constant 0.0 : f16
  %e = tensor.empty() : tensor<4x48x48xf16>
  %s0 = linalg.fill ins(%zero : f16) outs(%e : tensor<4x48x48xf16>) -> tensor<4x48x48xf16>
  %s = linalg.batch_matmul ins(%q, %k : tensor<4x48x196xf16>, tensor<4x196x48xf16>) outs(%s0 : tensor<4x48x48xf16>) -> tensor<4x48x48xf16>
  %w = linalg.softmax dimension(2) ins(%s : tensor<4x48x48xf16>) outs(%e : tensor<4x48x48xf16>) -> tensor<4x48x48xf16>
  %eo = tensor.empty() : tensor<4x48x196xf16>
  %o0 = linalg.fill ins(%zero : f16) outs(%eo : tensor<4x48x196xf16>) -> tensor<4x48x196xf16>
  %r = linalg.batch_matmul ins(%w, %v : tensor<4x48x48xf16>, tensor<4x48x196xf16>) outs(%o0 : tensor<4x48x196xf16>) -> tensor<4x48x196xf16>
  return %r : tensor<4x48x196xf16>
}

// -----

// CHECK-LABEL: func.func @few_keys
// CHECK: iree_linalg_ext.attention
func.func @few_keys(%q: tensor<4x16x128xf16>, %k: tensor<4x128x16xf16>, %v: tensor<4x16x128xf16>) -> tensor<4x16x128xf16> {
  %zero = arith.constant 0.0 : f16
  %e = tensor.empty() : tensor<4x16x16xf16>
  %s0 = linalg.fill ins(%zero : f16) outs(%e : tensor<4x16x16xf16>) -> tensor<4x16x16xf16>
  %s = linalg.batch_matmul ins(%q, %k : tensor<4x16x128xf16>, tensor<4x128x16xf16>) outs(%s0 : tensor<4x16x16xf16>) -> tensor<4x16x16xf16>
  %w = linalg.softmax dimension(2) ins(%s : tensor<4x16x16xf16>) outs(%e : tensor<4x16x16xf16>) -> tensor<4x16x16xf16>
  %eo = tensor.empty() : tensor<4x16x128xf16>
  %o0 = linalg.fill ins(%zero : f16) outs(%eo : tensor<4x16x128xf16>) -> tensor<4x16x128xf16>
  %r = linalg.batch_matmul ins(%w, %v : tensor<4x16x16xf16>, tensor<4x16x128xf16>) outs(%o0 : tensor<4x16x128xf16>) -> tensor<4x16x128xf16>
  return %r : tensor<4x16x128xf16>
}
