// What a softmax reads in fewer dims than its own stands in memory where others read it, too; that of
// one reader stays, as does what is made of constants.

// RUN: attn-opt %s --attn-store-vectors --remarks 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt
// WHY-COUNT-1: is put in memory: a softmax and others read it
// WHY-NOT: is put in memory

#one = affine_map<(i) -> (i)>
#row = affine_map<(i, j) -> (i)>
#all = affine_map<(i, j) -> (i, j)>
// CHECK-LABEL: func.func @main(
// CHECK: %[[READ:.*]] = linalg.generic
// CHECK-NOT: compute_barrier
// CHECK: math.exp
// CHECK: %[[STORED:.*]] = iree_tensor_ext.compute_barrier.start %[[READ]]
// CHECK-NOT: compute_barrier
// CHECK: linalg.generic {{.*}} ins(%[[STORED]], %
// CHECK-NOT: compute_barrier
// CHECK: linalg.softmax
// CHECK: return %{{.*}}, %[[STORED]], %
func.func @main(%x: tensor<8x9xf32>, %r: tensor<8xf32>) -> (tensor<8x9xf32>, tensor<8xf32>, tensor<8xf32>) {
  %e = tensor.empty() : tensor<8xf32>
  %f = tensor.empty() : tensor<8x9xf32>
  %read = linalg.generic {indexing_maps = [#one, #one], iterator_types = ["parallel"]} ins(%r : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%p: f32, %o: f32):
    %q = math.exp %p : f32
    linalg.yield %q : f32
  } -> tensor<8xf32>
  %once = linalg.generic {indexing_maps = [#one, #one], iterator_types = ["parallel"]} ins(%r : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%p: f32, %o: f32):
    %q = arith.negf %p : f32
    linalg.yield %q : f32
  } -> tensor<8xf32>
  %known = linalg.generic {indexing_maps = [#one], iterator_types = ["parallel"]} outs(%e : tensor<8xf32>) {
  ^bb0(%o: f32):
    %n = linalg.index 0 : index
    %m = arith.index_cast %n : index to i32
    %q = arith.sitofp %m : i32 to f32
    linalg.yield %q : f32
  } -> tensor<8xf32>
  %z = linalg.generic {indexing_maps = [#row, #row, #row, #all, #all], iterator_types = ["parallel", "parallel"]} ins(%read, %once, %known, %x : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8x9xf32>) outs(%f : tensor<8x9xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32, %y: f32, %o: f32):
    %s = arith.mulf %a, %y : f32
    %t = arith.addf %s, %b : f32
    %u = arith.addf %t, %c : f32
    linalg.yield %u : f32
  } -> tensor<8x9xf32>
  %w = linalg.softmax dimension(1) ins(%z : tensor<8x9xf32>) outs(%f : tensor<8x9xf32>) -> tensor<8x9xf32>
  return %w, %read, %known : tensor<8x9xf32>, tensor<8xf32>, tensor<8xf32>
}
