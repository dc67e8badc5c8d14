// Halves that are computed from one tensor and put side by side are made in one loop; tensors that
// have nothing to do with each other, and sums, are put together as before.
//
// RUN: attn-opt %s --attn-fuse-pieces | FileCheck %s

#same = affine_map<(a, b) -> (a, b)>
module attributes {hal.device.targets = [#hal.device.target<"cuda", [#hal.executable.target<"cuda", "cuda-nvptx-fb">]> : !hal.device]} {
  // CHECK-LABEL: func.func @halves(
  // CHECK-NOT: tensor.concat
  // CHECK: linalg.generic
  // CHECK: tensor.extract
  // CHECK: arith.negf
  // CHECK: arith.select
  // CHECK: tensor<8x2x32xf16>
  // CHECK: tensor.collapse_shape
  // CHECK-NOT: tensor.concat
  func.func @halves(%x: tensor<8x64xf16>) -> tensor<8x64xf16> {
    %first = tensor.extract_slice %x[0, 0] [8, 32] [1, 1] : tensor<8x64xf16> to tensor<8x32xf16>
    %second = tensor.extract_slice %x[0, 32] [8, 32] [1, 1] : tensor<8x64xf16> to tensor<8x32xf16>
    %space = tensor.empty() : tensor<8x32xf16>
    %negated = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]}
        ins(%second : tensor<8x32xf16>) outs(%space : tensor<8x32xf16>) {
    ^bb0(%a: f16, %out: f16):
      %b = arith.negf %a : f16
      linalg.yield %b : f16
    } -> tensor<8x32xf16>
    %both = tensor.concat dim(1) %negated, %first : (tensor<8x32xf16>, tensor<8x32xf16>) -> tensor<8x64xf16>
    return %both : tensor<8x64xf16>
  }

  // CHECK-LABEL: func.func @two_streams(
  // CHECK: tensor.concat
  func.func @two_streams(%x: tensor<8x32xf16>, %y: tensor<8x32xf16>) -> tensor<8x64xf16> {
    %both = tensor.concat dim(1) %x, %y : (tensor<8x32xf16>, tensor<8x32xf16>) -> tensor<8x64xf16>
    return %both : tensor<8x64xf16>
  }

  // Twelve parts: as many values would be made for each element.
  // CHECK-LABEL: func.func @many(
  // CHECK: tensor.concat
  func.func @many(%x: tensor<8x48xf16>) -> tensor<8x48xf16> {
    %first = tensor.extract_slice %x[0, 0] [8, 4] [1, 1] : tensor<8x48xf16> to tensor<8x4xf16>
    %rest = tensor.extract_slice %x[0, 4] [8, 44] [1, 1] : tensor<8x48xf16> to tensor<8x44xf16>
    %both = tensor.concat dim(1) %rest, %first : (tensor<8x44xf16>, tensor<8x4xf16>) -> tensor<8x48xf16>
    return %both : tensor<8x48xf16>
  }
}
