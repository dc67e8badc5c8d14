// Columns of a packed tensor that are cut into heads: it is cut first, where ops read the heads
// that compute each element for itself.
//
// RUN: attn-opt %s --attn-slice-heads | FileCheck %s

#all = affine_map<(s, h, d) -> (s, h, d)>
#turned = affine_map<(h, s, d) -> (h, s, d)>

// CHECK-LABEL: func.func @rotary(
// CHECK-SAME: %[[X:.*]]: tensor<7x48xf16>
// CHECK: %[[CUT:.*]] = tensor.expand_shape %[[X]] {{\[\[}}0], [1, 2]] output_shape [7, 6, 8]
// CHECK: %[[K:.*]] = tensor.extract_slice %[[CUT]][0, 2, 0] [7, 2, 8] [1, 1, 1]
// CHECK: linalg.transpose ins(%[[K]]
func.func @rotary(%x: tensor<7x48xf16>) -> tensor<2x7x8xf16> {
  %k = tensor.extract_slice %x[0, 16] [7, 16] [1, 1] : tensor<7x48xf16> to tensor<7x16xf16>
  %heads = tensor.expand_shape %k [[0], [1, 2]] output_shape [7, 2, 8] : tensor<7x16xf16> into tensor<7x2x8xf16>
  %space = tensor.empty() : tensor<2x7x8xf16>
  %t = linalg.transpose ins(%heads : tensor<7x2x8xf16>) outs(%space : tensor<2x7x8xf16>) permutation = [1, 0, 2]
  %r = linalg.generic {indexing_maps = [#turned, #turned], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%t : tensor<2x7x8xf16>) outs(%space : tensor<2x7x8xf16>) {
  ^bb0(%a: f16, %out: f16):
    %b = arith.addf %a, %a : f16
    linalg.yield %b : f16
  } -> tensor<2x7x8xf16>
  return %r : tensor<2x7x8xf16>
}

// Rows of an unknown number.
//
// CHECK-LABEL: func.func @rows(
// CHECK: tensor.expand_shape %{{.*}} {{\[\[}}0], [1, 2]] output_shape [%{{.*}}, 6, 8]
// CHECK: tensor.extract_slice %{{.*}}[0, 4, 0] [%{{.*}}, 2, 8] [1, 1, 1]
func.func @rows(%x: tensor<?x48xf16>, %n: index) -> tensor<?x2x8xf16> {
  %zero = arith.constant 0 : index
  %rows = tensor.dim %x, %zero : tensor<?x48xf16>
  %v = tensor.extract_slice %x[0, 32] [%rows, 16] [1, 1] : tensor<?x48xf16> to tensor<?x16xf16>
  %heads = tensor.expand_shape %v [[0], [1, 2]] output_shape [%rows, 2, 8] : tensor<?x16xf16> into tensor<?x2x8xf16>
  %space = tensor.empty(%rows) : tensor<?x2x8xf16>
  %r = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%heads : tensor<?x2x8xf16>) outs(%space : tensor<?x2x8xf16>) {
  ^bb0(%a: f16, %out: f16):
    %b = arith.addf %a, %a : f16
    linalg.yield %b : f16
  } -> tensor<?x2x8xf16>
  return %r : tensor<?x2x8xf16>
}

// Half a head is skipped.
//
// CHECK-LABEL: func.func @between(
// CHECK: tensor.extract_slice %{{.*}}[0, 12] [7, 16]
func.func @between(%x: tensor<7x48xf16>) -> tensor<7x2x8xf16> {
  %k = tensor.extract_slice %x[0, 12] [7, 16] [1, 1] : tensor<7x48xf16> to tensor<7x16xf16>
  %heads = tensor.expand_shape %k [[0], [1, 2]] output_shape [7, 2, 8] : tensor<7x16xf16> into tensor<7x2x8xf16>
  %space = tensor.empty() : tensor<7x2x8xf16>
  %r = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%heads : tensor<7x2x8xf16>) outs(%space : tensor<7x2x8xf16>) {
  ^bb0(%a: f16, %out: f16):
    %b = arith.addf %a, %a : f16
    linalg.yield %b : f16
  } -> tensor<7x2x8xf16>
  return %r : tensor<7x2x8xf16>
}

// The heads are returned.
//
// CHECK-LABEL: func.func @returned(
// CHECK: tensor.extract_slice %{{.*}}[0, 16] [7, 16]
func.func @returned(%x: tensor<7x48xf16>) -> tensor<7x2x8xf16> {
  %k = tensor.extract_slice %x[0, 16] [7, 16] [1, 1] : tensor<7x48xf16> to tensor<7x16xf16>
  %heads = tensor.expand_shape %k [[0], [1, 2]] output_shape [7, 2, 8] : tensor<7x16xf16> into tensor<7x2x8xf16>
  return %heads : tensor<7x2x8xf16>
}

// One of three that are transposed together is transposed alone, by what reads it; attention reads
// all of the others as they are.
//
// CHECK-LABEL: func.func @one_of_three(
// CHECK-SAME: %[[X:.*]]: tensor<7x3x2x8xf16>
// CHECK: %[[K:.*]] = tensor.extract_slice %[[X]][0, 1, 0, 0] [7, 1, 2, 8] [1, 1, 1, 1]
// CHECK: linalg.transpose ins(%[[K]] : tensor<7x1x2x8xf16>) outs(%{{.*}} : tensor<1x2x7x8xf16>) permutation = [1, 2, 0, 3]
func.func @one_of_three(%x: tensor<7x3x2x8xf16>) -> tensor<1x2x7x8xf16> {
  %to = tensor.empty() : tensor<3x2x7x8xf16>
  %t = linalg.transpose ins(%x : tensor<7x3x2x8xf16>) outs(%to : tensor<3x2x7x8xf16>) permutation = [1, 2, 0, 3]
  %k = tensor.extract_slice %t[1, 0, 0, 0] [1, 2, 7, 8] [1, 1, 1, 1] : tensor<3x2x7x8xf16> to tensor<1x2x7x8xf16>
  %space = tensor.empty() : tensor<1x2x7x8xf16>
  %r = linalg.generic {indexing_maps = [affine_map<(a, b, c, d) -> (a, b, c, d)>, affine_map<(a, b, c, d) -> (a, b, c, d)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%k : tensor<1x2x7x8xf16>) outs(%space : tensor<1x2x7x8xf16>) {
  ^bb0(%a: f16, %out: f16):
    %b = arith.addf %a, %a : f16
    linalg.yield %b : f16
  } -> tensor<1x2x7x8xf16>
  return %r : tensor<1x2x7x8xf16>
}

// The caller reads it: it stays.
//
// CHECK-LABEL: func.func @handed_out(
// CHECK: linalg.transpose ins(%{{.*}} : tensor<7x3x2x8xf16>)
// CHECK: tensor.extract_slice
func.func @handed_out(%x: tensor<7x3x2x8xf16>) -> tensor<1x2x7x8xf16> {
  %to = tensor.empty() : tensor<3x2x7x8xf16>
  %t = linalg.transpose ins(%x : tensor<7x3x2x8xf16>) outs(%to : tensor<3x2x7x8xf16>) permutation = [1, 2, 0, 3]
  %k = tensor.extract_slice %t[1, 0, 0, 0] [1, 2, 7, 8] [1, 1, 1, 1] : tensor<3x2x7x8xf16> to tensor<1x2x7x8xf16>
  return %k : tensor<1x2x7x8xf16>
}
