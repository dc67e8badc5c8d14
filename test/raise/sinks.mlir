// A sink takes its share of the softmax and has no value: online attention, and a division by the
// sum of all weights, the sink's among them.

// RUN: attn-opt %s --attn-raise --canonicalize --cse --split-input-file --remarks 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt
// WHY-COUNT-6: are an attention op now, divided by its weights and its sink's
// WHY-NOT: stay as they are

// Beside the scores, in bf16; the result is read with the heads behind the rows.

// CHECK-LABEL: func.func @beside(
// CHECK-SAME: %[[QUERY:.*]]: tensor<2x6x8xf32>, %[[KEY:.*]]: tensor<2x5x8xf32>, %[[VALUE:.*]]: tensor<2x5x4xf32>, %[[SINK:.*]]: tensor<2xbf16>
// CHECK-DAG: %[[LOG:.*]] = arith.constant 1.44269502 : f32
// CHECK-DAG: %[[LOWEST:.*]] = arith.constant -3.40282347E+38 : f32
// CHECK: %[[START:.*]] = linalg.fill ins(%[[LOWEST]] : f32) outs(%{{.*}} : tensor<2x6xf32>)
// CHECK: %[[R:.*]]:3 = iree_linalg_ext.online_attention
// CHECK-SAME: ins(%[[QUERY]], %[[KEY]], %[[VALUE]], %{{.*}} : tensor<2x6x8xf32>, tensor<2x5x8xf32>, tensor<2x5x4xf32>, f32)
// CHECK-SAME: outs(%{{.*}}, %[[START]], %{{.*}} : tensor<2x6x4xf32>, tensor<2x6xf32>, tensor<2x6xf32>)
// CHECK: %[[S:.*]] = linalg.generic
// CHECK-SAME: ins(%[[SINK]] : tensor<2xbf16>)
// CHECK: arith.extf
// CHECK: %[[SUM:.*]] = linalg.generic
// CHECK-SAME: ins(%[[R]]#1, %[[R]]#2, %[[S]] : tensor<2x6xf32>, tensor<2x6xf32>, tensor<2xf32>)
// CHECK: %[[SCORE:.*]] = arith.mulf %{{.*}}, %[[LOG]]
// CHECK: arith.subf %[[SCORE]], %{{.*}}
// CHECK: math.exp2
// CHECK: arith.addf
// CHECK: %[[O:.*]] = linalg.generic
// CHECK-SAME: ins(%[[R]]#0, %[[SUM]] : tensor<2x6x4xf32>, tensor<2x6xf32>) outs(%{{.*}} : tensor<6x2x4xf32>)
// CHECK: arith.divf
// CHECK: return %[[O]]
func.func @beside(%q: tensor<2x6x8xf32>, %k: tensor<2x5x8xf32>, %v: tensor<2x5x4xf32>, %sink: tensor<2xbf16>) -> tensor<6x2x4xf32> {
  %zero = arith.constant 0.0 : f32
  %ekt = tensor.empty() : tensor<2x8x5xf32>
  %kt = linalg.transpose ins(%k : tensor<2x5x8xf32>) outs(%ekt : tensor<2x8x5xf32>) permutation = [0, 2, 1]
  %e = tensor.empty() : tensor<2x6x5xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %s = linalg.batch_matmul ins(%q, %kt : tensor<2x6x8xf32>, tensor<2x8x5xf32>) outs(%s0 : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %es = tensor.empty() : tensor<2x6xf32>
  %wide = linalg.generic {indexing_maps = [affine_map<(b, m) -> (b)>, affine_map<(b, m) -> (b, m)>], iterator_types = ["parallel", "parallel"]} ins(%sink : tensor<2xbf16>) outs(%es : tensor<2x6xf32>) {
  ^bb0(%x: bf16, %o: f32):
    %y = arith.extf %x : bf16 to f32
    linalg.yield %y : f32
  } -> tensor<2x6xf32>
  %column = tensor.expand_shape %wide [[0], [1, 2]] output_shape [2, 6, 1] : tensor<2x6xf32> into tensor<2x6x1xf32>
  %c = tensor.concat dim(2) %s, %column : (tensor<2x6x5xf32>, tensor<2x6x1xf32>) -> tensor<2x6x6xf32>
  %ec = tensor.empty() : tensor<2x6x6xf32>
  %w = linalg.softmax dimension(2) ins(%c : tensor<2x6x6xf32>) outs(%ec : tensor<2x6x6xf32>) -> tensor<2x6x6xf32>
  %p = tensor.extract_slice %w[0, 0, 0] [2, 6, 5] [1, 1, 1] : tensor<2x6x6xf32> to tensor<2x6x5xf32>
  %eo = tensor.empty() : tensor<2x6x4xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%eo : tensor<2x6x4xf32>) -> tensor<2x6x4xf32>
  %r = linalg.batch_matmul ins(%p, %v : tensor<2x6x5xf32>, tensor<2x5x4xf32>) outs(%o0 : tensor<2x6x4xf32>) -> tensor<2x6x4xf32>
  %et = tensor.empty() : tensor<6x2x4xf32>
  %t = linalg.transpose ins(%r : tensor<2x6x4xf32>) outs(%et : tensor<6x2x4xf32>) permutation = [1, 0, 2]
  return %t : tensor<6x2x4xf32>
}

// -----

// The first column, put there by inserting slices, as JAX's concatenate is imported.

// CHECK-LABEL: func.func @first(
// CHECK: iree_linalg_ext.online_attention
// CHECK-NOT: tensor.insert_slice
// CHECK: math.exp2
// CHECK: arith.divf
func.func @first(%q: tensor<2x6x8xf32>, %k: tensor<2x8x5xf32>, %v: tensor<2x5x4xf32>, %sink: tensor<2x6x1xf32>) -> tensor<2x6x4xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x6x5xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x6x8xf32>, tensor<2x8x5xf32>) outs(%s0 : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %ec = tensor.empty() : tensor<2x6x6xf32>
  %i = tensor.insert_slice %sink into %ec[0, 0, 0] [2, 6, 1] [1, 1, 1] : tensor<2x6x1xf32> into tensor<2x6x6xf32>
  %c = tensor.insert_slice %s into %i[0, 0, 1] [2, 6, 5] [1, 1, 1] : tensor<2x6x5xf32> into tensor<2x6x6xf32>
  %w = linalg.softmax dimension(2) ins(%c : tensor<2x6x6xf32>) outs(%ec : tensor<2x6x6xf32>) -> tensor<2x6x6xf32>
  %p = tensor.extract_slice %w[0, 0, 1] [2, 6, 5] [1, 1, 1] : tensor<2x6x6xf32> to tensor<2x6x5xf32>
  %eo = tensor.empty() : tensor<2x6x4xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%eo : tensor<2x6x4xf32>) -> tensor<2x6x4xf32>
  %r = linalg.batch_matmul ins(%p, %v : tensor<2x6x5xf32>, tensor<2x5x4xf32>) outs(%o0 : tensor<2x6x4xf32>) -> tensor<2x6x4xf32>
  return %r : tensor<2x6x4xf32>
}

// -----

// The exponentials are divided by one more than their sum: a sink of 0.

// CHECK-LABEL: func.func @off_by_one(
// CHECK: %[[R:.*]]:3 = iree_linalg_ext.online_attention
// CHECK: %[[SUM:.*]] = linalg.generic
// CHECK-SAME: ins(%[[R]]#1, %[[R]]#2 : tensor<2x6xf32>, tensor<2x6xf32>)
// CHECK: math.exp2
// CHECK: arith.divf
#s = affine_map<(b, m, k) -> (b, m, k)>
#r = affine_map<(b, m, k) -> (b, m)>
func.func @off_by_one(%q: tensor<2x6x8xf32>, %k: tensor<2x8x5xf32>, %v: tensor<2x5x8xf32>) -> tensor<2x6x8xf32> {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %e = tensor.empty() : tensor<2x6x5xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x6x8xf32>, tensor<2x8x5xf32>) outs(%s0 : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %p = linalg.generic {indexing_maps = [#s, #s], iterator_types = ["parallel", "parallel", "parallel"]} ins(%s : tensor<2x6x5xf32>) outs(%e : tensor<2x6x5xf32>) {
  ^bb0(%x: f32, %o: f32):
    %y = math.exp %x : f32
    linalg.yield %y : f32
  } -> tensor<2x6x5xf32>
  %er = tensor.empty() : tensor<2x6xf32>
  %t0 = linalg.fill ins(%zero : f32) outs(%er : tensor<2x6xf32>) -> tensor<2x6xf32>
  %sum = linalg.generic {indexing_maps = [#s, #r], iterator_types = ["parallel", "parallel", "reduction"]} ins(%p : tensor<2x6x5xf32>) outs(%t0 : tensor<2x6xf32>) {
  ^bb0(%x: f32, %o: f32):
    %y = arith.addf %x, %o : f32
    linalg.yield %y : f32
  } -> tensor<2x6xf32>
  %w = linalg.generic {indexing_maps = [#s, #r, #s], iterator_types = ["parallel", "parallel", "parallel"]} ins(%p, %sum : tensor<2x6x5xf32>, tensor<2x6xf32>) outs(%e : tensor<2x6x5xf32>) {
  ^bb0(%x: f32, %l: f32, %o: f32):
    %n = arith.addf %l, %one : f32
    %y = arith.divf %x, %n : f32
    linalg.yield %y : f32
  } -> tensor<2x6x5xf32>
  %eo = tensor.empty() : tensor<2x6x8xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%eo : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  %r = linalg.batch_matmul ins(%w, %v : tensor<2x6x5xf32>, tensor<2x5x8xf32>) outs(%o0 : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  return %r : tensor<2x6x8xf32>
}

// -----

// A number of keys known only at run time, of a cache and new ones: all weights but the last, as
// torch computes that.

// CHECK-LABEL: func.func @dynamic(
// CHECK: iree_linalg_ext.online_attention
// CHECK-NOT: tensor.extract_slice
// CHECK: math.exp2
// CHECK: arith.divf
func.func @dynamic(%q: tensor<2x6x8xf32>, %kt: tensor<2x8x?xf32>, %v: tensor<2x?x4xf32>, %sink: tensor<2x6x1xf32>, %cached: tensor<?xf32>, %new: tensor<?xf32>) -> tensor<2x6x4xf32> {
  %zero = arith.constant 0.0 : f32
  %c0_i64 = arith.constant 0 : i64
  %c0 = arith.constant 0 : index
  %c-1 = arith.constant -1 : index
  %before = tensor.dim %cached, %c0 : tensor<?xf32>
  %behind = tensor.dim %new, %c0 : tensor<?xf32>
  %n = affine.apply affine_map<()[s0, s1] -> (s0 + s1)>()[%before, %behind]
  %e = tensor.empty(%n) : tensor<2x6x?xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x6x?xf32>) -> tensor<2x6x?xf32>
  %s = linalg.batch_matmul ins(%q, %kt : tensor<2x6x8xf32>, tensor<2x8x?xf32>) outs(%s0 : tensor<2x6x?xf32>) -> tensor<2x6x?xf32>
  %c = tensor.concat dim(2) %s, %sink : (tensor<2x6x?xf32>, tensor<2x6x1xf32>) -> tensor<2x6x?xf32>
  %all = affine.apply affine_map<()[s0, s1] -> (s0 + s1 + 1)>()[%before, %behind]
  %ec = tensor.empty(%all) : tensor<2x6x?xf32>
  %w = linalg.softmax dimension(2) ins(%c : tensor<2x6x?xf32>) outs(%ec : tensor<2x6x?xf32>) -> tensor<2x6x?xf32>
  %all64 = arith.index_cast %all : index to i64
  %least = arith.minsi %all64, %c0_i64 : i64
  %first = arith.index_cast %least : i64 to index
  %last = arith.addi %all, %c-1 : index
  %negative = arith.cmpi slt, %last, %c0 : index
  %end = arith.select %negative, %c-1, %last : index
  %bound = arith.minsi %end, %all : index
  %length = arith.subi %bound, %first : index
  %count = arith.maxsi %length, %c0 : index
  %p = tensor.extract_slice %w[0, 0, %first] [2, 6, %count] [1, 1, 1] : tensor<2x6x?xf32> to tensor<2x6x?xf32>
  %eo = tensor.empty() : tensor<2x6x4xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%eo : tensor<2x6x4xf32>) -> tensor<2x6x4xf32>
  %r = linalg.batch_matmul ins(%p, %v : tensor<2x6x?xf32>, tensor<2x?x4xf32>) outs(%o0 : tensor<2x6x4xf32>) -> tensor<2x6x4xf32>
  return %r : tensor<2x6x4xf32>
}

// -----

// The result without the sink is multiplied by sigmoid(lse - sink).

// CHECK-LABEL: func.func @share(
// CHECK-NOT: math.log
// CHECK: %[[R:.*]]:3 = iree_linalg_ext.online_attention
// CHECK: linalg.generic
// CHECK-SAME: ins(%[[R]]#1, %[[R]]#2, %{{.*}} : tensor<2x6xf32>, tensor<2x6xf32>, tensor<2xf32>)
// CHECK: math.exp2
// CHECK: arith.addf
// CHECK: arith.divf
// CHECK-NOT: math.log
// CHECK: return
#s = affine_map<(b, m, k) -> (b, m, k)>
#r = affine_map<(b, m, k) -> (b, m)>
#rows = affine_map<(b, m) -> (b, m)>
#heads = affine_map<(b, m) -> (b)>
func.func @share(%q: tensor<2x6x8xf32>, %k: tensor<2x8x5xf32>, %v: tensor<2x5x8xf32>, %sink: tensor<2xf32>) -> tensor<2x6x8xf32> {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %lowest = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<2x6x5xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x6x8xf32>, tensor<2x8x5xf32>) outs(%s0 : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %w = linalg.softmax dimension(2) ins(%s : tensor<2x6x5xf32>) outs(%e : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %eo = tensor.empty() : tensor<2x6x8xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%eo : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  %o = linalg.batch_matmul ins(%w, %v : tensor<2x6x5xf32>, tensor<2x5x8xf32>) outs(%o0 : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  %er = tensor.empty() : tensor<2x6xf32>
  %m0 = linalg.fill ins(%lowest : f32) outs(%er : tensor<2x6xf32>) -> tensor<2x6xf32>
  %m = linalg.generic {indexing_maps = [#s, #r], iterator_types = ["parallel", "parallel", "reduction"]} ins(%s : tensor<2x6x5xf32>) outs(%m0 : tensor<2x6xf32>) {
  ^bb0(%x: f32, %a: f32):
    %y = arith.maximumf %x, %a : f32
    linalg.yield %y : f32
  } -> tensor<2x6xf32>
  %p = linalg.generic {indexing_maps = [#s, #r, #s], iterator_types = ["parallel", "parallel", "parallel"]} ins(%s, %m : tensor<2x6x5xf32>, tensor<2x6xf32>) outs(%e : tensor<2x6x5xf32>) {
  ^bb0(%x: f32, %b: f32, %a: f32):
    %y = arith.subf %x, %b : f32
    %z = math.exp %y : f32
    linalg.yield %z : f32
  } -> tensor<2x6x5xf32>
  %t0 = linalg.fill ins(%zero : f32) outs(%er : tensor<2x6xf32>) -> tensor<2x6xf32>
  %t = linalg.generic {indexing_maps = [#s, #r], iterator_types = ["parallel", "parallel", "reduction"]} ins(%p : tensor<2x6x5xf32>) outs(%t0 : tensor<2x6xf32>) {
  ^bb0(%x: f32, %a: f32):
    %y = arith.addf %x, %a : f32
    linalg.yield %y : f32
  } -> tensor<2x6xf32>
  %lse = linalg.generic {indexing_maps = [#rows, #rows, #rows], iterator_types = ["parallel", "parallel"]} ins(%t, %m : tensor<2x6xf32>, tensor<2x6xf32>) outs(%er : tensor<2x6xf32>) {
  ^bb0(%x: f32, %b: f32, %a: f32):
    %y = math.log %x : f32
    %z = arith.addf %y, %b : f32
    linalg.yield %z : f32
  } -> tensor<2x6xf32>
  %f = linalg.generic {indexing_maps = [#rows, #heads, #rows], iterator_types = ["parallel", "parallel"]} ins(%lse, %sink : tensor<2x6xf32>, tensor<2xf32>) outs(%er : tensor<2x6xf32>) {
  ^bb0(%x: f32, %c: f32, %a: f32):
    %d = arith.subf %x, %c : f32
    %y = arith.negf %d : f32
    %z = math.exp %y : f32
    %g = arith.addf %z, %one : f32
    %h = arith.divf %one, %g : f32
    linalg.yield %h : f32
  } -> tensor<2x6xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(b, m, n) -> (b, m, n)>, affine_map<(b, m, n) -> (b, m)>, affine_map<(b, m, n) -> (b, m, n)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%o, %f : tensor<2x6x8xf32>, tensor<2x6xf32>) outs(%eo : tensor<2x6x8xf32>) {
  ^bb0(%x: f32, %c: f32, %a: f32):
    %y = arith.mulf %x, %c : f32
    linalg.yield %y : f32
  } -> tensor<2x6x8xf32>
  return %r : tensor<2x6x8xf32>
}

// -----

// By exp(lse - logsumexp(lse, sink)), as transformers does behind FlexAttention.

// CHECK-LABEL: func.func @side_by_side(
// CHECK-NOT: math.log
// CHECK: %[[R:.*]]:3 = iree_linalg_ext.online_attention
// CHECK: linalg.generic
// CHECK-SAME: ins(%[[R]]#1, %[[R]]#2, %{{.*}} : tensor<2x6xf32>, tensor<2x6xf32>, tensor<2xf32>)
// CHECK: math.exp2
// CHECK: arith.addf
// CHECK: arith.divf
// CHECK-NOT: math.log
// CHECK: return
#s = affine_map<(b, m, k) -> (b, m, k)>
#r = affine_map<(b, m, k) -> (b, m)>
#rows = affine_map<(b, m) -> (b, m)>
#heads = affine_map<(b, m) -> (b)>
func.func @side_by_side(%q: tensor<2x6x8xf32>, %k: tensor<2x8x5xf32>, %v: tensor<2x5x8xf32>, %sink: tensor<2xf32>) -> tensor<2x6x8xf32> {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %lowest = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<2x6x5xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x6x8xf32>, tensor<2x8x5xf32>) outs(%s0 : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %w = linalg.softmax dimension(2) ins(%s : tensor<2x6x5xf32>) outs(%e : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %eo = tensor.empty() : tensor<2x6x8xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%eo : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  %o = linalg.batch_matmul ins(%w, %v : tensor<2x6x5xf32>, tensor<2x5x8xf32>) outs(%o0 : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  %er = tensor.empty() : tensor<2x6xf32>
  %m0 = linalg.fill ins(%lowest : f32) outs(%er : tensor<2x6xf32>) -> tensor<2x6xf32>
  %m = linalg.generic {indexing_maps = [#s, #r], iterator_types = ["parallel", "parallel", "reduction"]} ins(%s : tensor<2x6x5xf32>) outs(%m0 : tensor<2x6xf32>) {
  ^bb0(%x: f32, %a: f32):
    %y = arith.maximumf %x, %a : f32
    linalg.yield %y : f32
  } -> tensor<2x6xf32>
  %p = linalg.generic {indexing_maps = [#s, #r, #s], iterator_types = ["parallel", "parallel", "parallel"]} ins(%s, %m : tensor<2x6x5xf32>, tensor<2x6xf32>) outs(%e : tensor<2x6x5xf32>) {
  ^bb0(%x: f32, %b: f32, %a: f32):
    %y = arith.subf %x, %b : f32
    %z = math.exp %y : f32
    linalg.yield %z : f32
  } -> tensor<2x6x5xf32>
  %t0 = linalg.fill ins(%zero : f32) outs(%er : tensor<2x6xf32>) -> tensor<2x6xf32>
  %t = linalg.generic {indexing_maps = [#s, #r], iterator_types = ["parallel", "parallel", "reduction"]} ins(%p : tensor<2x6x5xf32>) outs(%t0 : tensor<2x6xf32>) {
  ^bb0(%x: f32, %a: f32):
    %y = arith.addf %x, %a : f32
    linalg.yield %y : f32
  } -> tensor<2x6xf32>
  %lse = linalg.generic {indexing_maps = [#rows, #rows, #rows], iterator_types = ["parallel", "parallel"]} ins(%t, %m : tensor<2x6xf32>, tensor<2x6xf32>) outs(%er : tensor<2x6xf32>) {
  ^bb0(%x: f32, %b: f32, %a: f32):
    %y = math.log %x : f32
    %z = arith.addf %y, %b : f32
    linalg.yield %z : f32
  } -> tensor<2x6xf32>
  %wide = linalg.broadcast ins(%sink : tensor<2xf32>) outs(%er : tensor<2x6xf32>) dimensions = [1]
  %x1 = tensor.expand_shape %lse [[0], [1, 2]] output_shape [2, 6, 1] : tensor<2x6xf32> into tensor<2x6x1xf32>
  %x2 = tensor.expand_shape %wide [[0], [1, 2]] output_shape [2, 6, 1] : tensor<2x6xf32> into tensor<2x6x1xf32>
  %c = tensor.concat dim(2) %x1, %x2 : (tensor<2x6x1xf32>, tensor<2x6x1xf32>) -> tensor<2x6x2xf32>
  %n = linalg.generic {indexing_maps = [#s, #r], iterator_types = ["parallel", "parallel", "reduction"]} ins(%c : tensor<2x6x2xf32>) outs(%m0 : tensor<2x6xf32>) {
  ^bb0(%x: f32, %a: f32):
    %y = arith.maximumf %x, %a : f32
    linalg.yield %y : f32
  } -> tensor<2x6xf32>
  %e2 = tensor.empty() : tensor<2x6x2xf32>
  %p2 = linalg.generic {indexing_maps = [#s, #r, #s], iterator_types = ["parallel", "parallel", "parallel"]} ins(%c, %n : tensor<2x6x2xf32>, tensor<2x6xf32>) outs(%e2 : tensor<2x6x2xf32>) {
  ^bb0(%x: f32, %b: f32, %a: f32):
    %y = arith.subf %x, %b : f32
    %z = math.exp %y : f32
    linalg.yield %z : f32
  } -> tensor<2x6x2xf32>
  %u = linalg.generic {indexing_maps = [#s, #r], iterator_types = ["parallel", "parallel", "reduction"]} ins(%p2 : tensor<2x6x2xf32>) outs(%t0 : tensor<2x6xf32>) {
  ^bb0(%x: f32, %a: f32):
    %y = arith.addf %x, %a : f32
    linalg.yield %y : f32
  } -> tensor<2x6xf32>
  %f = linalg.generic {indexing_maps = [#rows, #rows, #rows, #rows], iterator_types = ["parallel", "parallel"]} ins(%lse, %u, %n : tensor<2x6xf32>, tensor<2x6xf32>, tensor<2x6xf32>) outs(%er : tensor<2x6xf32>) {
  ^bb0(%x: f32, %b: f32, %c1: f32, %a: f32):
    %y = math.log %b : f32
    %z = arith.addf %y, %c1 : f32
    %d = arith.subf %x, %z : f32
    %h = math.exp %d : f32
    linalg.yield %h : f32
  } -> tensor<2x6xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(b, m, n) -> (b, m, n)>, affine_map<(b, m, n) -> (b, m)>, affine_map<(b, m, n) -> (b, m, n)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%o, %f : tensor<2x6x8xf32>, tensor<2x6xf32>) outs(%eo : tensor<2x6x8xf32>) {
  ^bb0(%x: f32, %g: f32, %a: f32):
    %y = arith.mulf %x, %g : f32
    linalg.yield %y : f32
  } -> tensor<2x6x8xf32>
  return %r : tensor<2x6x8xf32>
}
