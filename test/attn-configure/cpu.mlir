// RUN: attn-opt %s --attn-configure=target=llvm-cpu --split-input-file | FileCheck %s
// RUN: attn-opt %s --attn-configure=target=llvm-cpu --split-input-file --remarks 2> %t.txt -o %t.mlir
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt
// RUN: attn-opt %s --attn-configure=source=none --split-input-file | FileCheck %s --check-prefix=NONE
// NONE-NOT: compilation_info

// All of V's head dim, and as many rows and keys as registers of 16 bytes hold; k1 is never tiled.

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// Sixty-four rows: four rows and eight keys at a time.
// CHECK: #[[CONFIG:.*]] = #iree_cpu.lowering_config<distribution = [1, 64, 32, 0, 0], vector_common_parallel = [1, 4, 32, 0, 0], vector_reduction = [0, 0, 0, 0, 8]>
// CHECK: #[[INFO:.*]] = #iree_codegen.compilation_info<lowering_config = #[[CONFIG]],
// CHECK-LABEL: func.func @prefill(
// CHECK: iree_linalg_ext.attention {{.*}}{compilation_info = #[[INFO]]}
func.func @prefill(%q: tensor<2x64x32xf32>, %k: tensor<2x32x32xf32>, %v: tensor<2x32x32xf32>) -> tensor<2x64x32xf32> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x64x32xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x64x32xf32>, tensor<2x32x32xf32>, tensor<2x32x32xf32>, f32) outs(%out : tensor<2x64x32xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x64x32xf32>
  return %r : tensor<2x64x32xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// A few rows: all of them and four keys at a time.
// CHECK: #[[CONFIG:.*]] = #iree_cpu.lowering_config<distribution = [1, 4, 64, 0, 0], vector_common_parallel = [1, 4, 64, 0, 0], vector_reduction = [0, 0, 0, 0, 4]>
// CHECK: #[[INFO:.*]] = #iree_codegen.compilation_info<lowering_config = #[[CONFIG]],
// CHECK-LABEL: func.func @decode(
// CHECK: iree_linalg_ext.attention {{.*}}{compilation_info = #[[INFO]]}
func.func @decode(%q: tensor<2x4x64xf32>, %k: tensor<2x32x64xf32>, %v: tensor<2x32x64xf32>) -> tensor<2x4x64xf32> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x4x64xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x4x64xf32>, tensor<2x32x64xf32>, tensor<2x32x64xf32>, f32) outs(%out : tensor<2x4x64xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x4x64xf32>
  return %r : tensor<2x4x64xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// Nine rows go 3 + 3 + 3, and 33 keys by threes; the types of the operands change nothing.
// CHECK: #[[CONFIG:.*]] = #iree_cpu.lowering_config<distribution = [1, 9, 64, 0, 0], vector_common_parallel = [1, 3, 64, 0, 0], vector_reduction = [0, 0, 0, 0, 3]>
// CHECK: #[[INFO:.*]] = #iree_codegen.compilation_info<lowering_config = #[[CONFIG]],
// CHECK-LABEL: func.func @odd(
// CHECK: iree_linalg_ext.attention {{.*}}{compilation_info = #[[INFO]]}
func.func @odd(%q: tensor<2x9x64xf16>, %k: tensor<2x33x64xf16>, %v: tensor<2x33x64xf16>) -> tensor<2x9x64xf16> {
  %scale = arith.constant 0.25 : f16
  %out = tensor.empty() : tensor<2x9x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x9x64xf16>, tensor<2x33x64xf16>, tensor<2x33x64xf16>, f16) outs(%out : tensor<2x9x64xf16>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x9x64xf16>
  return %r : tensor<2x9x64xf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// Sizes known only at run time: IREE masks the tails.
// CHECK: #[[CONFIG:.*]] = #iree_cpu.lowering_config<distribution = [1, 64, 32, 0, 0], vector_common_parallel = [1, 4, 32, 0, 0], vector_reduction = [0, 0, 0, 0, 8]>
// CHECK: #[[INFO:.*]] = #iree_codegen.compilation_info<lowering_config = #[[CONFIG]],
// CHECK-LABEL: func.func @unknown_sizes(
// CHECK: iree_linalg_ext.attention {{.*}}{compilation_info = #[[INFO]]}
func.func @unknown_sizes(%q: tensor<2x?x32xf32>, %k: tensor<2x?x32xf32>, %v: tensor<2x?x32xf32>) -> tensor<2x?x32xf32> {
  %scale = arith.constant 0.25 : f32
  %c1 = arith.constant 1 : index
  %m = tensor.dim %q, %c1 : tensor<2x?x32xf32>
  %out = tensor.empty(%m) : tensor<2x?x32xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x?x32xf32>, tensor<2x?x32xf32>, tensor<2x?x32xf32>, f32) outs(%out : tensor<2x?x32xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x?x32xf32>
  return %r : tensor<2x?x32xf32>
}

// -----

#q = affine_map<(b, m, n, d1, d2, k1, k2) -> (b, m, d1, d2)>
#k = affine_map<(b, m, n, d1, d2, k1, k2) -> (b, k1, k2, d2, d1)>
#v = affine_map<(b, m, n, d1, d2, k1, k2) -> (b, k2, k1, n)>
#s = affine_map<(b, m, n, d1, d2, k1, k2) -> ()>
#o = affine_map<(b, m, n, d1, d2, k1, k2) -> (b, m, n)>

// Several head and key dims of which IREE would cut the wide one: all of them, and steps that
// divide rows and keys.
// CHECK: #[[CONFIG:.*]] = #iree_cpu.lowering_config<distribution = [1, 12, 32, 0, 0, 0, 0], vector_common_parallel = [1, 2, 32, 0, 0, 0, 0], vector_reduction = [0, 0, 0, 0, 0, 1, 1]>
// CHECK: #[[INFO:.*]] = #iree_codegen.compilation_info<lowering_config = #[[CONFIG]],
// CHECK-LABEL: func.func @wide_dims(
// CHECK: iree_linalg_ext.attention {{.*}}{compilation_info = #[[INFO]]}
func.func @wide_dims(%q: tensor<2x12x160x2xf32>, %k: tensor<2x4x9x2x160xf32>, %v: tensor<2x9x4x32xf32>) -> tensor<2x12x32xf32> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x12x32xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x12x160x2xf32>, tensor<2x4x9x2x160xf32>, tensor<2x9x4x32xf32>, f32) outs(%out : tensor<2x12x32xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x12x32xf32>
  return %r : tensor<2x12x32xf32>
}

// -----

#q = affine_map<(b, m, n, d1, d2, k) -> (b, m, d1, d2)>
#k = affine_map<(b, m, n, d1, d2, k) -> (b, k, d2, d1)>
#v = affine_map<(b, m, n, d1, d2, k) -> (b, k, n)>
#s = affine_map<(b, m, n, d1, d2, k) -> ()>
#o = affine_map<(b, m, n, d1, d2, k) -> (b, m, n)>

// IREE takes all of narrow ones itself.
// CHECK-LABEL: func.func @narrow_dims(
// CHECK-NOT: compilation_info
// CHECK: return
// WHY: keeps IREE's own configuration: it has several head or key dims
func.func @narrow_dims(%q: tensor<2x12x96x2xf32>, %k: tensor<2x9x2x96xf32>, %v: tensor<2x9x32xf32>) -> tensor<2x12x32xf32> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x12x32xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x12x96x2xf32>, tensor<2x9x2x96xf32>, tensor<2x9x32xf32>, f32) outs(%out : tensor<2x12x32xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x12x32xf32>
  return %r : tensor<2x12x32xf32>
}

// -----

#q = affine_map<(m, n, k, i, j) -> (m, k)>
#k = affine_map<(m, n, k, i, j) -> (i, j, k)>
#v = affine_map<(m, n, k, i, j) -> (j, i, n)>
#s = affine_map<(m, n, k, i, j) -> ()>
#o = affine_map<(m, n, k, i, j) -> (m, n)>
#r = affine_map<(m, n, k, i, j) -> (m)>

// IREE would add to given sums with each few columns of V.
// CHECK-LABEL: func.func @given_sums(
// CHECK: iree_linalg_ext.online_attention {{.*}}{compilation_info =
func.func @given_sums(%q: tensor<6x16xf32>, %k: tensor<4x8x16xf32>, %v: tensor<8x4x64xf32>, %o: tensor<6x64xf32>, %x: tensor<6xf32>, %d: tensor<6xf32>) -> (tensor<6x64xf32>, tensor<6xf32>, tensor<6xf32>) {
  %scale = arith.constant 0.25 : f32
  %r:3 = iree_linalg_ext.online_attention <indexing_maps = [#q, #k, #v, #s, #o, #r, #r]> ins(%q, %k, %v, %scale : tensor<6x16xf32>, tensor<4x8x16xf32>, tensor<8x4x64xf32>, f32) outs(%o, %x, %d : tensor<6x64xf32>, tensor<6xf32>, tensor<6xf32>) {
  ^bb0(%s: f32):
    iree_linalg_ext.yield %s : f32
  } -> tensor<6x64xf32>, tensor<6xf32>, tensor<6xf32>
  return %r#0, %r#1, %r#2 : tensor<6x64xf32>, tensor<6xf32>, tensor<6xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, n, m)>

// A wide head goes by one row and one key, which leave no tail: LLVM unrolls masks and turned keys.
// CHECK: vector_common_parallel = [1, 1, 16, 0, 0], vector_reduction = [0, 0, 0, 0, 1]
// CHECK-LABEL: func.func @wide(
func.func @wide(%q: tensor<2x3x576xf16>, %k: tensor<2x8x576xf16>, %v: tensor<2x8x16xf16>) -> tensor<2x16x3xf32> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x16x3xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<2x3x576xf16>, tensor<2x8x576xf16>, tensor<2x8x16xf16>, f32) outs(%out : tensor<2x16x3xf32>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x16x3xf32>
  return %r : tensor<2x16x3xf32>
}
