// On GPUs what an elementwise op repeats of attention stands in memory, behind views and other
// elementwise ops, too; run twice the pass adds nothing, and targets without a rule stay.

// RUN: attn-opt %s --attn-store-results --split-input-file | FileCheck %s
// RUN: attn-opt %s --attn-store-results --split-input-file > %t.1 && attn-opt %s --attn-store-results --attn-store-results --split-input-file > %t.2 && diff %t.1 %t.2

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
#bmn = affine_map<(d, b, m, n) -> (b, m, n)>
#dbmn = affine_map<(d, b, m, n) -> (d, b, m, n)>
!t = tensor<2x8x16xf32>
!u = tensor<3x2x8x16xf32>

module attributes {hal.device.targets = [#hal.device.target<"cuda", [#hal.executable.target<"cuda", "cuda-nvptx-fb">]> : !hal.device]} {
  // CHECK-LABEL: func.func @repeated(
  // CHECK: %[[R:.*]] = iree_linalg_ext.attention
  // CHECK: %[[STORED:.*]] = iree_tensor_ext.compute_barrier.start %[[R]] : tensor<2x8x16xf32>
  // CHECK: linalg.broadcast ins(%[[STORED]] :
  func.func @repeated(%q: !t, %k: !t, %v: !t) -> !u {
    %scale = arith.constant 0.25 : f32
    %e = tensor.empty() : !t
    %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : !t, !t, !t, f32) outs(%e : !t) {
      ^bb0(%y: f32):
        iree_linalg_ext.yield %y : f32
    } -> !t
    %f = tensor.empty() : !u
    %g = linalg.broadcast ins(%r : !t) outs(%f : !u) dimensions = [0]
    return %g : !u
  }

  // What is read of it whole is fused as before; the repeat of what comes of that is not.
  // CHECK-LABEL: func.func @behind(
  // CHECK: %[[R:.*]] = iree_linalg_ext.attention
  // CHECK: %[[SUM:.*]] = arith.addf %[[R]], %arg0
  // CHECK: %[[VIEW:.*]] = tensor.expand_shape %[[SUM]]
  // CHECK: %[[STORED:.*]] = iree_tensor_ext.compute_barrier.start %[[VIEW]] : tensor<2x8x16x1xf32>
  // CHECK: linalg.generic {{.*}} ins(%[[STORED]], %arg3 :
  func.func @behind(%q: !t, %k: !t, %v: !t, %w: tensor<5x1xf32>) -> tensor<2x8x16x5xf32> {
    %scale = arith.constant 0.25 : f32
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : !t
    %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : !t, !t, !t, f32) outs(%e : !t) {
      ^bb0(%y: f32):
        iree_linalg_ext.yield %y : f32
    } -> !t
    %a = arith.addf %r, %q : !t
    %b = tensor.expand_shape %a [[0], [1], [2, 3]] output_shape [2, 8, 16, 1] : !t into tensor<2x8x16x1xf32>
    %f = tensor.empty() : tensor<2x8x16x5xf32>
    %z = linalg.fill ins(%zero : f32) outs(%f : tensor<2x8x16x5xf32>) -> tensor<2x8x16x5xf32>
    %g = linalg.generic {indexing_maps = [affine_map<(b, m, n, d, c) -> (b, m, n, c)>, affine_map<(b, m, n, d, c) -> (d, c)>, affine_map<(b, m, n, d, c) -> (b, m, n, d)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]} ins(%b, %w : tensor<2x8x16x1xf32>, tensor<5x1xf32>) outs(%z : tensor<2x8x16x5xf32>) {
    ^bb0(%x: f32, %y: f32, %out: f32):
      %p = arith.mulf %x, %y : f32
      %sum = arith.addf %out, %p : f32
      linalg.yield %sum : f32
    } -> tensor<2x8x16x5xf32>
    return %g : tensor<2x8x16x5xf32>
  }

  // CHECK-LABEL: func.func @unknown(
  // CHECK: iree_tensor_ext.compute_barrier.start {{.*}} : tensor<?x16x1xf32>
  func.func @unknown(%q: tensor<?x16xf32>, %k: tensor<8x16xf32>, %w: tensor<?x16x5xf32>, %rows: index) -> tensor<?x16x5xf32> {
    %scale = arith.constant 0.25 : f32
    %e = tensor.empty(%rows) : tensor<?x16xf32>
    %r = iree_linalg_ext.attention <indexing_maps = [affine_map<(m, n, k1, k2) -> (m, k1)>, affine_map<(m, n, k1, k2) -> (k2, k1)>, affine_map<(m, n, k1, k2) -> (k2, n)>, affine_map<(m, n, k1, k2) -> ()>, affine_map<(m, n, k1, k2) -> (m, n)>]> ins(%q, %k, %k, %scale : tensor<?x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>, f32) outs(%e : tensor<?x16xf32>) {
      ^bb0(%y: f32):
        iree_linalg_ext.yield %y : f32
    } -> tensor<?x16xf32>
    %b = tensor.expand_shape %r [[0], [1, 2]] output_shape [%rows, 16, 1] : tensor<?x16xf32> into tensor<?x16x1xf32>
    %f = tensor.empty(%rows) : tensor<?x16x5xf32>
    %g = linalg.generic {indexing_maps = [affine_map<(m, n, d) -> (m, n, 0)>, affine_map<(m, n, d) -> (m, n, d)>, affine_map<(m, n, d) -> (m, n, d)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%b, %w : tensor<?x16x1xf32>, tensor<?x16x5xf32>) outs(%f : tensor<?x16x5xf32>) {
    ^bb0(%x: f32, %y: f32, %out: f32):
      %p = arith.mulf %x, %y : f32
      linalg.yield %p : f32
    } -> tensor<?x16x5xf32>
    return %g : tensor<?x16x5xf32>
  }

  // Factors of rows, sums over what it read, and dims of size one need nothing.
  // CHECK-LABEL: func.func @whole(
  // CHECK-NOT: compute_barrier
  func.func @whole(%q: !t, %k: !t, %v: !t, %w: tensor<2x8xf32>, %p: tensor<4x16xf32>) -> (!t, tensor<1x2x8x16xf32>, tensor<2x8x4xf32>) {
    %scale = arith.constant 0.25 : f32
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : !t
    %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : !t, !t, !t, f32) outs(%e : !t) {
      ^bb0(%y: f32):
        iree_linalg_ext.yield %y : f32
    } -> !t
    %g = linalg.generic {indexing_maps = [affine_map<(b, m, n) -> (b, m, n)>, affine_map<(b, m, n) -> (b, m)>, affine_map<(b, m, n) -> (b, m, n)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%r, %w : !t, tensor<2x8xf32>) outs(%e : !t) {
    ^bb0(%x: f32, %y: f32, %out: f32):
      %m = arith.mulf %x, %y : f32
      linalg.yield %m : f32
    } -> !t
    %f = tensor.empty() : tensor<1x2x8x16xf32>
    %h = linalg.broadcast ins(%r : !t) outs(%f : tensor<1x2x8x16xf32>) dimensions = [0]
    %c = tensor.empty() : tensor<2x8x4xf32>
    %z = linalg.fill ins(%zero : f32) outs(%c : tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
    %d = linalg.generic {indexing_maps = [affine_map<(b, m, n, d) -> (b, m, d)>, affine_map<(b, m, n, d) -> (n, d)>, affine_map<(b, m, n, d) -> (b, m, n)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%r, %p : !t, tensor<4x16xf32>) outs(%z : tensor<2x8x4xf32>) {
    ^bb0(%x: f32, %y: f32, %out: f32):
      %m = arith.mulf %x, %y : f32
      %sum = arith.addf %out, %m : f32
      linalg.yield %sum : f32
    } -> tensor<2x8x4xf32>
    return %g, %h, %d : !t, tensor<1x2x8x16xf32>, tensor<2x8x4xf32>
  }
}

// -----

// CHECK-LABEL: func.func @elsewhere(
// CHECK-NOT: compute_barrier
func.func @elsewhere(%q: tensor<8x16xf32>) -> tensor<3x8x16xf32> {
  %scale = arith.constant 0.25 : f32
  %e = tensor.empty() : tensor<8x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [affine_map<(m, n, k1, k2) -> (m, k1)>, affine_map<(m, n, k1, k2) -> (k2, k1)>, affine_map<(m, n, k1, k2) -> (k2, n)>, affine_map<(m, n, k1, k2) -> ()>, affine_map<(m, n, k1, k2) -> (m, n)>]> ins(%q, %q, %q, %scale : tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>, f32) outs(%e : tensor<8x16xf32>) {
    ^bb0(%y: f32):
      iree_linalg_ext.yield %y : f32
  } -> tensor<8x16xf32>
  %f = tensor.empty() : tensor<3x8x16xf32>
  %g = linalg.broadcast ins(%r : tensor<8x16xf32>) outs(%f : tensor<3x8x16xf32>) dimensions = [0]
  return %g : tensor<3x8x16xf32>
}

// -----

// On CPUs a repeat stays, and what takes elements by index, or reads rows that were, is in a kernel
// of its own.
module attributes {hal.device.targets = [#hal.device.target<"local", [#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64">]> : !hal.device]} {
  // CHECK-LABEL: func.func @by_index(
  // CHECK: %[[R:.*]] = iree_linalg_ext.attention
  // CHECK: linalg.broadcast ins(%[[R]]
  // CHECK: linalg.generic {{.*}} ins(%arg2
  // CHECK: tensor.extract
  // CHECK: %[[OWN:.*]] = iree_tensor_ext.compute_barrier.start %[[R]]
  // CHECK: linalg.generic {{.*}} ins(%[[OWN]], %{{.*}} : tensor<8x16xf32>, tensor<8x16xf32>)
  func.func @by_index(%q: tensor<8x16xf32>, %x: tensor<9x16xf32>, %ids: tensor<8xi32>) -> (tensor<3x8x16xf32>, tensor<8x16xf32>) {
    %scale = arith.constant 0.25 : f32
    %e = tensor.empty() : tensor<8x16xf32>
    %r = iree_linalg_ext.attention <indexing_maps = [affine_map<(m, n, k1, k2) -> (m, k1)>, affine_map<(m, n, k1, k2) -> (k2, k1)>, affine_map<(m, n, k1, k2) -> (k2, n)>, affine_map<(m, n, k1, k2) -> ()>, affine_map<(m, n, k1, k2) -> (m, n)>]> ins(%q, %q, %q, %scale : tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>, f32) outs(%e : tensor<8x16xf32>) {
      ^bb0(%y: f32):
        iree_linalg_ext.yield %y : f32
    } -> tensor<8x16xf32>
    %f = tensor.empty() : tensor<3x8x16xf32>
    %g = linalg.broadcast ins(%r : tensor<8x16xf32>) outs(%f : tensor<3x8x16xf32>) dimensions = [0]
    %t = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a)>, affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]} ins(%ids : tensor<8xi32>) outs(%e : tensor<8x16xf32>) {
    ^bb0(%n: i32, %out: f32):
      %i = arith.index_cast %n : i32 to index
      %j = linalg.index 1 : index
      %v = tensor.extract %x[%i, %j] : tensor<9x16xf32>
      linalg.yield %v : f32
    } -> tensor<8x16xf32>
    %s = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]} ins(%r, %t : tensor<8x16xf32>, tensor<8x16xf32>) outs(%e : tensor<8x16xf32>) {
    ^bb0(%u: f32, %v: f32, %out: f32):
      %w = arith.addf %u, %v : f32
      linalg.yield %w : f32
    } -> tensor<8x16xf32>
    return %g, %s : tensor<3x8x16xf32>, tensor<8x16xf32>
  }
}
