// A number of keys that fills no kernel tile gets masked ones added for a GPU; one that does,
// decode, an unknown number and types without a kernel stay, and so does all on a CPU.

// RUN: attn-opt %s --attn-pad-keys=target=sm_80 --report=%t.json | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.json
// RUN: attn-opt %s --attn-pad-keys=target=llvm-cpu > %t.0 && attn-opt %s > %t.1 && diff %t.0 %t.1

// WHY: 333 keys are padded to 352, whole kernel tiles, the added ones masked
// WHY: 333 keys are padded to 384
// WHY: 333 keys are padded to 352
// WHY: 333 keys are padded to 352
// WHY: 333 keys are padded to 352
// WHY-NOT: keys are padded

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#vt = affine_map<(b, m, n, k1, k2) -> (b, n, k2)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#mask = affine_map<(b, m, n, k1, k2) -> (m, k2)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK: #[[KEYS:.+]] = affine_map<(d0, d1, d2, d3, d4) -> (d4)>
// CHECK-LABEL: func.func @unmasked
// CHECK: %[[K:.+]] = linalg.generic {{.*}} outs(%{{.+}} : tensor<4x352x128xf16>)
// CHECK: %[[INSIDE:.+]] = arith.cmpi ule, %{{.+}}, %c332
// CHECK: %[[AT:.+]] = arith.select %[[INSIDE]], %{{.+}}, %c332
// CHECK: %[[X:.+]] = tensor.extract %arg1[%{{.+}}, %[[AT]], %{{.+}}]
// CHECK: arith.select %[[INSIDE]], %[[X]], %cst
// CHECK: %[[V:.+]] = linalg.generic {{.*}} outs(%{{.+}} : tensor<4x352x128xf16>)
// CHECK: tensor.extract %arg2
// CHECK: %[[M:.+]] = tensor.pad %{{.+}} low[0] high[19]
// CHECK-NEXT: ^bb0
// CHECK-NEXT: tensor.yield %false
// CHECK: iree_linalg_ext.attention <indexing_maps = [{{.*}}, #[[KEYS]], {{.*}}]> ins(%arg0, %[[K]], %[[V]], %{{.+}}, %[[M]] : {{.*}}, tensor<352xi1>)
func.func @unmasked(%q: tensor<4x200x128xf16>, %k: tensor<4x333x128xf16>, %v: tensor<4x333x128xf16>) -> tensor<4x200x128xf16> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<4x200x128xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<4x200x128xf16>, tensor<4x333x128xf16>, tensor<4x333x128xf16>, f32) outs(%out : tensor<4x200x128xf16>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<4x200x128xf16>
  return %r : tensor<4x200x128xf16>
}

// CHECK-LABEL: func.func @masked
// CHECK: tensor.pad %arg2 low[0, 0, 0] high[0, 0, 51]
// CHECK: %[[INF:.+]] = arith.constant 0xFC00 : f16
// CHECK: tensor.pad %arg3 low[0, 0] high[0, 51]
// CHECK-NEXT: ^bb0
// CHECK-NEXT: tensor.yield %[[INF]]
// CHECK: iree_linalg_ext.attention
func.func @masked(%q: tensor<4x200x64xf16>, %k: tensor<4x333x64xf16>, %v: tensor<4x64x333xf16>, %m: tensor<200x333xf16>) -> tensor<4x200x64xf16> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<4x200x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #vt, #s, #mask, #o]>
      ins(%q, %k, %v, %scale, %m : tensor<4x200x64xf16>, tensor<4x333x64xf16>, tensor<4x64x333xf16>, f32, tensor<200x333xf16>) outs(%out : tensor<4x200x64xf16>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<4x200x64xf16>
  return %r : tensor<4x200x64xf16>
}

// CHECK-LABEL: func.func @whole_tiles
// CHECK-NOT: tensor.pad
func.func @whole_tiles(%q: tensor<4x200x128xf16>, %k: tensor<4x320x128xf16>, %v: tensor<4x320x128xf16>) -> tensor<4x200x128xf16> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<4x200x128xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<4x200x128xf16>, tensor<4x320x128xf16>, tensor<4x320x128xf16>, f32) outs(%out : tensor<4x200x128xf16>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<4x200x128xf16>
  return %r : tensor<4x200x128xf16>
}

// CHECK-LABEL: func.func @decode
// CHECK-NOT: tensor.pad
func.func @decode(%q: tensor<4x1x128xf16>, %k: tensor<4x333x128xf16>, %v: tensor<4x333x128xf16>) -> tensor<4x1x128xf16> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<4x1x128xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<4x1x128xf16>, tensor<4x333x128xf16>, tensor<4x333x128xf16>, f32) outs(%out : tensor<4x1x128xf16>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<4x1x128xf16>
  return %r : tensor<4x1x128xf16>
}

// f32 takes keys by whole tiles of lanes.
// CHECK-LABEL: func.func @f32
// CHECK-COUNT-2: outs(%{{.+}} : tensor<4x352x128xf32>)
// CHECK: tensor.pad %{{.+}} low[0] high[19]
func.func @f32(%q: tensor<4x200x128xf32>, %k: tensor<4x333x128xf32>, %v: tensor<4x333x128xf32>) -> tensor<4x200x128xf32> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<4x200x128xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<4x200x128xf32>, tensor<4x333x128xf32>, tensor<4x333x128xf32>, f32) outs(%out : tensor<4x200x128xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<4x200x128xf32>
  return %r : tensor<4x200x128xf32>
}

// CHECK-LABEL: func.func @mixed
// CHECK-NOT: tensor.pad
func.func @mixed(%q: tensor<4x200x128xf32>, %k: tensor<4x333x128xf16>, %v: tensor<4x333x128xf16>) -> tensor<4x200x128xf32> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<4x200x128xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<4x200x128xf32>, tensor<4x333x128xf16>, tensor<4x333x128xf16>, f32) outs(%out : tensor<4x200x128xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<4x200x128xf32>
  return %r : tensor<4x200x128xf32>
}

// What an op with loops makes is written where it belongs, and what lies in one piece is copied as
// such: IREE needs no loop for either.
// CHECK-LABEL: func.func @written_in_place
// CHECK: %[[T:.+]] = linalg.transpose
// CHECK: tensor.pad %[[T]] low[0, 0, 0] high[0, 19, 0]
// CHECK: outs(%{{.+}} : tensor<4x352x128xf16>)
// CHECK: tensor.extract %arg2
func.func @written_in_place(%q: tensor<4x200x128xf16>, %k: tensor<333x4x128xf16>, %v: tensor<4x333x128xf16>) -> tensor<4x200x128xf16> {
  %scale = arith.constant 0.25 : f32
  %empty = tensor.empty() : tensor<4x333x128xf16>
  %t = linalg.transpose ins(%k : tensor<333x4x128xf16>) outs(%empty : tensor<4x333x128xf16>) permutation = [1, 0, 2]
  %out = tensor.empty() : tensor<4x200x128xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %t, %v, %scale : tensor<4x200x128xf16>, tensor<4x333x128xf16>, tensor<4x333x128xf16>, f32) outs(%out : tensor<4x200x128xf16>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<4x200x128xf16>
  return %r : tensor<4x200x128xf16>
}

// CHECK-LABEL: func.func @one_piece
// CHECK: tensor.pad %arg1 low[0, 0, 0] high[0, 19, 0]
// CHECK: tensor.pad %arg2 low[0, 0, 0] high[0, 19, 0]
// CHECK-NOT: tensor.extract
func.func @one_piece(%q: tensor<1x4096x128xf16>, %k: tensor<1x333x128xf16>, %v: tensor<1x333x128xf16>) -> tensor<1x4096x128xf16> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<1x4096x128xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<1x4096x128xf16>, tensor<1x333x128xf16>, tensor<1x333x128xf16>, f32) outs(%out : tensor<1x4096x128xf16>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<1x4096x128xf16>
  return %r : tensor<1x4096x128xf16>
}
