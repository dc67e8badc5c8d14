// An unknown number of keys, and of rows, becomes whole kernel tiles for a GPU; a known one,
// decode, masks by row only and types without a kernel stay, and so does all on a CPU.

// RUN: attn-opt %s --attn-tile-dynamic=target=sm_80 --report=%t.json | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.json
// RUN: attn-opt %s --attn-tile-dynamic=target=llvm-cpu > %t.0 && attn-opt %s > %t.1 && diff %t.0 %t.1

// WHY: the unknown number of keys is viewed as tiles of 64, the last one masked
// WHY: the unknown number of keys is viewed as tiles of 64, the last one masked, that of rows is viewed as tiles of 128
// WHY: the unknown number of rows is viewed as tiles of 128
// WHY: the unknown number of keys is viewed as tiles of 32, the last one masked"
// WHY: the unknown number of keys is viewed as tiles of 64, the last one masked, rows are viewed as tiles of 128"
// WHY-NOT: the unknown number of keys

#qg = affine_map<(b, g, m, n, k1, k2) -> (b, g, m, k1)>
#kg = affine_map<(b, g, m, n, k1, k2) -> (b, k2, k1)>
#vg = affine_map<(b, g, m, n, k1, k2) -> (b, k2, n)>
#sg = affine_map<(b, g, m, n, k1, k2) -> ()>
#og = affine_map<(b, g, m, n, k1, k2) -> (b, g, m, n)>
#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#mask = affine_map<(b, m, n, k1, k2) -> (m, k2)>
#rows = affine_map<(b, m, n, k1, k2) -> (b, m)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK-DAG: #[[K:.+]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d4, d5, d3)>
// CHECK-DAG: #[[SEEN:.+]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d5, d4)>
// CHECK-DAG: #[[Q2:.+]] = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d2, d1, d4)>
// CHECK-DAG: #[[M2:.+]] = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d5, d1, d2, d6)>
// CHECK-DAG: #[[O2:.+]] = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d2, d3)>

// CHECK-LABEL: func.func @keys
// CHECK: %[[N:.+]] = arith.ceildivui %{{.+}}, %c64
// CHECK: %[[KEYS:.+]] = linalg.generic {{.*}} outs(%{{.+}} : tensor<32x?x64x64xf16>)
// CHECK: arith.select
// CHECK: tensor.extract %arg1
// CHECK: %[[VALUES:.+]] = linalg.generic {{.*}} outs(%{{.+}} : tensor<32x?x64x64xf16>)
// CHECK: tensor.extract %arg2
// CHECK: %[[MASK:.+]] = linalg.generic {{.*}} outs(%{{.+}} : tensor<64x?xi1>)
// CHECK: arith.cmpi ult
// CHECK: iree_linalg_ext.attention <indexing_maps = [{{.*}}, #[[K]], {{.*}}, #[[SEEN]], {{.*}}]> ins(%arg0, %[[KEYS]], %[[VALUES]], %{{.+}}, %[[MASK]] :
func.func @keys(%q: tensor<32x512x64xf16>, %k: tensor<32x?x64xf16>, %v: tensor<32x?x64xf16>) -> tensor<32x512x64xf16> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<32x512x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<32x512x64xf16>, tensor<32x?x64xf16>, tensor<32x?x64xf16>, f32) outs(%out : tensor<32x512x64xf16>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<32x512x64xf16>
  return %r : tensor<32x512x64xf16>
}

// The mask's keys beyond the end get what hides them; the result is copied back.
// CHECK-LABEL: func.func @rows_and_mask
// CHECK: %[[Q:.+]] = linalg.generic {{.*}} outs(%{{.+}} : tensor<32x128x?x64xf16>)
// CHECK: %[[MASK:.+]] = linalg.generic {{.*}} outs(%{{.+}} : tensor<?x?x128x64xf16>)
// CHECK: tensor.extract %arg3
// CHECK: arith.constant 0xFC00 : f16
// CHECK: arith.select
// CHECK: %[[R:.+]] = iree_linalg_ext.attention <indexing_maps = [#[[Q2]], {{.*}}, #[[M2]], #[[O2]]]> ins(%[[Q]], {{.*}}, %[[MASK]] :
// CHECK: } -> tensor<32x?x128x64xf16>
// CHECK: linalg.generic {{.*}} outs(%{{.+}} : tensor<32x?x64xf16>)
// CHECK: tensor.extract %[[R]]
func.func @rows_and_mask(%q: tensor<32x?x64xf16>, %k: tensor<32x?x64xf16>, %v: tensor<32x?x64xf16>, %mask: tensor<?x?xf16>) -> tensor<32x?x64xf16> {
  %c1 = arith.constant 1 : index
  %m = tensor.dim %q, %c1 : tensor<32x?x64xf16>
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty(%m) : tensor<32x?x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #mask, #o]>
      ins(%q, %k, %v, %scale, %mask : tensor<32x?x64xf16>, tensor<32x?x64xf16>, tensor<32x?x64xf16>, f32, tensor<?x?xf16>) outs(%out : tensor<32x?x64xf16>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<32x?x64xf16>
  return %r : tensor<32x?x64xf16>
}

// Rows of grouped queries over a known number of keys: IREE would join them to one dim.
// CHECK-LABEL: func.func @grouped_rows(
// CHECK: linalg.generic {{.*}} outs(%{{.+}} : tensor<8x4x128x?x64xf16>)
// CHECK: iree_linalg_ext.attention
// CHECK-SAME: , %arg1, %arg2,
// CHECK: } -> tensor<8x4x?x128x64xf16>
func.func @grouped_rows(%q: tensor<8x4x?x64xf16>, %k: tensor<8x512x64xf16>, %v: tensor<8x512x64xf16>) -> tensor<8x4x?x64xf16> {
  %c2 = arith.constant 2 : index
  %m = tensor.dim %q, %c2 : tensor<8x4x?x64xf16>
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty(%m) : tensor<8x4x?x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#qg, #kg, #vg, #sg, #og]>
      ins(%q, %k, %v, %scale : tensor<8x4x?x64xf16>, tensor<8x512x64xf16>, tensor<8x512x64xf16>, f32) outs(%out : tensor<8x4x?x64xf16>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<8x4x?x64xf16>
  return %r : tensor<8x4x?x64xf16>
}

// CHECK-LABEL: func.func @known(
// CHECK-NOT: linalg.generic
func.func @known(%q: tensor<32x512x64xf16>, %k: tensor<32x500x64xf16>, %v: tensor<32x500x64xf16>) -> tensor<32x512x64xf16> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<32x512x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<32x512x64xf16>, tensor<32x500x64xf16>, tensor<32x500x64xf16>, f32) outs(%out : tensor<32x512x64xf16>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<32x512x64xf16>
  return %r : tensor<32x512x64xf16>
}

// CHECK-LABEL: func.func @decode(
// CHECK-NOT: linalg.generic
func.func @decode(%q: tensor<32x4x64xf16>, %k: tensor<32x?x64xf16>, %v: tensor<32x?x64xf16>) -> tensor<32x4x64xf16> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<32x4x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<32x4x64xf16>, tensor<32x?x64xf16>, tensor<32x?x64xf16>, f32) outs(%out : tensor<32x4x64xf16>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<32x4x64xf16>
  return %r : tensor<32x4x64xf16>
}

// CHECK-LABEL: func.func @f32(
// CHECK-COUNT-2: linalg.generic {{.*}} outs({{.*}} : tensor<32x?x32x64xf32>)
func.func @f32(%q: tensor<32x512x64xf32>, %k: tensor<32x?x64xf32>, %v: tensor<32x?x64xf32>) -> tensor<32x512x64xf32> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<32x512x64xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<32x512x64xf32>, tensor<32x?x64xf32>, tensor<32x?x64xf32>, f32) outs(%out : tensor<32x512x64xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<32x512x64xf32>
  return %r : tensor<32x512x64xf32>
}

// CHECK-LABEL: func.func @mixed(
// CHECK-NOT: linalg.generic
func.func @mixed(%q: tensor<32x512x64xf32>, %k: tensor<32x?x64xf16>, %v: tensor<32x?x64xf16>) -> tensor<32x512x64xf32> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<32x512x64xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<32x512x64xf32>, tensor<32x?x64xf16>, tensor<32x?x64xf16>, f32) outs(%out : tensor<32x512x64xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<32x512x64xf32>
  return %r : tensor<32x512x64xf32>
}

// CHECK-LABEL: func.func @masked_rows(
// CHECK-NOT: linalg.generic
func.func @masked_rows(%q: tensor<32x512x64xf16>, %k: tensor<32x?x64xf16>, %v: tensor<32x?x64xf16>, %mask: tensor<32x512xi1>) -> tensor<32x512x64xf16> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<32x512x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #rows, #o]>
      ins(%q, %k, %v, %scale, %mask : tensor<32x512x64xf16>, tensor<32x?x64xf16>, tensor<32x?x64xf16>, f32, tensor<32x512xi1>) outs(%out : tensor<32x512x64xf16>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<32x512x64xf16>
  return %r : tensor<32x512x64xf16>
}

// Known rows that leave a tile of them incomplete, of an unknown number of keys.
// CHECK-LABEL: func.func @rows_left_over(
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<32x128x2x64xf16>)
// CHECK: iree_linalg_ext.attention {{.*}}ins(%{{.*}} : tensor<32x128x2x64xf16>, tensor<32x?x64x64xf16>
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<32x200x64xf16>)
func.func @rows_left_over(%q: tensor<32x200x64xf16>, %k: tensor<32x?x64xf16>, %v: tensor<32x?x64xf16>) -> tensor<32x200x64xf16> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<32x200x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<32x200x64xf16>, tensor<32x?x64xf16>, tensor<32x?x64xf16>, f32) outs(%out : tensor<32x200x64xf16>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<32x200x64xf16>
  return %r : tensor<32x200x64xf16>
}
