// RUN: attn-opt %s --attn-split-k=splits=4 --split-input-file --remarks > %t.mlir 2> %t.txt
// RUN: FileCheck %s < %t.mlir
// RUN: FileCheck %s --check-prefix=REMARK < %t.txt

// What is left as it is, and why.

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK-LABEL: func.func @own(
// CHECK: iree_linalg_ext.attention
// CHECK-NOT: online_attention
// REMARK: key refused: it has its own lowering_config, which a split would make wrong
func.func @own(%q: tensor<2x1x64xf32>, %k: tensor<2x4096x64xf32>, %v: tensor<2x4096x64xf32>) -> tensor<2x1x64xf32> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<2x1x64xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> {lowering_config = #iree_cpu.lowering_config<distribution = [1, 0, 64, 0, 0]>} ins(%q, %k, %v, %scale : tensor<2x1x64xf32>, tensor<2x4096x64xf32>, tensor<2x4096x64xf32>, f32) outs(%e : tensor<2x1x64xf32>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x1x64xf32>
  return %r : tensor<2x1x64xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK-LABEL: func.func @rows_unknown(
// CHECK: iree_linalg_ext.attention
// CHECK-NOT: online_attention
// REMARK: key refused: the number of query rows is known only at run time
func.func @rows_unknown(%q: tensor<2x?x64xf32>, %k: tensor<2x4096x64xf32>, %v: tensor<2x4096x64xf32>) -> tensor<2x?x64xf32> {
  %scale = arith.constant 0.125 : f32
  %c1 = arith.constant 1 : index
  %rows = tensor.dim %q, %c1 : tensor<2x?x64xf32>
  %e = tensor.empty(%rows) : tensor<2x?x64xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<2x?x64xf32>, tensor<2x4096x64xf32>, tensor<2x4096x64xf32>, f32) outs(%e : tensor<2x?x64xf32>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x?x64xf32>
  return %r : tensor<2x?x64xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK-LABEL: func.func @prefill(
// CHECK: iree_linalg_ext.attention
// CHECK-NOT: online_attention
// REMARK: key refused: it has 32 query rows, more than rows=16: this is no decode step
func.func @prefill(%q: tensor<2x32x64xf32>, %k: tensor<2x4096x64xf32>, %v: tensor<2x4096x64xf32>) -> tensor<2x32x64xf32> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<2x32x64xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<2x32x64xf32>, tensor<2x4096x64xf32>, tensor<2x4096x64xf32>, f32) outs(%e : tensor<2x32x64xf32>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x32x64xf32>
  return %r : tensor<2x32x64xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK-LABEL: func.func @index(
// CHECK: iree_linalg_ext.attention
// CHECK-NOT: online_attention
// REMARK: key refused: its score region reads the key's index (iree_linalg_ext.index 4)
func.func @index(%q: tensor<2x1x64xf32>, %k: tensor<2x4096x64xf32>, %v: tensor<2x4096x64xf32>) -> tensor<2x1x64xf32> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<2x1x64xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<2x1x64xf32>, tensor<2x4096x64xf32>, tensor<2x4096x64xf32>, f32) outs(%e : tensor<2x1x64xf32>) {
  ^bb0(%x: f32):
    %i = iree_linalg_ext.index 4 : index
    %j = arith.index_cast %i : index to i32
    %f = arith.sitofp %j : i32 to f32
    %t = arith.mulf %x, %f : f32
    iree_linalg_ext.yield %t : f32
  } -> tensor<2x1x64xf32>
  return %r : tensor<2x1x64xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK-LABEL: func.func @short(
// CHECK: iree_linalg_ext.attention
// CHECK-NOT: online_attention
// REMARK: key kept: 3 keys are fewer than splits=4
func.func @short(%q: tensor<2x1x64xf32>, %k: tensor<2x3x64xf32>, %v: tensor<2x3x64xf32>) -> tensor<2x1x64xf32> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<2x1x64xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<2x1x64xf32>, tensor<2x3x64xf32>, tensor<2x3x64xf32>, f32) outs(%e : tensor<2x1x64xf32>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x1x64xf32>
  return %r : tensor<2x1x64xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK-LABEL: func.func @scalar(
// CHECK: iree_linalg_ext.attention
// CHECK-NOT: online_attention
// REMARK: key kept: 53 keys have no divisor from 2 to 5, and one head with one row cannot have a tail
func.func @scalar(%q: tensor<1x1x64xf32>, %k: tensor<1x53x64xf32>, %v: tensor<1x53x64xf32>) -> tensor<1x1x64xf32> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<1x1x64xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<1x1x64xf32>, tensor<1x53x64xf32>, tensor<1x53x64xf32>, f32) outs(%e : tensor<1x1x64xf32>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<1x1x64xf32>
  return %r : tensor<1x1x64xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK-LABEL: func.func @scalar_dynamic(
// CHECK: iree_linalg_ext.attention
// CHECK-NOT: online_attention
// REMARK: key kept: the number of keys is known only at run time, and one head with one row cannot have a tail
func.func @scalar_dynamic(%q: tensor<1x1x64xf32>, %k: tensor<1x?x64xf32>, %v: tensor<1x?x64xf32>) -> tensor<1x1x64xf32> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<1x1x64xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<1x1x64xf32>, tensor<1x?x64xf32>, tensor<1x?x64xf32>, f32) outs(%e : tensor<1x1x64xf32>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<1x1x64xf32>
  return %r : tensor<1x1x64xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
#r = affine_map<(b, m, n, k1, k2) -> (b, m)>

// CHECK-LABEL: func.func @narrow_state(
// CHECK: iree_linalg_ext.online_attention
// CHECK-NOT: online_attention
// REMARK: key refused: it accumulates in f16; only f32 is combined
func.func @narrow_state(%q: tensor<2x1x64xf16>, %k: tensor<2x256x64xf16>, %v: tensor<2x256x64xf16>, %a: tensor<2x1x64xf16>, %x: tensor<2x1xf16>, %y: tensor<2x1xf16>) -> tensor<2x1x64xf16> {
  %scale = arith.constant 0.125 : f16
  %r:3 = iree_linalg_ext.online_attention <indexing_maps = [#q, #k, #v, #s, #o, #r, #r]> ins(%q, %k, %v, %scale : tensor<2x1x64xf16>, tensor<2x256x64xf16>, tensor<2x256x64xf16>, f16) outs(%a, %x, %y : tensor<2x1x64xf16>, tensor<2x1xf16>, tensor<2x1xf16>) {
  ^bb0(%score: f16):
    iree_linalg_ext.yield %score : f16
  } -> tensor<2x1x64xf16>, tensor<2x1xf16>, tensor<2x1xf16>
  return %r#0 : tensor<2x1x64xf16>
}
