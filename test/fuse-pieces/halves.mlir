// Halves that are computed from one tensor and put side by side are made in one loop, and so are
// rows of what is stored in several; what is put behind one another, or computed from several, is
// put together as before.
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

  // A part of each head and one that all heads share, as K of DeepSeek has.
  // CHECK-LABEL: func.func @heads(
  // CHECK-NOT: tensor.concat
  // CHECK: %[[A:.*]] = tensor.extract %{{.*}} : tensor<?x2x64xf16>
  // CHECK: %[[B:.*]] = tensor.extract %{{.*}} : tensor<?x2x64xf16>
  // CHECK: %[[SHARED:.*]] = tensor.extract %{{.*}} : tensor<?x32xf16>
  // CHECK: tensor<?x2x3x32xf16>
  func.func @heads(%x: tensor<?x2x64xf16>, %y: tensor<?x32xf16>) -> tensor<?x2x96xf16> {
    %first = arith.constant 0 : index
    %rows = tensor.dim %x, %first : tensor<?x2x64xf16>
    %space = tensor.empty(%rows) : tensor<?x2x32xf16>
    %all = linalg.broadcast ins(%y : tensor<?x32xf16>) outs(%space : tensor<?x2x32xf16>) dimensions = [1]
    %both = tensor.concat dim(2) %x, %all : (tensor<?x2x64xf16>, tensor<?x2x32xf16>) -> tensor<?x2x96xf16>
    return %both : tensor<?x2x96xf16>
  }

  // One half is multiplied with a table that is constant, and with a number that its body has.
  // CHECK-LABEL: func.func @table(
  // CHECK-NOT: tensor.concat
  // CHECK: tensor.extract %cst
  // CHECK: arith.mulf
  // CHECK: %[[THREE:.*]] = arith.constant 3.0
  // CHECK: arith.mulf %{{.*}}, %[[THREE]]
  // CHECK-NOT: tensor.concat
  func.func @table(%x: tensor<8x4xf16>) -> tensor<8x4xf16> {
    %table = arith.constant dense<[1.0, 0.25]> : tensor<2xf16>
    %first = tensor.extract_slice %x[0, 0] [8, 2] [1, 1] : tensor<8x4xf16> to tensor<8x2xf16>
    %second = tensor.extract_slice %x[0, 2] [8, 2] [1, 1] : tensor<8x4xf16> to tensor<8x2xf16>
    %space = tensor.empty() : tensor<8x2xf16>
    %turned = linalg.generic {indexing_maps = [#same, affine_map<(a, b) -> (b)>, #same], iterator_types = ["parallel", "parallel"]}
        ins(%second, %table : tensor<8x2xf16>, tensor<2xf16>) outs(%space : tensor<8x2xf16>) {
    ^bb0(%a: f16, %b: f16, %out: f16):
      %c = arith.mulf %a, %b : f16
      %three = arith.constant 3.0 : f16
      %d = arith.mulf %c, %three : f16
      linalg.yield %d : f16
    } -> tensor<8x2xf16>
    %both = tensor.concat dim(1) %turned, %first : (tensor<8x2xf16>, tensor<8x2xf16>) -> tensor<8x4xf16>
    return %both : tensor<8x4xf16>
  }

  // What takes many steps is not computed again for each block, as a sine is that is written out.
  // CHECK-LABEL: func.func @steps(
  // CHECK: arith.mulf
  // CHECK: linalg.yield
  // CHECK-NOT: arith.mulf
  func.func @steps(%x: tensor<8x4xf16>) -> tensor<8x4xf16> {
    %first = tensor.extract_slice %x[0, 0] [8, 2] [1, 1] : tensor<8x4xf16> to tensor<8x2xf16>
    %second = tensor.extract_slice %x[0, 2] [8, 2] [1, 1] : tensor<8x4xf16> to tensor<8x2xf16>
    %space = tensor.empty() : tensor<8x2xf16>
    %powers = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]}
        ins(%second : tensor<8x2xf16>) outs(%space : tensor<8x2xf16>) {
    ^bb0(%a: f16, %out: f16):
      %1 = arith.mulf %a, %a : f16
      %2 = arith.mulf %1, %a : f16
      %3 = arith.mulf %2, %a : f16
      %4 = arith.mulf %3, %a : f16
      %5 = arith.mulf %4, %a : f16
      %6 = arith.mulf %5, %a : f16
      %7 = arith.mulf %6, %a : f16
      %8 = arith.mulf %7, %a : f16
      %9 = arith.mulf %8, %a : f16
      %10 = arith.mulf %9, %a : f16
      %11 = arith.mulf %10, %a : f16
      %12 = arith.mulf %11, %a : f16
      %13 = arith.mulf %12, %a : f16
      %14 = arith.mulf %13, %a : f16
      %15 = arith.mulf %14, %a : f16
      %16 = arith.mulf %15, %a : f16
      %17 = arith.mulf %16, %a : f16
      %18 = arith.mulf %17, %a : f16
      %19 = arith.mulf %18, %a : f16
      %20 = arith.mulf %19, %a : f16
      %21 = arith.mulf %20, %a : f16
      %22 = arith.mulf %21, %a : f16
      %23 = arith.mulf %22, %a : f16
      %24 = arith.mulf %23, %a : f16
      linalg.yield %24 : f16
    } -> tensor<8x2xf16>
    %both = tensor.concat dim(1) %powers, %first : (tensor<8x2xf16>, tensor<8x2xf16>) -> tensor<8x4xf16>
    return %both : tensor<8x4xf16>
  }

  // CHECK-LABEL: func.func @behind(
  // CHECK: tensor.concat
  func.func @behind(%x: tensor<8x32xf16>, %y: tensor<8x32xf16>) -> tensor<16x32xf16> {
    %both = tensor.concat dim(0) %x, %y : (tensor<8x32xf16>, tensor<8x32xf16>) -> tensor<16x32xf16>
    return %both : tensor<16x32xf16>
  }

  // CHECK-LABEL: func.func @one_row(
  // CHECK: tensor.concat
  func.func @one_row(%x: tensor<32xf16>, %y: tensor<32xf16>) -> tensor<64xf16> {
    %both = tensor.concat dim(0) %x, %y : (tensor<32xf16>, tensor<32xf16>) -> tensor<64xf16>
    return %both : tensor<64xf16>
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
