// Attention that no pass takes stays as it is, with one note, and the rest of the module goes on: an
// elementwise score (no k1 and no n), a mask that names k1, memrefs.

// RUN: attn-opt %s --split-input-file --attn-propagate-layout=mode=always --attn-fully-masked-rows --attn-split-k=splits=2 --attn-widen --attn-drop-unit-dims --attn-configure --attn-share-masks --attn-join-dims --attn-mask-positions --attn-natural-scores --remarks 2> %t.txt -o %t.mlir
// RUN: FileCheck %s < %t.mlir
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt
// RUN: attn-compile %s %cpu --split-input-file --compile-to=executable-configurations --attn-summary -o %t.cpu.mlir 2>&1 | FileCheck %s --check-prefix=WHY

// WHY: attention at {{.*}}:[[# @LINE + 22]]:10 is left as it is: iree_linalg_ext.online_attention: needs a dim shared by query and key (k1)
// WHY-NOT: keeps IREE's own
// WHY: attention at {{.*}}:[[# @LINE + 39]]:8 is left as it is: iree_linalg_ext.attention: its mask's map names a dim that scores do not have (k1 or n)
// WHY-NOT: keeps IREE's own
// WHY: attention at {{.*}}:[[# @LINE + 54]]:3 is left as it is: iree_linalg_ext.attention: works on tensors only, not on memref<2x16x8xf32>
// WHY-NOT: keeps IREE's own

// CHECK-LABEL: func.func @shared
// CHECK: iree_linalg_ext.online_attention
// CHECK-LABEL: func.func @masked
// CHECK: iree_linalg_ext.attention
// CHECK-LABEL: func.func @buffers
// CHECK: iree_linalg_ext.attention {{.*}} ins({{.*}} : memref<2x16x8xf32>,

#q = affine_map<(b, m, k2, d) -> (b, m, d)>
#k = affine_map<(b, m, k2, d) -> (b, k2, d)>
#s = affine_map<(b, m, k2, d) -> ()>
#r = affine_map<(b, m, k2, d) -> (b, m)>
func.func @shared(%q: tensor<2x16x8xf32>, %k: tensor<2x24x8xf32>, %v: tensor<2x24x8xf32>,
                  %o: tensor<2x16x8xf32>, %max: tensor<2x16xf32>, %sum: tensor<2x16xf32>)
    -> (tensor<2x16x8xf32>, tensor<2x16xf32>, tensor<2x16xf32>) {
  %scale = arith.constant 0.25 : f32
  %r:3 = iree_linalg_ext.online_attention <indexing_maps = [#q, #k, #k, #s, #q, #r, #r]>
      ins(%q, %k, %v, %scale : tensor<2x16x8xf32>, tensor<2x24x8xf32>, tensor<2x24x8xf32>, f32)
      outs(%o, %max, %sum : tensor<2x16x8xf32>, tensor<2x16xf32>, tensor<2x16xf32>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x16x8xf32>, tensor<2x16xf32>, tensor<2x16xf32>
  return %r#0, %r#1, %r#2 : tensor<2x16x8xf32>, tensor<2x16xf32>, tensor<2x16xf32>
}

// -----

#q = affine_map<(m, n, k2, k1) -> (m, k1)>
#k = affine_map<(m, n, k2, k1) -> (k2, k1)>
#v = affine_map<(m, n, k2, k1) -> (k2, n)>
#s = affine_map<(m, n, k2, k1) -> ()>
#o = affine_map<(m, n, k2, k1) -> (m, n)>
func.func @masked(%q: tensor<16x8xf16>, %k: tensor<24x8xf16>, %v: tensor<24x32xf16>, %mask: tensor<24x8xi1>) -> tensor<16x32xf16> {
  %scale = arith.constant 1.0 : f16
  %e = tensor.empty() : tensor<16x32xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #k, #o]>
      ins(%q, %k, %v, %scale, %mask : tensor<16x8xf16>, tensor<24x8xf16>, tensor<24x32xf16>, f16, tensor<24x8xi1>) outs(%e : tensor<16x32xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<16x32xf16>
  return %r : tensor<16x32xf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
func.func @buffers(%q: memref<2x16x8xf32>, %k: memref<2x24x8xf32>, %v: memref<2x24x4xf32>, %o: memref<2x16x4xf32>) {
  %scale = arith.constant 1.0 : f32
  iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : memref<2x16x8xf32>, memref<2x24x8xf32>, memref<2x24x4xf32>, f32) outs(%o : memref<2x16x4xf32>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  }
  return
}
