// Masks that are computed are stored before attention reads them, below reshapes and repeats. Those
// of positions alone are computed within attention, except on CPUs, whose vector loops read masks
// from memory.

// RUN: attn-opt %s --attn-raise=mode=always --target=sm_80 --canonicalize --cse --split-input-file | FileCheck %s --check-prefixes=CHECK,GPU
// RUN: attn-opt %s --attn-raise=mode=always --target=llvm-cpu --canonicalize --cse --split-input-file | FileCheck %s --check-prefixes=CHECK,CPU

#all = affine_map<(b, h, m, k) -> (b, h, m, k)>
#heads = affine_map<(b, h, m, k) -> (b, 0, m, k)>

// CHECK-LABEL: func.func @padding(
// CHECK-SAME: %[[SEEN:[a-z0-9]+]]: tensor<2x1x6x5xi1>
// CHECK: %[[MADE:.+]] = linalg.generic {{.*}} ins(%[[SEEN]] :
// CHECK: %[[STORED:.+]] = iree_tensor_ext.compute_barrier.start %[[MADE]] : tensor<2x1x6x5xf32>
// CHECK: %[[MASK:.+]] = tensor.collapse_shape %[[STORED]]
// CHECK: iree_linalg_ext.attention {{.*}} ins({{.*}}, %[[MASK]] :
func.func @padding(%q: tensor<2x4x6x8xf32>, %k: tensor<2x4x8x5xf32>, %v: tensor<2x4x5x8xf32>, %seen: tensor<2x1x6x5xi1>) -> tensor<2x4x6x8xf32> {
  %zero = arith.constant 0.0 : f32
  %low = arith.constant -1.0e+09 : f32
  %me = tensor.empty() : tensor<2x1x6x5xf32>
  %mask = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%seen : tensor<2x1x6x5xi1>) outs(%me : tensor<2x1x6x5xf32>) {
  ^bb0(%c: i1, %o: f32):
    %y = arith.select %c, %zero, %low : f32
    linalg.yield %y : f32
  } -> tensor<2x1x6x5xf32>
  %q3 = tensor.collapse_shape %q [[0, 1], [2], [3]] : tensor<2x4x6x8xf32> into tensor<8x6x8xf32>
  %k3 = tensor.collapse_shape %k [[0, 1], [2], [3]] : tensor<2x4x8x5xf32> into tensor<8x8x5xf32>
  %v3 = tensor.collapse_shape %v [[0, 1], [2], [3]] : tensor<2x4x5x8xf32> into tensor<8x5x8xf32>
  %e = tensor.empty() : tensor<8x6x5xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<8x6x5xf32>) -> tensor<8x6x5xf32>
  %s3 = linalg.batch_matmul ins(%q3, %k3 : tensor<8x6x8xf32>, tensor<8x8x5xf32>) outs(%z : tensor<8x6x5xf32>) -> tensor<8x6x5xf32>
  %s = tensor.expand_shape %s3 [[0, 1], [2], [3]] output_shape [2, 4, 6, 5] : tensor<8x6x5xf32> into tensor<2x4x6x5xf32>
  %e4 = tensor.empty() : tensor<2x4x6x5xf32>
  %x = linalg.generic {indexing_maps = [#all, #heads, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%s, %mask : tensor<2x4x6x5xf32>, tensor<2x1x6x5xf32>) outs(%e4 : tensor<2x4x6x5xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %y = arith.addf %a, %b : f32
    linalg.yield %y : f32
  } -> tensor<2x4x6x5xf32>
  %w = linalg.softmax dimension(3) ins(%x : tensor<2x4x6x5xf32>) outs(%e4 : tensor<2x4x6x5xf32>) -> tensor<2x4x6x5xf32>
  %w3 = tensor.collapse_shape %w [[0, 1], [2], [3]] : tensor<2x4x6x5xf32> into tensor<8x6x5xf32>
  %eo = tensor.empty() : tensor<8x6x8xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%eo : tensor<8x6x8xf32>) -> tensor<8x6x8xf32>
  %r3 = linalg.batch_matmul ins(%w3, %v3 : tensor<8x6x5xf32>, tensor<8x5x8xf32>) outs(%o0 : tensor<8x6x8xf32>) -> tensor<8x6x8xf32>
  %r = tensor.expand_shape %r3 [[0, 1], [2], [3]] output_shape [2, 4, 6, 8] : tensor<8x6x8xf32> into tensor<2x4x6x8xf32>
  return %r : tensor<2x4x6x8xf32>
}

// -----

#score = affine_map<(b, m, k) -> (b, m, k)>
#rows = affine_map<(b, m, k) -> (m, k)>
#mask = affine_map<(m, k) -> (m, k)>

// CHECK-LABEL: func.func @causal(
// CPU: iree_tensor_ext.compute_barrier.start
// GPU-NOT: compute_barrier
// CHECK: iree_linalg_ext.attention
func.func @causal(%q: tensor<2x6x8xf32>, %k: tensor<2x8x6xf32>, %v: tensor<2x6x8xf32>) -> tensor<2x6x8xf32> {
  %zero = arith.constant 0.0 : f32
  %low = arith.constant -1.0e+09 : f32
  %me = tensor.empty() : tensor<6x6xf32>
  %mask = linalg.generic {indexing_maps = [#mask], iterator_types = ["parallel", "parallel"]} outs(%me : tensor<6x6xf32>) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    // An integer in the body, where IREE's input phase leaves none.
    %one = arith.constant 1 : index
    %next = arith.addi %i, %one : index
    %c = arith.cmpi sgt, %next, %j : index
    %y = arith.select %c, %zero, %low : f32
    linalg.yield %y : f32
  } -> tensor<6x6xf32>
  %e = tensor.empty() : tensor<2x6x6xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<2x6x6xf32>) -> tensor<2x6x6xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x6x8xf32>, tensor<2x8x6xf32>) outs(%z : tensor<2x6x6xf32>) -> tensor<2x6x6xf32>
  %x = linalg.generic {indexing_maps = [#score, #rows, #score], iterator_types = ["parallel", "parallel", "parallel"]} ins(%s, %mask : tensor<2x6x6xf32>, tensor<6x6xf32>) outs(%e : tensor<2x6x6xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %y = arith.addf %a, %b : f32
    linalg.yield %y : f32
  } -> tensor<2x6x6xf32>
  %w = linalg.softmax dimension(2) ins(%x : tensor<2x6x6xf32>) outs(%e : tensor<2x6x6xf32>) -> tensor<2x6x6xf32>
  %eo = tensor.empty() : tensor<2x6x8xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%eo : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  %r = linalg.batch_matmul ins(%w, %v : tensor<2x6x6xf32>, tensor<2x6x8xf32>) outs(%o0 : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  return %r : tensor<2x6x8xf32>
}

// -----

#all = affine_map<(b, h, m, k) -> (b, h, m, k)>
#heads = affine_map<(b, h, m, k) -> (b, 0, m, k)>

// A bias of powers of whole numbers, whose constants stand in its body (Bloom).
// CHECK-LABEL: func.func @bloom(
// CHECK: linalg.generic
// CHECK: math.fpowi
// CHECK-NOT: linalg.batch_matmul
// CHECK: iree_linalg_ext.attention
func.func @bloom(%q: tensor<2x4x6x8xf32>, %k: tensor<2x4x8x5xf32>, %v: tensor<2x4x5x8xf32>) -> tensor<2x4x6x8xf32> {
  %zero = arith.constant 0.0 : f32
  %me = tensor.empty() : tensor<2x1x6x5xf32>
  %mask = linalg.generic {indexing_maps = [#all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} outs(%me : tensor<2x1x6x5xf32>) {
  ^bb0(%o: f32):
    %first = arith.constant 1 : i32
    %half = arith.constant 0.5 : f32
    %key = linalg.index 3 : index
    %at = arith.index_cast %key : index to i32
    %number = arith.addi %at, %first : i32
    %y = math.fpowi %half, %number : f32, i32
    linalg.yield %y : f32
  } -> tensor<2x1x6x5xf32>
  %q3 = tensor.collapse_shape %q [[0, 1], [2], [3]] : tensor<2x4x6x8xf32> into tensor<8x6x8xf32>
  %k3 = tensor.collapse_shape %k [[0, 1], [2], [3]] : tensor<2x4x8x5xf32> into tensor<8x8x5xf32>
  %v3 = tensor.collapse_shape %v [[0, 1], [2], [3]] : tensor<2x4x5x8xf32> into tensor<8x5x8xf32>
  %e = tensor.empty() : tensor<8x6x5xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<8x6x5xf32>) -> tensor<8x6x5xf32>
  %s3 = linalg.batch_matmul ins(%q3, %k3 : tensor<8x6x8xf32>, tensor<8x8x5xf32>) outs(%z : tensor<8x6x5xf32>) -> tensor<8x6x5xf32>
  %s = tensor.expand_shape %s3 [[0, 1], [2], [3]] output_shape [2, 4, 6, 5] : tensor<8x6x5xf32> into tensor<2x4x6x5xf32>
  %e4 = tensor.empty() : tensor<2x4x6x5xf32>
  %x = linalg.generic {indexing_maps = [#all, #heads, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%s, %mask : tensor<2x4x6x5xf32>, tensor<2x1x6x5xf32>) outs(%e4 : tensor<2x4x6x5xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %y = arith.addf %a, %b : f32
    linalg.yield %y : f32
  } -> tensor<2x4x6x5xf32>
  %w = linalg.softmax dimension(3) ins(%x : tensor<2x4x6x5xf32>) outs(%e4 : tensor<2x4x6x5xf32>) -> tensor<2x4x6x5xf32>
  %w3 = tensor.collapse_shape %w [[0, 1], [2], [3]] : tensor<2x4x6x5xf32> into tensor<8x6x5xf32>
  %eo = tensor.empty() : tensor<8x6x8xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%eo : tensor<8x6x8xf32>) -> tensor<8x6x8xf32>
  %r3 = linalg.batch_matmul ins(%w3, %v3 : tensor<8x6x5xf32>, tensor<8x5x8xf32>) outs(%o0 : tensor<8x6x8xf32>) -> tensor<8x6x8xf32>
  %r = tensor.expand_shape %r3 [[0, 1], [2], [3]] output_shape [2, 4, 6, 8] : tensor<8x6x8xf32> into tensor<2x4x6x8xf32>
  return %r : tensor<2x4x6x8xf32>
}

// -----

#score = affine_map<(b, m, k) -> (b, m, k)>
#rows = affine_map<(b, m, k) -> (m, k)>
#mask = affine_map<(m, k) -> (m, k)>

// The distance of a row and a key is subtracted: made of places alone, and no row's largest score.
// CHECK-LABEL: func.func @distance(
// CHECK: %[[BIAS:.+]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<{{.*}}6x6xf32>)
// CHECK: math.absi
// CHECK: iree_linalg_ext.attention {{.*}}tensor<{{.*}}6x6xf32>)
func.func @distance(%q: tensor<2x6x8xf32>, %k: tensor<2x8x6xf32>, %v: tensor<2x6x8xf32>) -> tensor<2x6x8xf32> {
  %zero = arith.constant 0.0 : f32
  %low = arith.constant -1.0e+09 : f32
  %me = tensor.empty() : tensor<6x6xf32>
  %mask = linalg.generic {indexing_maps = [#mask], iterator_types = ["parallel", "parallel"]} outs(%me : tensor<6x6xf32>) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %d = arith.subi %i, %j : index
    %n = arith.index_cast %d : index to i64
    %a = math.absi %n : i64
    %f = arith.sitofp %a : i64 to f32
    linalg.yield %f : f32
  } -> tensor<6x6xf32>
  %e = tensor.empty() : tensor<2x6x6xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<2x6x6xf32>) -> tensor<2x6x6xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x6x8xf32>, tensor<2x8x6xf32>) outs(%z : tensor<2x6x6xf32>) -> tensor<2x6x6xf32>
  %x = linalg.generic {indexing_maps = [#score, #rows, #score], iterator_types = ["parallel", "parallel", "parallel"]} ins(%s, %mask : tensor<2x6x6xf32>, tensor<6x6xf32>) outs(%e : tensor<2x6x6xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %y = arith.subf %a, %b : f32
    linalg.yield %y : f32
  } -> tensor<2x6x6xf32>
  %w = linalg.softmax dimension(2) ins(%x : tensor<2x6x6xf32>) outs(%e : tensor<2x6x6xf32>) -> tensor<2x6x6xf32>
  %eo = tensor.empty() : tensor<2x6x8xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%eo : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  %r = linalg.batch_matmul ins(%w, %v : tensor<2x6x6xf32>, tensor<2x6x8xf32>) outs(%o0 : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  return %r : tensor<2x6x8xf32>
}

// -----

// A mask that hides keys wholly, or leaves them, is one of truth values: a byte an element.

#all = affine_map<(h, m, k) -> (h, m, k)>

// CHECK-LABEL: func.func @wholly(
// CHECK: %[[MADE:.+]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<2x6x5xi1>)
// CHECK: %[[STORED:.+]] = iree_tensor_ext.compute_barrier.start %[[MADE]] : tensor<2x6x5xi1>
// CHECK: iree_linalg_ext.attention {{.*}} ins({{.*}}, %[[STORED]] :
func.func @wholly(%q: tensor<2x6x8xf32>, %k: tensor<2x8x5xf32>, %v: tensor<2x5x8xf32>, %gate: tensor<2x6x5xf32>) -> tensor<2x6x8xf32> {
  %zero = arith.constant 0.0 : f32
  %lowest = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<2x6x5xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x6x8xf32>, tensor<2x8x5xf32>) outs(%s0 : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %x = linalg.generic {indexing_maps = [#all, #all, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%s, %gate : tensor<2x6x5xf32>, tensor<2x6x5xf32>) outs(%e : tensor<2x6x5xf32>) {
  ^bb0(%a: f32, %g: f32, %o: f32):
    %hide = arith.cmpf ogt, %g, %zero : f32
    %m = arith.select %hide, %lowest, %zero : f32
    %y = arith.addf %a, %m : f32
    linalg.yield %y : f32
  } -> tensor<2x6x5xf32>
  %w = linalg.softmax dimension(2) ins(%x : tensor<2x6x5xf32>) outs(%e : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %eo = tensor.empty() : tensor<2x6x8xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%eo : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  %r = linalg.batch_matmul ins(%w, %v : tensor<2x6x5xf32>, tensor<2x5x8xf32>) outs(%o0 : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  return %r : tensor<2x6x8xf32>
}
