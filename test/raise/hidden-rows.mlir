// Weights that are 0 in rows that see no key, as ONNX says of its Attention: where the largest number
// of the mask is -inf, and not where that of another tensor is.

// RUN: attn-opt %s --attn-raise --canonicalize --cse --remarks 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt

// WHY: are an attention op now
// WHY: stay as they are: a condition makes the weights of some rows 0
// WHY: stay as they are: a condition makes the weights of some rows 0

#bij = affine_map<(b, i, j) -> (b, i, j)>
#bi = affine_map<(b, i, j) -> (b, i)>
#mij = affine_map<(b, i, j) -> (i, j)>
#row = affine_map<(b, i, j) -> (i)>
#ij = affine_map<(i, j) -> (i, j)>
#i = affine_map<(i, j) -> (i)>

// CHECK-LABEL: func.func @mask(
// CHECK: %[[R:.*]] = iree_linalg_ext.attention
// CHECK-NOT: math.exp
// CHECK: return %[[R]]
func.func @mask(%q: tensor<4x6x8xf32>, %kt: tensor<4x8x6xf32>, %v: tensor<4x6x8xf32>, %mask: tensor<6x6xf32>, %other: tensor<6x6xf32>) -> tensor<4x6x8xf32> {
  %zero = arith.constant 0.0 : f32
  %lowest = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<4x6x6xf32>
  %er = tensor.empty() : tensor<4x6xf32>
  %em = tensor.empty() : tensor<6xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<4x6x6xf32>) -> tensor<4x6x6xf32>
  %t0 = linalg.fill ins(%lowest : f32) outs(%er : tensor<4x6xf32>) -> tensor<4x6xf32>
  %m0 = linalg.fill ins(%lowest : f32) outs(%em : tensor<6xf32>) -> tensor<6xf32>
  %u0 = linalg.fill ins(%zero : f32) outs(%er : tensor<4x6xf32>) -> tensor<4x6xf32>
  %product = linalg.batch_matmul ins(%q, %kt : tensor<4x6x8xf32>, tensor<4x8x6xf32>) outs(%s0 : tensor<4x6x6xf32>) -> tensor<4x6x6xf32>
  %s = linalg.generic {indexing_maps = [#bij, #mij, #bij], iterator_types = ["parallel", "parallel", "parallel"]} ins(%product, %mask : tensor<4x6x6xf32>, tensor<6x6xf32>) outs(%e : tensor<4x6x6xf32>) {
  ^bb0(%x: f32, %m: f32, %o: f32):
    %y = arith.addf %x, %m : f32
    linalg.yield %y : f32
  } -> tensor<4x6x6xf32>
  %max = linalg.generic {indexing_maps = [#bij, #bi], iterator_types = ["parallel", "parallel", "reduction"]} ins(%s : tensor<4x6x6xf32>) outs(%t0 : tensor<4x6xf32>) {
  ^bb0(%x: f32, %o: f32):
    %y = arith.maximumf %x, %o : f32
    linalg.yield %y : f32
  } -> tensor<4x6xf32>
  %p = linalg.generic {indexing_maps = [#bij, #bi, #bij], iterator_types = ["parallel", "parallel", "parallel"]} ins(%s, %max : tensor<4x6x6xf32>, tensor<4x6xf32>) outs(%e : tensor<4x6x6xf32>) {
  ^bb0(%x: f32, %l: f32, %o: f32):
    %y = arith.subf %x, %l : f32
    %z = math.exp %y : f32
    linalg.yield %z : f32
  } -> tensor<4x6x6xf32>
  %sum = linalg.generic {indexing_maps = [#bij, #bi], iterator_types = ["parallel", "parallel", "reduction"]} ins(%p : tensor<4x6x6xf32>) outs(%u0 : tensor<4x6xf32>) {
  ^bb0(%x: f32, %o: f32):
    %y = arith.addf %x, %o : f32
    linalg.yield %y : f32
  } -> tensor<4x6xf32>
  %largest = linalg.generic {indexing_maps = [#ij, #i], iterator_types = ["parallel", "reduction"]} ins(%mask : tensor<6x6xf32>) outs(%m0 : tensor<6xf32>) {
  ^bb0(%x: f32, %o: f32):
    %y = arith.maximumf %x, %o : f32
    linalg.yield %y : f32
  } -> tensor<6xf32>
  %w = linalg.generic {indexing_maps = [#bij, #bi, #row, #bij], iterator_types = ["parallel", "parallel", "parallel"]} ins(%p, %sum, %largest : tensor<4x6x6xf32>, tensor<4x6xf32>, tensor<6xf32>) outs(%e : tensor<4x6x6xf32>) {
  ^bb0(%x: f32, %l: f32, %m: f32, %o: f32):
    %y = arith.divf %x, %l : f32
    %hidden = arith.cmpf oeq, %m, %lowest : f32
    %z = arith.select %hidden, %zero, %y : f32
    linalg.yield %z : f32
  } -> tensor<4x6x6xf32>
  %ev = tensor.empty() : tensor<4x6x8xf32>
  %v0 = linalg.fill ins(%zero : f32) outs(%ev : tensor<4x6x8xf32>) -> tensor<4x6x8xf32>
  %r = linalg.batch_matmul ins(%w, %v : tensor<4x6x6xf32>, tensor<4x6x8xf32>) outs(%v0 : tensor<4x6x8xf32>) -> tensor<4x6x8xf32>
  return %r : tensor<4x6x8xf32>
}

// CHECK-LABEL: func.func @other(
// CHECK-NOT: iree_linalg_ext.attention
// CHECK: math.exp
func.func @other(%q: tensor<4x6x8xf32>, %kt: tensor<4x8x6xf32>, %v: tensor<4x6x8xf32>, %mask: tensor<6x6xf32>, %other: tensor<6x6xf32>) -> tensor<4x6x8xf32> {
  %zero = arith.constant 0.0 : f32
  %lowest = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<4x6x6xf32>
  %er = tensor.empty() : tensor<4x6xf32>
  %em = tensor.empty() : tensor<6xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<4x6x6xf32>) -> tensor<4x6x6xf32>
  %t0 = linalg.fill ins(%lowest : f32) outs(%er : tensor<4x6xf32>) -> tensor<4x6xf32>
  %m0 = linalg.fill ins(%lowest : f32) outs(%em : tensor<6xf32>) -> tensor<6xf32>
  %u0 = linalg.fill ins(%zero : f32) outs(%er : tensor<4x6xf32>) -> tensor<4x6xf32>
  %product = linalg.batch_matmul ins(%q, %kt : tensor<4x6x8xf32>, tensor<4x8x6xf32>) outs(%s0 : tensor<4x6x6xf32>) -> tensor<4x6x6xf32>
  %s = linalg.generic {indexing_maps = [#bij, #mij, #bij], iterator_types = ["parallel", "parallel", "parallel"]} ins(%product, %mask : tensor<4x6x6xf32>, tensor<6x6xf32>) outs(%e : tensor<4x6x6xf32>) {
  ^bb0(%x: f32, %m: f32, %o: f32):
    %y = arith.addf %x, %m : f32
    linalg.yield %y : f32
  } -> tensor<4x6x6xf32>
  %max = linalg.generic {indexing_maps = [#bij, #bi], iterator_types = ["parallel", "parallel", "reduction"]} ins(%s : tensor<4x6x6xf32>) outs(%t0 : tensor<4x6xf32>) {
  ^bb0(%x: f32, %o: f32):
    %y = arith.maximumf %x, %o : f32
    linalg.yield %y : f32
  } -> tensor<4x6xf32>
  %p = linalg.generic {indexing_maps = [#bij, #bi, #bij], iterator_types = ["parallel", "parallel", "parallel"]} ins(%s, %max : tensor<4x6x6xf32>, tensor<4x6xf32>) outs(%e : tensor<4x6x6xf32>) {
  ^bb0(%x: f32, %l: f32, %o: f32):
    %y = arith.subf %x, %l : f32
    %z = math.exp %y : f32
    linalg.yield %z : f32
  } -> tensor<4x6x6xf32>
  %sum = linalg.generic {indexing_maps = [#bij, #bi], iterator_types = ["parallel", "parallel", "reduction"]} ins(%p : tensor<4x6x6xf32>) outs(%u0 : tensor<4x6xf32>) {
  ^bb0(%x: f32, %o: f32):
    %y = arith.addf %x, %o : f32
    linalg.yield %y : f32
  } -> tensor<4x6xf32>
  %largest = linalg.generic {indexing_maps = [#ij, #i], iterator_types = ["parallel", "reduction"]} ins(%other : tensor<6x6xf32>) outs(%m0 : tensor<6xf32>) {
  ^bb0(%x: f32, %o: f32):
    %y = arith.maximumf %x, %o : f32
    linalg.yield %y : f32
  } -> tensor<6xf32>
  %w = linalg.generic {indexing_maps = [#bij, #bi, #row, #bij], iterator_types = ["parallel", "parallel", "parallel"]} ins(%p, %sum, %largest : tensor<4x6x6xf32>, tensor<4x6xf32>, tensor<6xf32>) outs(%e : tensor<4x6x6xf32>) {
  ^bb0(%x: f32, %l: f32, %m: f32, %o: f32):
    %y = arith.divf %x, %l : f32
    %hidden = arith.cmpf oeq, %m, %lowest : f32
    %z = arith.select %hidden, %zero, %y : f32
    linalg.yield %z : f32
  } -> tensor<4x6x6xf32>
  %ev = tensor.empty() : tensor<4x6x8xf32>
  %v0 = linalg.fill ins(%zero : f32) outs(%ev : tensor<4x6x8xf32>) -> tensor<4x6x8xf32>
  %r = linalg.batch_matmul ins(%w, %v : tensor<4x6x6xf32>, tensor<4x6x8xf32>) outs(%v0 : tensor<4x6x8xf32>) -> tensor<4x6x8xf32>
  return %r : tensor<4x6x8xf32>
}

// The largest number of what is seen alone, though what is not seen is not hidden, either.
// CHECK-LABEL: func.func @seen(
// CHECK-NOT: iree_linalg_ext.attention
// CHECK: math.exp
func.func @seen(%q: tensor<4x6x8xf32>, %kt: tensor<4x8x6xf32>, %v: tensor<4x6x8xf32>, %mask: tensor<6x6xf32>, %seen: tensor<6x6xi1>) -> tensor<4x6x8xf32> {
  %zero = arith.constant 0.0 : f32
  %lowest = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<4x6x6xf32>
  %er = tensor.empty() : tensor<4x6xf32>
  %em = tensor.empty() : tensor<6xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<4x6x6xf32>) -> tensor<4x6x6xf32>
  %t0 = linalg.fill ins(%lowest : f32) outs(%er : tensor<4x6xf32>) -> tensor<4x6xf32>
  %m0 = linalg.fill ins(%lowest : f32) outs(%em : tensor<6xf32>) -> tensor<6xf32>
  %u0 = linalg.fill ins(%zero : f32) outs(%er : tensor<4x6xf32>) -> tensor<4x6xf32>
  %product = linalg.batch_matmul ins(%q, %kt : tensor<4x6x8xf32>, tensor<4x8x6xf32>) outs(%s0 : tensor<4x6x6xf32>) -> tensor<4x6x6xf32>
  %s = linalg.generic {indexing_maps = [#bij, #mij, #bij], iterator_types = ["parallel", "parallel", "parallel"]} ins(%product, %mask : tensor<4x6x6xf32>, tensor<6x6xf32>) outs(%e : tensor<4x6x6xf32>) {
  ^bb0(%x: f32, %m: f32, %o: f32):
    %y = arith.addf %x, %m : f32
    linalg.yield %y : f32
  } -> tensor<4x6x6xf32>
  %max = linalg.generic {indexing_maps = [#bij, #bi], iterator_types = ["parallel", "parallel", "reduction"]} ins(%s : tensor<4x6x6xf32>) outs(%t0 : tensor<4x6xf32>) {
  ^bb0(%x: f32, %o: f32):
    %y = arith.maximumf %x, %o : f32
    linalg.yield %y : f32
  } -> tensor<4x6xf32>
  %p = linalg.generic {indexing_maps = [#bij, #bi, #bij], iterator_types = ["parallel", "parallel", "parallel"]} ins(%s, %max : tensor<4x6x6xf32>, tensor<4x6xf32>) outs(%e : tensor<4x6x6xf32>) {
  ^bb0(%x: f32, %l: f32, %o: f32):
    %y = arith.subf %x, %l : f32
    %z = math.exp %y : f32
    linalg.yield %z : f32
  } -> tensor<4x6x6xf32>
  %sum = linalg.generic {indexing_maps = [#bij, #bi], iterator_types = ["parallel", "parallel", "reduction"]} ins(%p : tensor<4x6x6xf32>) outs(%u0 : tensor<4x6xf32>) {
  ^bb0(%x: f32, %o: f32):
    %y = arith.addf %x, %o : f32
    linalg.yield %y : f32
  } -> tensor<4x6xf32>
  %eij = tensor.empty() : tensor<6x6xf32>
  %seen_mask = linalg.generic {indexing_maps = [#ij, #ij, #ij], iterator_types = ["parallel", "parallel"]} ins(%mask, %seen : tensor<6x6xf32>, tensor<6x6xi1>) outs(%eij : tensor<6x6xf32>) {
  ^bb0(%m: f32, %c: i1, %o: f32):
    %x = arith.select %c, %m, %lowest : f32
    linalg.yield %x : f32
  } -> tensor<6x6xf32>
  %largest = linalg.generic {indexing_maps = [#ij, #i], iterator_types = ["parallel", "reduction"]} ins(%seen_mask : tensor<6x6xf32>) outs(%m0 : tensor<6xf32>) {
  ^bb0(%x: f32, %o: f32):
    %y = arith.maximumf %x, %o : f32
    linalg.yield %y : f32
  } -> tensor<6xf32>
  %w = linalg.generic {indexing_maps = [#bij, #bi, #row, #bij], iterator_types = ["parallel", "parallel", "parallel"]} ins(%p, %sum, %largest : tensor<4x6x6xf32>, tensor<4x6xf32>, tensor<6xf32>) outs(%e : tensor<4x6x6xf32>) {
  ^bb0(%x: f32, %l: f32, %m: f32, %o: f32):
    %y = arith.divf %x, %l : f32
    %hidden = arith.cmpf oeq, %m, %lowest : f32
    %z = arith.select %hidden, %zero, %y : f32
    linalg.yield %z : f32
  } -> tensor<4x6x6xf32>
  %ev = tensor.empty() : tensor<4x6x8xf32>
  %v0 = linalg.fill ins(%zero : f32) outs(%ev : tensor<4x6x8xf32>) -> tensor<4x6x8xf32>
  %r = linalg.batch_matmul ins(%w, %v : tensor<4x6x6xf32>, tensor<4x6x8xf32>) outs(%v0 : tensor<4x6x8xf32>) -> tensor<4x6x8xf32>
  return %r : tensor<4x6x8xf32>
}
