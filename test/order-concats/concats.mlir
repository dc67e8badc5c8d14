// Transposed pieces, whatever is computed element by element behind the transposes, are put
// together in front of them, where fewer dims stand in front of the joined one; others stay.
//
// RUN: attn-opt %s --attn-order-concats | FileCheck %s

#row = affine_map<(b, h, s, d) -> (b, h, s, d)>
#norm = affine_map<(b, h, s, d) -> (d)>
module attributes {hal.device.targets = [#hal.device.target<"cuda", [#hal.executable.target<"cuda", "cuda-nvptx-fb">]> : !hal.device]} {
  // CHECK-LABEL: func.func @heads(
  // CHECK-SAME: %[[X:.*]]: tensor<1x5x2x8xf16>, %[[Y:.*]]: tensor<1x7x2x8xf16>
  // CHECK: %[[SCALED:.*]] = linalg.generic
  // CHECK: %[[BACK:.*]] = linalg.transpose ins(%[[SCALED]]{{.*}} permutation = [0, 2, 1, 3]
  // CHECK: %[[BOTH:.*]] = tensor.concat dim(1) %[[BACK]], %[[Y]] : (tensor<1x5x2x8xf16>, tensor<1x7x2x8xf16>) -> tensor<1x12x2x8xf16>
  // CHECK: %[[STORED:.*]] = iree_tensor_ext.compute_barrier.start %[[BOTH]]
  // CHECK: linalg.transpose ins(%[[STORED]]{{.*}} permutation = [0, 2, 1, 3]
  func.func @heads(%x: tensor<1x5x2x8xf16>, %y: tensor<1x7x2x8xf16>, %scale: tensor<8xf16>) -> tensor<1x2x12x8xf16> {
    %short = tensor.empty() : tensor<1x2x5x8xf16>
    %long = tensor.empty() : tensor<1x2x7x8xf16>
    %a = linalg.transpose ins(%x : tensor<1x5x2x8xf16>) outs(%short : tensor<1x2x5x8xf16>) permutation = [0, 2, 1, 3]
    %b = linalg.transpose ins(%y : tensor<1x7x2x8xf16>) outs(%long : tensor<1x2x7x8xf16>) permutation = [0, 2, 1, 3]
    %scaled = linalg.generic {indexing_maps = [#row, #norm, #row], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
        ins(%a, %scale : tensor<1x2x5x8xf16>, tensor<8xf16>) outs(%short : tensor<1x2x5x8xf16>) {
    ^bb0(%e: f16, %f: f16, %out: f16):
      %g = arith.mulf %e, %f : f16
      linalg.yield %g : f16
    } -> tensor<1x2x5x8xf16>
    %both = tensor.concat dim(2) %scaled, %b : (tensor<1x2x5x8xf16>, tensor<1x2x7x8xf16>) -> tensor<1x2x12x8xf16>
    return %both : tensor<1x2x12x8xf16>
  }

  // CHECK-LABEL: func.func @unknown(
  // CHECK: tensor.concat dim(1) %{{.*}}, %{{.*}} : (tensor<2x?x2x8xf16>, tensor<2x7x2x8xf16>) -> tensor<2x?x2x8xf16>
  // CHECK: linalg.transpose
  func.func @unknown(%x: tensor<2x?x2x8xf16>, %y: tensor<2x7x2x8xf16>) -> tensor<2x2x?x8xf16> {
    %c1 = arith.constant 1 : index
    %rows = tensor.dim %x, %c1 : tensor<2x?x2x8xf16>
    %short = tensor.empty(%rows) : tensor<2x2x?x8xf16>
    %long = tensor.empty() : tensor<2x2x7x8xf16>
    %a = linalg.transpose ins(%x : tensor<2x?x2x8xf16>) outs(%short : tensor<2x2x?x8xf16>) permutation = [0, 2, 1, 3]
    %b = linalg.transpose ins(%y : tensor<2x7x2x8xf16>) outs(%long : tensor<2x2x7x8xf16>) permutation = [0, 2, 1, 3]
    %both = tensor.concat dim(2) %a, %b : (tensor<2x2x?x8xf16>, tensor<2x2x7x8xf16>) -> tensor<2x2x?x8xf16>
    return %both : tensor<2x2x?x8xf16>
  }

  // The first piece, a cache, lies as it is joined.
  // CHECK-LABEL: func.func @cache(
  // CHECK: tensor.concat dim(2)
  func.func @cache(%x: tensor<1x2x5x8xf16>, %y: tensor<1x7x2x8xf16>) -> tensor<1x2x12x8xf16> {
    %long = tensor.empty() : tensor<1x2x7x8xf16>
    %b = linalg.transpose ins(%y : tensor<1x7x2x8xf16>) outs(%long : tensor<1x2x7x8xf16>) permutation = [0, 2, 1, 3]
    %both = tensor.concat dim(2) %x, %b : (tensor<1x2x5x8xf16>, tensor<1x2x7x8xf16>) -> tensor<1x2x12x8xf16>
    return %both : tensor<1x2x12x8xf16>
  }

  // Behind heads in either order: as many runs.
  // CHECK-LABEL: func.func @widths(
  // CHECK: tensor.concat dim(3)
  func.func @widths(%x: tensor<1x5x2x8xf16>, %y: tensor<1x5x2x4xf16>) -> tensor<1x2x5x12xf16> {
    %wide = tensor.empty() : tensor<1x2x5x8xf16>
    %narrow = tensor.empty() : tensor<1x2x5x4xf16>
    %a = linalg.transpose ins(%x : tensor<1x5x2x8xf16>) outs(%wide : tensor<1x2x5x8xf16>) permutation = [0, 2, 1, 3]
    %b = linalg.transpose ins(%y : tensor<1x5x2x4xf16>) outs(%narrow : tensor<1x2x5x4xf16>) permutation = [0, 2, 1, 3]
    %both = tensor.concat dim(3) %a, %b : (tensor<1x2x5x8xf16>, tensor<1x2x5x4xf16>) -> tensor<1x2x5x12xf16>
    return %both : tensor<1x2x5x12xf16>
  }
}
