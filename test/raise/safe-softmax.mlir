// PyTorch's softmax of FlexAttention, which is 0 in rows all of whose scores are minus infinity, as
// attention is in any case.

// RUN: attn-opt %s --attn-raise --canonicalize --cse --remarks 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt
// WHY: are an attention op now

// CHECK-LABEL: func.func @safe(
// CHECK: iree_linalg_ext.attention
// CHECK-NOT: arith.andi
// CHECK: return
#s = affine_map<(b, m, k) -> (b, m, k)>
#r = affine_map<(b, m, k) -> (b, m)>
func.func @safe(%q: tensor<2x6x8xf32>, %k: tensor<2x8x5xf32>, %v: tensor<2x5x8xf32>, %other: tensor<2x6x5xf32>) -> tensor<2x6x8xf32> {
  %zero = arith.constant 0.0 : f32
  %true = arith.constant true
  %lowest = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<2x6x5xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %p = linalg.batch_matmul ins(%q, %k : tensor<2x6x8xf32>, tensor<2x8x5xf32>) outs(%s0 : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %s = linalg.generic {indexing_maps = [#s, #s, #s], iterator_types = ["parallel", "parallel", "parallel"]} ins(%p, %other : tensor<2x6x5xf32>, tensor<2x6x5xf32>) outs(%e : tensor<2x6x5xf32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %z = arith.addf %x, %y : f32
    linalg.yield %z : f32
  } -> tensor<2x6x5xf32>
  %w = linalg.softmax dimension(2) ins(%s : tensor<2x6x5xf32>) outs(%e : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %ei = tensor.empty() : tensor<2x6x5xi1>
  %h = linalg.generic {indexing_maps = [#s, #s], iterator_types = ["parallel", "parallel", "parallel"]} ins(%s : tensor<2x6x5xf32>) outs(%ei : tensor<2x6x5xi1>) {
  ^bb0(%x: f32, %o: i1):
    %z = arith.cmpf oeq, %x, %lowest : f32
    linalg.yield %z : i1
  } -> tensor<2x6x5xi1>
  %er = tensor.empty() : tensor<2x6xi1>
  %all0 = linalg.fill ins(%true : i1) outs(%er : tensor<2x6xi1>) -> tensor<2x6xi1>
  %all = linalg.generic {indexing_maps = [#s, #r], iterator_types = ["parallel", "parallel", "reduction"]} ins(%h : tensor<2x6x5xi1>) outs(%all0 : tensor<2x6xi1>) {
  ^bb0(%x: i1, %o: i1):
    %z = arith.andi %x, %o : i1
    linalg.yield %z : i1
  } -> tensor<2x6xi1>
  %g = linalg.generic {indexing_maps = [#s, #r, #s], iterator_types = ["parallel", "parallel", "parallel"]} ins(%w, %all : tensor<2x6x5xf32>, tensor<2x6xi1>) outs(%e : tensor<2x6x5xf32>) {
  ^bb0(%x: f32, %c: i1, %o: f32):
    %z = arith.select %c, %zero, %x : f32
    linalg.yield %z : f32
  } -> tensor<2x6x5xf32>
  %eo = tensor.empty() : tensor<2x6x8xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%eo : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  %r = linalg.batch_matmul ins(%g, %v : tensor<2x6x5xf32>, tensor<2x5x8xf32>) outs(%o0 : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  return %r : tensor<2x6x8xf32>
}

// The same as torch.export's decompositions write it: not any that is not minus infinity.
// CHECK-LABEL: func.func @safe_by_any(
// CHECK: iree_linalg_ext.attention
// CHECK-NOT: arith.ori
// CHECK: return
#rr = affine_map<(b, m) -> (b, m)>
func.func @safe_by_any(%q: tensor<2x6x8xf32>, %k: tensor<2x8x5xf32>, %v: tensor<2x5x8xf32>, %other: tensor<2x6x5xf32>) -> tensor<2x6x8xf32> {
  %zero = arith.constant 0.0 : f32
  %false = arith.constant false
  %lowest = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<2x6x5xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %p = linalg.batch_matmul ins(%q, %k : tensor<2x6x8xf32>, tensor<2x8x5xf32>) outs(%s0 : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %s = linalg.generic {indexing_maps = [#s, #s, #s], iterator_types = ["parallel", "parallel", "parallel"]} ins(%p, %other : tensor<2x6x5xf32>, tensor<2x6x5xf32>) outs(%e : tensor<2x6x5xf32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %z = arith.addf %x, %y : f32
    linalg.yield %z : f32
  } -> tensor<2x6x5xf32>
  %w = linalg.softmax dimension(2) ins(%s : tensor<2x6x5xf32>) outs(%e : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %ei = tensor.empty() : tensor<2x6x5xi1>
  %h = linalg.generic {indexing_maps = [#s, #s], iterator_types = ["parallel", "parallel", "parallel"]} ins(%s : tensor<2x6x5xf32>) outs(%ei : tensor<2x6x5xi1>) {
  ^bb0(%x: f32, %o: i1):
    %z = arith.cmpf oeq, %x, %lowest : f32
    linalg.yield %z : i1
  } -> tensor<2x6x5xi1>
  %seen = linalg.generic {indexing_maps = [#s, #s], iterator_types = ["parallel", "parallel", "parallel"]} ins(%h : tensor<2x6x5xi1>) outs(%ei : tensor<2x6x5xi1>) {
  ^bb0(%x: i1, %o: i1):
    %z = arith.cmpi eq, %x, %false : i1
    linalg.yield %z : i1
  } -> tensor<2x6x5xi1>
  %er = tensor.empty() : tensor<2x6xi1>
  %any0 = linalg.fill ins(%false : i1) outs(%er : tensor<2x6xi1>) -> tensor<2x6xi1>
  %any = linalg.generic {indexing_maps = [#s, #r], iterator_types = ["parallel", "parallel", "reduction"]} ins(%seen : tensor<2x6x5xi1>) outs(%any0 : tensor<2x6xi1>) {
  ^bb0(%x: i1, %o: i1):
    %z = arith.ori %x, %o : i1
    linalg.yield %z : i1
  } -> tensor<2x6xi1>
  %all = linalg.generic {indexing_maps = [#rr, #rr], iterator_types = ["parallel", "parallel"]} ins(%any : tensor<2x6xi1>) outs(%er : tensor<2x6xi1>) {
  ^bb0(%x: i1, %o: i1):
    %z = arith.cmpi eq, %x, %false : i1
    linalg.yield %z : i1
  } -> tensor<2x6xi1>
  %g = linalg.generic {indexing_maps = [#s, #r, #s], iterator_types = ["parallel", "parallel", "parallel"]} ins(%w, %all : tensor<2x6x5xf32>, tensor<2x6xi1>) outs(%e : tensor<2x6x5xf32>) {
  ^bb0(%x: f32, %c: i1, %o: f32):
    %z = arith.select %c, %zero, %x : f32
    linalg.yield %z : f32
  } -> tensor<2x6x5xf32>
  %eo = tensor.empty() : tensor<2x6x8xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%eo : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  %r = linalg.batch_matmul ins(%g, %v : tensor<2x6x5xf32>, tensor<2x5x8xf32>) outs(%o0 : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  return %r : tensor<2x6x8xf32>
}
