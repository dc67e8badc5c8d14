// What stays products and a softmax, and why.

// RUN: attn-opt %s --attn-raise --target=llvm-cpu --split-input-file --remarks 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt

// CHECK-NOT: iree_linalg_ext.attention

// The weights are a result, too.
// WHY: refusals.mlir:[[# @LINE + 10]]:8 stay as they are: func.return reads what is made of the scores, too
func.func @weights(%q: tensor<2x6x8xf32>, %k: tensor<2x8x5xf32>, %v: tensor<2x5x8xf32>) -> (tensor<2x6x8xf32>, tensor<2x6x5xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x6x5xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x6x8xf32>, tensor<2x8x5xf32>) outs(%s0 : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %w = linalg.softmax dimension(2) ins(%s : tensor<2x6x5xf32>) outs(%e : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %eo = tensor.empty() : tensor<2x6x8xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%eo : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>

  %r = linalg.batch_matmul ins(%w, %v : tensor<2x6x5xf32>, tensor<2x5x8xf32>) outs(%o0 : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  return %r, %w : tensor<2x6x8xf32>, tensor<2x6x5xf32>
}

// -----

// The softmax is over the rows.
// WHY: its softmax is not over the keys
func.func @rows(%q: tensor<2x6x8xf32>, %k: tensor<2x8x5xf32>, %v: tensor<2x5x8xf32>) -> tensor<2x6x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x6x5xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x6x8xf32>, tensor<2x8x5xf32>) outs(%s0 : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %w = linalg.softmax dimension(1) ins(%s : tensor<2x6x5xf32>) outs(%e : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %eo = tensor.empty() : tensor<2x6x8xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%eo : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  %r = linalg.batch_matmul ins(%w, %v : tensor<2x6x5xf32>, tensor<2x5x8xf32>) outs(%o0 : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  return %r : tensor<2x6x8xf32>
}

// -----

// The exponentials are divided by their sum and a number that is no power of anything.
// WHY: what is added to the sum of the exponentials is no sink's, shifted alike
#s = affine_map<(b, m, k) -> (b, m, k)>
#r = affine_map<(b, m, k) -> (b, m)>
#m = affine_map<(b, m) -> (b, m)>
func.func @less_than_their_sum(%q: tensor<2x6x8xf32>, %k: tensor<2x8x5xf32>, %v: tensor<2x5x8xf32>) -> tensor<2x6x8xf32> {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant -1.0 : f32
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

// Scores times a mask of floats, as old models hide keys.
// WHY: the scores are multiplied by a tensor that has a dim of keys
#s = affine_map<(b, m, k) -> (b, m, k)>
#m = affine_map<(b, m, k) -> (m, k)>
func.func @product_with_mask(%q: tensor<2x6x8xf32>, %k: tensor<2x8x5xf32>, %v: tensor<2x5x8xf32>, %mask: tensor<6x5xf32>) -> tensor<2x6x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x6x5xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x6x8xf32>, tensor<2x8x5xf32>) outs(%s0 : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %x = linalg.generic {indexing_maps = [#s, #m, #s], iterator_types = ["parallel", "parallel", "parallel"]} ins(%s, %mask : tensor<2x6x5xf32>, tensor<6x5xf32>) outs(%e : tensor<2x6x5xf32>) {
  ^bb0(%x: f32, %f: f32, %o: f32):
    %y = arith.mulf %x, %f : f32
    linalg.yield %y : f32
  } -> tensor<2x6x5xf32>
  %w = linalg.softmax dimension(2) ins(%x : tensor<2x6x5xf32>) outs(%e : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %eo = tensor.empty() : tensor<2x6x8xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%eo : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  %r = linalg.batch_matmul ins(%w, %v : tensor<2x6x5xf32>, tensor<2x5x8xf32>) outs(%o0 : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  return %r : tensor<2x6x8xf32>
}

// -----

// A condition that puts a number of no weight beside others in the place of scores.
// WHY: a condition puts -100.0 in the place of scores, which hides no key
#s = affine_map<(b, m, k) -> (b, m, k)>
#m = affine_map<(b, m, k) -> (m, k)>
func.func @not_hidden(%q: tensor<2x6x8xf32>, %k: tensor<2x8x5xf32>, %v: tensor<2x5x8xf32>, %mask: tensor<6x5xi1>) -> tensor<2x6x8xf32> {
  %zero = arith.constant 0.0 : f32
  %low = arith.constant -100.0 : f32
  %e = tensor.empty() : tensor<2x6x5xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x6x8xf32>, tensor<2x8x5xf32>) outs(%s0 : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %x = linalg.generic {indexing_maps = [#s, #m, #s], iterator_types = ["parallel", "parallel", "parallel"]} ins(%s, %mask : tensor<2x6x5xf32>, tensor<6x5xi1>) outs(%e : tensor<2x6x5xf32>) {
  ^bb0(%x: f32, %f: i1, %o: f32):
    %y = arith.select %f, %x, %low : f32
    linalg.yield %y : f32
  } -> tensor<2x6x5xf32>
  %w = linalg.softmax dimension(2) ins(%x : tensor<2x6x5xf32>) outs(%e : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %eo = tensor.empty() : tensor<2x6x8xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%eo : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  %r = linalg.batch_matmul ins(%w, %v : tensor<2x6x5xf32>, tensor<2x5x8xf32>) outs(%o0 : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  return %r : tensor<2x6x8xf32>
}

// -----

// The scores are no product (attention by a learned table).
// WHY: the scores are no product
func.func @table(%s: tensor<2x6x5xf32>, %v: tensor<2x5x8xf32>) -> tensor<2x6x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x6x5xf32>
  %w = linalg.softmax dimension(2) ins(%s : tensor<2x6x5xf32>) outs(%e : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %eo = tensor.empty() : tensor<2x6x8xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%eo : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  %r = linalg.batch_matmul ins(%w, %v : tensor<2x6x5xf32>, tensor<2x5x8xf32>) outs(%o0 : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  return %r : tensor<2x6x8xf32>
}

// -----

// Rows that make no groups of wide heads, for which a CPU has no loops.
// WHY: an attention op has no vector loops on this CPU, and is slower then: head dim 2048 needs more than 32768 bytes of stack
func.func @wide(%q: tensor<2x37x2048xf32>, %k: tensor<2x2048x40xf32>, %v: tensor<2x40x2048xf32>) -> tensor<2x37x2048xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x37x40xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x37x40xf32>) -> tensor<2x37x40xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x37x2048xf32>, tensor<2x2048x40xf32>) outs(%s0 : tensor<2x37x40xf32>) -> tensor<2x37x40xf32>
  %w = linalg.softmax dimension(2) ins(%s : tensor<2x37x40xf32>) outs(%e : tensor<2x37x40xf32>) -> tensor<2x37x40xf32>
  %eo = tensor.empty() : tensor<2x37x2048xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%eo : tensor<2x37x2048xf32>) -> tensor<2x37x2048xf32>
  %r = linalg.batch_matmul ins(%w, %v : tensor<2x37x40xf32>, tensor<2x40x2048xf32>) outs(%o0 : tensor<2x37x2048xf32>) -> tensor<2x37x2048xf32>
  return %r : tensor<2x37x2048xf32>
}

// -----

// Weights that are dropped behind the softmax: the others do not add up to 1.
// WHY: a condition makes some weights 0 that their sum counts
#s = affine_map<(b, m, k) -> (b, m, k)>
func.func @dropped(%q: tensor<2x6x8xf32>, %k: tensor<2x8x5xf32>, %v: tensor<2x5x8xf32>, %kept: tensor<2x6x5xi1>) -> tensor<2x6x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x6x5xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x6x8xf32>, tensor<2x8x5xf32>) outs(%s0 : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %w = linalg.softmax dimension(2) ins(%s : tensor<2x6x5xf32>) outs(%e : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %d = linalg.generic {indexing_maps = [#s, #s, #s], iterator_types = ["parallel", "parallel", "parallel"]} ins(%kept, %w : tensor<2x6x5xi1>, tensor<2x6x5xf32>) outs(%e : tensor<2x6x5xf32>) {
  ^bb0(%c: i1, %x: f32, %o: f32):
    %y = arith.select %c, %x, %zero : f32
    linalg.yield %y : f32
  } -> tensor<2x6x5xf32>
  %eo = tensor.empty() : tensor<2x6x8xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%eo : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  %r = linalg.batch_matmul ins(%d, %v : tensor<2x6x5xf32>, tensor<2x5x8xf32>) outs(%o0 : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  return %r : tensor<2x6x8xf32>
}

// -----

// Two sinks.
// WHY: the softmax has more than one sink beside the keys
func.func @two_sinks(%q: tensor<2x6x8xf32>, %k: tensor<2x8x5xf32>, %v: tensor<2x5x8xf32>, %sink: tensor<2x6x1xf32>) -> tensor<2x6x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x6x5xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x6x8xf32>, tensor<2x8x5xf32>) outs(%s0 : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %c = tensor.concat dim(2) %s, %sink, %sink : (tensor<2x6x5xf32>, tensor<2x6x1xf32>, tensor<2x6x1xf32>) -> tensor<2x6x7xf32>
  %ec = tensor.empty() : tensor<2x6x7xf32>
  %w = linalg.softmax dimension(2) ins(%c : tensor<2x6x7xf32>) outs(%ec : tensor<2x6x7xf32>) -> tensor<2x6x7xf32>
  %p = tensor.extract_slice %w[0, 0, 0] [2, 6, 5] [1, 1, 1] : tensor<2x6x7xf32> to tensor<2x6x5xf32>
  %eo = tensor.empty() : tensor<2x6x8xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%eo : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  %r = linalg.batch_matmul ins(%p, %v : tensor<2x6x5xf32>, tensor<2x5x8xf32>) outs(%o0 : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  return %r : tensor<2x6x8xf32>
}

// -----

// The weights that are kept are not those of the scores.
// WHY: the weights that are kept are not those of the scores
func.func @wrong_part(%q: tensor<2x6x8xf32>, %k: tensor<2x8x5xf32>, %v: tensor<2x5x8xf32>, %sink: tensor<2x6x1xf32>) -> tensor<2x6x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x6x5xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x6x8xf32>, tensor<2x8x5xf32>) outs(%s0 : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %c = tensor.concat dim(2) %s, %sink : (tensor<2x6x5xf32>, tensor<2x6x1xf32>) -> tensor<2x6x6xf32>
  %ec = tensor.empty() : tensor<2x6x6xf32>
  %w = linalg.softmax dimension(2) ins(%c : tensor<2x6x6xf32>) outs(%ec : tensor<2x6x6xf32>) -> tensor<2x6x6xf32>
  %p = tensor.extract_slice %w[0, 0, 1] [2, 6, 5] [1, 1, 1] : tensor<2x6x6xf32> to tensor<2x6x5xf32>
  %eo = tensor.empty() : tensor<2x6x8xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%eo : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  %r = linalg.batch_matmul ins(%p, %v : tensor<2x6x5xf32>, tensor<2x5x8xf32>) outs(%o0 : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  return %r : tensor<2x6x8xf32>
}

// -----

// The scores are taken from their largest, the sink beside them is not.
// WHY: the scores of a row are all shifted, and the sink beside them is not
#s = affine_map<(b, m, k) -> (b, m, k)>
#r = affine_map<(b, m, k) -> (b, m)>
func.func @shifted(%q: tensor<2x6x8xf32>, %k: tensor<2x8x5xf32>, %v: tensor<2x5x8xf32>, %sink: tensor<2x6x1xf32>) -> tensor<2x6x8xf32> {
  %zero = arith.constant 0.0 : f32
  %lowest = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<2x6x5xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x6x8xf32>, tensor<2x8x5xf32>) outs(%s0 : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %er = tensor.empty() : tensor<2x6xf32>
  %t0 = linalg.fill ins(%lowest : f32) outs(%er : tensor<2x6xf32>) -> tensor<2x6xf32>
  %max = linalg.generic {indexing_maps = [#s, #r], iterator_types = ["parallel", "parallel", "reduction"]} ins(%s : tensor<2x6x5xf32>) outs(%t0 : tensor<2x6xf32>) {
  ^bb0(%x: f32, %o: f32):
    %y = arith.maximumf %x, %o : f32
    linalg.yield %y : f32
  } -> tensor<2x6xf32>
  %d = linalg.generic {indexing_maps = [#s, #r, #s], iterator_types = ["parallel", "parallel", "parallel"]} ins(%s, %max : tensor<2x6x5xf32>, tensor<2x6xf32>) outs(%e : tensor<2x6x5xf32>) {
  ^bb0(%x: f32, %l: f32, %o: f32):
    %y = arith.subf %x, %l : f32
    linalg.yield %y : f32
  } -> tensor<2x6x5xf32>
  %c = tensor.concat dim(2) %d, %sink : (tensor<2x6x5xf32>, tensor<2x6x1xf32>) -> tensor<2x6x6xf32>
  %ec = tensor.empty() : tensor<2x6x6xf32>
  %w = linalg.softmax dimension(2) ins(%c : tensor<2x6x6xf32>) outs(%ec : tensor<2x6x6xf32>) -> tensor<2x6x6xf32>
  %p = tensor.extract_slice %w[0, 0, 0] [2, 6, 5] [1, 1, 1] : tensor<2x6x6xf32> to tensor<2x6x5xf32>
  %eo = tensor.empty() : tensor<2x6x8xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%eo : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  %r = linalg.batch_matmul ins(%p, %v : tensor<2x6x5xf32>, tensor<2x5x8xf32>) outs(%o0 : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  return %r : tensor<2x6x8xf32>
}

// -----

// IREE 3.13 computes wrong numbers of attention with such a head dim.
// WHY: its head dim is known only at run time: IREE's attention is wrong then
func.func @dynamic_head_dim(%q: tensor<2x6x?xf32>, %k: tensor<2x?x5xf32>, %v: tensor<2x5x8xf32>) -> tensor<2x6x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x6x5xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x6x?xf32>, tensor<2x?x5xf32>) outs(%s0 : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %w = linalg.softmax dimension(2) ins(%s : tensor<2x6x5xf32>) outs(%e : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %eo = tensor.empty() : tensor<2x6x8xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%eo : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  %r = linalg.batch_matmul ins(%w, %v : tensor<2x6x5xf32>, tensor<2x5x8xf32>) outs(%o0 : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  return %r : tensor<2x6x8xf32>
}

// -----

// All weights but the last two, of a number known only at run time.
// WHY: the weights that are kept are not those of the scores
func.func @dynamic_part(%q: tensor<2x6x8xf32>, %kt: tensor<2x8x?xf32>, %v: tensor<2x?x4xf32>, %sink: tensor<2x6x1xf32>) -> tensor<2x6x4xf32> {
  %zero = arith.constant 0.0 : f32
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %n = tensor.dim %kt, %c2 : tensor<2x8x?xf32>
  %e = tensor.empty(%n) : tensor<2x6x?xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x6x?xf32>) -> tensor<2x6x?xf32>
  %s = linalg.batch_matmul ins(%q, %kt : tensor<2x6x8xf32>, tensor<2x8x?xf32>) outs(%s0 : tensor<2x6x?xf32>) -> tensor<2x6x?xf32>
  %c = tensor.concat dim(2) %s, %sink : (tensor<2x6x?xf32>, tensor<2x6x1xf32>) -> tensor<2x6x?xf32>
  %all = arith.addi %n, %c1 : index
  %ec = tensor.empty(%all) : tensor<2x6x?xf32>
  %w = linalg.softmax dimension(2) ins(%c : tensor<2x6x?xf32>) outs(%ec : tensor<2x6x?xf32>) -> tensor<2x6x?xf32>
  %count = arith.subi %all, %c2 : index
  %p = tensor.extract_slice %w[0, 0, 0] [2, 6, %count] [1, 1, 1] : tensor<2x6x?xf32> to tensor<2x6x?xf32>
  %eo = tensor.empty() : tensor<2x6x4xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%eo : tensor<2x6x4xf32>) -> tensor<2x6x4xf32>
  %r = linalg.batch_matmul ins(%p, %v : tensor<2x6x?xf32>, tensor<2x?x4xf32>) outs(%o0 : tensor<2x6x4xf32>) -> tensor<2x6x4xf32>
  return %r : tensor<2x6x4xf32>
}

// -----

// What is added up is twice the exponentials, and not their sum.
// WHY: stay as they are: no factor of the product is a softmax
#s = affine_map<(b, m, k) -> (b, m, k)>
#r = affine_map<(b, m, k) -> (b, m)>
func.func @no_sum(%q: tensor<2x6x8xf32>, %k: tensor<2x8x5xf32>, %v: tensor<2x5x8xf32>) -> tensor<2x6x8xf32> {
  %zero = arith.constant 0.0 : f32
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
    %y = arith.addf %x, %x : f32
    linalg.yield %y : f32
  } -> tensor<2x6xf32>
  %w = linalg.generic {indexing_maps = [#s, #r, #s], iterator_types = ["parallel", "parallel", "parallel"]} ins(%p, %sum : tensor<2x6x5xf32>, tensor<2x6xf32>) outs(%e : tensor<2x6x5xf32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %z = arith.divf %x, %y : f32
    linalg.yield %z : f32
  } -> tensor<2x6x5xf32>
  %eo = tensor.empty() : tensor<2x6x8xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%eo : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  %r = linalg.batch_matmul ins(%w, %v : tensor<2x6x5xf32>, tensor<2x5x8xf32>) outs(%o0 : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  return %r : tensor<2x6x8xf32>
}

// -----

// Scores that nobody rounded are not Q's, rounded behind a factor.
// WHY: the scores are multiplied by a tensor, and not rounded to f16, as Q times it is

#a = affine_map<(b, m, k) -> (b, m, k)>
#h = affine_map<(b, m, k) -> (b)>

func.func @factor_of_wide_scores(%q: tensor<2x6x8xf16>, %k: tensor<2x8x5xf16>, %v: tensor<2x5x8xf16>, %given: tensor<2xf32>) -> tensor<2x6x8xf16> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x6x5xf32>
  %eh = tensor.empty() : tensor<2x6x5xf16>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x6x8xf16>, tensor<2x8x5xf16>) outs(%s0 : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %scaled = linalg.generic {indexing_maps = [#a, #h, #a], iterator_types = ["parallel", "parallel", "parallel"]} ins(%s, %given : tensor<2x6x5xf32>, tensor<2xf32>) outs(%e : tensor<2x6x5xf32>) {
  ^bb0(%x: f32, %c: f32, %o: f32):
    %z = arith.mulf %x, %c : f32
    linalg.yield %z : f32
  } -> tensor<2x6x5xf32>
  %w32 = linalg.softmax dimension(2) ins(%scaled : tensor<2x6x5xf32>) outs(%e : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %w = linalg.generic {indexing_maps = [#a, #a], iterator_types = ["parallel", "parallel", "parallel"]} ins(%w32 : tensor<2x6x5xf32>) outs(%eh : tensor<2x6x5xf16>) {
  ^bb0(%x: f32, %o: f16):
    %y = arith.truncf %x : f32 to f16
    linalg.yield %y : f16
  } -> tensor<2x6x5xf16>
  %eo = tensor.empty() : tensor<2x6x8xf16>
  %zh = arith.constant 0.0 : f16
  %o0 = linalg.fill ins(%zh : f16) outs(%eo : tensor<2x6x8xf16>) -> tensor<2x6x8xf16>
  %r = linalg.batch_matmul ins(%w, %v : tensor<2x6x5xf16>, tensor<2x5x8xf16>) outs(%o0 : tensor<2x6x8xf16>) -> tensor<2x6x8xf16>
  return %r : tensor<2x6x8xf16>
}

// -----

// A bias behind a condition orders the keys of rows that see none, which a lower number would not.
// WHY: a condition puts -10000 in the place of scores, beside what is added to them: rows that see no key would be other than they are
#s = affine_map<(b, m, k) -> (b, m, k)>
#m = affine_map<(b, m, k) -> (m, k)>
func.func @bias_behind(%q: tensor<2x6x8xf32>, %k: tensor<2x8x5xf32>, %v: tensor<2x5x8xf32>, %bias: tensor<6x5xf32>, %mask: tensor<6x5xi1>) -> tensor<2x6x8xf32> {
  %low = arith.constant -1.0e+04 : f32
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x6x5xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x6x8xf32>, tensor<2x8x5xf32>) outs(%s0 : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %x = linalg.generic {indexing_maps = [#s, #m, #m, #s], iterator_types = ["parallel", "parallel", "parallel"]} ins(%s, %bias, %mask : tensor<2x6x5xf32>, tensor<6x5xf32>, tensor<6x5xi1>) outs(%e : tensor<2x6x5xf32>) {
  ^bb0(%x: f32, %b: f32, %c: i1, %o: f32):
    %y = arith.select %c, %x, %low : f32
    %z = arith.addf %y, %b : f32
    linalg.yield %z : f32
  } -> tensor<2x6x5xf32>
  %w = linalg.softmax dimension(2) ins(%x : tensor<2x6x5xf32>) outs(%e : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %eo = tensor.empty() : tensor<2x6x8xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%eo : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  %r = linalg.batch_matmul ins(%w, %v : tensor<2x6x5xf32>, tensor<2x5x8xf32>) outs(%o0 : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  return %r : tensor<2x6x8xf32>
}

// -----

// A maximum over the rows, and one of other scores.
// WHY-COUNT-2: what is subtracted from the scores is made of them, and is not their maximum over the keys
#s = affine_map<(b, m, k) -> (b, m, k)>
#r = affine_map<(b, m, k) -> (b, m)>
#c = affine_map<(b, m, k) -> (b, k)>
func.func @maximum_over_rows(%q: tensor<2x6x8xf32>, %k: tensor<2x8x5xf32>, %v: tensor<2x5x8xf32>) -> tensor<2x6x8xf32> {
  %lowest = arith.constant 0xFF800000 : f32
  %two = arith.constant 2.0 : f32
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x6x5xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x6x8xf32>, tensor<2x8x5xf32>) outs(%s0 : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %er = tensor.empty() : tensor<2x6xf32>
  %em = tensor.empty() : tensor<2x5xf32>
  %t0 = linalg.fill ins(%lowest : f32) outs(%em : tensor<2x5xf32>) -> tensor<2x5xf32>
  %max = linalg.generic {indexing_maps = [#s, #c], iterator_types = ["parallel", "reduction", "parallel"]} ins(%s : tensor<2x6x5xf32>) outs(%t0 : tensor<2x5xf32>) {
  ^bb0(%x: f32, %o: f32):
    %y = arith.maximumf %x, %o : f32
    linalg.yield %y : f32
  } -> tensor<2x5xf32>
  %p = linalg.generic {indexing_maps = [#s, #c, #s], iterator_types = ["parallel", "parallel", "parallel"]} ins(%s, %max : tensor<2x6x5xf32>, tensor<2x5xf32>) outs(%e : tensor<2x6x5xf32>) {
  ^bb0(%x: f32, %l: f32, %o: f32):
    %y = arith.subf %x, %l : f32
    %z = math.exp %y : f32
    linalg.yield %z : f32
  } -> tensor<2x6x5xf32>
  %u0 = linalg.fill ins(%zero : f32) outs(%er : tensor<2x6xf32>) -> tensor<2x6xf32>
  %sum = linalg.generic {indexing_maps = [#s, #r], iterator_types = ["parallel", "parallel", "reduction"]} ins(%p : tensor<2x6x5xf32>) outs(%u0 : tensor<2x6xf32>) {
  ^bb0(%x: f32, %o: f32):
    %y = arith.addf %x, %o : f32
    linalg.yield %y : f32
  } -> tensor<2x6xf32>
  %w = linalg.generic {indexing_maps = [#s, #r, #s], iterator_types = ["parallel", "parallel", "parallel"]} ins(%p, %sum : tensor<2x6x5xf32>, tensor<2x6xf32>) outs(%e : tensor<2x6x5xf32>) {
  ^bb0(%x: f32, %l: f32, %o: f32):
    %y = arith.divf %x, %l : f32
    linalg.yield %y : f32
  } -> tensor<2x6x5xf32>
  %eo = tensor.empty() : tensor<2x6x8xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%eo : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  %r = linalg.batch_matmul ins(%w, %v : tensor<2x6x5xf32>, tensor<2x5x8xf32>) outs(%o0 : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  return %r : tensor<2x6x8xf32>
}
func.func @maximum_of_others(%q: tensor<2x6x8xf32>, %k: tensor<2x8x5xf32>, %v: tensor<2x5x8xf32>) -> tensor<2x6x8xf32> {
  %lowest = arith.constant 0xFF800000 : f32
  %two = arith.constant 2.0 : f32
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x6x5xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x6x8xf32>, tensor<2x8x5xf32>) outs(%s0 : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %er = tensor.empty() : tensor<2x6xf32>
  %em = tensor.empty() : tensor<2x6xf32>
  %t0 = linalg.fill ins(%lowest : f32) outs(%em : tensor<2x6xf32>) -> tensor<2x6xf32>
  %max = linalg.generic {indexing_maps = [#s, #r], iterator_types = ["parallel", "parallel", "reduction"]} ins(%s : tensor<2x6x5xf32>) outs(%t0 : tensor<2x6xf32>) {
  ^bb0(%x: f32, %o: f32):
    %d = arith.mulf %x, %two : f32
    %y = arith.maximumf %d, %o : f32
    linalg.yield %y : f32
  } -> tensor<2x6xf32>
  %p = linalg.generic {indexing_maps = [#s, #r, #s], iterator_types = ["parallel", "parallel", "parallel"]} ins(%s, %max : tensor<2x6x5xf32>, tensor<2x6xf32>) outs(%e : tensor<2x6x5xf32>) {
  ^bb0(%x: f32, %l: f32, %o: f32):
    %y = arith.subf %x, %l : f32
    %z = math.exp %y : f32
    linalg.yield %z : f32
  } -> tensor<2x6x5xf32>
  %u0 = linalg.fill ins(%zero : f32) outs(%er : tensor<2x6xf32>) -> tensor<2x6xf32>
  %sum = linalg.generic {indexing_maps = [#s, #r], iterator_types = ["parallel", "parallel", "reduction"]} ins(%p : tensor<2x6x5xf32>) outs(%u0 : tensor<2x6xf32>) {
  ^bb0(%x: f32, %o: f32):
    %y = arith.addf %x, %o : f32
    linalg.yield %y : f32
  } -> tensor<2x6xf32>
  %w = linalg.generic {indexing_maps = [#s, #r, #s], iterator_types = ["parallel", "parallel", "parallel"]} ins(%p, %sum : tensor<2x6x5xf32>, tensor<2x6xf32>) outs(%e : tensor<2x6x5xf32>) {
  ^bb0(%x: f32, %l: f32, %o: f32):
    %y = arith.divf %x, %l : f32
    linalg.yield %y : f32
  } -> tensor<2x6x5xf32>
  %eo = tensor.empty() : tensor<2x6x8xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%eo : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  %r = linalg.batch_matmul ins(%w, %v : tensor<2x6x5xf32>, tensor<2x5x8xf32>) outs(%o0 : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  return %r : tensor<2x6x8xf32>
}

// -----

// Masked in f16, where scores vanish beside the mask, then ordered by what is added in f32.
// WHY: something is added to scores that are masked in fewer bits, or scaled
#s = affine_map<(b, m, k) -> (b, m, k)>
#m = affine_map<(b, m, k) -> (m, k)>
func.func @two_types(%q: tensor<2x6x8xf32>, %k: tensor<2x8x5xf32>, %v: tensor<2x5x8xf32>, %bias: tensor<6x5xf32>, %mask: tensor<6x5xf16>) -> tensor<2x6x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x6x5xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x6x8xf32>, tensor<2x8x5xf32>) outs(%s0 : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %x = linalg.generic {indexing_maps = [#s, #m, #m, #s], iterator_types = ["parallel", "parallel", "parallel"]} ins(%s, %bias, %mask : tensor<2x6x5xf32>, tensor<6x5xf32>, tensor<6x5xf16>) outs(%e : tensor<2x6x5xf32>) {
  ^bb0(%x: f32, %b: f32, %c: f16, %o: f32):
    %h = arith.truncf %x : f32 to f16
    %y = arith.addf %h, %c : f16
    %f = arith.extf %y : f16 to f32
    %z = arith.addf %f, %b : f32
    linalg.yield %z : f32
  } -> tensor<2x6x5xf32>
  %w = linalg.softmax dimension(2) ins(%x : tensor<2x6x5xf32>) outs(%e : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %eo = tensor.empty() : tensor<2x6x8xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%eo : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  %r = linalg.batch_matmul ins(%w, %v : tensor<2x6x5xf32>, tensor<2x5x8xf32>) outs(%o0 : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  return %r : tensor<2x6x8xf32>
}

// -----

// What hides keys is made of the scores: all but the largest of each row.
// WHY: what hides keys is made of the scores
#s = affine_map<(b, m, k) -> (b, m, k)>
#r = affine_map<(b, m, k) -> (b, m)>
func.func @largest(%q: tensor<2x6x8xf32>, %k: tensor<2x8x5xf32>, %v: tensor<2x5x8xf32>) -> tensor<2x6x8xf32> {
  %lowest = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x6x5xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x6x8xf32>, tensor<2x8x5xf32>) outs(%s0 : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %er = tensor.empty() : tensor<2x6xf32>
  %t0 = linalg.fill ins(%lowest : f32) outs(%er : tensor<2x6xf32>) -> tensor<2x6xf32>
  %max = linalg.generic {indexing_maps = [#s, #r], iterator_types = ["parallel", "parallel", "reduction"]} ins(%s : tensor<2x6x5xf32>) outs(%t0 : tensor<2x6xf32>) {
  ^bb0(%x: f32, %o: f32):
    %y = arith.maximumf %x, %o : f32
    linalg.yield %y : f32
  } -> tensor<2x6xf32>
  %ec = tensor.empty() : tensor<2x6xi1>
  %some = linalg.generic {indexing_maps = [affine_map<(b, m) -> (b, m)>, affine_map<(b, m) -> (b, m)>], iterator_types = ["parallel", "parallel"]} ins(%max : tensor<2x6xf32>) outs(%ec : tensor<2x6xi1>) {
  ^bb0(%x: f32, %o: i1):
    %y = arith.cmpf ogt, %x, %zero : f32
    linalg.yield %y : i1
  } -> tensor<2x6xi1>
  %x = linalg.generic {indexing_maps = [#s, #r, #s], iterator_types = ["parallel", "parallel", "parallel"]} ins(%s, %some : tensor<2x6x5xf32>, tensor<2x6xi1>) outs(%e : tensor<2x6x5xf32>) {
  ^bb0(%x: f32, %c: i1, %o: f32):
    %y = arith.select %c, %x, %lowest : f32
    linalg.yield %y : f32
  } -> tensor<2x6x5xf32>
  %w = linalg.softmax dimension(2) ins(%x : tensor<2x6x5xf32>) outs(%e : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %eo = tensor.empty() : tensor<2x6x8xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%eo : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  %r = linalg.batch_matmul ins(%w, %v : tensor<2x6x5xf32>, tensor<2x5x8xf32>) outs(%o0 : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  return %r : tensor<2x6x8xf32>
}

// -----

// Another product reads the scores, and is no attention.
// WHY-COUNT-1: reads what is made of the scores, too, and needs them in memory: no factor of the product is a softmax
func.func @product_beside(%q: tensor<2x6x8xf32>, %k: tensor<2x8x5xf32>, %v: tensor<2x5x8xf32>) -> (tensor<2x6x8xf32>, tensor<2x6x8xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x6x5xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x6x8xf32>, tensor<2x8x5xf32>) outs(%s0 : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %w = linalg.softmax dimension(2) ins(%s : tensor<2x6x5xf32>) outs(%e : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %eo = tensor.empty() : tensor<2x6x8xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%eo : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  %r = linalg.batch_matmul ins(%w, %v : tensor<2x6x5xf32>, tensor<2x5x8xf32>) outs(%o0 : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  %t = linalg.batch_matmul ins(%s, %v : tensor<2x6x5xf32>, tensor<2x5x8xf32>) outs(%o0 : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  return %r, %t : tensor<2x6x8xf32>, tensor<2x6x8xf32>
}

// -----

// The share of keys with other scores than those of the softmax.
// WHY: func.return reads what is made of the scores, too: they are needed in memory

// CHECK-LABEL: func.func @share_of_others(
// CHECK-NOT: online_attention
// CHECK: return
#s = affine_map<(b, m, k) -> (b, m, k)>
#r = affine_map<(b, m, k) -> (b, m)>
#rows = affine_map<(b, m) -> (b, m)>
#heads = affine_map<(b, m) -> (b)>
func.func @share_of_others(%q: tensor<2x6x8xf32>, %k: tensor<2x8x5xf32>, %v: tensor<2x5x8xf32>, %sink: tensor<2xf32>) -> tensor<2x6x8xf32> {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %lowest = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<2x6x5xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x6x8xf32>, tensor<2x8x5xf32>) outs(%s0 : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %twice = linalg.generic {indexing_maps = [#s, #s], iterator_types = ["parallel", "parallel", "parallel"]} ins(%s : tensor<2x6x5xf32>) outs(%e : tensor<2x6x5xf32>) {
  ^bb0(%x: f32, %a: f32):
    %two = arith.constant 2.0 : f32
    %y = arith.mulf %x, %two : f32
    linalg.yield %y : f32
  } -> tensor<2x6x5xf32>
  %w = linalg.softmax dimension(2) ins(%twice : tensor<2x6x5xf32>) outs(%e : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
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

// Rows all of whose biases are minus infinity become 0, a test that is not of the scores.
// WHY: a condition makes the weights of some rows 0
#s = affine_map<(b, m, k) -> (b, m, k)>
#r = affine_map<(b, m, k) -> (b, m)>
func.func @rows_by_bias(%q: tensor<2x6x8xf32>, %k: tensor<2x8x5xf32>, %v: tensor<2x5x8xf32>, %other: tensor<2x6x5xf32>) -> tensor<2x6x8xf32> {
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
  %h = linalg.generic {indexing_maps = [#s, #s], iterator_types = ["parallel", "parallel", "parallel"]} ins(%other : tensor<2x6x5xf32>) outs(%ei : tensor<2x6x5xi1>) {
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

// -----

// What the sum divides behind the product with V is a result, too.
// WHY: no factor of the product is a softmax
func.func @divided_and_not(%q: tensor<3x6x16xf32>, %k: tensor<3x5x16xf32>, %v: tensor<3x5x16xf32>) -> (tensor<3x6x16xf32>, tensor<3x6x16xf32>) {
  %z = arith.constant 0.0 : f32
  %low = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<3x6x5xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<3x6x5xf32>) -> tensor<3x6x5xf32>
  %s = linalg.batch_matmul indexing_maps = [affine_map<(b, m, n, d) -> (b, m, d)>, affine_map<(b, m, n, d) -> (b, n, d)>, affine_map<(b, m, n, d) -> (b, m, n)>] ins(%q, %k : tensor<3x6x16xf32>, tensor<3x5x16xf32>) outs(%f : tensor<3x6x5xf32>) -> tensor<3x6x5xf32>
  %e1 = tensor.empty() : tensor<3x6xf32>
  %f1 = linalg.fill ins(%low : f32) outs(%e1 : tensor<3x6xf32>) -> tensor<3x6xf32>
  %mx = linalg.generic {indexing_maps = [affine_map<(b, m, n) -> (b, m, n)>, affine_map<(b, m, n) -> (b, m)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%s : tensor<3x6x5xf32>) outs(%f1 : tensor<3x6xf32>) {
  ^bb0(%a: f32, %o: f32):
    %y = arith.maximumf %a, %o : f32
    linalg.yield %y : f32
  } -> tensor<3x6xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(b, m, n) -> (b, m, n)>, affine_map<(b, m, n) -> (b, m)>, affine_map<(b, m, n) -> (b, m, n)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%s, %mx : tensor<3x6x5xf32>, tensor<3x6xf32>) outs(%e : tensor<3x6x5xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %x = arith.subf %a, %b : f32
    %y = math.exp %x : f32
    linalg.yield %y : f32
  } -> tensor<3x6x5xf32>
  %f0 = linalg.fill ins(%z : f32) outs(%e1 : tensor<3x6xf32>) -> tensor<3x6xf32>
  %sum = linalg.generic {indexing_maps = [affine_map<(b, m, n) -> (b, m, n)>, affine_map<(b, m, n) -> (b, m)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%p : tensor<3x6x5xf32>) outs(%f0 : tensor<3x6xf32>) {
  ^bb0(%a: f32, %o: f32):
    %y = arith.addf %a, %o : f32
    linalg.yield %y : f32
  } -> tensor<3x6xf32>
  %eo = tensor.empty() : tensor<3x6x16xf32>
  %fo = linalg.fill ins(%z : f32) outs(%eo : tensor<3x6x16xf32>) -> tensor<3x6x16xf32>
  %ov = linalg.batch_matmul ins(%p, %v : tensor<3x6x5xf32>, tensor<3x5x16xf32>) outs(%fo : tensor<3x6x16xf32>) -> tensor<3x6x16xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(b, m, n) -> (b, m, n)>, affine_map<(b, m, n) -> (b, m)>, affine_map<(b, m, n) -> (b, m, n)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%ov, %sum : tensor<3x6x16xf32>, tensor<3x6xf32>) outs(%eo : tensor<3x6x16xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %x = arith.divf %a, %b : f32
    linalg.yield %x : f32
  } -> tensor<3x6x16xf32>
  return %r, %ov : tensor<3x6x16xf32>, tensor<3x6x16xf32>
}
