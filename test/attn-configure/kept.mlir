// RUN: attn-opt %s --attn-configure=target=llvm-cpu --split-input-file | FileCheck %s
// RUN: attn-opt %s --attn-configure=target=llvm-cpu --split-input-file --report=%t.json -o %t.mlir
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.json
// WHY: keeps IREE's own configuration: it has a lowering_config
// WHY: keeps IREE's own configuration: head dim 20 is not a multiple of 16
// WHY: keeps IREE's own configuration: only f32 was measured

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK-LABEL: func.func @configured(
// CHECK: lowering_config = "mine"
// CHECK-NOT: compilation_info
func.func @configured(%q: tensor<2x8x16xf32>, %k: tensor<2x32x16xf32>, %v: tensor<2x32x16xf32>) -> tensor<2x8x16xf32> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x8x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> {lowering_config = "mine"}
      ins(%q, %k, %v, %scale : tensor<2x8x16xf32>, tensor<2x32x16xf32>, tensor<2x32x16xf32>, f32) outs(%out : tensor<2x8x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x8x16xf32>
  return %r : tensor<2x8x16xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK-LABEL: func.func @narrow(
// CHECK-NOT: compilation_info
func.func @narrow(%q: tensor<2x8x20xf32>, %k: tensor<2x32x20xf32>, %v: tensor<2x32x20xf32>) -> tensor<2x8x20xf32> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x8x20xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x8x20xf32>, tensor<2x32x20xf32>, tensor<2x32x20xf32>, f32) outs(%out : tensor<2x8x20xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x8x20xf32>
  return %r : tensor<2x8x20xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK-LABEL: func.func @half(
// CHECK-NOT: compilation_info
func.func @half(%q: tensor<2x8x16xf16>, %k: tensor<2x32x16xf16>, %v: tensor<2x32x16xf16>) -> tensor<2x8x16xf16> {
  %scale = arith.constant 0.25 : f16
  %out = tensor.empty() : tensor<2x8x16xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x8x16xf16>, tensor<2x32x16xf16>, tensor<2x32x16xf16>, f16) outs(%out : tensor<2x8x16xf16>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x8x16xf16>
  return %r : tensor<2x8x16xf16>
}
