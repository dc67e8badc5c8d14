// Head dims without a kernel get zeros on a GPU where wider ones have one; those that have
// one, decode and types without a kernel stay, and so does all on a CPU.

// RUN: attn-opt %s --attn-pad-heads=target=sm_80 --report=%t.json | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.json
// RUN: attn-opt %s --attn-pad-heads=target=llvm-cpu > %t.0 && attn-opt %s > %t.1 && diff %t.0 %t.1

// WHY: head dims 72 and 72 are padded with zeros to 80 and 80, which have a kernel
// WHY: head dims 64 and 40 are padded with zeros to 64 and 64, which have a kernel
// WHY: head dims 72 and 72 are padded with zeros to 80 and 72, which have a kernel
// WHY-NOT: are padded

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#mask = affine_map<(b, m, n, k1, k2) -> (m, k2)>
#rows = affine_map<(b, m, n, k1, k2) -> (b, m)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK-LABEL: func.func @both(
// CHECK: %[[PIECES:.+]] = tensor.expand_shape %arg0 {{.*}} into tensor<32x512x9x8xf16>
// CHECK: linalg.generic {{.*}} outs(%{{.+}} : tensor<32x512x10x8xf16>)
// CHECK: %[[INSIDE:.+]] = arith.cmpi ule, %{{.+}}, %c8
// CHECK: %[[X:.+]] = tensor.extract %[[PIECES]]
// CHECK: arith.select %[[INSIDE]], %[[X]], %cst
// CHECK: %[[Q:.+]] = tensor.collapse_shape
// CHECK: tensor.extract
// CHECK: %[[K:.+]] = tensor.collapse_shape
// CHECK: tensor.extract
// CHECK: %[[V:.+]] = tensor.collapse_shape
// CHECK: %[[R:.+]] = iree_linalg_ext.attention {{.*}} ins(%[[Q]], %[[K]], %[[V]], %{{.+}} : {{.*}}) outs(%{{.+}} : tensor<32x512x80xf16>)
// CHECK: tensor.extract_slice %[[R]][0, 0, 0] [32, 512, 72] [1, 1, 1]
func.func @both(%q: tensor<32x512x72xf16>, %k: tensor<32x512x72xf16>, %v: tensor<32x512x72xf16>) -> tensor<32x512x72xf16> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<32x512x72xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<32x512x72xf16>, tensor<32x512x72xf16>, tensor<32x512x72xf16>, f32) outs(%out : tensor<32x512x72xf16>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<32x512x72xf16>
  return %r : tensor<32x512x72xf16>
}

// CHECK-LABEL: func.func @values_only(
// CHECK-NOT: tensor.pad %arg0
// CHECK: tensor.expand_shape %arg2 {{.*}} into tensor<32x512x5x8xf16>
// CHECK: %[[V:.+]] = tensor.collapse_shape %{{.+}} : tensor<32x512x8x8xf16> into tensor<32x512x64xf16>
// CHECK: iree_linalg_ext.attention {{.*}} ins(%arg0, %arg1, %[[V]], %{{.+}} :
func.func @values_only(%q: tensor<32x512x64xf16>, %k: tensor<32x512x64xf16>, %v: tensor<32x512x40xf16>) -> tensor<32x512x40xf16> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<32x512x40xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<32x512x64xf16>, tensor<32x512x64xf16>, tensor<32x512x40xf16>, f32) outs(%out : tensor<32x512x40xf16>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<32x512x40xf16>
  return %r : tensor<32x512x40xf16>
}

// CHECK-LABEL: func.func @has_one(
// CHECK-NOT: linalg.generic
// CHECK-NOT: tensor.pad
func.func @has_one(%q: tensor<32x512x96xf16>, %k: tensor<32x512x96xf16>, %v: tensor<32x512x96xf16>) -> tensor<32x512x96xf16> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<32x512x96xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<32x512x96xf16>, tensor<32x512x96xf16>, tensor<32x512x96xf16>, f32) outs(%out : tensor<32x512x96xf16>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<32x512x96xf16>
  return %r : tensor<32x512x96xf16>
}

// CHECK-LABEL: func.func @decode(
// CHECK-NOT: linalg.generic
// CHECK-NOT: tensor.pad
func.func @decode(%q: tensor<32x4x72xf16>, %k: tensor<32x512x72xf16>, %v: tensor<32x512x72xf16>) -> tensor<32x4x72xf16> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<32x4x72xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<32x4x72xf16>, tensor<32x512x72xf16>, tensor<32x512x72xf16>, f32) outs(%out : tensor<32x4x72xf16>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<32x4x72xf16>
  return %r : tensor<32x4x72xf16>
}

// CHECK-LABEL: func.func @f32(
// CHECK-COUNT-2: tensor.collapse_shape %{{.+}} : tensor<32x512x20x4xf32> into tensor<32x512x80xf32>
func.func @f32(%q: tensor<32x512x72xf32>, %k: tensor<32x512x72xf32>, %v: tensor<32x512x72xf32>) -> tensor<32x512x72xf32> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<32x512x72xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<32x512x72xf32>, tensor<32x512x72xf32>, tensor<32x512x72xf32>, f32) outs(%out : tensor<32x512x72xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<32x512x72xf32>
  return %r : tensor<32x512x72xf32>
}

// CHECK-LABEL: func.func @mixed(
// CHECK-NOT: linalg.generic
// CHECK-NOT: tensor.pad
func.func @mixed(%q: tensor<32x512x72xf32>, %k: tensor<32x512x72xf16>, %v: tensor<32x512x72xf16>) -> tensor<32x512x72xf32> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<32x512x72xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<32x512x72xf32>, tensor<32x512x72xf16>, tensor<32x512x72xf16>, f32) outs(%out : tensor<32x512x72xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<32x512x72xf32>
  return %r : tensor<32x512x72xf32>
}

// CHECK-LABEL: func.func @too_wide(
// CHECK-NOT: linalg.generic
// CHECK-NOT: tensor.pad
func.func @too_wide(%q: tensor<32x512x1500xf16>, %k: tensor<32x512x1500xf16>, %v: tensor<32x512x1500xf16>) -> tensor<32x512x1500xf16> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<32x512x1500xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<32x512x1500xf16>, tensor<32x512x1500xf16>, tensor<32x512x1500xf16>, f32) outs(%out : tensor<32x512x1500xf16>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<32x512x1500xf16>
  return %r : tensor<32x512x1500xf16>
}
