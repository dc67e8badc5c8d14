// RUN: attn-opt %s --attn-use-kernels="target=sm_90" --split-input-file --remarks > %t.mlir 2> %t.txt
// RUN: FileCheck %s < %t.mlir
// RUN: FileCheck %s --check-prefix=REMARK < %t.txt

// Few rows over many keys: a cluster of workgroups divides the keys of a block of 64 rows, and adds
// up what each found; there are no partial results.

#q = affine_map<(b, g, m, n, k1, k2) -> (b, g, m, k1)>
#k = affine_map<(b, g, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, g, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, g, m, n, k1, k2) -> ()>
#o = affine_map<(b, g, m, n, k1, k2) -> (b, g, m, n)>

// 8 rows of 6 heads that share K and V are 48 rows of one block: 8 clusters of 8, 64 descriptors of
// K and of V.
// CHECK-LABEL: func.func @grouped(
// CHECK-SAME: %[[Q:[a-z0-9]+]]: tensor<8x6x8x128xf16>, %[[K:[a-z0-9]+]]: tensor<8x8192x128xf16>, %[[V:[a-z0-9]+]]: tensor<8x8192x128xf16>
// CHECK: hal.dispatch.extern "divided_f16_d128_by8"[%c8{{[_0-9]*}}, %c8{{[_0-9]*}}]({{.*}}, %[[Q]], %[[K]], %[[V]])
// CHECK-SAME: -> (tensor<8x6x8x128xf16>, tensor<16384xi8>)
// CHECK-NOT: hal.dispatch.extern "combine
// REMARK: output kernel: divided_f16_d128_by8: about {{[0-9]+}} us instead of {{[0-9]+}}
func.func @grouped(%q: tensor<8x6x8x128xf16>, %k: tensor<8x8192x128xf16>, %v: tensor<8x8192x128xf16>) -> tensor<8x6x8x128xf16> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<8x6x8x128xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<8x6x8x128xf16>, tensor<8x8192x128xf16>, tensor<8x8192x128xf16>, f32) outs(%e : tensor<8x6x8x128xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<8x6x8x128xf16>
  return %r : tensor<8x6x8x128xf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#mask = affine_map<(b, m, n, k1, k2) -> (m, k2)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// 200 rows are 4 blocks; which keys a row sees are limits of the kernel. Head dims are filled up.
// CHECK-LABEL: func.func @causal(
// CHECK: hal.dispatch.extern "divided_bf16_d64_by{{[2-8]}}"
// CHECK-SAME: tensor<5x200x40xbf16>
// REMARK: output kernel: divided_bf16_d64_by
func.func @causal(%q: tensor<5x200x40xbf16>, %k: tensor<5x9000x40xbf16>, %v: tensor<5x9000x40xbf16>) -> tensor<5x200x40xbf16> {
  %scale = arith.constant 0.125 : f32
  %blank = tensor.empty() : tensor<200x9000xi1>
  %seen = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} outs(%blank : tensor<200x9000xi1>) {
  ^bb0(%out: i1):
    %i = linalg.index 0 : index
    %c8800 = arith.constant 8800 : index
    %last = arith.addi %i, %c8800 : index
    %j = linalg.index 1 : index
    %sees = arith.cmpi sge, %last, %j : index
    linalg.yield %sees : i1
  } -> tensor<200x9000xi1>
  %e = tensor.empty() : tensor<5x200x40xbf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #mask, #o]> ins(%q, %k, %v, %scale, %seen : tensor<5x200x40xbf16>, tensor<5x9000x40xbf16>, tensor<5x9000x40xbf16>, f32, tensor<200x9000xi1>) outs(%e : tensor<5x200x40xbf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<5x200x40xbf16>
  return %r : tensor<5x200x40xbf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// So many blocks of rows that all multiprocessors have one without dividing keys: workgroups of 128
// rows, that read K and V half as often, are faster.
// CHECK-LABEL: func.func @many(
// CHECK: hal.dispatch.extern "attention_f16_d128"
// REMARK: output kernel: attention_f16_d128:
func.func @many(%q: tensor<32x4096x128xf16>, %k: tensor<32x4096x128xf16>, %v: tensor<32x4096x128xf16>) -> tensor<32x4096x128xf16> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<32x4096x128xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<32x4096x128xf16>, tensor<32x4096x128xf16>, tensor<32x4096x128xf16>, f32) outs(%e : tensor<32x4096x128xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<32x4096x128xf16>
  return %r : tensor<32x4096x128xf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// One head has 8 workgroups that divide its keys; where keys are split it has all multiprocessors.
// CHECK-LABEL: func.func @one(
// CHECK: hal.dispatch.extern "split_f16_d128"[%c132{{[_0-9]*}}, %c1{{[_0-9]*}}](
// CHECK-SAME: -> (tensor<1x132x16x128xf32>, tensor<1x132x2x16xf32>)
// CHECK: hal.dispatch.extern "combine_f16_d128"
// REMARK: output kernel: split_f16_d128:
func.func @one(%q: tensor<1x16x128xf16>, %k: tensor<1x65536x128xf16>, %v: tensor<1x65536x128xf16>) -> tensor<1x16x128xf16> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<1x16x128xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<1x16x128xf16>, tensor<1x65536x128xf16>, tensor<1x65536x128xf16>, f32) outs(%e : tensor<1x16x128xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<1x16x128xf16>
  return %r : tensor<1x16x128xf16>
}

// -----

#q = affine_map<(b, g, m, n, k1, k2) -> (b, g, m, k1)>
#k = affine_map<(b, g, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, g, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, g, m, n, k1, k2) -> ()>
#mask = affine_map<(b, g, m, n, k1, k2) -> (b, k2)>
#o = affine_map<(b, g, m, n, k1, k2) -> (b, g, m, n)>

// A mask of each sequence's keys, as bytes.
// CHECK-LABEL: func.func @masked(
// CHECK: arith.extui
// CHECK: hal.dispatch.extern "divided_f16_d128_by8_mask_i8"
// REMARK: output kernel: divided_f16_d128_by8_mask_i8
func.func @masked(%q: tensor<8x8x8x128xf16>, %k: tensor<8x8192x128xf16>, %v: tensor<8x8192x128xf16>, %seen: tensor<8x8192xi1>) -> tensor<8x8x8x128xf16> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<8x8x8x128xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #mask, #o]> ins(%q, %k, %v, %scale, %seen : tensor<8x8x8x128xf16>, tensor<8x8192x128xf16>, tensor<8x8192x128xf16>, f32, tensor<8x8192xi1>) outs(%e : tensor<8x8x8x128xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<8x8x8x128xf16>
  return %r : tensor<8x8x8x128xf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// A soft-cap, and head dims above 128, are for decode kernels.
// CHECK-LABEL: func.func @capped(
// CHECK: hal.dispatch.extern "decode_f16_d128"
func.func @capped(%q: tensor<8x64x128xf16>, %k: tensor<8x8192x128xf16>, %v: tensor<8x8192x128xf16>) -> tensor<8x64x128xf16> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<8x64x128xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<8x64x128xf16>, tensor<8x8192x128xf16>, tensor<8x8192x128xf16>, f32) outs(%e : tensor<8x64x128xf16>) {
  ^bb0(%x: f32):
    %cap = arith.constant 3.000000e+01 : f32
    %a = arith.divf %x, %cap : f32
    %t = math.tanh %a : f32
    %y = arith.mulf %t, %cap : f32
    iree_linalg_ext.yield %y : f32
  } -> tensor<8x64x128xf16>
  return %r : tensor<8x64x128xf16>
}
