// Scores that are the sum of two products, of which one reads what V is: one attention over both
// head dims on CUDA, as DeepSeek's latents and positions are. Elsewhere, and where none reads V, the
// second product is a mask.

// RUN: attn-opt %s --attn-raise --target=sm_90 --canonicalize --cse --split-input-file | FileCheck %s
// RUN: attn-opt %s --attn-raise --target=llvm-cpu --canonicalize --cse --split-input-file | FileCheck %s --check-prefix=CPU

// CHECK-DAG: #[[Q:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d3)>
// CHECK-LABEL: func.func @latents(
// CHECK-SAME: %[[Q:.*]]: tensor<2x4x16xf32>, %[[P:.*]]: tensor<2x4x4xf32>, %[[C:.*]]: tensor<2x8x16xf32>, %[[R:.*]]: tensor<2x8x4xf32>
// CHECK-DAG: %[[SCALE:.*]] = arith.constant 2.500000e-01 : f32
// CHECK-DAG: %[[QUERY:.*]] = tensor.concat dim(2) %[[Q]], %[[P]] :
// CHECK-DAG: %[[KEY:.*]] = tensor.concat dim(2) %[[C]], %[[R]] :
// CHECK: iree_linalg_ext.attention
// CHECK-SAME: ins(%[[QUERY]], %[[KEY]], %[[C]], %[[SCALE]] : tensor<2x4x20xf32>, tensor<2x8x20xf32>, tensor<2x8x16xf32>, f32)
// CPU-LABEL: func.func @latents(
// CPU-NOT: tensor.concat
// CPU: iree_linalg_ext.attention
// CPU-SAME: tensor<2x4x16xf32>, tensor<2x8x16xf32>, tensor<2x8x16xf32>, f32, tensor<2x4x8xf32>
#a = affine_map<(b, m, n, d) -> (b, m, d)>
#b = affine_map<(b, m, n, d) -> (b, n, d)>
#c = affine_map<(b, m, n, d) -> (b, m, n)>
#s = affine_map<(b, m, n) -> (b, m, n)>
#k = affine_map<(b, m, n) -> (b, n)>
#p = affine_map<(b, m, n, d) -> (b, m, n)>
#v = affine_map<(b, m, n, d) -> (b, n, d)>
#o = affine_map<(b, m, n, d) -> (b, m, d)>

func.func @latents(%q: tensor<2x4x16xf32>, %p: tensor<2x4x4xf32>, %c: tensor<2x8x16xf32>, %r: tensor<2x8x4xf32>) -> tensor<2x4x16xf32> {
  %zero = arith.constant 0.0 : f32
  %scale = arith.constant 0.25 : f32
  %e = tensor.empty() : tensor<2x4x8xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
  %s1 = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%q, %c : tensor<2x4x16xf32>, tensor<2x8x16xf32>) outs(%z : tensor<2x4x8xf32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %m = arith.mulf %x, %y : f32
    %t = arith.addf %o, %m : f32
    linalg.yield %t : f32
  } -> tensor<2x4x8xf32>
  %s2 = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%p, %r : tensor<2x4x4xf32>, tensor<2x8x4xf32>) outs(%z : tensor<2x4x8xf32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %m = arith.mulf %x, %y : f32
    %t = arith.addf %o, %m : f32
    linalg.yield %t : f32
  } -> tensor<2x4x8xf32>
  %scores = linalg.generic {indexing_maps = [#s, #s, #s], iterator_types = ["parallel", "parallel", "parallel"]} ins(%s1, %s2 : tensor<2x4x8xf32>, tensor<2x4x8xf32>) outs(%e : tensor<2x4x8xf32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %t = arith.addf %x, %y : f32
    %u = arith.mulf %t, %scale : f32
    linalg.yield %u : f32
  } -> tensor<2x4x8xf32>
  %w = linalg.softmax dimension(2) ins(%scores : tensor<2x4x8xf32>) outs(%e : tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
  %eo = tensor.empty() : tensor<2x4x16xf32>
  %zo = linalg.fill ins(%zero : f32) outs(%eo : tensor<2x4x16xf32>) -> tensor<2x4x16xf32>
  %out = linalg.batch_matmul ins(%w, %c : tensor<2x4x8xf32>, tensor<2x8x16xf32>) outs(%zo : tensor<2x4x16xf32>) -> tensor<2x4x16xf32>
  return %out : tensor<2x4x16xf32>
}

// -----

// The other product first, and a mask beside both.
// CHECK-LABEL: func.func @masked(
// CHECK-SAME: %[[Q:[a-z0-9]*]]: tensor<2x4x16xf32>, %[[P:[a-z0-9]*]]: tensor<2x4x4xf32>, %[[C:[a-z0-9]*]]: tensor<2x8x16xf32>, %[[R:[a-z0-9]*]]: tensor<2x8x4xf32>, %[[MASK:[a-z0-9]*]]: tensor<2x8xf32>
// CHECK-DAG: %[[QUERY:.*]] = tensor.concat dim(2) %[[Q]], %[[P]] :
// CHECK-DAG: %[[KEY:.*]] = tensor.concat dim(2) %[[C]], %[[R]] :
// CHECK: iree_linalg_ext.attention
// CHECK-SAME: ins(%[[QUERY]], %[[KEY]], %[[C]], %{{.*}}, %[[MASK]] : tensor<2x4x20xf32>, tensor<2x8x20xf32>, tensor<2x8x16xf32>, f32, tensor<2x8xf32>)
#a = affine_map<(b, m, n, d) -> (b, m, d)>
#b = affine_map<(b, m, n, d) -> (b, n, d)>
#c = affine_map<(b, m, n, d) -> (b, m, n)>
#s = affine_map<(b, m, n) -> (b, m, n)>
#k = affine_map<(b, m, n) -> (b, n)>
#p = affine_map<(b, m, n, d) -> (b, m, n)>
#v = affine_map<(b, m, n, d) -> (b, n, d)>
#o = affine_map<(b, m, n, d) -> (b, m, d)>

func.func @masked(%q: tensor<2x4x16xf32>, %p: tensor<2x4x4xf32>, %c: tensor<2x8x16xf32>, %r: tensor<2x8x4xf32>, %mask: tensor<2x8xf32>) -> tensor<2x4x16xf32> {
  %zero = arith.constant 0.0 : f32
  %scale = arith.constant 0.25 : f32
  %e = tensor.empty() : tensor<2x4x8xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
  %s1 = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%q, %c : tensor<2x4x16xf32>, tensor<2x8x16xf32>) outs(%z : tensor<2x4x8xf32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %m = arith.mulf %x, %y : f32
    %t = arith.addf %o, %m : f32
    linalg.yield %t : f32
  } -> tensor<2x4x8xf32>
  %s2 = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%p, %r : tensor<2x4x4xf32>, tensor<2x8x4xf32>) outs(%z : tensor<2x4x8xf32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %m = arith.mulf %x, %y : f32
    %t = arith.addf %o, %m : f32
    linalg.yield %t : f32
  } -> tensor<2x4x8xf32>
  %scores = linalg.generic {indexing_maps = [#s, #s, #k, #s], iterator_types = ["parallel", "parallel", "parallel"]} ins(%s2, %s1, %mask : tensor<2x4x8xf32>, tensor<2x4x8xf32>, tensor<2x8xf32>) outs(%e : tensor<2x4x8xf32>) {
  ^bb0(%x: f32, %y: f32, %h: f32, %o: f32):
    %t = arith.addf %x, %y : f32
    %u = arith.mulf %t, %scale : f32
    %i = arith.addf %u, %h : f32
    linalg.yield %i : f32
  } -> tensor<2x4x8xf32>
  %w = linalg.softmax dimension(2) ins(%scores : tensor<2x4x8xf32>) outs(%e : tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
  %eo = tensor.empty() : tensor<2x4x16xf32>
  %zo = linalg.fill ins(%zero : f32) outs(%eo : tensor<2x4x16xf32>) -> tensor<2x4x16xf32>
  %out = linalg.batch_matmul ins(%w, %c : tensor<2x4x8xf32>, tensor<2x8x16xf32>) outs(%zo : tensor<2x4x16xf32>) -> tensor<2x4x16xf32>
  return %out : tensor<2x4x16xf32>
}

// -----

// V is something else.
// CHECK-LABEL: func.func @apart(
// CHECK-NOT: tensor.concat
// CHECK: iree_linalg_ext.attention
// CHECK-SAME: tensor<2x4x16xf32>, tensor<2x8x16xf32>, tensor<2x8x16xf32>, f32, tensor<2x4x8xf32>
#a = affine_map<(b, m, n, d) -> (b, m, d)>
#b = affine_map<(b, m, n, d) -> (b, n, d)>
#c = affine_map<(b, m, n, d) -> (b, m, n)>
#s = affine_map<(b, m, n) -> (b, m, n)>
#k = affine_map<(b, m, n) -> (b, n)>
#p = affine_map<(b, m, n, d) -> (b, m, n)>
#v = affine_map<(b, m, n, d) -> (b, n, d)>
#o = affine_map<(b, m, n, d) -> (b, m, d)>

func.func @apart(%q: tensor<2x4x16xf32>, %p: tensor<2x4x4xf32>, %c: tensor<2x8x16xf32>, %r: tensor<2x8x4xf32>, %own: tensor<2x8x16xf32>) -> tensor<2x4x16xf32> {
  %zero = arith.constant 0.0 : f32
  %scale = arith.constant 0.25 : f32
  %e = tensor.empty() : tensor<2x4x8xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
  %s1 = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%q, %c : tensor<2x4x16xf32>, tensor<2x8x16xf32>) outs(%z : tensor<2x4x8xf32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %m = arith.mulf %x, %y : f32
    %t = arith.addf %o, %m : f32
    linalg.yield %t : f32
  } -> tensor<2x4x8xf32>
  %s2 = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%p, %r : tensor<2x4x4xf32>, tensor<2x8x4xf32>) outs(%z : tensor<2x4x8xf32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %m = arith.mulf %x, %y : f32
    %t = arith.addf %o, %m : f32
    linalg.yield %t : f32
  } -> tensor<2x4x8xf32>
  %scores = linalg.generic {indexing_maps = [#s, #s, #s], iterator_types = ["parallel", "parallel", "parallel"]} ins(%s1, %s2 : tensor<2x4x8xf32>, tensor<2x4x8xf32>) outs(%e : tensor<2x4x8xf32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %t = arith.addf %x, %y : f32
    %u = arith.mulf %t, %scale : f32
    linalg.yield %u : f32
  } -> tensor<2x4x8xf32>
  %w = linalg.softmax dimension(2) ins(%scores : tensor<2x4x8xf32>) outs(%e : tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
  %eo = tensor.empty() : tensor<2x4x16xf32>
  %zo = linalg.fill ins(%zero : f32) outs(%eo : tensor<2x4x16xf32>) -> tensor<2x4x16xf32>
  %out = linalg.batch_matmul ins(%w, %own : tensor<2x4x8xf32>, tensor<2x8x16xf32>) outs(%zo : tensor<2x4x16xf32>) -> tensor<2x4x16xf32>
  return %out : tensor<2x4x16xf32>
}

// -----

// One of them is scaled alone.
// CHECK-LABEL: func.func @scaled(
// CHECK-NOT: tensor.concat
// CHECK: iree_linalg_ext.attention
// CHECK-SAME: tensor<2x4x16xf32>, tensor<2x8x16xf32>, tensor<2x8x16xf32>, f32, tensor<2x4x8xf32>
#a = affine_map<(b, m, n, d) -> (b, m, d)>
#b = affine_map<(b, m, n, d) -> (b, n, d)>
#c = affine_map<(b, m, n, d) -> (b, m, n)>
#s = affine_map<(b, m, n) -> (b, m, n)>
#k = affine_map<(b, m, n) -> (b, n)>
#p = affine_map<(b, m, n, d) -> (b, m, n)>
#v = affine_map<(b, m, n, d) -> (b, n, d)>
#o = affine_map<(b, m, n, d) -> (b, m, d)>

func.func @scaled(%q: tensor<2x4x16xf32>, %p: tensor<2x4x4xf32>, %c: tensor<2x8x16xf32>, %r: tensor<2x8x4xf32>) -> tensor<2x4x16xf32> {
  %zero = arith.constant 0.0 : f32
  %scale = arith.constant 0.25 : f32
  %e = tensor.empty() : tensor<2x4x8xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
  %s1 = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%q, %c : tensor<2x4x16xf32>, tensor<2x8x16xf32>) outs(%z : tensor<2x4x8xf32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %m = arith.mulf %x, %y : f32
    %t = arith.addf %o, %m : f32
    linalg.yield %t : f32
  } -> tensor<2x4x8xf32>
  %s2 = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%p, %r : tensor<2x4x4xf32>, tensor<2x8x4xf32>) outs(%z : tensor<2x4x8xf32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %m = arith.mulf %x, %y : f32
    %t = arith.addf %o, %m : f32
    linalg.yield %t : f32
  } -> tensor<2x4x8xf32>
  %scores = linalg.generic {indexing_maps = [#s, #s, #s], iterator_types = ["parallel", "parallel", "parallel"]} ins(%s1, %s2 : tensor<2x4x8xf32>, tensor<2x4x8xf32>) outs(%e : tensor<2x4x8xf32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %u = arith.mulf %x, %scale : f32
    %t = arith.addf %u, %y : f32
    linalg.yield %t : f32
  } -> tensor<2x4x8xf32>
  %w = linalg.softmax dimension(2) ins(%scores : tensor<2x4x8xf32>) outs(%e : tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
  %eo = tensor.empty() : tensor<2x4x16xf32>
  %zo = linalg.fill ins(%zero : f32) outs(%eo : tensor<2x4x16xf32>) -> tensor<2x4x16xf32>
  %out = linalg.batch_matmul ins(%w, %c : tensor<2x4x8xf32>, tensor<2x8x16xf32>) outs(%zo : tensor<2x4x16xf32>) -> tensor<2x4x16xf32>
  return %out : tensor<2x4x16xf32>
}
