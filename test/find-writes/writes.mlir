// Each element of a new tensor finds the last that is written to it by index; of numbers that are added it
// is the sum, of 16 bits in f32. Sums, products, largest and least of many are made in the order of their
// places, where that is all that the body does. Tensors that are read, and may be caches, and rows that are
// added to different ones are left, what depends on the order of rows, and those for CPUs.

// RUN: attn-opt %s --attn-find-writes --split-input-file --report=%t.json | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.json
// WHY: writes the same to all places, whichever comes last
// WHY: writes the same to all places, whichever comes last
// WHY: each of 65536 rows finds what is written to it among 512
// WHY: each of 64 rows finds what is written to it among 32
// WHY: each of 64 rows finds what is written to it among 32
// WHY: each of 8 rows finds what is written to it among 32
// WHY: adds up the rows of each place in the order of places
// WHY: adds up the rows of each place in the order of places
// WHY: adds up the rows of each place in the order of places
// WHY: adds up the rows of each place in the order of places
// WHY: multiplies the rows of each place in the order of places
// WHY: finds the largest of the rows of each place in the order of places
// WHY: stands in the order of places with another by the same indices
// WHY: stands in the order of places with another by the same indices
// WHY-NOT: the order of places
// WHY-NOT: finds what is written

#cuda = #hal.device.target<"cuda", [#hal.executable.target<"cuda", "cuda-nvptx-fb">]> : !hal.device
module attributes {hal.device.targets = [#cuda]} {
// A mask of the largest: one number for all, as a tensor and as what a table of indices is made with.
// CHECK-LABEL: func.func @mask(
// CHECK: iree_linalg_ext.scatter dimension_map = [0] unique_indices(true)
// CHECK: iree_linalg_ext.scatter dimension_map = [0] unique_indices(true)
// CHECK-NOT: iree_linalg_ext.scatter
// CHECK: return
func.func @mask(%at: tensor<512xi64>, %x: tensor<65536xf32>, %by: tensor<512xf32>, %one: f32) -> (tensor<65536xf32>, tensor<65536xf32>, tensor<65536xf32>) {
  %e = tensor.empty() : tensor<512xf32>
  %f = linalg.fill ins(%one : f32) outs(%e : tensor<512xf32>) -> tensor<512xf32>
  %r = iree_linalg_ext.scatter dimension_map = [0] unique_indices(false) ins(%f, %at : tensor<512xf32>, tensor<512xi64>) outs(%x : tensor<65536xf32>) {
  ^bb0(%n: f32, %o: f32):
    iree_linalg_ext.yield %n : f32
  } -> tensor<65536xf32>
  %c = arith.constant 0.0 : f32
  %i = tensor.empty() : tensor<512xi64>
  %made:3 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%by : tensor<512xf32>) outs(%i, %e, %e : tensor<512xi64>, tensor<512xf32>, tensor<512xf32>) {
  ^bb0(%b: f32, %p: i64, %q: f32, %u: f32):
    %l = linalg.index 0 : index
    %k = arith.index_cast %l : index to i64
    linalg.yield %k, %c, %b : i64, f32, f32
  } -> (tensor<512xi64>, tensor<512xf32>, tensor<512xf32>)
  %s = iree_linalg_ext.scatter dimension_map = [0] unique_indices(false) ins(%made#1, %made#0 : tensor<512xf32>, tensor<512xi64>) outs(%x : tensor<65536xf32>) {
  ^bb0(%n: f32, %o: f32):
    iree_linalg_ext.yield %n : f32
  } -> tensor<65536xf32>
  %t = iree_linalg_ext.scatter dimension_map = [0] unique_indices(false) ins(%made#2, %made#0 : tensor<512xf32>, tensor<512xi64>) outs(%x : tensor<65536xf32>) {
  ^bb0(%n: f32, %o: f32):
    iree_linalg_ext.yield %n : f32
  } -> tensor<65536xf32>
  return %r, %s, %t : tensor<65536xf32>, tensor<65536xf32>, tensor<65536xf32>
}
// CHECK-LABEL: func.func @rows(
// CHECK: arith.cmpi ult, %{{.*}}, %{{.*}} : index
// CHECK: %[[PLACES:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<32xi32>
// CHECK: %[[LAST:.*]] = linalg.generic {{.*}}"reduction"]} ins(%[[PLACES]] : tensor<32xi32>) outs(%{{.*}} : tensor<64xi32>)
// CHECK: arith.cmpi eq
// CHECK: arith.maxsi
// CHECK: linalg.generic {{.*}} ins(%[[LAST]] : tensor<64xi32>) outs(%{{.*}} : tensor<64x4xf32>)
// CHECK: tensor.extract %arg0
// CHECK-NOT: iree_linalg_ext.scatter
func.func @rows(%new: tensor<32x4xf32>, %at: tensor<32x1xi64>) -> tensor<64x4xf32> {
  %c = arith.constant 1.0 : f32
  %e = tensor.empty() : tensor<64x4xf32>
  %f = linalg.fill ins(%c : f32) outs(%e : tensor<64x4xf32>) -> tensor<64x4xf32>
  %r = iree_linalg_ext.scatter dimension_map = [0] unique_indices(false) ins(%new, %at : tensor<32x4xf32>, tensor<32x1xi64>) outs(%f : tensor<64x4xf32>) {
  ^bb0(%n: f32, %o: f32):
    iree_linalg_ext.yield %n : f32
  } -> tensor<64x4xf32>
  return %r : tensor<64x4xf32>
}
// CHECK-LABEL: func.func @counts(
// CHECK: linalg.generic {{.*}}"reduction"]} ins(%{{.*}}, %arg2, %arg0 : tensor<32xi32>, tensor<32xi1>, tensor<32xi64>) outs(%arg3 : tensor<64xi64>)
// CHECK: arith.andi
// CHECK: arith.addi
// CHECK-NOT: iree_linalg_ext.scatter
func.func @counts(%new: tensor<32xi64>, %at: tensor<32xi32>, %mask: tensor<32xi1>, %x: tensor<64xi64>) -> tensor<64xi64> {
  %r = iree_linalg_ext.scatter dimension_map = [0] unique_indices(false) ins(%new, %at, %mask : tensor<32xi64>, tensor<32xi32>, tensor<32xi1>) outs(%x : tensor<64xi64>) {
  ^bb0(%n: i64, %o: i64):
    %s = arith.addi %o, %n : i64
    iree_linalg_ext.yield %s : i64
  } -> tensor<64xi64>
  return %r : tensor<64xi64>
}
// CHECK-LABEL: func.func @experts(
// CHECK: %[[WIDE:.*]] = linalg.generic {{.*}} ins(%arg2 : tensor<8x4xbf16>) outs(%{{.*}} : tensor<8x4xf32>)
// CHECK: linalg.generic {{.*}}"parallel", "parallel", "reduction"]} ins(%{{.*}}, %arg0 : tensor<32xi32>, tensor<32x4xbf16>) outs(%[[WIDE]] : tensor<8x4xf32>)
// CHECK: arith.select
// CHECK: arith.addf %{{.*}} : f32
// CHECK-NOT: iree_linalg_ext.scatter
func.func @experts(%new: tensor<32x4xbf16>, %at: tensor<32xi64>, %x: tensor<8x4xbf16>) -> tensor<8x4xbf16> {
  %r = iree_linalg_ext.scatter dimension_map = [0] unique_indices(false) ins(%new, %at : tensor<32x4xbf16>, tensor<32xi64>) outs(%x : tensor<8x4xbf16>) {
  ^bb0(%n: bf16, %o: bf16):
    %s = arith.addf %o, %n : bf16
    iree_linalg_ext.yield %s : bf16
  } -> tensor<8x4xbf16>
  return %r : tensor<8x4xbf16>
}
// Places in order, the first of each, whole blocks of one place, and the sums.
// CHECK-LABEL: func.func @many(
// CHECK: %[[PLACES:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<4096xi32>
// CHECK: linalg.generic {{.*}}"reduction"]} ins(%[[PLACES]], %[[PLACES]] :
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<1025xi32>)
// CHECK: %[[STARTS:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<1025xi32>
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<32x64xf32>)
// CHECK: %[[BLOCKS:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<32x64xf32>
// CHECK: linalg.generic {{.*}} ins(%arg2 : tensor<1024x64xf16>) outs(%{{.*}} : tensor<1024x64xf16>)
// CHECK-COUNT-2: tensor.extract %[[STARTS]]
// CHECK: tensor.extract %{{.*}} : tensor<4096xi32>
// CHECK: tensor.extract %{{.*}} : tensor<4096x64xf16>
// CHECK: tensor.extract %[[BLOCKS]]
// CHECK-NOT: iree_linalg_ext.scatter
func.func @many(%new: tensor<4096x64xf16>, %at: tensor<4096xi64>, %x: tensor<1024x64xf16>) -> tensor<1024x64xf16> {
  %r = iree_linalg_ext.scatter dimension_map = [0] unique_indices(false) ins(%new, %at : tensor<4096x64xf16>, tensor<4096xi64>) outs(%x : tensor<1024x64xf16>) {
  ^bb0(%n: f16, %o: f16):
    %s = arith.addf %o, %n : f16
    iree_linalg_ext.yield %s : f16
  } -> tensor<1024x64xf16>
  return %r : tensor<1024x64xf16>
}
// Of an unknown number, by two indices each.
// CHECK-LABEL: func.func @unknown(
// CHECK: arith.muli
// CHECK: iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<?xi32>
// CHECK: linalg.generic {{.*}} ins(%{{.*}} : tensor<?xi64>) outs(%{{.*}} : tensor<?xi64>)
// CHECK-NOT: iree_linalg_ext.scatter
func.func @unknown(%new: tensor<?xi64>, %at: tensor<?x2xi32>, %x: tensor<?x8xi64>) -> tensor<?x8xi64> {
  %r = iree_linalg_ext.scatter dimension_map = [0, 1] unique_indices(false) ins(%new, %at : tensor<?xi64>, tensor<?x2xi32>) outs(%x : tensor<?x8xi64>) {
  ^bb0(%n: i64, %o: i64):
    %s = arith.addi %o, %n : i64
    iree_linalg_ext.yield %s : i64
  } -> tensor<?x8xi64>
  return %r : tensor<?x8xi64>
}
// Rows that were widened are read as they were.
// CHECK-LABEL: func.func @widened(
// CHECK: iree_tensor_ext.compute_barrier.start %arg0 : tensor<4096x8xf16>
// CHECK-NOT: iree_linalg_ext.scatter
func.func @widened(%new: tensor<4096x8xf16>, %at: tensor<4096xi64>, %x: tensor<1024x8xf32>) -> tensor<1024x8xf32> {
  %e = tensor.empty() : tensor<4096x8xf32>
  %wide = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]} ins(%new : tensor<4096x8xf16>) outs(%e : tensor<4096x8xf32>) {
  ^bb0(%n: f16, %o: f32):
    %s = arith.extf %n : f16 to f32
    linalg.yield %s : f32
  } -> tensor<4096x8xf32>
  %r = iree_linalg_ext.scatter dimension_map = [0] unique_indices(false) ins(%wide, %at : tensor<4096x8xf32>, tensor<4096xi64>) outs(%x : tensor<1024x8xf32>) {
  ^bb0(%n: f32, %o: f32):
    %s = arith.addf %o, %n : f32
    iree_linalg_ext.yield %s : f32
  } -> tensor<1024x8xf32>
  return %r : tensor<1024x8xf32>
}
// Rows that are one number are counted.
// CHECK-LABEL: func.func @ones(
// CHECK: linalg.generic {{.*}} ins(%arg1 : tensor<256xi64>) outs(%{{.*}} : tensor<256xi64>)
// CHECK-NOT: scf.for
// CHECK: arith.subi
// CHECK: arith.muli %{{.*}} : i64
// CHECK: arith.addi %{{.*}} : i64
// CHECK-NOT: iree_linalg_ext.scatter
func.func @ones(%at: tensor<4096xi64>, %x: tensor<256xi64>) -> tensor<256xi64> {
  %new = arith.constant dense<3> : tensor<4096xi64>
  %r = iree_linalg_ext.scatter dimension_map = [0] unique_indices(false) ins(%new, %at : tensor<4096xi64>, tensor<4096xi64>) outs(%x : tensor<256xi64>) {
  ^bb0(%n: i64, %o: i64):
    %s = arith.addi %o, %n : i64
    iree_linalg_ext.yield %s : i64
  } -> tensor<256xi64>
  return %r : tensor<256xi64>
}
// CHECK-LABEL: func.func @products(
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<32x64xf32>)
// CHECK: %[[ONE:.*]] = arith.constant 1.0{{.*}} : f32
// CHECK: scf.for {{.*}} iter_args(%{{.*}} = %[[ONE]])
// CHECK: arith.mulf
// CHECK-NOT: iree_linalg_ext.scatter
func.func @products(%new: tensor<4096x64xf16>, %at: tensor<4096xi64>, %x: tensor<1024x64xf16>) -> tensor<1024x64xf16> {
  %r = iree_linalg_ext.scatter dimension_map = [0] unique_indices(false) ins(%new, %at : tensor<4096x64xf16>, tensor<4096xi64>) outs(%x : tensor<1024x64xf16>) {
  ^bb0(%n: f16, %o: f16):
    %s = arith.mulf %o, %n : f16
    iree_linalg_ext.yield %s : f16
  } -> tensor<1024x64xf16>
  return %r : tensor<1024x64xf16>
}
// Rows of two batches, by one index each, as they are imported: begun with -inf where there are any, and
// counted in the same order.
// CHECK-LABEL: func.func @largest(
// CHECK: linalg.generic {{.*}} ins(%arg1 : tensor<2x300xi64>) outs(%{{.*}} : tensor<2x300xi64>)
// CHECK: %[[STARTS:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<41xi32>
// CHECK: %[[X:.*]] = tensor.collapse_shape %arg2 {{\[\[}}0, 1], [2]] : tensor<2x20x8xf16> into tensor<40x8xf16>
// CHECK: linalg.generic {{.*}} ins(%[[X]] : tensor<40x8xf16>)
// CHECK: arith.cmpi ult
// CHECK: arith.select %{{.*}}, %{{.*}}, %{{.*}} : f16
// CHECK-COUNT-3: arith.maximumf %{{.*}} : f32
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<40x8xf16>)
// CHECK-COUNT-2: tensor.extract %[[STARTS]]
// CHECK: arith.sitofp
// CHECK-NOT: iree_linalg_ext
func.func @largest(%new: tensor<2x300x8xf16>, %at: tensor<2x300xi64>, %x: tensor<2x20x8xf16>) -> (tensor<2x20x8xf16>, tensor<2x20x8xf16>) {
  %c8 = arith.constant 8 : index
  %c300 = arith.constant 300 : index
  %zero = arith.constant 0 : i64
  %one = arith.constant 1.0 : f16
  %low = arith.constant 0xFC00 : f16
  %e = tensor.empty() : tensor<2x300x8xi64>
  %whole = linalg.broadcast ins(%at : tensor<2x300xi64>) outs(%e : tensor<2x300x8xi64>) dimensions = [2]
  %e1 = tensor.empty() : tensor<4800x1xi64>
  %e2 = tensor.empty() : tensor<4800xf16>
  %e3 = tensor.empty() : tensor<4800x3xi64>
  %t:4 = linalg.generic {indexing_maps = [affine_map<(d) -> (d, 0)>, affine_map<(d) -> (d, 0)>, affine_map<(d) -> (d, 0)>, affine_map<(d) -> (d)>], iterator_types = ["parallel"]} outs(%e1, %e1, %e1, %e2 : tensor<4800x1xi64>, tensor<4800x1xi64>, tensor<4800x1xi64>, tensor<4800xf16>) {
  ^bb0(%p: i64, %q: i64, %r: i64, %s: f16):
    %i = linalg.index 0 : index
    %column = arith.remsi %i, %c8 : index
    %rest = arith.divsi %i, %c8 : index
    %row = arith.remsi %rest, %c300 : index
    %batch = arith.divsi %rest, %c300 : index
    %place = tensor.extract %whole[%batch, %row, %column] : tensor<2x300x8xi64>
    %element = tensor.extract %new[%batch, %row, %column] : tensor<2x300x8xf16>
    %b = arith.index_cast %batch : index to i64
    %c = arith.index_cast %column : index to i64
    linalg.yield %b, %place, %c, %element : i64, i64, i64, f16
  } -> (tensor<4800x1xi64>, tensor<4800x1xi64>, tensor<4800x1xi64>, tensor<4800xf16>)
  %i0 = tensor.insert_slice %t#0 into %e3[0, 0] [4800, 1] [1, 1] : tensor<4800x1xi64> into tensor<4800x3xi64>
  %i1 = tensor.insert_slice %t#1 into %i0[0, 1] [4800, 1] [1, 1] : tensor<4800x1xi64> into tensor<4800x3xi64>
  %i2 = tensor.insert_slice %t#2 into %i1[0, 2] [4800, 1] [1, 1] : tensor<4800x1xi64> into tensor<4800x3xi64>
  %f = linalg.fill ins(%low : f16) outs(%e2 : tensor<4800xf16>) -> tensor<4800xf16>
  %begun = iree_linalg_ext.scatter dimension_map = [0, 1, 2] unique_indices(false) ins(%f, %i2 : tensor<4800xf16>, tensor<4800x3xi64>) outs(%x : tensor<2x20x8xf16>) {
  ^bb0(%n: f16, %o: f16):
    iree_linalg_ext.yield %n : f16
  } -> tensor<2x20x8xf16>
  %r = iree_linalg_ext.scatter dimension_map = [0, 1, 2] unique_indices(false) ins(%t#3, %i2 : tensor<4800xf16>, tensor<4800x3xi64>) outs(%begun : tensor<2x20x8xf16>) {
  ^bb0(%n: f16, %o: f16):
    %s = arith.maximumf %n, %o : f16
    iree_linalg_ext.yield %s : f16
  } -> tensor<2x20x8xf16>
  %e4 = tensor.empty() : tensor<2x20x8xf16>
  %ones = linalg.fill ins(%one : f16) outs(%e4 : tensor<2x20x8xf16>) -> tensor<2x20x8xf16>
  %counts = iree_linalg_ext.scatter dimension_map = [0, 1, 2] unique_indices(false) ins(%t#3, %i2 : tensor<4800xf16>, tensor<4800x3xi64>) outs(%ones : tensor<2x20x8xf16>) {
  ^bb0(%n: f16, %o: f16):
    %s = arith.addf %o, %one : f16
    iree_linalg_ext.yield %s : f16
  } -> tensor<2x20x8xf16>
  return %r, %counts : tensor<2x20x8xf16>, tensor<2x20x8xf16>
}
// CHECK-LABEL: func.func @differences(
// CHECK: iree_linalg_ext.scatter
// CHECK: iree_linalg_ext.scatter
func.func @differences(%new: tensor<4096xf32>, %at: tensor<4096xi64>, %x: tensor<1024xf32>) -> tensor<1024xf32> {
  %c = arith.constant 2.0 : f32
  %r = iree_linalg_ext.scatter dimension_map = [0] unique_indices(false) ins(%new, %at : tensor<4096xf32>, tensor<4096xi64>) outs(%x : tensor<1024xf32>) {
  ^bb0(%n: f32, %o: f32):
    %s = arith.subf %n, %o : f32
    iree_linalg_ext.yield %s : f32
  } -> tensor<1024xf32>
  %q = iree_linalg_ext.scatter dimension_map = [0] unique_indices(false) ins(%new, %at : tensor<4096xf32>, tensor<4096xi64>) outs(%r : tensor<1024xf32>) {
  ^bb0(%n: f32, %o: f32):
    %s = arith.mulf %o, %c : f32
    iree_linalg_ext.yield %s : f32
  } -> tensor<1024xf32>
  return %q : tensor<1024xf32>
}
// CHECK-LABEL: func.func @cache(
// CHECK: iree_linalg_ext.scatter
// CHECK: iree_linalg_ext.scatter
func.func @cache(%new: tensor<32x4xf32>, %at: tensor<32xi64>, %x: tensor<64x4xf32>) -> (tensor<64x4xf32>, tensor<64x4xf32>) {
  %zero = arith.constant dense<0.0> : tensor<64x4xf32>
  %r = iree_linalg_ext.scatter dimension_map = [0] unique_indices(true) ins(%new, %at : tensor<32x4xf32>, tensor<32xi64>) outs(%x : tensor<64x4xf32>) {
  ^bb0(%n: f32, %o: f32):
    iree_linalg_ext.yield %n : f32
  } -> tensor<64x4xf32>
  %s = iree_linalg_ext.scatter dimension_map = [0] unique_indices(true) ins(%new, %at : tensor<32x4xf32>, tensor<32xi64>) outs(%zero : tensor<64x4xf32>) {
  ^bb0(%n: f32, %o: f32):
    %a = arith.addf %o, %n : f32
    iree_linalg_ext.yield %a : f32
  } -> tensor<64x4xf32>
  return %r, %s : tensor<64x4xf32>, tensor<64x4xf32>
}
}

// -----

// CHECK-LABEL: func.func @on_a_cpu(
// CHECK: iree_linalg_ext.scatter
#cpu = #hal.device.target<"local", [#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64">]> : !hal.device
module attributes {hal.device.targets = [#cpu]} {
func.func @on_a_cpu(%new: tensor<32xf32>, %at: tensor<32xi64>, %x: tensor<64xf32>) -> tensor<64xf32> {
  %r = iree_linalg_ext.scatter dimension_map = [0] unique_indices(true) ins(%new, %at : tensor<32xf32>, tensor<32xi64>) outs(%x : tensor<64xf32>) {
  ^bb0(%n: f32, %o: f32):
    iree_linalg_ext.yield %n : f32
  } -> tensor<64xf32>
  return %r : tensor<64xf32>
}
}
