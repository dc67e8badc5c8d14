// A product with the weights of all experts, which importers transpose and join, reads them as they lie;
// so does one with weights that are taken by index. Run twice the pass adds nothing.

// RUN: attn-opt %s --attn-split-products --split-input-file --report=%t.json | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.json
// RUN: attn-opt %s --attn-split-products --split-input-file > %t.1 && attn-opt %s --attn-split-products --attn-split-products --split-input-file > %t.2 && diff %t.1 %t.2
// WHY-COUNT-3: reads its weights in front of their transpose, one loop a joined dim
// WHY-COUNT-2: joins dims in front of a transpose, where they lie side by side
// WHY-NOT: {{reads its weights|joins dims}}

// As `einsum("td,edh->teh", tokens, weights)` is imported: what is behind it has the split shape, too.
// CHECK-LABEL: func.func @all(
// CHECK-SAME: %[[X:.*]]: tensor<16x32xf16>, %[[W:.*]]: tensor<4x32x64xf16>
// CHECK-NOT: linalg.transpose
// CHECK: %[[P:.*]] = linalg.generic {indexing_maps = [#[[X_MAP:.*]], #[[W_MAP:.*]], #[[OUT:.*]]], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%[[X]], %[[W]] : tensor<16x32xf16>, tensor<4x32x64xf16>) outs(%{{.*}} : tensor<16x4x64xf32>)
// CHECK: %[[R:.*]] = linalg.generic {{.*}} ins(%[[P]] : tensor<16x4x64xf32>) outs(%{{.*}} : tensor<16x4x64xf16>)
// CHECK: return %[[R]]
func.func @all(%x: tensor<16x32xf16>, %w: tensor<4x32x64xf16>) -> tensor<16x4x64xf16> {
  %c = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<32x4x64xf16>
  %t = linalg.transpose ins(%w : tensor<4x32x64xf16>) outs(%e : tensor<32x4x64xf16>) permutation = [1, 0, 2]
  %j = tensor.collapse_shape %t [[0], [1, 2]] : tensor<32x4x64xf16> into tensor<32x256xf16>
  %g = tensor.empty() : tensor<16x256xf32>
  %f = linalg.fill ins(%c : f32) outs(%g : tensor<16x256xf32>) -> tensor<16x256xf32>
  %p = linalg.matmul ins(%x, %j : tensor<16x32xf16>, tensor<32x256xf16>) outs(%f : tensor<16x256xf32>) -> tensor<16x256xf32>
  %h = tensor.empty() : tensor<16x256xf16>
  %n = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]} ins(%p : tensor<16x256xf32>) outs(%h : tensor<16x256xf16>) {
  ^bb0(%a: f32, %b: f16):
    %s = arith.truncf %a : f32 to f16
    linalg.yield %s : f16
  } -> tensor<16x256xf16>
  %r = tensor.expand_shape %n [[0], [1, 2]] output_shape [16, 4, 64] : tensor<16x256xf16> into tensor<16x4x64xf16>
  return %r : tensor<16x4x64xf16>
}

// -----

// Others read the product as it was.
// CHECK-LABEL: func.func @joined(
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<16x4x64xf32>)
// CHECK: tensor.collapse_shape %{{.*}} {{\[\[}}0], [1, 2]] : tensor<16x4x64xf32> into tensor<16x256xf32>
func.func @joined(%x: tensor<16x32xf32>, %w: tensor<4x32x64xf32>, %f: tensor<16x256xf32>) -> tensor<16x256xf32> {
  %e = tensor.empty() : tensor<32x4x64xf32>
  %t = linalg.transpose ins(%w : tensor<4x32x64xf32>) outs(%e : tensor<32x4x64xf32>) permutation = [1, 0, 2]
  %j = tensor.collapse_shape %t [[0], [1, 2]] : tensor<32x4x64xf32> into tensor<32x256xf32>
  %p = linalg.matmul ins(%x, %j : tensor<16x32xf32>, tensor<32x256xf32>) outs(%f : tensor<16x256xf32>) -> tensor<16x256xf32>
  return %p : tensor<16x256xf32>
}

// -----

// Two experts of each token: dims that are joined as they lie are split, for what is taken by index.
// CHECK-LABEL: func.func @taken(
// CHECK: %[[TAKEN:.*]] = linalg.generic
// CHECK: tensor.extract
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %[[TAKEN]] : tensor<3x32xf32>, tensor<3x2x64x32xf32>)
func.func @taken(%x: tensor<3x1x32xf32>, %w: tensor<4x64x32xf32>, %at: tensor<3x2xi64>, %f: tensor<3x1x128xf32>) -> tensor<3x1x128xf32> {
  %e = tensor.empty() : tensor<3x2x64x32xf32>
  %g = linalg.generic {indexing_maps = [affine_map<(a, b, c, d) -> (a, b)>, affine_map<(a, b, c, d) -> (a, b, c, d)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%at : tensor<3x2xi64>) outs(%e : tensor<3x2x64x32xf32>) {
  ^bb0(%i: i64, %o: f32):
    %a = arith.index_cast %i : i64 to index
    %b = linalg.index 2 : index
    %c = linalg.index 3 : index
    %v = tensor.extract %w[%a, %b, %c] : tensor<4x64x32xf32>
    linalg.yield %v : f32
  } -> tensor<3x2x64x32xf32>
  %j = tensor.collapse_shape %g [[0], [1, 2], [3]] : tensor<3x2x64x32xf32> into tensor<3x128x32xf32>
  %s = tensor.empty() : tensor<3x32x128xf32>
  %t = linalg.transpose ins(%j : tensor<3x128x32xf32>) outs(%s : tensor<3x32x128xf32>) permutation = [0, 2, 1]
  %p = linalg.batch_matmul ins(%x, %t : tensor<3x1x32xf32>, tensor<3x32x128xf32>) outs(%f : tensor<3x1x128xf32>) -> tensor<3x1x128xf32>
  return %p : tensor<3x1x128xf32>
}

// -----

// Columns that are joined as they lie, and a depth of two dims, stay.
// CHECK-LABEL: func.func @stays(
// CHECK: linalg.matmul
// CHECK: linalg.matmul
func.func @stays(%x: tensor<16x32xf32>, %w: tensor<32x4x64xf32>, %y: tensor<16x256xf32>, %v: tensor<64x32x4xf32>, %f: tensor<16x256xf32>, %g: tensor<16x32xf32>) -> (tensor<16x256xf32>, tensor<16x32xf32>) {
  %j = tensor.collapse_shape %w [[0], [1, 2]] : tensor<32x4x64xf32> into tensor<32x256xf32>
  %p = linalg.matmul ins(%x, %j : tensor<16x32xf32>, tensor<32x256xf32>) outs(%f : tensor<16x256xf32>) -> tensor<16x256xf32>
  %e = tensor.empty() : tensor<4x64x32xf32>
  %t = linalg.transpose ins(%v : tensor<64x32x4xf32>) outs(%e : tensor<4x64x32xf32>) permutation = [2, 0, 1]
  %k = tensor.collapse_shape %t [[0, 1], [2]] : tensor<4x64x32xf32> into tensor<256x32xf32>
  %q = linalg.matmul ins(%y, %k : tensor<16x256xf32>, tensor<256x32xf32>) outs(%g : tensor<16x32xf32>) -> tensor<16x32xf32>
  return %p, %q : tensor<16x256xf32>, tensor<16x32xf32>
}

// -----

// Dims that lie side by side are joined there, columns as well as the depth: what is left is the transpose of a
// linear layer.
// CHECK-LABEL: func.func @beside(
// CHECK-SAME: %[[W:[a-z0-9]+]]: tensor<4x64x32xf16>, %[[V:[a-z0-9]+]]: tensor<32x1x4x64xf16>
// CHECK-DAG: %[[J:.*]] = tensor.collapse_shape %[[W]] {{\[\[}}0, 1], [2]] : tensor<4x64x32xf16> into tensor<256x32xf16>
// CHECK-DAG: %[[T:.*]] = linalg.transpose ins(%[[J]] : {{.*}} permutation = [1, 0]
// CHECK: linalg.matmul ins(%{{.*}}, %[[T]] : tensor<16x32xf16>, tensor<32x256xf16>)
// CHECK: %[[K:.*]] = tensor.collapse_shape {{.*}} into tensor<32x256xf16>
// CHECK: %[[U:.*]] = linalg.transpose ins(%[[K]] : {{.*}} permutation = [1, 0]
// CHECK: linalg.matmul ins(%{{.*}}, %[[U]] : tensor<16x256xf16>, tensor<256x32xf16>)
func.func @beside(%x: tensor<16x32xf16>, %w: tensor<4x64x32xf16>, %v: tensor<32x1x4x64xf16>, %y: tensor<16x256xf16>, %f: tensor<16x256xf32>, %g: tensor<16x32xf32>) -> (tensor<16x256xf32>, tensor<16x32xf32>) {
  %e = tensor.empty() : tensor<32x4x64xf16>
  %t = linalg.transpose ins(%w : tensor<4x64x32xf16>) outs(%e : tensor<32x4x64xf16>) permutation = [2, 0, 1]
  %j = tensor.collapse_shape %t [[0], [1, 2]] : tensor<32x4x64xf16> into tensor<32x256xf16>
  %p = linalg.matmul ins(%x, %j : tensor<16x32xf16>, tensor<32x256xf16>) outs(%f : tensor<16x256xf32>) -> tensor<16x256xf32>
  %d = tensor.empty() : tensor<1x4x64x32xf16>
  %u = linalg.transpose ins(%v : tensor<32x1x4x64xf16>) outs(%d : tensor<1x4x64x32xf16>) permutation = [1, 2, 3, 0]
  %k = tensor.collapse_shape %u [[0, 1, 2], [3]] : tensor<1x4x64x32xf16> into tensor<256x32xf16>
  %q = linalg.matmul ins(%y, %k : tensor<16x256xf16>, tensor<256x32xf16>) outs(%g : tensor<16x32xf32>) -> tensor<16x32xf32>
  return %p, %q : tensor<16x256xf32>, tensor<16x32xf32>
}
