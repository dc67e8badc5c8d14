// RUN: attn-opt %s --attn-decompose=target=llvm-cpu --split-input-file --report=%t.json -o %t.mlir
// RUN: FileCheck %s < %t.mlir
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.json
// RUN: attn-opt %s --attn-decompose=target=sm_90 --split-input-file --report=%t.gpu.json -o %t.mlir
// RUN: FileCheck %s --check-prefix=GPU --input-file=%t.gpu.json
// GPU: stays fused: only CPUs gain from it
// WHY: stays fused: it has 16 rows, below 64
// WHY: stays fused: its head dim is 32, below 257
// WHY: stays fused: rows, keys and head dims are not all multiples of 16
// WHY: stays fused: only f32 was measured
// WHY: stays fused: its scores are 268435456 bytes, above 8388608
// WHY: stays fused: it has its own lowering_config
// WHY: stays fused: its region changes the scores
// WHY: stays fused: it has sizes known only at run time

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#vt = affine_map<(b, m, n, k1, k2) -> (b, n, k2)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#w = affine_map<(b, m, n, k1, k2) -> (b, m, k2)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK-LABEL: func.func @few_rows(
// CHECK: iree_linalg_ext.attention
func.func @few_rows(%q: tensor<2x16x272xf32>, %k: tensor<2x96x272xf32>, %v: tensor<2x96x272xf32>) -> tensor<2x16x272xf32> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x16x272xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x16x272xf32>, tensor<2x96x272xf32>, tensor<2x96x272xf32>, f32) outs(%out : tensor<2x16x272xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x16x272xf32>
  return %r : tensor<2x16x272xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#vt = affine_map<(b, m, n, k1, k2) -> (b, n, k2)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#w = affine_map<(b, m, n, k1, k2) -> (b, m, k2)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK-LABEL: func.func @narrow(
// CHECK: iree_linalg_ext.attention
func.func @narrow(%q: tensor<2x64x32xf32>, %k: tensor<2x96x32xf32>, %v: tensor<2x96x32xf32>) -> tensor<2x64x32xf32> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x64x32xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x64x32xf32>, tensor<2x96x32xf32>, tensor<2x96x32xf32>, f32) outs(%out : tensor<2x64x32xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x64x32xf32>
  return %r : tensor<2x64x32xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#vt = affine_map<(b, m, n, k1, k2) -> (b, n, k2)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#w = affine_map<(b, m, n, k1, k2) -> (b, m, k2)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK-LABEL: func.func @odd(
// CHECK: iree_linalg_ext.attention
func.func @odd(%q: tensor<2x64x272xf32>, %k: tensor<2x97x272xf32>, %v: tensor<2x97x272xf32>) -> tensor<2x64x272xf32> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x64x272xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x64x272xf32>, tensor<2x97x272xf32>, tensor<2x97x272xf32>, f32) outs(%out : tensor<2x64x272xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x64x272xf32>
  return %r : tensor<2x64x272xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#vt = affine_map<(b, m, n, k1, k2) -> (b, n, k2)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#w = affine_map<(b, m, n, k1, k2) -> (b, m, k2)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK-LABEL: func.func @half(
// CHECK: iree_linalg_ext.attention
func.func @half(%q: tensor<2x64x272xf16>, %k: tensor<2x96x272xf16>, %v: tensor<2x96x272xf16>) -> tensor<2x64x272xf16> {
  %scale = arith.constant 0.25 : f16
  %out = tensor.empty() : tensor<2x64x272xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x64x272xf16>, tensor<2x96x272xf16>, tensor<2x96x272xf16>, f16) outs(%out : tensor<2x64x272xf16>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x64x272xf16>
  return %r : tensor<2x64x272xf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#vt = affine_map<(b, m, n, k1, k2) -> (b, n, k2)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#w = affine_map<(b, m, n, k1, k2) -> (b, m, k2)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK-LABEL: func.func @large(
// CHECK: iree_linalg_ext.attention
func.func @large(%q: tensor<64x1024x272xf32>, %k: tensor<64x1024x272xf32>, %v: tensor<64x1024x272xf32>) -> tensor<64x1024x272xf32> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<64x1024x272xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<64x1024x272xf32>, tensor<64x1024x272xf32>, tensor<64x1024x272xf32>, f32) outs(%out : tensor<64x1024x272xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<64x1024x272xf32>
  return %r : tensor<64x1024x272xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#vt = affine_map<(b, m, n, k1, k2) -> (b, n, k2)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#w = affine_map<(b, m, n, k1, k2) -> (b, m, k2)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK-LABEL: func.func @configured(
// CHECK: iree_linalg_ext.attention
func.func @configured(%q: tensor<2x64x272xf32>, %k: tensor<2x96x272xf32>, %v: tensor<2x96x272xf32>) -> tensor<2x64x272xf32> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x64x272xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> {lowering_config = "mine"}
      ins(%q, %k, %v, %scale : tensor<2x64x272xf32>, tensor<2x96x272xf32>, tensor<2x96x272xf32>, f32) outs(%out : tensor<2x64x272xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x64x272xf32>
  return %r : tensor<2x64x272xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#vt = affine_map<(b, m, n, k1, k2) -> (b, n, k2)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#w = affine_map<(b, m, n, k1, k2) -> (b, m, k2)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK-LABEL: func.func @region(
// CHECK: iree_linalg_ext.attention
func.func @region(%q: tensor<2x64x272xf32>, %k: tensor<2x96x272xf32>, %v: tensor<2x96x272xf32>) -> tensor<2x64x272xf32> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x64x272xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x64x272xf32>, tensor<2x96x272xf32>, tensor<2x96x272xf32>, f32) outs(%out : tensor<2x64x272xf32>) {
    ^bb0(%score: f32):
      %x = arith.addf %score, %score : f32
      iree_linalg_ext.yield %x : f32
  } -> tensor<2x64x272xf32>
  return %r : tensor<2x64x272xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#vt = affine_map<(b, m, n, k1, k2) -> (b, n, k2)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#w = affine_map<(b, m, n, k1, k2) -> (b, m, k2)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK-LABEL: func.func @unknown(
// CHECK: iree_linalg_ext.attention
func.func @unknown(%q: tensor<2x64x272xf32>, %k: tensor<2x?x272xf32>, %v: tensor<2x?x272xf32>) -> tensor<2x64x272xf32> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x64x272xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x64x272xf32>, tensor<2x?x272xf32>, tensor<2x?x272xf32>, f32) outs(%out : tensor<2x64x272xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x64x272xf32>
  return %r : tensor<2x64x272xf32>
}
