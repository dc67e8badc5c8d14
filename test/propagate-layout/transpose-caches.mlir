// V caches cross the function's boundary with the keys as their last dim. An option of
// attn-propagate-layout still says the same.
// RUN: attn-opt %s --attn-transpose-caches --attn-propagate-layout --split-input-file --remarks > %t.new 2>&1 && FileCheck %s < %t.new
// RUN: attn-opt %s --attn-propagate-layout=cache=transposed --split-input-file --remarks > %t.old 2>&1 && diff %t.new %t.old
// RUN: attn-opt %s --attn-transpose-caches --split-input-file --remarks 2>&1 | FileCheck %s
// RUN: attn-opt %s --attn-propagate-layout=mode=never,cache=transposed --split-input-file > %t.0 && attn-opt %s --split-input-file > %t.1 && diff %t.0 %t.1

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// Two entry points share a cache: prefill returns it, decode takes and returns it. K stays.
// CHECK-LABEL: func.func @prefill
// CHECK-SAME: -> (tensor<2x8x16xf32>, tensor<2x16x32xf32>) attributes {attnpass.transposed_caches = ["result 1: tensor<2x32x16xf32> -> tensor<2x16x32xf32>"]}
// CHECK: %[[V:.+]] = linalg.batch_matmul {{.*}} -> tensor<2x16x32xf32>
// CHECK: iree_linalg_ext.attention {{.*}} ins(%{{[^,]+}}, %{{[^,]+}}, %[[V]],
// CHECK: return %{{.+}}, %{{.+}} : tensor<2x8x16xf32>, tensor<2x16x32xf32>
func.func @prefill(%q: tensor<2x8x16xf32>, %k: tensor<2x32x16xf32>, %x: tensor<2x32x24xf32>, %w: tensor<2x24x16xf32>) -> (tensor<2x8x16xf32>, tensor<2x32x16xf32>) {
  %z = arith.constant 0.0 : f32
  %pe = tensor.empty() : tensor<2x32x16xf32>
  %pf = linalg.fill ins(%z : f32) outs(%pe : tensor<2x32x16xf32>) -> tensor<2x32x16xf32>
  %p = linalg.batch_matmul ins(%x, %w : tensor<2x32x24xf32>, tensor<2x24x16xf32>) outs(%pf : tensor<2x32x16xf32>) -> tensor<2x32x16xf32>
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x8x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %p, %scale : tensor<2x8x16xf32>, tensor<2x32x16xf32>, tensor<2x32x16xf32>, f32) outs(%out : tensor<2x8x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x8x16xf32>
  return %r, %p : tensor<2x8x16xf32>, tensor<2x32x16xf32>
}

// CHECK-LABEL: func.func @decode
// CHECK-SAME: %[[K:[^:]+]]: tensor<2x32x16xf32>, %[[V:[^:]+]]: tensor<2x16x32xf32>
// CHECK-SAME: -> (tensor<2x1x16xf32>, tensor<2x33x16xf32>, tensor<2x16x33xf32>) attributes {attnpass.transposed_caches = ["argument 2: tensor<2x32x16xf32> -> tensor<2x16x32xf32>", "result 2: tensor<2x33x16xf32> -> tensor<2x16x33xf32>"]}
// CHECK: %[[ALL:.+]] = tensor.concat dim(2) %[[V]], %{{.+}} : (tensor<2x16x32xf32>, tensor<2x16x1xf32>)
// CHECK: iree_linalg_ext.attention {{.*}} ins(%{{[^,]+}}, %{{[^,]+}}, %[[ALL]],
// CHECK: return %{{.+}}, %{{.+}}, %{{.+}} : tensor<2x1x16xf32>, tensor<2x33x16xf32>, tensor<2x16x33xf32>
func.func @decode(%q: tensor<2x1x16xf32>, %k: tensor<2x32x16xf32>, %v: tensor<2x32x16xf32>, %nk: tensor<2x1x16xf32>, %nv: tensor<2x1x16xf32>) -> (tensor<2x1x16xf32>, tensor<2x33x16xf32>, tensor<2x33x16xf32>) {
  %ak = tensor.concat dim(1) %k, %nk : (tensor<2x32x16xf32>, tensor<2x1x16xf32>) -> tensor<2x33x16xf32>
  %av = tensor.concat dim(1) %v, %nv : (tensor<2x32x16xf32>, tensor<2x1x16xf32>) -> tensor<2x33x16xf32>
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x1x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %ak, %av, %scale : tensor<2x1x16xf32>, tensor<2x33x16xf32>, tensor<2x33x16xf32>, f32) outs(%out : tensor<2x1x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x1x16xf32>
  return %r, %ak, %av : tensor<2x1x16xf32>, tensor<2x33x16xf32>, tensor<2x33x16xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// One cache cannot change (another result needs it as it was, a copy at every step), so the
// other entry point keeps its own, too.
// CHECK-LABEL: func.func @one
// CHECK-SAME: tensor<2x32x16xf32>, %{{[^:]+}}: tensor<2x32x16xf32>
// CHECK-NOT: transposed_caches
// CHECK-LABEL: func.func @other
// CHECK-NOT: linalg.transpose
// CHECK-NOT: transposed_caches
func.func @one(%q: tensor<2x1x16xf32>, %k: tensor<2x32x16xf32>, %v: tensor<2x32x16xf32>, %nv: tensor<2x32x16xf32>) -> (tensor<2x1x16xf32>, tensor<2x32x16xf32>) {
  %scale = arith.constant 0.25 : f32
  %av = tensor.insert_slice %nv into %v[0, 0, 0] [2, 32, 16] [1, 1, 1] : tensor<2x32x16xf32> into tensor<2x32x16xf32>
  %out = tensor.empty() : tensor<2x1x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %av, %scale : tensor<2x1x16xf32>, tensor<2x32x16xf32>, tensor<2x32x16xf32>, f32) outs(%out : tensor<2x1x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x1x16xf32>
  return %r, %av : tensor<2x1x16xf32>, tensor<2x32x16xf32>
}
func.func @other(%q: tensor<2x1x16xf32>, %k: tensor<2x32x16xf32>, %v: tensor<2x32x16xf32>, %nv: tensor<2x1x16xf32>) -> (tensor<2x1x16xf32>, tensor<2x33x16xf32>, tensor<2x528xf32>) {
  %av = tensor.concat dim(1) %v, %nv : (tensor<2x32x16xf32>, tensor<2x1x16xf32>) -> tensor<2x33x16xf32>
  %ak = tensor.concat dim(1) %k, %nv : (tensor<2x32x16xf32>, tensor<2x1x16xf32>) -> tensor<2x33x16xf32>
  %flat = tensor.collapse_shape %av [[0], [1, 2]] : tensor<2x33x16xf32> into tensor<2x528xf32>
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x1x16xf32>
  // CHECK-NOT: transposed_caches
  // CHECK: iree_linalg_ext.attention
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %ak, %av, %scale : tensor<2x1x16xf32>, tensor<2x33x16xf32>, tensor<2x33x16xf32>, f32) outs(%out : tensor<2x1x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x1x16xf32>
  return %r, %av, %flat : tensor<2x1x16xf32>, tensor<2x33x16xf32>, tensor<2x528xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// An argument that never comes back is no cache.
// CHECK-LABEL: func.func @no_cache
// CHECK-SAME: %{{[^:]+}}: tensor<2x32x16xf32>) -> tensor<2x8x16xf32> {
func.func @no_cache(%q: tensor<2x8x16xf32>, %k: tensor<2x32x16xf32>, %v: tensor<2x32x16xf32>) -> tensor<2x8x16xf32> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x8x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
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

// The other entry point reads its cache through a gather that no rule moves to the caller:
// all caches stay.
// CHECK-NOT: transposed_caches
// CHECK-LABEL: func.func @plain
// CHECK-SAME: %{{[^:]+}}: tensor<8x32x16xf32>, %{{[^:]+}}: tensor<8x32x16xf32>,
// CHECK-NOT: transposed_caches
// CHECK-LABEL: func.func @gathered
// CHECK-NOT: transposed_caches
func.func @plain(%q: tensor<8x1x16xf32>, %k: tensor<8x32x16xf32>, %v: tensor<8x32x16xf32>, %nv: tensor<8x1x16xf32>) -> (tensor<8x1x16xf32>, tensor<8x32x16xf32>) {
  %av = tensor.insert_slice %nv into %v[0, 3, 0] [8, 1, 16] [1, 1, 1] : tensor<8x1x16xf32> into tensor<8x32x16xf32>
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<8x1x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %av, %scale : tensor<8x1x16xf32>, tensor<8x32x16xf32>, tensor<8x32x16xf32>, f32) outs(%out : tensor<8x1x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<8x1x16xf32>
  return %r, %av : tensor<8x1x16xf32>, tensor<8x32x16xf32>
}
func.func @gathered(%q: tensor<8x1x16xf32>, %k: tensor<8x32x16xf32>, %v: tensor<8x32x16xf32>, %nv: tensor<8x1x16xf32>) -> (tensor<8x1x16xf32>, tensor<8x32x16xf32>) {
  %av = tensor.insert_slice %nv into %v[0, 3, 0] [8, 1, 16] [1, 1, 1] : tensor<8x1x16xf32> into tensor<8x32x16xf32>
  %e = tensor.empty() : tensor<8x32x16xf32>
  %g = linalg.generic {indexing_maps = [affine_map<(h, s, d) -> (h, s, d)>], iterator_types = ["parallel", "parallel", "parallel"]} outs(%e : tensor<8x32x16xf32>) {
    ^bb0(%o: f32):
      %four = arith.constant 4 : index
      %h = linalg.index 0 : index
      %s = linalg.index 1 : index
      %d = linalg.index 2 : index
      %first = arith.divui %h, %four : index
      %x = tensor.extract %av[%first, %s, %d] : tensor<8x32x16xf32>
      linalg.yield %x : f32
  } -> tensor<8x32x16xf32>
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<8x1x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %g, %scale : tensor<8x1x16xf32>, tensor<8x32x16xf32>, tensor<8x32x16xf32>, f32) outs(%out : tensor<8x1x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<8x1x16xf32>
  return %r, %av : tensor<8x1x16xf32>, tensor<8x32x16xf32>
}
