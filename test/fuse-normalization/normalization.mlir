// Online attention that is divided by its sum becomes attention, where nobody else reads its
// results and it starts from nothing.

// RUN: attn-opt %s --attn-fuse-normalization --split-input-file --remarks 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt

#q = affine_map<(b, m, k2, k1, n) -> (b, m, k1)>
#k = affine_map<(b, m, k2, k1, n) -> (b, k2, k1)>
#v = affine_map<(b, m, k2, k1, n) -> (b, k2, n)>
#s = affine_map<(b, m, k2, k1, n) -> ()>
#o = affine_map<(b, m, k2, k1, n) -> (b, m, n)>
#r = affine_map<(b, m, k2, k1, n) -> (b, m)>
#row = affine_map<(i, j, k) -> (i, j)>
#all = affine_map<(i, j, k) -> (i, j, k)>

// WHY: online_attention at {{.*}}: the division by its sum of weights is part of it now
// CHECK-LABEL: func.func @flex(
// CHECK-NOT: online
// CHECK: %[[OUT:.*]] = tensor.empty() : tensor<2x16x32xf16>
// CHECK: %[[R:.*]] = iree_linalg_ext.attention {{.*}} ins(%arg0, %arg1, %arg2, %{{.*}} : {{.*}}) outs(%[[OUT]] : tensor<2x16x32xf16>) {
// CHECK-NEXT: ^bb0(%[[S:.*]]: f32):
// CHECK-NEXT: iree_linalg_ext.index 2
// CHECK: return %[[R]]
func.func @flex(%q: tensor<2x16x32xf16>, %k: tensor<2x24x32xf16>, %v: tensor<2x24x32xf16>) -> tensor<2x16x32xf16> {
  %scale = arith.constant 0.25 : f32
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %low = arith.constant -3.40282347E+38 : f32
  %e = tensor.empty() : tensor<2x16x32xf32>
  %rows = tensor.empty() : tensor<2x16xf32>
  %acc = linalg.fill ins(%zero : f32) outs(%e : tensor<2x16x32xf32>) -> tensor<2x16x32xf32>
  %max = linalg.fill ins(%low : f32) outs(%rows : tensor<2x16xf32>) -> tensor<2x16xf32>
  %sum = linalg.fill ins(%zero : f32) outs(%rows : tensor<2x16xf32>) -> tensor<2x16xf32>
  %r:3 = iree_linalg_ext.online_attention <indexing_maps = [#q, #k, #v, #s, #o, #r, #r], decomposition_config = {}> ins(%q, %k, %v, %scale : tensor<2x16x32xf16>, tensor<2x24x32xf16>, tensor<2x24x32xf16>, f32) outs(%acc, %max, %sum : tensor<2x16x32xf32>, tensor<2x16xf32>, tensor<2x16xf32>) {
  ^bb0(%x: f32):
    %i = iree_linalg_ext.index 2 : index
    %i1 = arith.index_cast %i : index to i32
    %f = arith.sitofp %i1 : i32 to f32
    %y = arith.addf %x, %f : f32
    iree_linalg_ext.yield %y : f32
  } -> tensor<2x16x32xf32>, tensor<2x16xf32>, tensor<2x16xf32>
  %out = tensor.empty() : tensor<2x16x32xf16>
  %d = linalg.generic {indexing_maps = [#row, #all, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%r#2, %r#0 : tensor<2x16xf32>, tensor<2x16x32xf32>) outs(%out : tensor<2x16x32xf16>) {
  ^bb0(%a: f32, %b: f32, %c: f16):
    %inverse = arith.divf %one, %a : f32
    %p = arith.mulf %inverse, %b : f32
    %t = arith.truncf %p : f32 to f16
    linalg.yield %t : f16
  } -> tensor<2x16x32xf16>
  return %d : tensor<2x16x32xf16>
}

// -----

#q = affine_map<(b, m, k2, k1, n) -> (b, m, k1)>
#k = affine_map<(b, m, k2, k1, n) -> (b, k2, k1)>
#v = affine_map<(b, m, k2, k1, n) -> (b, k2, n)>
#s = affine_map<(b, m, k2, k1, n) -> ()>
#o = affine_map<(b, m, k2, k1, n) -> (b, m, n)>
#r = affine_map<(b, m, k2, k1, n) -> (b, m)>
#row = affine_map<(i, j, k) -> (i, j)>
#other = affine_map<(i, j, k) -> (j, i)>
#all = affine_map<(i, j, k) -> (i, j, k)>

// Who goes on from a state, returns the sum, or divides by other rows' sums keeps his op.
// WHY-NOT: the division
// CHECK-LABEL: func.func @kept(
// CHECK-NOT: linalg_ext.attention
// CHECK-COUNT-3: iree_linalg_ext.online_attention
// CHECK-NOT: linalg_ext.attention
func.func @kept(%q: tensor<16x16x32xf32>, %k: tensor<16x24x32xf32>, %v: tensor<16x24x32xf32>, %state: tensor<16x16xf32>) -> (tensor<16x16x32xf32>, tensor<16x16x32xf32>, tensor<16x16xf32>, tensor<16x16x32xf32>) {
  %scale = arith.constant 0.25 : f32
  %zero = arith.constant 0.0 : f32
  %low = arith.constant -3.40282347E+38 : f32
  %e = tensor.empty() : tensor<16x16x32xf32>
  %rows = tensor.empty() : tensor<16x16xf32>
  %acc = linalg.fill ins(%zero : f32) outs(%e : tensor<16x16x32xf32>) -> tensor<16x16x32xf32>
  %max = linalg.fill ins(%low : f32) outs(%rows : tensor<16x16xf32>) -> tensor<16x16xf32>
  %sum = linalg.fill ins(%zero : f32) outs(%rows : tensor<16x16xf32>) -> tensor<16x16xf32>
  %a:3 = iree_linalg_ext.online_attention <indexing_maps = [#q, #k, #v, #s, #o, #r, #r]> ins(%q, %k, %v, %scale : tensor<16x16x32xf32>, tensor<16x24x32xf32>, tensor<16x24x32xf32>, f32) outs(%acc, %max, %state : tensor<16x16x32xf32>, tensor<16x16xf32>, tensor<16x16xf32>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<16x16x32xf32>, tensor<16x16xf32>, tensor<16x16xf32>
  %d = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%a#0, %a#2 : tensor<16x16x32xf32>, tensor<16x16xf32>) outs(%e : tensor<16x16x32xf32>) {
  ^bb0(%x: f32, %y: f32, %z: f32):
    %p = arith.divf %x, %y : f32
    linalg.yield %p : f32
  } -> tensor<16x16x32xf32>
  %b:3 = iree_linalg_ext.online_attention <indexing_maps = [#q, #k, #v, #s, #o, #r, #r]> ins(%q, %k, %v, %scale : tensor<16x16x32xf32>, tensor<16x24x32xf32>, tensor<16x24x32xf32>, f32) outs(%acc, %max, %sum : tensor<16x16x32xf32>, tensor<16x16xf32>, tensor<16x16xf32>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<16x16x32xf32>, tensor<16x16xf32>, tensor<16x16xf32>
  %f = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%b#0, %b#2 : tensor<16x16x32xf32>, tensor<16x16xf32>) outs(%e : tensor<16x16x32xf32>) {
  ^bb0(%x: f32, %y: f32, %z: f32):
    %p = arith.divf %x, %y : f32
    linalg.yield %p : f32
  } -> tensor<16x16x32xf32>
  %c:3 = iree_linalg_ext.online_attention <indexing_maps = [#q, #k, #v, #s, #o, #r, #r]> ins(%q, %k, %v, %scale : tensor<16x16x32xf32>, tensor<16x24x32xf32>, tensor<16x24x32xf32>, f32) outs(%acc, %max, %sum : tensor<16x16x32xf32>, tensor<16x16xf32>, tensor<16x16xf32>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<16x16x32xf32>, tensor<16x16xf32>, tensor<16x16xf32>
  %g = linalg.generic {indexing_maps = [#all, #other, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%c#0, %c#2 : tensor<16x16x32xf32>, tensor<16x16xf32>) outs(%e : tensor<16x16x32xf32>) {
  ^bb0(%x: f32, %y: f32, %z: f32):
    %p = arith.divf %x, %y : f32
    linalg.yield %p : f32
  } -> tensor<16x16x32xf32>
  return %d, %f, %b#2, %g : tensor<16x16x32xf32>, tensor<16x16x32xf32>, tensor<16x16xf32>, tensor<16x16x32xf32>
}
