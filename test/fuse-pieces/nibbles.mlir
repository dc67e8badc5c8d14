// Elements of pieces in turn, as weights of 4 bits, two in a byte, are taken out and scaled in one loop,
// a byte's side by side, unless others read what is put together.
//
// RUN: attn-opt %s --attn-fuse-pieces | FileCheck %s

#same = affine_map<(a, b) -> (a, b)>
#all = affine_map<(a, b, c) -> (a, b, c)>
#group = affine_map<(a, b, c) -> (a, b)>
module attributes {hal.device.targets = [#hal.device.target<"cuda", [#hal.executable.target<"cuda", "cuda-nvptx-fb">]> : !hal.device]} {
// CHECK-LABEL: func.func @nibbles(
// CHECK: %[[BYTES:.*]] = tensor.expand_shape %arg0 {{.*}} into tensor<16x4x4xi8>
// CHECK: %[[MADE:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<16x4x4x2xf16>)
// CHECK: tensor.extract %[[BYTES]]
// CHECK: arith.select
// CHECK: tensor.collapse_shape %[[MADE]] {{.*}} into tensor<16x4x8xf16>
// CHECK-NOT: tensor.concat
func.func @nibbles(%p: tensor<16x16xi8>, %scale: tensor<16x4xf16>) -> tensor<16x4x8xf16> {
  %four = arith.constant 4 : i8
  %low = arith.constant 15 : i8
  %eb = tensor.empty() : tensor<16x16xi8>
  %a = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]} ins(%p : tensor<16x16xi8>) outs(%eb : tensor<16x16xi8>) {
  ^bb0(%x: i8, %o: i8):
    %y = arith.andi %x, %low : i8
    linalg.yield %y : i8
  } -> tensor<16x16xi8>
  %b = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]} ins(%p : tensor<16x16xi8>) outs(%eb : tensor<16x16xi8>) {
  ^bb0(%x: i8, %o: i8):
    %y = arith.shrui %x, %four : i8
    linalg.yield %y : i8
  } -> tensor<16x16xi8>
  %a1 = tensor.expand_shape %a [[0], [1, 2]] output_shape [16, 16, 1] : tensor<16x16xi8> into tensor<16x16x1xi8>
  %b1 = tensor.expand_shape %b [[0], [1, 2]] output_shape [16, 16, 1] : tensor<16x16xi8> into tensor<16x16x1xi8>
  %both = tensor.concat dim(2) %a1, %b1 : (tensor<16x16x1xi8>, tensor<16x16x1xi8>) -> tensor<16x16x2xi8>
  %flat = tensor.collapse_shape %both [[0], [1, 2]] : tensor<16x16x2xi8> into tensor<16x32xi8>
  %groups = tensor.expand_shape %flat [[0], [1, 2]] output_shape [16, 4, 8] : tensor<16x32xi8> into tensor<16x4x8xi8>
  %eg = tensor.empty() : tensor<16x4x8xf16>
  %w = linalg.generic {indexing_maps = [#all, #group, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%groups, %scale : tensor<16x4x8xi8>, tensor<16x4xf16>) outs(%eg : tensor<16x4x8xf16>) {
  ^bb0(%x: i8, %s: f16, %o: f16):
    %f = arith.uitofp %x : i8 to f16
    %y = arith.mulf %f, %s : f16
    linalg.yield %y : f16
  } -> tensor<16x4x8xf16>
  return %w : tensor<16x4x8xf16>
}

// CHECK-LABEL: func.func @read_by_others(
// CHECK: %[[BOTH:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<16x16x2xi8>)
// CHECK: return %{{.*}}, %[[BOTH]]
func.func @read_by_others(%p: tensor<16x16xi8>, %scale: tensor<16x4xf16>) -> (tensor<16x4x8xf16>, tensor<16x16x2xi8>) {
  %four = arith.constant 4 : i8
  %low = arith.constant 15 : i8
  %eb = tensor.empty() : tensor<16x16xi8>
  %a = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]} ins(%p : tensor<16x16xi8>) outs(%eb : tensor<16x16xi8>) {
  ^bb0(%x: i8, %o: i8):
    %y = arith.andi %x, %low : i8
    linalg.yield %y : i8
  } -> tensor<16x16xi8>
  %b = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]} ins(%p : tensor<16x16xi8>) outs(%eb : tensor<16x16xi8>) {
  ^bb0(%x: i8, %o: i8):
    %y = arith.shrui %x, %four : i8
    linalg.yield %y : i8
  } -> tensor<16x16xi8>
  %a1 = tensor.expand_shape %a [[0], [1, 2]] output_shape [16, 16, 1] : tensor<16x16xi8> into tensor<16x16x1xi8>
  %b1 = tensor.expand_shape %b [[0], [1, 2]] output_shape [16, 16, 1] : tensor<16x16xi8> into tensor<16x16x1xi8>
  %both = tensor.concat dim(2) %a1, %b1 : (tensor<16x16x1xi8>, tensor<16x16x1xi8>) -> tensor<16x16x2xi8>
  %flat = tensor.collapse_shape %both [[0], [1, 2]] : tensor<16x16x2xi8> into tensor<16x32xi8>
  %groups = tensor.expand_shape %flat [[0], [1, 2]] output_shape [16, 4, 8] : tensor<16x32xi8> into tensor<16x4x8xi8>
  %eg = tensor.empty() : tensor<16x4x8xf16>
  %w = linalg.generic {indexing_maps = [#all, #group, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%groups, %scale : tensor<16x4x8xi8>, tensor<16x4xf16>) outs(%eg : tensor<16x4x8xf16>) {
  ^bb0(%x: i8, %s: f16, %o: f16):
    %f = arith.uitofp %x : i8 to f16
    %y = arith.mulf %f, %s : f16
    linalg.yield %y : f16
  } -> tensor<16x4x8xf16>
  return %w, %both : tensor<16x4x8xf16>, tensor<16x16x2xi8>
}
}
