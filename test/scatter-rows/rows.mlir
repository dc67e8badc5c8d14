// A table of elements becomes one index a row, and the updates rows as they lie. Run twice the pass
// adds nothing.

// RUN: attn-opt %s --attn-scatter-rows --split-input-file --report=%t.json | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.json
// RUN: attn-opt %s --attn-scatter-rows --split-input-file > %t.1 && attn-opt %s --attn-scatter-rows --attn-scatter-rows --split-input-file > %t.2 && diff %t.1 %t.2
// WHY: writes rows of 8 elements by one index each in place of a table of 96x4 indices
// WHY: writes rows of elements by one index each in place of a table of ?x2 indices
// WHY: writes rows of 1 elements by one index each in place of a table of 24x2 indices
// WHY: writes rows of 8 elements by one index each in place of a table of 160x2 indices
// WHY-NOT: by one index each

#copy = affine_map<(a, b, c, d) -> (a, b, c, d)>

// As `cache[:, :, at] = new` is imported.
// CHECK-LABEL: func.func @heads(
// CHECK-SAME: %[[CACHE:[^:]*]]: tensor<2x3x16x8xf16>, %[[NEW:[^:]*]]: tensor<2x3x2x8xf16>, %[[AT:[^:]*]]: tensor<2xi64>
// CHECK-DAG: %[[ROWS:.*]] = tensor.collapse_shape %[[CACHE]] {{\[\[}}0, 1, 2], [3]] : tensor<2x3x16x8xf16> into tensor<96x8xf16>
// CHECK-DAG: %[[UPDATES:.*]] = tensor.collapse_shape %[[NEW]] {{\[\[}}0, 1, 2], [3]] : tensor<2x3x2x8xf16> into tensor<12x8xf16>
// CHECK: %[[NUMBERS:.*]] = linalg.generic {{.*}} ins(%[[AT]] : tensor<2xi64>) outs(%{{.*}} : tensor<2x3x2xi64>)
// CHECK: %[[FLAT:.*]] = tensor.collapse_shape %[[NUMBERS]] {{.*}} into tensor<12xi64>
// CHECK: %[[INDICES:.*]] = tensor.expand_shape %[[FLAT]] {{.*}} into tensor<12x1xi64>
// CHECK: %[[R:.*]] = iree_linalg_ext.scatter dimension_map = [0] unique_indices(true) ins(%[[UPDATES]], %[[INDICES]] : tensor<12x8xf16>, tensor<12x1xi64>) outs(%[[ROWS]] : tensor<96x8xf16>)
// CHECK: %[[BACK:.*]] = tensor.expand_shape %[[R]]
// CHECK: return %[[BACK]]
func.func @heads(%cache: tensor<2x3x16x8xf16>, %new: tensor<2x3x2x8xf16>, %at: tensor<2xi64>) -> tensor<2x3x16x8xf16> {
  %e2 = tensor.empty() : tensor<2xi64>
  %n2 = linalg.generic {indexing_maps = [affine_map<(d) -> (d)>], iterator_types = ["parallel"]} outs(%e2 : tensor<2xi64>) {
  ^bb0(%o: i64):
    %i = linalg.index 0 : index
    %x = arith.index_cast %i : index to i64
    linalg.yield %x : i64
  } -> tensor<2xi64>
  %e3 = tensor.empty() : tensor<3xi64>
  %n3 = linalg.generic {indexing_maps = [affine_map<(d) -> (d)>], iterator_types = ["parallel"]} outs(%e3 : tensor<3xi64>) {
  ^bb0(%o: i64):
    %i = linalg.index 0 : index
    %x = arith.index_cast %i : index to i64
    linalg.yield %x : i64
  } -> tensor<3xi64>
  %e8 = tensor.empty() : tensor<8xi64>
  %n8 = linalg.generic {indexing_maps = [affine_map<(d) -> (d)>], iterator_types = ["parallel"]} outs(%e8 : tensor<8xi64>) {
  ^bb0(%o: i64):
    %i = linalg.index 0 : index
    %x = arith.index_cast %i : index to i64
    linalg.yield %x : i64
  } -> tensor<8xi64>
  %e = tensor.empty() : tensor<2x3x2x8xi64>
  %a = linalg.broadcast ins(%n2 : tensor<2xi64>) outs(%e : tensor<2x3x2x8xi64>) dimensions = [1, 2, 3]
  %b = linalg.broadcast ins(%n3 : tensor<3xi64>) outs(%e : tensor<2x3x2x8xi64>) dimensions = [0, 2, 3]
  %c = linalg.broadcast ins(%at : tensor<2xi64>) outs(%e : tensor<2x3x2x8xi64>) dimensions = [0, 1, 3]
  %d = linalg.broadcast ins(%n8 : tensor<8xi64>) outs(%e : tensor<2x3x2x8xi64>) dimensions = [0, 1, 2]
  %a1 = tensor.collapse_shape %a [[0, 1, 2, 3]] : tensor<2x3x2x8xi64> into tensor<96xi64>
  %b1 = tensor.collapse_shape %b [[0, 1, 2, 3]] : tensor<2x3x2x8xi64> into tensor<96xi64>
  %c1 = tensor.collapse_shape %c [[0, 1, 2, 3]] : tensor<2x3x2x8xi64> into tensor<96xi64>
  %d1 = tensor.collapse_shape %d [[0, 1, 2, 3]] : tensor<2x3x2x8xi64> into tensor<96xi64>
  %a2 = tensor.expand_shape %a1 [[0, 1]] output_shape [96, 1] : tensor<96xi64> into tensor<96x1xi64>
  %b2 = tensor.expand_shape %b1 [[0, 1]] output_shape [96, 1] : tensor<96xi64> into tensor<96x1xi64>
  %c2 = tensor.expand_shape %c1 [[0, 1]] output_shape [96, 1] : tensor<96xi64> into tensor<96x1xi64>
  %d2 = tensor.expand_shape %d1 [[0, 1]] output_shape [96, 1] : tensor<96xi64> into tensor<96x1xi64>
  %table = tensor.concat dim(1) %a2, %b2, %c2, %d2 : (tensor<96x1xi64>, tensor<96x1xi64>, tensor<96x1xi64>, tensor<96x1xi64>) -> tensor<96x4xi64>
  %flat = tensor.collapse_shape %new [[0, 1, 2, 3]] : tensor<2x3x2x8xf16> into tensor<96xf16>
  %r = iree_linalg_ext.scatter dimension_map = [0, 1, 2, 3] unique_indices(true) ins(%flat, %table : tensor<96xf16>, tensor<96x4xi64>) outs(%cache : tensor<2x3x16x8xf16>) {
  ^bb0(%x: f16, %y: f16):
    iree_linalg_ext.yield %x : f16
  } -> tensor<2x3x16x8xf16>
  return %r : tensor<2x3x16x8xf16>
}

// -----

// A place for each sequence, of unknown sizes: two indices become one.
// CHECK-LABEL: func.func @sequences(
// CHECK: tensor.collapse_shape %arg0 {{\[\[}}0, 1], [2]] : tensor<?x?x?xf32> into tensor<?x?xf32>
// CHECK: linalg.generic {{.*}} ins(%arg2, %arg3 : tensor<?xi64>, tensor<?xi64>)
// CHECK: iree_linalg_ext.scatter dimension_map = [0] unique_indices(false) ins(%arg1, %{{.*}} : tensor<?x?xf32>, tensor<?x1xi64>)
func.func @sequences(%cache: tensor<?x?x?xf32>, %new: tensor<?x?xf32>, %b: tensor<?xi64>, %at: tensor<?xi64>) -> tensor<?x?x?xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %b, %c0 : tensor<?xi64>
  %b1 = tensor.expand_shape %b [[0, 1]] output_shape [%n, 1] : tensor<?xi64> into tensor<?x1xi64>
  %a1 = tensor.expand_shape %at [[0, 1]] output_shape [%n, 1] : tensor<?xi64> into tensor<?x1xi64>
  %table = tensor.concat dim(1) %b1, %a1 : (tensor<?x1xi64>, tensor<?x1xi64>) -> tensor<?x2xi64>
  %r = iree_linalg_ext.scatter dimension_map = [0, 1] unique_indices(false) ins(%new, %table : tensor<?x?xf32>, tensor<?x2xi64>) outs(%cache : tensor<?x?x?xf32>) {
  ^bb0(%x: f32, %y: f32):
    %z = arith.addf %x, %y : f32
    iree_linalg_ext.yield %z : f32
  } -> tensor<?x?x?xf32>
  return %r : tensor<?x?x?xf32>
}

// -----

// What counts a dim that is longer in the tensor is no part of a row.
// CHECK-LABEL: func.func @part(
// CHECK: iree_linalg_ext.scatter dimension_map = [0] {{.*}} outs(%{{.*}} : tensor<160xf32>)
func.func @part(%cache: tensor<16x10xf32>, %new: tensor<3x8xf32>, %at: tensor<3xi64>) -> tensor<16x10xf32> {
  %e8 = tensor.empty() : tensor<8xi64>
  %n8 = linalg.generic {indexing_maps = [affine_map<(d) -> (d)>], iterator_types = ["parallel"]} outs(%e8 : tensor<8xi64>) {
  ^bb0(%o: i64):
    %i = linalg.index 0 : index
    %x = arith.index_cast %i : index to i64
    linalg.yield %x : i64
  } -> tensor<8xi64>
  %e = tensor.empty() : tensor<3x8xi64>
  %a = linalg.broadcast ins(%at : tensor<3xi64>) outs(%e : tensor<3x8xi64>) dimensions = [1]
  %b = linalg.broadcast ins(%n8 : tensor<8xi64>) outs(%e : tensor<3x8xi64>) dimensions = [0]
  %a1 = tensor.collapse_shape %a [[0, 1]] : tensor<3x8xi64> into tensor<24xi64>
  %b1 = tensor.collapse_shape %b [[0, 1]] : tensor<3x8xi64> into tensor<24xi64>
  %a2 = tensor.expand_shape %a1 [[0, 1]] output_shape [24, 1] : tensor<24xi64> into tensor<24x1xi64>
  %b2 = tensor.expand_shape %b1 [[0, 1]] output_shape [24, 1] : tensor<24xi64> into tensor<24x1xi64>
  %table = tensor.concat dim(1) %a2, %b2 : (tensor<24x1xi64>, tensor<24x1xi64>) -> tensor<24x2xi64>
  %flat = tensor.collapse_shape %new [[0, 1]] : tensor<3x8xf32> into tensor<24xf32>
  %r = iree_linalg_ext.scatter dimension_map = [0, 1] unique_indices(true) ins(%flat, %table : tensor<24xf32>, tensor<24x2xi64>) outs(%cache : tensor<16x10xf32>) {
  ^bb0(%x: f32, %y: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<16x10xf32>
  return %r : tensor<16x10xf32>
}

// -----

// A table that comes in stays, and so does one index a row.
// CHECK-LABEL: func.func @kept(
// CHECK: iree_linalg_ext.scatter dimension_map = [0, 1] {{.*}} ins(%arg1, %arg2 :
// CHECK: iree_linalg_ext.scatter dimension_map = [0] {{.*}} ins(%arg1, %arg3 :
func.func @kept(%cache: tensor<4x16x8xf32>, %new: tensor<3x8xf32>, %table: tensor<3x2xi64>, %at: tensor<3x1xi64>, %rows: tensor<16x8xf32>) -> (tensor<4x16x8xf32>, tensor<16x8xf32>) {
  %r = iree_linalg_ext.scatter dimension_map = [0, 1] unique_indices(true) ins(%new, %table : tensor<3x8xf32>, tensor<3x2xi64>) outs(%cache : tensor<4x16x8xf32>) {
  ^bb0(%x: f32, %y: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<4x16x8xf32>
  %s = iree_linalg_ext.scatter dimension_map = [0] unique_indices(true) ins(%new, %at : tensor<3x8xf32>, tensor<3x1xi64>) outs(%rows : tensor<16x8xf32>) {
  ^bb0(%x: f32, %y: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<16x8xf32>
  return %r, %s : tensor<4x16x8xf32>, tensor<16x8xf32>
}

// -----

// As torch's `scatter` is imported, of fewer rows than there are; digits of other sizes are not what they say.
// CHECK-LABEL: func.func @numbered(
// CHECK: %[[NEW:.*]] = tensor.extract_slice %arg0[0, 0] [20, 8] [1, 1] : tensor<30x8xf32> to tensor<20x8xf32>
// CHECK: linalg.generic {{.*}} ins(%arg1 : tensor<20xi64>)
// CHECK: iree_linalg_ext.scatter dimension_map = [0] unique_indices(false) ins(%[[NEW]], %{{.*}} : tensor<20x8xf32>, tensor<20x1xi64>)
func.func @numbered(%new: tensor<30x8xf32>, %at: tensor<20xi64>, %x: tensor<50x8xf32>) -> tensor<50x8xf32> {
  %c = arith.constant 8 : index
  %e = tensor.empty() : tensor<20x8xi64>
  %whole = linalg.broadcast ins(%at : tensor<20xi64>) outs(%e : tensor<20x8xi64>) dimensions = [1]
  %e1 = tensor.empty() : tensor<160x1xi64>
  %e2 = tensor.empty() : tensor<160xf32>
  %e3 = tensor.empty() : tensor<160x2xi64>
  %t:3 = linalg.generic {indexing_maps = [affine_map<(d) -> (d, 0)>, affine_map<(d) -> (d, 0)>, affine_map<(d) -> (d)>], iterator_types = ["parallel"]} outs(%e1, %e1, %e2 : tensor<160x1xi64>, tensor<160x1xi64>, tensor<160xf32>) {
  ^bb0(%p: i64, %q: i64, %s: f32):
    %i = linalg.index 0 : index
    %column = arith.remsi %i, %c : index
    %row = arith.divsi %i, %c : index
    %place = tensor.extract %whole[%row, %column] : tensor<20x8xi64>
    %element = tensor.extract %new[%row, %column] : tensor<30x8xf32>
    %n = arith.index_cast %column : index to i64
    linalg.yield %place, %n, %element : i64, i64, f32
  } -> (tensor<160x1xi64>, tensor<160x1xi64>, tensor<160xf32>)
  %i0 = tensor.insert_slice %t#0 into %e3[0, 0] [160, 1] [1, 1] : tensor<160x1xi64> into tensor<160x2xi64>
  %i1 = tensor.insert_slice %t#1 into %i0[0, 1] [160, 1] [1, 1] : tensor<160x1xi64> into tensor<160x2xi64>
  %r = iree_linalg_ext.scatter dimension_map = [0, 1] unique_indices(false) ins(%t#2, %i1 : tensor<160xf32>, tensor<160x2xi64>) outs(%x : tensor<50x8xf32>) {
  ^bb0(%n: f32, %o: f32):
    iree_linalg_ext.yield %n : f32
  } -> tensor<50x8xf32>
  return %r : tensor<50x8xf32>
}
// CHECK-LABEL: func.func @otherwise(
// CHECK: iree_linalg_ext.scatter dimension_map = [0, 1]
func.func @otherwise(%new: tensor<30x8xf32>, %at: tensor<20xi64>, %x: tensor<50x8xf32>) -> tensor<50x8xf32> {
  %c = arith.constant 4 : index
  %e = tensor.empty() : tensor<20x8xi64>
  %whole = linalg.broadcast ins(%at : tensor<20xi64>) outs(%e : tensor<20x8xi64>) dimensions = [1]
  %e1 = tensor.empty() : tensor<160x1xi64>
  %e2 = tensor.empty() : tensor<160xf32>
  %e3 = tensor.empty() : tensor<160x2xi64>
  %t:3 = linalg.generic {indexing_maps = [affine_map<(d) -> (d, 0)>, affine_map<(d) -> (d, 0)>, affine_map<(d) -> (d)>], iterator_types = ["parallel"]} outs(%e1, %e1, %e2 : tensor<160x1xi64>, tensor<160x1xi64>, tensor<160xf32>) {
  ^bb0(%p: i64, %q: i64, %s: f32):
    %i = linalg.index 0 : index
    %column = arith.remsi %i, %c : index
    %row = arith.divsi %i, %c : index
    %place = tensor.extract %whole[%row, %column] : tensor<20x8xi64>
    %element = tensor.extract %new[%row, %column] : tensor<30x8xf32>
    %n = arith.index_cast %column : index to i64
    linalg.yield %place, %n, %element : i64, i64, f32
  } -> (tensor<160x1xi64>, tensor<160x1xi64>, tensor<160xf32>)
  %i0 = tensor.insert_slice %t#0 into %e3[0, 0] [160, 1] [1, 1] : tensor<160x1xi64> into tensor<160x2xi64>
  %i1 = tensor.insert_slice %t#1 into %i0[0, 1] [160, 1] [1, 1] : tensor<160x1xi64> into tensor<160x2xi64>
  %r = iree_linalg_ext.scatter dimension_map = [0, 1] unique_indices(false) ins(%t#2, %i1 : tensor<160xf32>, tensor<160x2xi64>) outs(%x : tensor<50x8xf32>) {
  ^bb0(%n: f32, %o: f32):
    iree_linalg_ext.yield %n : f32
  } -> tensor<50x8xf32>
  return %r : tensor<50x8xf32>
}
