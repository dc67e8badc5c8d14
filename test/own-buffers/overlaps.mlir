// What a write reads of the tensor that it writes to is put in memory before: views of it are copied,
// what is computed of it stays a kernel of its own. Run twice the pass adds nothing.

// RUN: attn-opt %s --attn-own-buffers --split-input-file --report=%t.json | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.json
// RUN: attn-opt %s --attn-own-buffers --split-input-file > %t.1 && attn-opt %s --attn-own-buffers --attn-own-buffers --split-input-file > %t.2 && diff %t.1 %t.2
// WHY: what it writes is made of what it writes to
// WHY: what it writes is made of what it writes to
// WHY: what it writes is made of what it writes to
// WHY: what it writes is made of what it writes to
// WHY: what it writes is made of what it writes to
// WHY-NOT: what it writes

// CHECK-LABEL: func.func @shift(
// CHECK: %[[PART:.*]] = tensor.extract_slice %arg0
// CHECK: %[[COPY:.*]] = flow.dispatch.region
// CHECK:   linalg.copy ins(%[[PART]]
// CHECK-NOT: flow.dispatch.region
// CHECK: tensor.insert_slice %[[COPY]] into %arg0
func.func @shift(%cache: tensor<4x20x8xf32>) -> tensor<4x20x8xf32> {
  %part = tensor.extract_slice %cache[0, 0, 0] [4, 19, 8] [1, 1, 1] : tensor<4x20x8xf32> to tensor<4x19x8xf32>
  %r = tensor.insert_slice %part into %cache[0, 1, 0] [4, 19, 8] [1, 1, 1] : tensor<4x19x8xf32> into tensor<4x20x8xf32>
  return %r : tensor<4x20x8xf32>
}

// -----

// Whole rows are one range of memory, which the last kernel writes to.
// CHECK-LABEL: func.func @rows(
// CHECK: %[[PART:.*]] = tensor.extract_slice %arg0
// CHECK: %[[OWN:.*]] = flow.dispatch.region
// CHECK:   linalg.copy ins(%[[PART]]
// CHECK: %[[COPY:.*]] = flow.dispatch.region
// CHECK:   linalg.copy ins(%[[OWN]]
// CHECK: tensor.insert_slice %[[COPY]] into %arg0
func.func @rows(%cache: tensor<1x?x8xf32>, %n: index) -> tensor<1x?x8xf32> {
  %part = tensor.extract_slice %cache[0, 0, 0] [1, %n, 8] [1, 1, 1] : tensor<1x?x8xf32> to tensor<1x?x8xf32>
  %r = tensor.insert_slice %part into %cache[0, 1, 0] [1, %n, 8] [1, 1, 1] : tensor<1x?x8xf32> into tensor<1x?x8xf32>
  return %r : tensor<1x?x8xf32>
}

// -----

// CHECK-LABEL: func.func @computed(
// CHECK: %[[TWICE:.*]] = linalg.generic
// CHECK: %[[STORED:.*]] = iree_tensor_ext.compute_barrier.start %[[TWICE]]
// CHECK: iree_linalg_ext.scatter {{.*}} ins(%[[STORED]], %arg1 :
func.func @computed(%cache: tensor<16x8xf32>, %at: tensor<4x1xi64>) -> tensor<16x8xf32> {
  %part = tensor.extract_slice %cache[3, 0] [4, 8] [1, 1] : tensor<16x8xf32> to tensor<4x8xf32>
  %e = tensor.empty() : tensor<4x8xf32>
  %twice = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]} ins(%part : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%x: f32, %o: f32):
    %y = arith.addf %x, %x : f32
    linalg.yield %y : f32
  } -> tensor<4x8xf32>
  %r = iree_linalg_ext.scatter dimension_map = [0] unique_indices(true) ins(%twice, %at : tensor<4x8xf32>, tensor<4x1xi64>) outs(%cache : tensor<16x8xf32>) {
  ^bb0(%x: f32, %y: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<16x8xf32>
  return %r : tensor<16x8xf32>
}

// -----

// Rows of another tensor are read where they lie.
// CHECK-LABEL: func.func @others(
// CHECK-NOT: flow.dispatch.region
// CHECK-NOT: compute_barrier
// CHECK: return
func.func @others(%cache: tensor<16x8xf32>, %other: tensor<16x8xf32>, %at: tensor<4x1xi64>) -> tensor<16x8xf32> {
  %part = tensor.extract_slice %other[3, 0] [4, 8] [1, 1] : tensor<16x8xf32> to tensor<4x8xf32>
  %r = iree_linalg_ext.scatter dimension_map = [0] unique_indices(true) ins(%part, %at : tensor<4x8xf32>, tensor<4x1xi64>) outs(%cache : tensor<16x8xf32>) {
  ^bb0(%x: f32, %y: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<16x8xf32>
  return %r : tensor<16x8xf32>
}

// -----

// What is sorted where it lies is a copy of an argument, or the program's own.
// CHECK-LABEL: func.func @sorted(
// CHECK: %[[OWN:.*]] = linalg.fill
// CHECK: %[[COPY:.*]] = flow.dispatch.region
// CHECK:   linalg.copy ins(%arg0
// CHECK: iree_linalg_ext.sort dimension(1) outs(%[[COPY]], %[[OWN]] :
func.func @sorted(%x: tensor<4x16xf32>) -> tensor<4x16xf32> {
  %zero = arith.constant 0 : i64
  %e = tensor.empty() : tensor<4x16xi64>
  %own = linalg.fill ins(%zero : i64) outs(%e : tensor<4x16xi64>) -> tensor<4x16xi64>
  %r:2 = iree_linalg_ext.sort dimension(1) outs(%x, %own : tensor<4x16xf32>, tensor<4x16xi64>) {
  ^bb0(%a: f32, %b: f32, %c: i64, %d: i64):
    %first = arith.cmpf olt, %a, %b : f32
    iree_linalg_ext.yield %first : i1
  } -> tensor<4x16xf32>, tensor<4x16xi64>
  return %r#0 : tensor<4x16xf32>
}

// -----

// Rows that move down, computed: the kernel that makes them would write where they are to stand.
// CHECK-LABEL: @inserted(
// CHECK: linalg.copy
// CHECK: tensor.insert_slice
util.func public @inserted(%x: tensor<5x8xf32>, %w: tensor<8x5xf32>, %f: tensor<5x5xf32>) -> tensor<5x5xf32> {
  %0 = linalg.matmul ins(%x, %w : tensor<5x8xf32>, tensor<8x5xf32>) outs(%f : tensor<5x5xf32>) -> tensor<5x5xf32>
  %1 = tensor.extract_slice %0[0, 0] [4, 5] [1, 1] : tensor<5x5xf32> to tensor<4x5xf32>
  %2 = math.exp %1 : tensor<4x5xf32>
  %3 = tensor.insert_slice %2 into %0[1, 0] [4, 5] [1, 1] : tensor<4x5xf32> into tensor<5x5xf32>
  util.return %3 : tensor<5x5xf32>
}

// -----

// Truth values are copied as bytes: IREE has no program that copies them.
// CHECK-LABEL: func.func @mask(
// CHECK: %[[BYTES:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<9x1xi8>)
// CHECK: linalg.copy ins(%[[BYTES]]
// CHECK: arith.trunci
// CHECK: %[[STORED:.*]] = iree_tensor_ext.compute_barrier.start
// CHECK: tensor.insert_slice %[[STORED]] into %arg0
func.func @mask(%mask: tensor<9x9xi1>) -> tensor<9x9xi1> {
  %part = tensor.extract_slice %mask[0, 1] [9, 1] [1, 1] : tensor<9x9xi1> to tensor<9x1xi1>
  %r = tensor.insert_slice %part into %mask[0, 0] [9, 1] [1, 1] : tensor<9x1xi1> into tensor<9x9xi1>
  return %r : tensor<9x9xi1>
}
