// Pieces are copied to where they stand; what is joined along the outermost dim stays a concat.
//
// RUN: attn-opt %s --attn-place-pieces | FileCheck %s

#row = affine_map<(b, h, s, d) -> (b, h, s, d)>

// CHECK-LABEL: func.func @cache(
// CHECK-SAME: %[[OLD:.*]]: tensor<2x4x7x8xf16>, %[[NEW:.*]]: tensor<2x4x1x8xf16>
// CHECK: %[[SPACE:.*]] = tensor.empty() : tensor<2x4x8x8xf16>
// CHECK: %[[FIRST:.*]] = tensor.insert_slice %[[OLD]] into %[[SPACE]][0, 0, 0, 0] [2, 4, 7, 8] [1, 1, 1, 1]
// CHECK: %[[BOTH:.*]] = tensor.insert_slice %[[NEW]] into %[[FIRST]][0, 0, 7, 0] [2, 4, 1, 8] [1, 1, 1, 1]
// CHECK: return %[[BOTH]]
func.func @cache(%old: tensor<2x4x7x8xf16>, %new: tensor<2x4x1x8xf16>) -> tensor<2x4x8x8xf16> {
  %both = tensor.concat dim(2) %old, %new : (tensor<2x4x7x8xf16>, tensor<2x4x1x8xf16>) -> tensor<2x4x8x8xf16>
  return %both : tensor<2x4x8x8xf16>
}

// A window that moves on by a row, of an unknown number of sequences and keys.
//
// CHECK-LABEL: func.func @window(
// CHECK: %[[OLD:.*]] = tensor.extract_slice
// CHECK: %[[SUM:.*]] = arith.addi
// CHECK: tensor.empty(%{{.*}}, %[[SUM]]) : tensor<?x4x?x8xf16>
// CHECK: tensor.insert_slice %[[OLD]]
// CHECK: tensor.insert_slice
// CHECK-NOT: tensor.concat
func.func @window(%cache: tensor<?x4x?x8xf16>, %new: tensor<?x4x1x8xf16>, %b: index, %kept: index) -> tensor<?x4x?x8xf16> {
  %old = tensor.extract_slice %cache[0, 0, 1, 0] [%b, 4, %kept, 8] [1, 1, 1, 1] : tensor<?x4x?x8xf16> to tensor<?x4x?x8xf16>
  %both = tensor.concat dim(2) %old, %new : (tensor<?x4x?x8xf16>, tensor<?x4x1x8xf16>) -> tensor<?x4x?x8xf16>
  return %both : tensor<?x4x?x8xf16>
}

// Along the outermost dim, but for dims of size one, each piece is one run of memory.
//
// CHECK-LABEL: func.func @rows(
// CHECK: tensor.concat
func.func @rows(%old: tensor<1x7x8xf16>, %new: tensor<1x1x8xf16>) -> tensor<1x8x8xf16> {
  %both = tensor.concat dim(1) %old, %new : (tensor<1x7x8xf16>, tensor<1x1x8xf16>) -> tensor<1x8x8xf16>
  return %both : tensor<1x8x8xf16>
}

// A piece that is computed, too.
//
// CHECK-LABEL: func.func @computed(
// CHECK: %[[DOUBLED:.*]] = linalg.generic
// CHECK: %[[FIRST:.*]] = tensor.insert_slice %[[DOUBLED]]
// CHECK: tensor.insert_slice %{{.*}} into %[[FIRST]][0, 0, 7, 0]
// CHECK-NOT: tensor.concat
func.func @computed(%x: tensor<2x4x7x8xf16>, %new: tensor<2x4x1x8xf16>) -> tensor<2x4x8x8xf16> {
  %space = tensor.empty() : tensor<2x4x7x8xf16>
  %old = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%x : tensor<2x4x7x8xf16>) outs(%space : tensor<2x4x7x8xf16>) {
  ^bb0(%a: f16, %out: f16):
    %c = arith.addf %a, %a : f16
    linalg.yield %c : f16
  } -> tensor<2x4x7x8xf16>
  %both = tensor.concat dim(2) %old, %new : (tensor<2x4x7x8xf16>, tensor<2x4x1x8xf16>) -> tensor<2x4x8x8xf16>
  return %both : tensor<2x4x8x8xf16>
}

// A row of an image, rolled: parts of one tensor change places.
//
// CHECK-LABEL: func.func @rolled(
// CHECK: %[[LAST:.*]] = tensor.extract_slice %{{.*}}[0, 3, 0]
// CHECK: %[[FIRST:.*]] = tensor.extract_slice %{{.*}}[0, 0, 0]
// CHECK: %[[PART:.*]] = tensor.insert_slice %[[LAST]] into %{{.*}}[0, 0, 0] [4, 5, 6] [1, 1, 1]
// CHECK: tensor.insert_slice %[[FIRST]] into %[[PART]][0, 5, 0] [4, 3, 6] [1, 1, 1]
// CHECK-NOT: tensor.concat
func.func @rolled(%x: tensor<4x8x6xf16>) -> tensor<4x8x6xf16> {
  %last = tensor.extract_slice %x[0, 3, 0] [4, 5, 6] [1, 1, 1] : tensor<4x8x6xf16> to tensor<4x5x6xf16>
  %first = tensor.extract_slice %x[0, 0, 0] [4, 3, 6] [1, 1, 1] : tensor<4x8x6xf16> to tensor<4x3x6xf16>
  %both = tensor.concat dim(1) %last, %first : (tensor<4x5x6xf16>, tensor<4x3x6xf16>) -> tensor<4x8x6xf16>
  return %both : tensor<4x8x6xf16>
}

// What is empty has no place: a concat without elements stays, a piece without elements is left out.
//
// CHECK-LABEL: func.func @empty(
// CHECK: tensor.concat dim(1) %arg0, %arg0
// CHECK: %[[WHOLE:.*]] = tensor.insert_slice %arg2 into %{{.*}}[0, 0, 0] [4, 5, 6]
// CHECK-NOT: tensor.insert_slice
// CHECK: return %{{.*}}, %[[WHOLE]]
func.func @empty(%x: tensor<4x3x0xf16>, %none: tensor<4x0x6xf16>, %y: tensor<4x5x6xf16>) -> (tensor<4x6x0xf16>, tensor<4x5x6xf16>) {
  %a = tensor.concat dim(1) %x, %x : (tensor<4x3x0xf16>, tensor<4x3x0xf16>) -> tensor<4x6x0xf16>
  %b = tensor.concat dim(1) %none, %y, %none : (tensor<4x0x6xf16>, tensor<4x5x6xf16>, tensor<4x0x6xf16>) -> tensor<4x5x6xf16>
  return %a, %b : tensor<4x6x0xf16>, tensor<4x5x6xf16>
}
