// Products with a softmax between them become attention: operands are read below transposes,
// reshapes and repeats, the scale and the soft-cap become the op's own, what hides keys or is
// added its mask. Sizes known only at run time, too.

// RUN: attn-opt %s --attn-raise --canonicalize --cse --split-input-file --remarks 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt
// WHY-COUNT-14: are an attention op now
// WHY-NOT: stay as they are

#ij = affine_map<(b, m, k) -> (b, m, k)>
#i = affine_map<(b, m, k) -> (b, m)>
#i1 = affine_map<(b, m, k) -> (b, m, 0)>

// CHECK-DAG: #[[Q:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d3)>
// CHECK-DAG: #[[K:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d4, d3)>
// CHECK-DAG: #[[V:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d4, d2)>
// CHECK-DAG: #[[O:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2)>
// CHECK-LABEL: func.func @dynamic(
// CHECK-SAME: %[[QUERY:.*]]: tensor<?x?x8xf32>, %[[KEY:.*]]: tensor<?x?x8xf32>, %[[VALUE:.*]]: tensor<?x?x4xf32>
// CHECK: %[[SCALE:.*]] = arith.constant 2.500000e-01 : f32
// CHECK: %[[R:.*]] = iree_linalg_ext.attention <indexing_maps = [#[[Q]], #[[K]], #[[V]], #{{.*}}, #[[O]]]>
// CHECK-SAME: ins(%[[QUERY]], %[[KEY]], %[[VALUE]], %[[SCALE]] : tensor<?x?x8xf32>, tensor<?x?x8xf32>, tensor<?x?x4xf32>, f32)
// CHECK-NOT: math.exp
// CHECK: return %[[R]]
func.func @dynamic(%q: tensor<?x?x8xf32>, %k: tensor<?x?x8xf32>, %v: tensor<?x?x4xf32>) -> tensor<?x?x4xf32> {
  %zero = arith.constant 0.0 : f32
  %scale = arith.constant 0.25 : f32
  %lowest = arith.constant 0xFF800000 : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %b = tensor.dim %q, %c0 : tensor<?x?x8xf32>
  %m = tensor.dim %q, %c1 : tensor<?x?x8xf32>
  %n = tensor.dim %k, %c1 : tensor<?x?x8xf32>
  %ekt = tensor.empty(%b, %n) : tensor<?x8x?xf32>
  %kt = linalg.transpose ins(%k : tensor<?x?x8xf32>) outs(%ekt : tensor<?x8x?xf32>) permutation = [0, 2, 1]
  %e = tensor.empty(%b, %m, %n) : tensor<?x?x?xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<?x?x?xf32>) -> tensor<?x?x?xf32>
  %s = linalg.batch_matmul ins(%q, %kt : tensor<?x?x8xf32>, tensor<?x8x?xf32>) outs(%s0 : tensor<?x?x?xf32>) -> tensor<?x?x?xf32>
  %er = tensor.empty(%b, %m) : tensor<?x?xf32>
  %t0 = linalg.fill ins(%lowest : f32) outs(%er : tensor<?x?xf32>) -> tensor<?x?xf32>
  %scaled = linalg.generic {indexing_maps = [#ij, #ij], iterator_types = ["parallel", "parallel", "parallel"]} ins(%s : tensor<?x?x?xf32>) outs(%e : tensor<?x?x?xf32>) {
  ^bb0(%x: f32, %o: f32):
    %y = arith.mulf %x, %scale : f32
    linalg.yield %y : f32
  } -> tensor<?x?x?xf32>
  %max = linalg.generic {indexing_maps = [#ij, #i], iterator_types = ["parallel", "parallel", "reduction"]} ins(%scaled : tensor<?x?x?xf32>) outs(%t0 : tensor<?x?xf32>) {
  ^bb0(%x: f32, %o: f32):
    %y = arith.maximumf %x, %o : f32
    linalg.yield %y : f32
  } -> tensor<?x?xf32>
  %p = linalg.generic {indexing_maps = [#ij, #i, #ij], iterator_types = ["parallel", "parallel", "parallel"]} ins(%scaled, %max : tensor<?x?x?xf32>, tensor<?x?xf32>) outs(%e : tensor<?x?x?xf32>) {
  ^bb0(%x: f32, %l: f32, %o: f32):
    %y = arith.subf %x, %l : f32
    %z = math.exp %y : f32
    linalg.yield %z : f32
  } -> tensor<?x?x?xf32>
  %ek = tensor.empty(%b, %m) : tensor<?x?x1xf32>
  %u0 = linalg.fill ins(%zero : f32) outs(%ek : tensor<?x?x1xf32>) -> tensor<?x?x1xf32>
  %sum = linalg.generic {indexing_maps = [#ij, #i1], iterator_types = ["parallel", "parallel", "reduction"]} ins(%p : tensor<?x?x?xf32>) outs(%u0 : tensor<?x?x1xf32>) {
  ^bb0(%x: f32, %o: f32):
    %y = arith.addf %x, %o : f32
    linalg.yield %y : f32
  } -> tensor<?x?x1xf32>
  %w = linalg.generic {indexing_maps = [#ij, #i1, #ij], iterator_types = ["parallel", "parallel", "parallel"]} ins(%p, %sum : tensor<?x?x?xf32>, tensor<?x?x1xf32>) outs(%e : tensor<?x?x?xf32>) {
  ^bb0(%x: f32, %l: f32, %o: f32):
    %y = arith.divf %x, %l : f32
    linalg.yield %y : f32
  } -> tensor<?x?x?xf32>
  %eo = tensor.empty(%b, %m) : tensor<?x?x4xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%eo : tensor<?x?x4xf32>) -> tensor<?x?x4xf32>
  %r = linalg.batch_matmul ins(%w, %v : tensor<?x?x?xf32>, tensor<?x?x4xf32>) outs(%o0 : tensor<?x?x4xf32>) -> tensor<?x?x4xf32>
  return %r : tensor<?x?x4xf32>
}

// -----

// Heads of the query in groups of two that share K and V, rows and heads in one dim of a product.
// A condition hides keys: it is the mask where it hides them for good, else what is added.

#s = affine_map<(b, m, k) -> (b, m, k)>
#c = affine_map<(h, g, m, k) -> (m, k)>
#a = affine_map<(h, g, m, k) -> (h, g, m, k)>

// CHECK-DAG: #[[GQ:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d2, d4)>
// CHECK-DAG: #[[GK:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d5, d4)>
// CHECK-DAG: #[[GM:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d2, d5)>
// CHECK-LABEL: func.func @groups(
// CHECK-SAME: %[[MASK:[a-z0-9]+]]: tensor<6x5xi1>
// CHECK: %[[QS:.*]] = tensor.expand_shape %{{.*}} {{\[\[}}0], [1, 2], [3]] output_shape [3, 2, 6, 8]
// CHECK: iree_linalg_ext.attention <indexing_maps = [#[[GQ]], #[[GK]], #{{.*}}, #{{.*}}, #[[GM]], #{{.*}}]>
// CHECK-SAME: ins(%[[QS]], %{{.*}}, %{{.*}}, %{{.*}}, %[[MASK]] :
// CHECK-SAME: tensor<6x5xi1>
// CHECK-NOT: math.exp
func.func @groups(%q: tensor<3x12x8xf32>, %k: tensor<3x8x5xf32>, %v: tensor<3x5x8xf32>, %mask: tensor<6x5xi1>) -> tensor<3x12x8xf32> {
  %zero = arith.constant 0.0 : f32
  %hidden = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<3x12x5xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<3x12x5xf32>) -> tensor<3x12x5xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<3x12x8xf32>, tensor<3x8x5xf32>) outs(%s0 : tensor<3x12x5xf32>) -> tensor<3x12x5xf32>
  %x4 = tensor.expand_shape %s [[0], [1, 2], [3]] output_shape [3, 2, 6, 5] : tensor<3x12x5xf32> into tensor<3x2x6x5xf32>
  %e4 = tensor.empty() : tensor<3x2x6x5xf32>
  %m = linalg.generic {indexing_maps = [#c, #a, #a], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%mask, %x4 : tensor<6x5xi1>, tensor<3x2x6x5xf32>) outs(%e4 : tensor<3x2x6x5xf32>) {
  ^bb0(%c: i1, %x: f32, %o: f32):
    %y = arith.select %c, %x, %hidden : f32
    linalg.yield %y : f32
  } -> tensor<3x2x6x5xf32>
  %w = linalg.softmax dimension(3) ins(%m : tensor<3x2x6x5xf32>) outs(%e4 : tensor<3x2x6x5xf32>) -> tensor<3x2x6x5xf32>
  %w3 = tensor.collapse_shape %w [[0], [1, 2], [3]] : tensor<3x2x6x5xf32> into tensor<3x12x5xf32>
  %eo = tensor.empty() : tensor<3x12x8xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%eo : tensor<3x12x8xf32>) -> tensor<3x12x8xf32>
  %r = linalg.batch_matmul ins(%w3, %v : tensor<3x12x5xf32>, tensor<3x5x8xf32>) outs(%o0 : tensor<3x12x8xf32>) -> tensor<3x12x8xf32>
  return %r : tensor<3x12x8xf32>
}

// -----

// A soft-cap, then a bias and a number that hides keys. It is lowered behind the bias, which could be
// a mask, too: such numbers keep their order.

#m = affine_map<(b, m, k) -> (m, k)>
#s = affine_map<(b, m, k) -> (b, m, k)>

// CHECK-LABEL: func.func @cap_bias_and_mask(
// CHECK-SAME: %[[BIAS:[a-z0-9]+]]: tensor<6x5xf32>, %[[MASK:[a-z0-9]+]]: tensor<2x6x5xi1>
// CHECK-DAG: %[[LOW:.*]] = arith.constant -1.000000e+09 : f32
// CHECK-DAG: %[[START:.*]] = arith.constant 0xCD800000 : f32
// CHECK-DAG: %[[CAP:.*]] = arith.constant 3.000000e+01 : f32
// CHECK-DAG: %[[INVERSE:.*]] = arith.constant 0.0333333351 : f32
// CHECK: %[[ADDED:.*]] = linalg.generic {{.*}} ins(%[[MASK]], %[[BIAS]] :
// CHECK: %[[SUM:.*]] = arith.select %{{.*}}, %{{.*}}, %[[LOW]] : f32
// CHECK: %[[LOWER:.*]] = arith.maximumf
// CHECK: %[[SHOWN:.*]] = arith.cmpf ogt, %[[SUM]], %[[START]] : f32
// CHECK: arith.select %[[SHOWN]], %[[SUM]], %[[LOWER]] : f32
// CHECK: %[[STORED:.*]] = iree_tensor_ext.compute_barrier.start %[[ADDED]]
// CHECK: iree_linalg_ext.attention
// CHECK-SAME: %[[STORED]]
// CHECK: ^bb0(%[[SCORE:.*]]: f32)
// CHECK: %[[X:.*]] = arith.mulf %[[SCORE]], %[[INVERSE]]
// CHECK: %[[Y:.*]] = math.tanh %[[X]]
// CHECK: %[[Z:.*]] = arith.mulf %[[Y]], %[[CAP]]
// CHECK: iree_linalg_ext.yield %[[Z]]
func.func @cap_bias_and_mask(%q: tensor<2x6x8xf32>, %k: tensor<2x8x5xf32>, %v: tensor<2x5x8xf32>, %bias: tensor<6x5xf32>, %mask: tensor<2x6x5xi1>) -> tensor<2x6x8xf32> {
  %zero = arith.constant 0.0 : f32
  %hidden = arith.constant -1.0e+09 : f32
  %cap = arith.constant 30.0 : f32
  %e = tensor.empty() : tensor<2x6x5xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x6x8xf32>, tensor<2x8x5xf32>) outs(%s0 : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %m = linalg.generic {indexing_maps = [#s, #m, #s, #s], iterator_types = ["parallel", "parallel", "parallel"]} ins(%s, %bias, %mask : tensor<2x6x5xf32>, tensor<6x5xf32>, tensor<2x6x5xi1>) outs(%e : tensor<2x6x5xf32>) {
  ^bb0(%x: f32, %b: f32, %c: i1, %o: f32):
    %d = arith.divf %x, %cap : f32
    %t = math.tanh %d : f32
    %y = arith.mulf %t, %cap : f32
    %z = arith.addf %y, %b : f32
    %r = arith.select %c, %z, %hidden : f32
    linalg.yield %r : f32
  } -> tensor<2x6x5xf32>
  %w = linalg.softmax dimension(2) ins(%m : tensor<2x6x5xf32>) outs(%e : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %eo = tensor.empty() : tensor<2x6x8xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%eo : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  %r = linalg.batch_matmul ins(%w, %v : tensor<2x6x5xf32>, tensor<2x5x8xf32>) outs(%o0 : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  return %r : tensor<2x6x8xf32>
}

// -----

// A batch of operands that are rounded to f16, with weights rounded to it: attention in f16. K and V
// have one head for all, which a repeat in front of the products does not hide: heads are rows.

#r = affine_map<(b, h, k, d) -> (b, k, d)>
#a = affine_map<(b, h, k, d) -> (b, h, k, d)>

// CHECK-LABEL: func.func @repeated_half(
// CHECK-SAME: %[[QUERY:.*]]: tensor<2x3x6x8xf16>, %[[KEY:.*]]: tensor<2x5x8xf16>, %[[VALUE:.*]]: tensor<2x5x8xf16>
// CHECK: %[[ROWS:.*]] = tensor.collapse_shape %[[QUERY]] {{\[\[}}0], [1, 2], [3]]
// CHECK: iree_linalg_ext.attention
// CHECK-SAME: ins(%[[ROWS]], %[[KEY]], %[[VALUE]], %{{.*}} : tensor<2x18x8xf16>, tensor<2x5x8xf16>, tensor<2x5x8xf16>, f32)
func.func @repeated_half(%q: tensor<2x3x6x8xf16>, %k: tensor<2x5x8xf16>, %v: tensor<2x5x8xf16>) -> tensor<2x3x6x8xf32> {
  %zero = arith.constant 0.0 : f32
  %ek = tensor.empty() : tensor<2x3x5x8xf16>
  %k4 = linalg.generic {indexing_maps = [#r, #a], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%k : tensor<2x5x8xf16>) outs(%ek : tensor<2x3x5x8xf16>) {
  ^bb0(%x: f16, %o: f16):
    linalg.yield %x : f16
  } -> tensor<2x3x5x8xf16>
  %v4 = linalg.broadcast ins(%v : tensor<2x5x8xf16>) outs(%ek : tensor<2x3x5x8xf16>) dimensions = [1]
  %q3 = tensor.collapse_shape %q [[0, 1], [2], [3]] : tensor<2x3x6x8xf16> into tensor<6x6x8xf16>
  %k3 = tensor.collapse_shape %k4 [[0, 1], [2], [3]] : tensor<2x3x5x8xf16> into tensor<6x5x8xf16>
  %v3 = tensor.collapse_shape %v4 [[0, 1], [2], [3]] : tensor<2x3x5x8xf16> into tensor<6x5x8xf16>
  %ekt = tensor.empty() : tensor<6x8x5xf16>
  %kt = linalg.transpose ins(%k3 : tensor<6x5x8xf16>) outs(%ekt : tensor<6x8x5xf16>) permutation = [0, 2, 1]
  %e = tensor.empty() : tensor<6x6x5xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<6x6x5xf32>) -> tensor<6x6x5xf32>
  %s = linalg.batch_matmul ins(%q3, %kt : tensor<6x6x8xf16>, tensor<6x8x5xf16>) outs(%s0 : tensor<6x6x5xf32>) -> tensor<6x6x5xf32>
  %w = linalg.softmax dimension(2) ins(%s : tensor<6x6x5xf32>) outs(%e : tensor<6x6x5xf32>) -> tensor<6x6x5xf32>
  %eh = tensor.empty() : tensor<6x6x5xf16>
  %wh = linalg.generic {indexing_maps = [affine_map<(b, m, k) -> (b, m, k)>, affine_map<(b, m, k) -> (b, m, k)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%w : tensor<6x6x5xf32>) outs(%eh : tensor<6x6x5xf16>) {
  ^bb0(%x: f32, %o: f16):
    %y = arith.truncf %x : f32 to f16
    linalg.yield %y : f16
  } -> tensor<6x6x5xf16>
  %eo = tensor.empty() : tensor<6x6x8xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%eo : tensor<6x6x8xf32>) -> tensor<6x6x8xf32>
  %r = linalg.batch_matmul ins(%wh, %v3 : tensor<6x6x5xf16>, tensor<6x5x8xf16>) outs(%o0 : tensor<6x6x8xf32>) -> tensor<6x6x8xf32>
  %r4 = tensor.expand_shape %r [[0, 1], [2], [3]] output_shape [2, 3, 6, 8] : tensor<6x6x8xf32> into tensor<2x3x6x8xf32>
  return %r4 : tensor<2x3x6x8xf32>
}

// -----

// The result is rounded to the type of the operands, too, and read in no other: attention rounds it.

#r = affine_map<(b, h, k, d) -> (b, k, d)>
#a = affine_map<(b, h, k, d) -> (b, h, k, d)>

// CHECK-LABEL: func.func @rounded_result(
// CHECK: iree_linalg_ext.attention
// CHECK-SAME: outs(%{{.*}} : tensor<2x18x8xf16>)
// CHECK-NOT: arith.truncf
// CHECK: %[[RESULT:.*]] = tensor.expand_shape
// CHECK-SAME: tensor<2x18x8xf16> into tensor<2x3x6x8xf16>
// CHECK: return %[[RESULT]]
func.func @rounded_result(%q: tensor<2x3x6x8xf16>, %k: tensor<2x5x8xf16>, %v: tensor<2x5x8xf16>) -> tensor<2x3x6x8xf16> {
  %zero = arith.constant 0.0 : f32
  %ek = tensor.empty() : tensor<2x3x5x8xf16>
  %k4 = linalg.generic {indexing_maps = [#r, #a], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%k : tensor<2x5x8xf16>) outs(%ek : tensor<2x3x5x8xf16>) {
  ^bb0(%x: f16, %o: f16):
    linalg.yield %x : f16
  } -> tensor<2x3x5x8xf16>
  %v4 = linalg.broadcast ins(%v : tensor<2x5x8xf16>) outs(%ek : tensor<2x3x5x8xf16>) dimensions = [1]
  %q3 = tensor.collapse_shape %q [[0, 1], [2], [3]] : tensor<2x3x6x8xf16> into tensor<6x6x8xf16>
  %k3 = tensor.collapse_shape %k4 [[0, 1], [2], [3]] : tensor<2x3x5x8xf16> into tensor<6x5x8xf16>
  %v3 = tensor.collapse_shape %v4 [[0, 1], [2], [3]] : tensor<2x3x5x8xf16> into tensor<6x5x8xf16>
  %ekt = tensor.empty() : tensor<6x8x5xf16>
  %kt = linalg.transpose ins(%k3 : tensor<6x5x8xf16>) outs(%ekt : tensor<6x8x5xf16>) permutation = [0, 2, 1]
  %e = tensor.empty() : tensor<6x6x5xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<6x6x5xf32>) -> tensor<6x6x5xf32>
  %s = linalg.batch_matmul ins(%q3, %kt : tensor<6x6x8xf16>, tensor<6x8x5xf16>) outs(%s0 : tensor<6x6x5xf32>) -> tensor<6x6x5xf32>
  %w = linalg.softmax dimension(2) ins(%s : tensor<6x6x5xf32>) outs(%e : tensor<6x6x5xf32>) -> tensor<6x6x5xf32>
  %eh = tensor.empty() : tensor<6x6x5xf16>
  %wh = linalg.generic {indexing_maps = [affine_map<(b, m, k) -> (b, m, k)>, affine_map<(b, m, k) -> (b, m, k)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%w : tensor<6x6x5xf32>) outs(%eh : tensor<6x6x5xf16>) {
  ^bb0(%x: f32, %o: f16):
    %y = arith.truncf %x : f32 to f16
    linalg.yield %y : f16
  } -> tensor<6x6x5xf16>
  %eo = tensor.empty() : tensor<6x6x8xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%eo : tensor<6x6x8xf32>) -> tensor<6x6x8xf32>
  %r = linalg.batch_matmul ins(%wh, %v3 : tensor<6x6x5xf16>, tensor<6x5x8xf16>) outs(%o0 : tensor<6x6x8xf32>) -> tensor<6x6x8xf32>
  %r4 = tensor.expand_shape %r [[0, 1], [2], [3]] output_shape [2, 3, 6, 8] : tensor<6x6x8xf32> into tensor<2x3x6x8xf32>
  %en = tensor.empty() : tensor<2x3x6x8xf16>
  %rounded = linalg.generic {indexing_maps = [#a, #a], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%r4 : tensor<2x3x6x8xf32>) outs(%en : tensor<2x3x6x8xf16>) {
  ^bb0(%x: f32, %o: f16):
    %y = arith.truncf %x : f32 to f16
    linalg.yield %y : f16
  } -> tensor<2x3x6x8xf16>
  return %rounded : tensor<2x3x6x8xf16>
}

// -----

// A result that something reads in f32 as well stays f32.

#r = affine_map<(b, h, k, d) -> (b, k, d)>
#a = affine_map<(b, h, k, d) -> (b, h, k, d)>

// CHECK-LABEL: func.func @rounded_and_not(
// CHECK: iree_linalg_ext.attention
// CHECK-SAME: outs(%{{.*}} : tensor<2x18x8xf32>)
// CHECK: arith.truncf
func.func @rounded_and_not(%q: tensor<2x3x6x8xf16>, %k: tensor<2x5x8xf16>, %v: tensor<2x5x8xf16>) -> (tensor<2x3x6x8xf16>, tensor<2x3x6x8xf32>) {
  %zero = arith.constant 0.0 : f32
  %ek = tensor.empty() : tensor<2x3x5x8xf16>
  %k4 = linalg.generic {indexing_maps = [#r, #a], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%k : tensor<2x5x8xf16>) outs(%ek : tensor<2x3x5x8xf16>) {
  ^bb0(%x: f16, %o: f16):
    linalg.yield %x : f16
  } -> tensor<2x3x5x8xf16>
  %v4 = linalg.broadcast ins(%v : tensor<2x5x8xf16>) outs(%ek : tensor<2x3x5x8xf16>) dimensions = [1]
  %q3 = tensor.collapse_shape %q [[0, 1], [2], [3]] : tensor<2x3x6x8xf16> into tensor<6x6x8xf16>
  %k3 = tensor.collapse_shape %k4 [[0, 1], [2], [3]] : tensor<2x3x5x8xf16> into tensor<6x5x8xf16>
  %v3 = tensor.collapse_shape %v4 [[0, 1], [2], [3]] : tensor<2x3x5x8xf16> into tensor<6x5x8xf16>
  %ekt = tensor.empty() : tensor<6x8x5xf16>
  %kt = linalg.transpose ins(%k3 : tensor<6x5x8xf16>) outs(%ekt : tensor<6x8x5xf16>) permutation = [0, 2, 1]
  %e = tensor.empty() : tensor<6x6x5xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<6x6x5xf32>) -> tensor<6x6x5xf32>
  %s = linalg.batch_matmul ins(%q3, %kt : tensor<6x6x8xf16>, tensor<6x8x5xf16>) outs(%s0 : tensor<6x6x5xf32>) -> tensor<6x6x5xf32>
  %w = linalg.softmax dimension(2) ins(%s : tensor<6x6x5xf32>) outs(%e : tensor<6x6x5xf32>) -> tensor<6x6x5xf32>
  %eh = tensor.empty() : tensor<6x6x5xf16>
  %wh = linalg.generic {indexing_maps = [affine_map<(b, m, k) -> (b, m, k)>, affine_map<(b, m, k) -> (b, m, k)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%w : tensor<6x6x5xf32>) outs(%eh : tensor<6x6x5xf16>) {
  ^bb0(%x: f32, %o: f16):
    %y = arith.truncf %x : f32 to f16
    linalg.yield %y : f16
  } -> tensor<6x6x5xf16>
  %eo = tensor.empty() : tensor<6x6x8xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%eo : tensor<6x6x8xf32>) -> tensor<6x6x8xf32>
  %r = linalg.batch_matmul ins(%wh, %v3 : tensor<6x6x5xf16>, tensor<6x5x8xf16>) outs(%o0 : tensor<6x6x8xf32>) -> tensor<6x6x8xf32>
  %r4 = tensor.expand_shape %r [[0, 1], [2], [3]] output_shape [2, 3, 6, 8] : tensor<6x6x8xf32> into tensor<2x3x6x8xf32>
  %en = tensor.empty() : tensor<2x3x6x8xf16>
  %rounded = linalg.generic {indexing_maps = [#a, #a], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%r4 : tensor<2x3x6x8xf32>) outs(%en : tensor<2x3x6x8xf16>) {
  ^bb0(%x: f32, %o: f16):
    %y = arith.truncf %x : f32 to f16
    linalg.yield %y : f16
  } -> tensor<2x3x6x8xf16>
  return %rounded, %r4 : tensor<2x3x6x8xf16>, tensor<2x3x6x8xf32>
}

// -----

// A causal mask over sizes known only at run time, rows being several dims: positions are counted
// with the size of the inner dim. The sum reads the exponentials in another shape.

#s = affine_map<(b, q, p, k) -> (b, q, p, k)>
#t = affine_map<(b, q, p, k) -> (b, q, p)>

// CHECK-LABEL: func.func @dynamic_positions(
// CHECK: %[[INNER:.*]] = tensor.dim
// CHECK: linalg.generic
// CHECK: arith.muli %{{.*}}, %[[INNER]] : index
// CHECK: arith.select
// CHECK: iree_linalg_ext.attention
func.func @dynamic_positions(%q: tensor<2x3x?x8xf32>, %k: tensor<2x?x8xf32>, %v: tensor<2x?x8xf32>) -> tensor<2x?x8xf32> {
  %zero = arith.constant 0.0 : f32
  %hidden = arith.constant -1.0e+30 : f32
  %two = arith.constant 2 : index
  %three = arith.constant 3 : index
  %one = arith.constant 1 : index
  %p = tensor.dim %q, %two : tensor<2x3x?x8xf32>
  %n = tensor.dim %k, %one : tensor<2x?x8xf32>
  %m = arith.muli %three, %p : index
  %q3 = tensor.collapse_shape %q [[0], [1, 2], [3]] : tensor<2x3x?x8xf32> into tensor<2x?x8xf32>
  %es = tensor.empty(%m, %n) : tensor<2x?x?xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%es : tensor<2x?x?xf32>) -> tensor<2x?x?xf32>
  %s = linalg.batch_matmul indexing_maps = [affine_map<(b, m, n, k) -> (b, m, k)>, affine_map<(b, m, n, k) -> (b, n, k)>, affine_map<(b, m, n, k) -> (b, m, n)>] ins(%q3, %k : tensor<2x?x8xf32>, tensor<2x?x8xf32>) outs(%s0 : tensor<2x?x?xf32>) -> tensor<2x?x?xf32>
  %e = linalg.generic {indexing_maps = [affine_map<(b, m, k) -> (b, m, k)>, affine_map<(b, m, k) -> (b, m, k)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%s : tensor<2x?x?xf32>) outs(%es : tensor<2x?x?xf32>) {
  ^bb0(%x: f32, %o: f32):
    %i = linalg.index 1 : index
    %j = linalg.index 2 : index
    %c = arith.cmpi sge, %i, %j : index
    %y = arith.select %c, %x, %hidden : f32
    %z = math.exp %y : f32
    linalg.yield %z : f32
  } -> tensor<2x?x?xf32>
  %e4 = tensor.expand_shape %e [[0], [1, 2], [3]] output_shape [2, 3, %p, %n] : tensor<2x?x?xf32> into tensor<2x3x?x?xf32>
  %et = tensor.empty(%p) : tensor<2x3x?xf32>
  %t0 = linalg.fill ins(%zero : f32) outs(%et : tensor<2x3x?xf32>) -> tensor<2x3x?xf32>
  %t = linalg.generic {indexing_maps = [#s, #t], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%e4 : tensor<2x3x?x?xf32>) outs(%t0 : tensor<2x3x?xf32>) {
  ^bb0(%x: f32, %o: f32):
    %y = arith.addf %x, %o : f32
    linalg.yield %y : f32
  } -> tensor<2x3x?xf32>
  %t2 = tensor.collapse_shape %t [[0], [1, 2]] : tensor<2x3x?xf32> into tensor<2x?xf32>
  %w = linalg.generic {indexing_maps = [affine_map<(b, m, k) -> (b, m, k)>, affine_map<(b, m, k) -> (b, m)>, affine_map<(b, m, k) -> (b, m, k)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%e, %t2 : tensor<2x?x?xf32>, tensor<2x?xf32>) outs(%es : tensor<2x?x?xf32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %z = arith.divf %x, %y : f32
    linalg.yield %z : f32
  } -> tensor<2x?x?xf32>
  %eo = tensor.empty(%m) : tensor<2x?x8xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%eo : tensor<2x?x8xf32>) -> tensor<2x?x8xf32>
  %r = linalg.batch_matmul ins(%w, %v : tensor<2x?x?xf32>, tensor<2x?x8xf32>) outs(%o0 : tensor<2x?x8xf32>) -> tensor<2x?x8xf32>
  return %r : tensor<2x?x8xf32>
}

// -----

// A result that is rounded is what the op gives.

// CHECK-LABEL: func.func @rounded(
// CHECK: %[[R:.*]] = iree_linalg_ext.attention
// CHECK-SAME: outs(%{{.*}} : tensor<6x5x4xf16>)
// CHECK: return %[[R]]
func.func @rounded(%q: tensor<6x5x8xf16>, %k: tensor<6x8x5xf16>, %v: tensor<6x5x4xf16>) -> tensor<6x5x4xf16> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<6x5x5xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<6x5x5xf32>) -> tensor<6x5x5xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<6x5x8xf16>, tensor<6x8x5xf16>) outs(%s0 : tensor<6x5x5xf32>) -> tensor<6x5x5xf32>
  %w = linalg.softmax dimension(2) ins(%s : tensor<6x5x5xf32>) outs(%e : tensor<6x5x5xf32>) -> tensor<6x5x5xf32>
  %eh = tensor.empty() : tensor<6x5x5xf16>
  %wh = linalg.generic {indexing_maps = [affine_map<(b, m, k) -> (b, m, k)>, affine_map<(b, m, k) -> (b, m, k)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%w : tensor<6x5x5xf32>) outs(%eh : tensor<6x5x5xf16>) {
  ^bb0(%x: f32, %o: f16):
    %y = arith.truncf %x : f32 to f16
    linalg.yield %y : f16
  } -> tensor<6x5x5xf16>
  %eo = tensor.empty() : tensor<6x5x4xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%eo : tensor<6x5x4xf32>) -> tensor<6x5x4xf32>
  %r = linalg.batch_matmul ins(%wh, %v : tensor<6x5x5xf16>, tensor<6x5x4xf16>) outs(%o0 : tensor<6x5x4xf32>) -> tensor<6x5x4xf32>
  %er = tensor.empty() : tensor<6x5x4xf16>
  %rh = linalg.generic {indexing_maps = [affine_map<(b, m, n) -> (b, m, n)>, affine_map<(b, m, n) -> (b, m, n)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%r : tensor<6x5x4xf32>) outs(%er : tensor<6x5x4xf16>) {
  ^bb0(%x: f32, %o: f16):
    %y = arith.truncf %x : f32 to f16
    linalg.yield %y : f16
  } -> tensor<6x5x4xf16>
  return %rh : tensor<6x5x4xf16>
}

// -----

// A scale that is no number of f16 exactly stays rounded behind scores in f16: head dim 128.

#a = affine_map<(b, m, k) -> (b, m, k)>

// CHECK-LABEL: func.func @rounded_scale(
// CHECK: %[[SCALE:.*]] = arith.constant 0.333333{{[0-9]*}} : f32
// CHECK: iree_linalg_ext.attention
// CHECK-SAME: , %[[SCALE]] : tensor<2x6x8xf16>
func.func @rounded_scale(%q: tensor<2x6x8xf16>, %k: tensor<2x8x5xf16>, %v: tensor<2x5x8xf16>) -> tensor<2x6x8xf16> {
  %zero = arith.constant 0.0 : f32
  %third = arith.constant 0.33333333 : f32
  %e = tensor.empty() : tensor<2x6x5xf32>
  %eh = tensor.empty() : tensor<2x6x5xf16>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x6x8xf16>, tensor<2x8x5xf16>) outs(%s0 : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %scaled = linalg.generic {indexing_maps = [#a, #a], iterator_types = ["parallel", "parallel", "parallel"]} ins(%s : tensor<2x6x5xf32>) outs(%eh : tensor<2x6x5xf16>) {
  ^bb0(%x: f32, %o: f16):
    %y = arith.truncf %x : f32 to f16
    %c = arith.truncf %third : f32 to f16
    %z = arith.mulf %y, %c : f16
    linalg.yield %z : f16
  } -> tensor<2x6x5xf16>
  %w = linalg.softmax dimension(2) ins(%scaled : tensor<2x6x5xf16>) outs(%eh : tensor<2x6x5xf16>) -> tensor<2x6x5xf16>
  %eo = tensor.empty() : tensor<2x6x8xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%eo : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  %r = linalg.batch_matmul ins(%w, %v : tensor<2x6x5xf16>, tensor<2x5x8xf16>) outs(%o0 : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  %en = tensor.empty() : tensor<2x6x8xf16>
  %h = linalg.generic {indexing_maps = [#a, #a], iterator_types = ["parallel", "parallel", "parallel"]} ins(%r : tensor<2x6x8xf32>) outs(%en : tensor<2x6x8xf16>) {
  ^bb0(%x: f32, %o: f16):
    %y = arith.truncf %x : f32 to f16
    linalg.yield %y : f16
  } -> tensor<2x6x8xf16>
  return %h : tensor<2x6x8xf16>
}

// -----

// Pairs of neighbours along the head dim are turned, as interleaved rotary embeddings do: that cuts
// the dim in front of the product, and leaves it whole in attention.

#a = affine_map<(m, d) -> (m, d)>

// CHECK-LABEL: func.func @interleaved(
// CHECK: %[[PAIRS:.*]] = tensor.collapse_shape
// CHECK: %[[QUERY:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %[[PAIRS]] :
// CHECK: iree_linalg_ext.attention {{.*}} ins(%[[QUERY]], %{{.*}} : tensor<?x8xf32>, tensor<?x8xf32>
func.func @interleaved(%q: tensor<?x8xf32>, %k: tensor<?x8xf32>, %v: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %m = tensor.dim %q, %c0 : tensor<?x8xf32>
  %n = tensor.dim %k, %c0 : tensor<?x8xf32>
  %odd = tensor.extract_slice %q[0, 1] [%m, 4] [1, 2] : tensor<?x8xf32> to tensor<?x4xf32>
  %even = tensor.extract_slice %q[0, 0] [%m, 4] [1, 2] : tensor<?x8xf32> to tensor<?x4xf32>
  %en = tensor.empty(%m) : tensor<?x4xf32>
  %negated = linalg.generic {indexing_maps = [#a, #a], iterator_types = ["parallel", "parallel"]} ins(%odd : tensor<?x4xf32>) outs(%en : tensor<?x4xf32>) {
  ^bb0(%x: f32, %o: f32):
    %y = arith.negf %x : f32
    linalg.yield %y : f32
  } -> tensor<?x4xf32>
  %first = tensor.expand_shape %negated [[0], [1, 2]] output_shape [%m, 4, 1] : tensor<?x4xf32> into tensor<?x4x1xf32>
  %second = tensor.expand_shape %even [[0], [1, 2]] output_shape [%m, 4, 1] : tensor<?x4xf32> into tensor<?x4x1xf32>
  %both = tensor.concat dim(2) %first, %second : (tensor<?x4x1xf32>, tensor<?x4x1xf32>) -> tensor<?x4x2xf32>
  %pairs = tensor.collapse_shape %both [[0], [1, 2]] : tensor<?x4x2xf32> into tensor<?x8xf32>
  %eq = tensor.empty(%m) : tensor<?x8xf32>
  %turned = linalg.generic {indexing_maps = [#a, #a, #a], iterator_types = ["parallel", "parallel"]} ins(%q, %pairs : tensor<?x8xf32>, tensor<?x8xf32>) outs(%eq : tensor<?x8xf32>) {
  ^bb0(%x: f32, %p: f32, %o: f32):
    %y = arith.addf %x, %p : f32
    linalg.yield %y : f32
  } -> tensor<?x8xf32>
  %e = tensor.empty(%m, %n) : tensor<?x?xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<?x?xf32>) -> tensor<?x?xf32>
  %s = linalg.matmul indexing_maps = [affine_map<(i, j, d) -> (i, d)>, affine_map<(i, j, d) -> (j, d)>, affine_map<(i, j, d) -> (i, j)>] ins(%turned, %k : tensor<?x8xf32>, tensor<?x8xf32>) outs(%s0 : tensor<?x?xf32>) -> tensor<?x?xf32>
  %w = linalg.softmax dimension(1) ins(%s : tensor<?x?xf32>) outs(%e : tensor<?x?xf32>) -> tensor<?x?xf32>
  %eo = tensor.empty(%m) : tensor<?x4xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%eo : tensor<?x4xf32>) -> tensor<?x4xf32>
  %r = linalg.matmul ins(%w, %v : tensor<?x?xf32>, tensor<?x4xf32>) outs(%o0 : tensor<?x4xf32>) -> tensor<?x4xf32>
  return %r : tensor<?x4xf32>
}

// -----

// Two softmaxes of the same scores.

#a = affine_map<(b, m, k) -> (b, m, k)>

// CHECK-LABEL: func.func @shared_scores(
// CHECK-COUNT-2: iree_linalg_ext.attention
// CHECK-NOT: linalg.batch_matmul
func.func @shared_scores(%q: tensor<2x6x8xf32>, %k: tensor<2x8x5xf32>, %v: tensor<2x5x8xf32>) -> (tensor<2x6x8xf32>, tensor<2x6x8xf32>) {
  %zero = arith.constant 0.0 : f32
  %half = arith.constant 0.5 : f32
  %e = tensor.empty() : tensor<2x6x5xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x6x8xf32>, tensor<2x8x5xf32>) outs(%s0 : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %t = linalg.generic {indexing_maps = [#a, #a], iterator_types = ["parallel", "parallel", "parallel"]} ins(%s : tensor<2x6x5xf32>) outs(%e : tensor<2x6x5xf32>) {
  ^bb0(%x: f32, %o: f32):
    %y = arith.mulf %x, %half : f32
    linalg.yield %y : f32
  } -> tensor<2x6x5xf32>
  %w = linalg.softmax dimension(2) ins(%s : tensor<2x6x5xf32>) outs(%e : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %u = linalg.softmax dimension(2) ins(%t : tensor<2x6x5xf32>) outs(%e : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %eo = tensor.empty() : tensor<2x6x8xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%eo : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  %r = linalg.batch_matmul ins(%w, %v : tensor<2x6x5xf32>, tensor<2x5x8xf32>) outs(%o0 : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  %p = linalg.batch_matmul ins(%u, %v : tensor<2x6x5xf32>, tensor<2x5x8xf32>) outs(%o0 : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  return %r, %p : tensor<2x6x8xf32>, tensor<2x6x8xf32>
}

// -----

// The lowest number where a row does not see a key, and padding added behind it: the sum as it is,
// in which keys that are hidden twice are lower than others.

#a = affine_map<(b, m, k) -> (b, m, k)>

// CHECK-LABEL: func.func @padded_on_the_left(
// CHECK-SAME: %[[PADDING:[a-z0-9]+]]: tensor<5xf32>
// CHECK: %[[LOWEST:.*]] = arith.constant -3.40282347E+38 : f32
// CHECK: linalg.generic {{.*}} ins(%[[PADDING]] :
// CHECK: %[[CAUSAL:.*]] = arith.select %{{.*}}, %{{.*}}, %[[LOWEST]] : f32
// CHECK-NEXT: %[[SUM:.*]] = arith.addf %[[CAUSAL]], %{{.*}} : f32
// CHECK-NEXT: linalg.yield %[[SUM]] : f32
// CHECK: iree_linalg_ext.attention
func.func @padded_on_the_left(%q: tensor<2x5x8xf32>, %k: tensor<2x8x5xf32>, %v: tensor<2x5x8xf32>, %padding: tensor<5xf32>) -> tensor<2x5x8xf32> {
  %zero = arith.constant 0.0 : f32
  %lowest = arith.constant -3.40282347E+38 : f32
  %e = tensor.empty() : tensor<2x5x5xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x5x5xf32>) -> tensor<2x5x5xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x5x8xf32>, tensor<2x8x5xf32>) outs(%s0 : tensor<2x5x5xf32>) -> tensor<2x5x5xf32>
  %x = linalg.generic {indexing_maps = [#a, affine_map<(b, m, k) -> (k)>, #a], iterator_types = ["parallel", "parallel", "parallel"]} ins(%s, %padding : tensor<2x5x5xf32>, tensor<5xf32>) outs(%e : tensor<2x5x5xf32>) {
  ^bb0(%x: f32, %p: f32, %o: f32):
    %i = linalg.index 1 : index
    %j = linalg.index 2 : index
    %c = arith.cmpi sge, %i, %j : index
    %y = arith.select %c, %x, %lowest : f32
    %z = arith.addf %y, %p : f32
    linalg.yield %z : f32
  } -> tensor<2x5x5xf32>
  %w = linalg.softmax dimension(2) ins(%x : tensor<2x5x5xf32>) outs(%e : tensor<2x5x5xf32>) -> tensor<2x5x5xf32>
  %eo = tensor.empty() : tensor<2x5x8xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%eo : tensor<2x5x8xf32>) -> tensor<2x5x8xf32>
  %r = linalg.batch_matmul ins(%w, %v : tensor<2x5x5xf32>, tensor<2x5x8xf32>) outs(%o0 : tensor<2x5x8xf32>) -> tensor<2x5x8xf32>
  return %r : tensor<2x5x8xf32>
}

// -----

// The sum may divide behind the product with V.
// CHECK-LABEL: func.func @late(
// CHECK: %[[R:.*]] = iree_linalg_ext.attention
// CHECK-NOT: arith.divf
// CHECK: return %[[R]]
func.func @late(%q: tensor<3x6x16xf32>, %k: tensor<3x5x16xf32>, %v: tensor<3x5x16xf32>) -> tensor<3x6x16xf32> {
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
  return %r : tensor<3x6x16xf32>
}
