// A sort is two counts of comparisons and a read by index, as far as its results are read. Run twice
// the pass adds nothing.

// RUN: attn-opt %s --attn-rank-sorts --split-input-file --report=%t.json | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.json
// RUN: attn-opt %s --attn-rank-sorts --split-input-file > %t.1 && attn-opt %s --attn-rank-sorts --attn-rank-sorts --split-input-file > %t.2 && diff %t.1 %t.2
// WHY: finds the places of 16x8 elements by comparisons side by side
// WHY: finds the places of ?x4 elements by comparisons side by side
// WHY: finds the places of 16x8 elements by comparisons side by side
// WHY: finds the places of 2x4096 elements by comparisons side by side
// WHY: finds the places of 64 elements by comparisons side by side
// WHY: finds the places of 8192 elements by merges side by side
// WHY: finds the places of 64 elements by comparisons side by side
// WHY: finds the places of 3x600 elements by merges side by side
// WHY: finds the places of 3x600 elements by merges side by side
// WHY-NOT: finds the places

// The two largest of eight, as PyTorch's are imported: NaN is in front of all.
// CHECK-LABEL: func.func @largest(
// CHECK-SAME: %[[X:.*]]: tensor<16x8xf32>
// CHECK: %[[STORED:.*]] = iree_tensor_ext.compute_barrier.start %[[X]]
// CHECK: %[[RANKS:.*]] = linalg.generic {{.*}}"reduction"]} ins(%[[STORED]], %[[STORED]] : {{.*}}) outs(%{{.*}} : tensor<16x8xi32>)
// CHECK: ^bb0(%[[OWN:.*]]: f32, %[[OTHER:.*]]: f32
// CHECK: arith.cmpf oge, %[[OTHER]], %[[OWN]]
// CHECK: arith.cmpf uno, %[[OTHER]], %[[OTHER]]
// CHECK: %[[ORDER:.*]] = linalg.generic {{.*}}"reduction"]} ins(%[[RANKS]] : tensor<16x8xi32>) outs(%{{.*}} : tensor<16x2xi32>)
// CHECK: %[[VALUES:.*]] = linalg.generic {{.*}} ins(%[[ORDER]] : tensor<16x2xi32>)
// CHECK: tensor.extract %[[STORED]]
// CHECK: %[[PLACES:.*]] = linalg.generic {{.*}} ins(%[[ORDER]] : tensor<16x2xi32>)
// CHECK-NOT: tensor.extract
// CHECK: return %[[VALUES]], %[[PLACES]]
func.func @largest(%x: tensor<16x8xf32>) -> (tensor<16x2xf32>, tensor<16x2xi64>) {
  %e = tensor.empty() : tensor<16x8xi64>
  %n = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]} outs(%e : tensor<16x8xi64>) {
  ^bb0(%o: i64):
    %i = linalg.index 1 : index
    %c = arith.index_cast %i : index to i64
    linalg.yield %c : i64
  } -> tensor<16x8xi64>
  %0:2 = iree_linalg_ext.sort dimension(1) outs(%x, %n : tensor<16x8xf32>, tensor<16x8xi64>) {
  ^bb0(%a: f32, %b: f32, %i: i64, %j: i64):
    %c = arith.cmpf oge, %a, %b : f32
    iree_linalg_ext.yield %c : i1
  } -> tensor<16x8xf32>, tensor<16x8xi64>
  %v = tensor.extract_slice %0#0[0, 0] [16, 2] [1, 1] : tensor<16x8xf32> to tensor<16x2xf32>
  %p = tensor.extract_slice %0#1[0, 0] [16, 2] [1, 1] : tensor<16x8xi64> to tensor<16x2xi64>
  return %v, %p : tensor<16x2xf32>, tensor<16x2xi64>
}

// -----

// Along the first dim, whole numbers.
// CHECK-LABEL: func.func @columns(
// CHECK: arith.cmpi slt
// CHECK: outs(%{{.*}} : tensor<?x4xi32>)
// CHECK-NOT: iree_linalg_ext.sort
func.func @columns(%x: tensor<?x4xi32>) -> tensor<?x4xi32> {
  %0 = iree_linalg_ext.sort dimension(0) outs(%x : tensor<?x4xi32>) {
  ^bb0(%a: i32, %b: i32):
    %c = arith.cmpi slt, %a, %b : i32
    iree_linalg_ext.yield %c : i1
  } -> tensor<?x4xi32>
  return %0 : tensor<?x4xi32>
}

// -----

// As JAX's are imported.
// CHECK-LABEL: func.func @topk(
// CHECK: arith.cmpf ugt
// CHECK-NOT: iree_linalg_ext.topk
func.func @topk(%x: tensor<16x8xf32>) -> (tensor<16x2xf32>, tensor<16x2xi32>) {
  %low = arith.constant 0xFF800000 : f32
  %last = arith.constant 2147483647 : i32
  %e = tensor.empty() : tensor<16x2xf32>
  %g = tensor.empty() : tensor<16x2xi32>
  %f = linalg.fill ins(%low : f32) outs(%e : tensor<16x2xf32>) -> tensor<16x2xf32>
  %h = linalg.fill ins(%last : i32) outs(%g : tensor<16x2xi32>) -> tensor<16x2xi32>
  %0:2 = iree_linalg_ext.topk dimension(1) ins(%x : tensor<16x8xf32>) outs(%f, %h : tensor<16x2xf32>, tensor<16x2xi32>) {
  ^bb0(%a: f32, %b: f32):
    %c = arith.cmpf ogt, %a, %b : f32
    iree_linalg_ext.yield %c : i1
  } -> tensor<16x2xf32>, tensor<16x2xi32>
  return %0#0, %0#1 : tensor<16x2xf32>, tensor<16x2xi32>
}

// -----

// Few of a long row are among the runs of 32 with the largest maxima; no more are compared.
// CHECK-LABEL: func.func @few_of_many(
// CHECK: linalg.generic {{.*}}"reduction"]} ins(%{{.*}} : tensor<2x128x32xf32>) outs(%{{.*}} : tensor<2x128xf32>)
// CHECK: arith.maximumf
// CHECK: outs(%{{.*}} : tensor<2x128xi32>)
// CHECK: outs(%{{.*}} : tensor<2x4xi32>)
// CHECK: outs(%{{.*}} : tensor<2x128xi32>)
// CHECK: outs(%{{.*}} : tensor<2x4xi32>)
// CHECK-NOT: 2x4096xi32
func.func @few_of_many(%x: tensor<2x4096xf32>) -> tensor<2x4xf32> {
  %0 = iree_linalg_ext.sort dimension(1) outs(%x : tensor<2x4096xf32>) {
  ^bb0(%a: f32, %b: f32):
    %c = arith.cmpf ogt, %a, %b : f32
    iree_linalg_ext.yield %c : i1
  } -> tensor<2x4096xf32>
  %v = tensor.extract_slice %0[0, 0] [2, 4] [1, 1] : tensor<2x4096xf32> to tensor<2x4xf32>
  return %v : tensor<2x4xf32>
}

// -----

// What tells the order reads another tensor.
// CHECK-LABEL: func.func @by_table(
// CHECK: iree_linalg_ext.sort
func.func @by_table(%x: tensor<16xi32>, %table: tensor<64xf32>) -> tensor<16xi32> {
  %0 = iree_linalg_ext.sort dimension(0) outs(%x : tensor<16xi32>) {
  ^bb0(%a: i32, %b: i32):
    %i = arith.index_cast %a : i32 to index
    %j = arith.index_cast %b : i32 to index
    %u = tensor.extract %table[%i] : tensor<64xf32>
    %v = tensor.extract %table[%j] : tensor<64xf32>
    %c = arith.cmpf olt, %u, %v : f32
    iree_linalg_ext.yield %c : i1
  } -> tensor<16xi32>
  return %0 : tensor<16xi32>
}

// -----

// Experts of tokens, whose numbers were widened from 32 bits: compared as these, taken as they are.
// CHECK-LABEL: func.func @experts(
// CHECK: %[[WIDE:.*]] = linalg.generic {{.*}} ins(%arg0 : tensor<64xi32>)
// CHECK: arith.trunci {{.*}} : i64 to i32
// CHECK: %[[STORED:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<64xi32>
// CHECK: "reduction"]} ins(%[[STORED]], %[[STORED]] : {{.*}}) outs(%{{.*}} : tensor<64xi32>)
// CHECK: arith.extsi {{.*}} : i32 to i64
// CHECK: arith.cmpi sle
// CHECK: tensor.extract %[[WIDE]]
func.func @experts(%x: tensor<64xi32>) -> tensor<64xi64> {
  %e = tensor.empty() : tensor<64xi64>
  %w = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]} ins(%x : tensor<64xi32>) outs(%e : tensor<64xi64>) {
  ^bb0(%i: i32, %o: i64):
    %p = arith.index_cast %i : i32 to index
    %c = arith.index_cast %p : index to i64
    linalg.yield %c : i64
  } -> tensor<64xi64>
  %0 = iree_linalg_ext.sort dimension(0) outs(%w : tensor<64xi64>) {
  ^bb0(%a: i64, %b: i64):
    %c = arith.cmpi sle, %a, %b : i64
    iree_linalg_ext.yield %c : i1
  } -> tensor<64xi64>
  return %0 : tensor<64xi64>
}

// -----

// A long row is merged: 13 times, by one kernel that is told how long runs are. What is compared
// stands in order then, what is written at the places in order is read by rank.
// CHECK-LABEL: func.func @long(
// CHECK: %[[STORED:.*]] = iree_tensor_ext.compute_barrier.start %arg0
// CHECK: %[[LENGTH:.*]] = util.optimization_barrier {attnpass.launch_constant} %c1_i32
// CHECK: linalg.generic {{.*}}"parallel"]} outs(%{{.*}}, %{{.*}} : tensor<8192xf32>, tensor<8192xi32>)
// CHECK: arith.addi %[[LENGTH]], %[[LENGTH]]
// CHECK: scf.for
// CHECK: tensor.extract %[[STORED]]
// CHECK-COUNT-24: util.optimization_barrier {attnpass.launch_constant}
// CHECK-NOT: util.optimization_barrier
// CHECK: %[[KEYS:.*]] = iree_tensor_ext.compute_barrier.start
// CHECK: %[[ORDER:.*]] = iree_tensor_ext.compute_barrier.start
// CHECK: linalg.generic {{.*}} ins(%[[STORED]] : tensor<8192xf32>)
// CHECK: scf.for
// CHECK: tensor.extract %[[KEYS]]
// CHECK: tensor.extract %[[ORDER]]
// CHECK: %[[RANKS:.*]] = iree_tensor_ext.compute_barrier.start
// CHECK: linalg.generic {{.*}} ins(%[[RANKS]] : tensor<8192xi32>)
// CHECK: tensor.extract %arg1
// CHECK-NOT: iree_linalg_ext.scatter
// CHECK: return %[[KEYS]]
func.func @long(%x: tensor<8192xf32>, %rows: tensor<8192x4xf32>) -> (tensor<8192xf32>, tensor<8192x4xf32>) {
  %e = tensor.empty() : tensor<8192xi64>
  %n = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>], iterator_types = ["parallel"]} outs(%e : tensor<8192xi64>) {
  ^bb0(%o: i64):
    %i = linalg.index 0 : index
    %c = arith.index_cast %i : index to i64
    linalg.yield %c : i64
  } -> tensor<8192xi64>
  %0:2 = iree_linalg_ext.sort dimension(0) outs(%x, %n : tensor<8192xf32>, tensor<8192xi64>) {
  ^bb0(%a: f32, %b: f32, %i: i64, %j: i64):
    %c = arith.cmpf ole, %a, %b : f32
    iree_linalg_ext.yield %c : i1
  } -> tensor<8192xf32>, tensor<8192xi64>
  %p = tensor.expand_shape %0#1 [[0, 1]] output_shape [8192, 1] : tensor<8192xi64> into tensor<8192x1xi64>
  %r = tensor.empty() : tensor<8192x4xf32>
  %s = iree_linalg_ext.scatter dimension_map = [0] unique_indices(true) ins(%rows, %p : tensor<8192x4xf32>, tensor<8192x1xi64>) outs(%r : tensor<8192x4xf32>) {
  ^bb0(%u: f32, %v: f32):
    iree_linalg_ext.yield %u : f32
  } -> tensor<8192x4xf32>
  return %0#0, %s : tensor<8192xf32>, tensor<8192x4xf32>
}

// -----

// Writes to more rows than there are, and what is added, stay.
// CHECK-LABEL: func.func @some_rows(
// CHECK-COUNT-2: iree_linalg_ext.scatter
func.func @some_rows(%x: tensor<64xi32>, %rows: tensor<64xf32>, %more: tensor<65xf32>) -> (tensor<65xf32>, tensor<64xf32>) {
  %e = tensor.empty() : tensor<64xi32>
  %n = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>], iterator_types = ["parallel"]} outs(%e : tensor<64xi32>) {
  ^bb0(%o: i32):
    %i = linalg.index 0 : index
    %c = arith.index_cast %i : index to i32
    linalg.yield %c : i32
  } -> tensor<64xi32>
  %0:2 = iree_linalg_ext.sort dimension(0) outs(%x, %n : tensor<64xi32>, tensor<64xi32>) {
  ^bb0(%a: i32, %b: i32, %i: i32, %j: i32):
    %c = arith.cmpi sle, %a, %b : i32
    iree_linalg_ext.yield %c : i1
  } -> tensor<64xi32>, tensor<64xi32>
  %s = iree_linalg_ext.scatter dimension_map = [0] unique_indices(true) ins(%rows, %0#1 : tensor<64xf32>, tensor<64xi32>) outs(%more : tensor<65xf32>) {
  ^bb0(%u: f32, %v: f32):
    iree_linalg_ext.yield %u : f32
  } -> tensor<65xf32>
  %t = iree_linalg_ext.scatter dimension_map = [0] unique_indices(true) ins(%rows, %0#1 : tensor<64xf32>, tensor<64xi32>) outs(%rows : tensor<64xf32>) {
  ^bb0(%u: f32, %v: f32):
    %w = arith.addf %u, %v : f32
    iree_linalg_ext.yield %w : f32
  } -> tensor<64xf32>
  return %s, %t : tensor<65xf32>, tensor<64xf32>
}

// -----

// On CPUs rows of 512 and more are merged: keys of runs of 64, whose pairs are compared, four times,
// each tile of 16 from where it begins. What keys do not tell is merged from runs of one on: ten times.
// CHECK-LABEL: func.func @on_a_cpu(
// CHECK: %[[FIRST:.*]] = arith.constant -2147483647 : i32
// CHECK: linalg.fill ins(%[[FIRST]] : i32) outs(%{{.*}} : tensor<3x640xi32>)
// CHECK-COUNT-2: linalg.generic {{.*}}"reduction"]{{.*}} outs(%{{.*}} : tensor<3x10x64xi32>)
// CHECK: util.optimization_barrier {attnpass.launch_constant} %c64_i32
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<3x40xi32>)
// CHECK: scf.for
// CHECK: linalg.generic {{.*}} outs(%{{.*}}, %{{.*}} : tensor<3x40x16xi32>, tensor<3x40x16xi32>)
// CHECK-COUNT-3: scf.for
// CHECK-NOT: scf.for
// CHECK: return
// CHECK-LABEL: func.func @not_by_keys(
// CHECK-COUNT-10: scf.for
// CHECK-NOT: scf.for
// CHECK-NOT: "reduction"
// CHECK: return
#cpu = #hal.device.target<"local", [#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64">]> : !hal.device
module attributes {hal.device.targets = [#cpu]} {
func.func @on_a_cpu(%x: tensor<3x600xf32>) -> tensor<3x400xf32> {
  %s = iree_linalg_ext.sort dimension(1) outs(%x : tensor<3x600xf32>) {
  ^bb0(%a: f32, %b: f32):
    %c = arith.cmpf ogt, %a, %b : f32
    iree_linalg_ext.yield %c : i1
  } -> tensor<3x600xf32>
  %r = tensor.extract_slice %s[0, 0] [3, 400] [1, 1] : tensor<3x600xf32> to tensor<3x400xf32>
  return %r : tensor<3x400xf32>
}
func.func @not_by_keys(%x: tensor<3x600xi8>) -> tensor<3x600xi8> {
  %s = iree_linalg_ext.sort dimension(1) outs(%x : tensor<3x600xi8>) {
  ^bb0(%a: i8, %b: i8):
    %c = arith.cmpi ult, %a, %b : i8
    iree_linalg_ext.yield %c : i1
  } -> tensor<3x600xi8>
  return %s : tensor<3x600xi8>
}
}
