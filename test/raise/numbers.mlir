// Attention that is written out at one location, as the layers of a loop, is told apart.

// RUN: attn-opt %s --attn-raise --attn-fold-transpose --report=%t.json | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.json

// CHECK-COUNT-2: iree_linalg_ext.attention
// WHY-DAG: "number": 1
// WHY-DAG: "number": 2

#layer = loc("model.py":7:3)
func.func @layers(%x: tensor<2x6x8xf32>, %k: tensor<2x8x5xf32>, %v: tensor<2x5x8xf32>) -> tensor<2x6x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x6x5xf32>
  %eo = tensor.empty() : tensor<2x6x8xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%eo : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  %s = linalg.batch_matmul ins(%x, %k : tensor<2x6x8xf32>, tensor<2x8x5xf32>) outs(%s0 : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %w = linalg.softmax dimension(2) ins(%s : tensor<2x6x5xf32>) outs(%e : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %y = linalg.batch_matmul ins(%w, %v : tensor<2x6x5xf32>, tensor<2x5x8xf32>) outs(%o0 : tensor<2x6x8xf32>) -> tensor<2x6x8xf32> loc(#layer)
  %t = linalg.batch_matmul ins(%y, %k : tensor<2x6x8xf32>, tensor<2x8x5xf32>) outs(%s0 : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %u = linalg.softmax dimension(2) ins(%t : tensor<2x6x5xf32>) outs(%e : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %z = linalg.batch_matmul ins(%u, %v : tensor<2x6x5xf32>, tensor<2x5x8xf32>) outs(%o0 : tensor<2x6x8xf32>) -> tensor<2x6x8xf32> loc(#layer)
  return %z : tensor<2x6x8xf32>
}
