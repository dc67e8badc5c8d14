// Tiles of an unknown number, which IREE would join from O2 on, stay rows of known size for CUDA.

// RUN: attn-opt %s --attn-keep-tiles | FileCheck %s

#x = affine_map<(t, r, n, k) -> (t, r, k)>
#w = affine_map<(t, r, n, k) -> (k, n)>
#o = affine_map<(t, r, n, k) -> (t, r, n)>
#x2 = affine_map<(r, n, k) -> (r, k)>
#w2 = affine_map<(r, n, k) -> (k, n)>
#o2 = affine_map<(r, n, k) -> (r, n)>
module attributes {hal.device.targets = [#hal.device.target<"cuda", [#hal.executable.target<"cuda", "cuda-nvptx-fb">]> : !hal.device]} {
  // CHECK-LABEL: func.func @tiles(
  // CHECK: linalg.contract
  func.func @tiles(%x: tensor<?x128x64xf16>, %w: tensor<64x256xf16>, %o: tensor<?x128x256xf32>) -> tensor<?x128x256xf32> {
    %r = linalg.generic {indexing_maps = [#x, #w, #o], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%x, %w : tensor<?x128x64xf16>, tensor<64x256xf16>) outs(%o : tensor<?x128x256xf32>) {
    ^bb0(%a: f16, %b: f16, %c: f32):
      %1 = arith.extf %a : f16 to f32
      %2 = arith.extf %b : f16 to f32
      %3 = arith.mulf %1, %2 : f32
      %4 = arith.addf %c, %3 : f32
      linalg.yield %4 : f32
    } -> tensor<?x128x256xf32>
    return %r : tensor<?x128x256xf32>
  }
  // f32 of sizes that have tiles; of others IREE gets named products wrong.
  // CHECK-LABEL: func.func @f32(
  // CHECK: linalg.contract
  func.func @f32(%x: tensor<?x128x64xf32>, %w: tensor<64x256xf32>, %o: tensor<?x128x256xf32>) -> tensor<?x128x256xf32> {
    %r = linalg.generic {indexing_maps = [#x, #w, #o], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%x, %w : tensor<?x128x64xf32>, tensor<64x256xf32>) outs(%o : tensor<?x128x256xf32>) {
    ^bb0(%a: f32, %b: f32, %c: f32):
      %3 = arith.mulf %a, %b : f32
      %4 = arith.addf %c, %3 : f32
      linalg.yield %4 : f32
    } -> tensor<?x128x256xf32>
    return %r : tensor<?x128x256xf32>
  }
  // CHECK-LABEL: func.func @odd(
  // CHECK: linalg.generic
  func.func @odd(%x: tensor<?x128x62xf32>, %w: tensor<62x256xf32>, %o: tensor<?x128x256xf32>) -> tensor<?x128x256xf32> {
    %r = linalg.generic {indexing_maps = [#x, #w, #o], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%x, %w : tensor<?x128x62xf32>, tensor<62x256xf32>) outs(%o : tensor<?x128x256xf32>) {
    ^bb0(%a: f32, %b: f32, %c: f32):
      %3 = arith.mulf %a, %b : f32
      %4 = arith.addf %c, %3 : f32
      linalg.yield %4 : f32
    } -> tensor<?x128x256xf32>
    return %r : tensor<?x128x256xf32>
  }
  // Rows alone are joined to nothing.
  // CHECK-LABEL: func.func @rows(
  // CHECK: linalg.generic
  func.func @rows(%x: tensor<?x64xf16>, %w: tensor<64x256xf16>, %o: tensor<?x256xf32>) -> tensor<?x256xf32> {
    %r = linalg.generic {indexing_maps = [#x2, #w2, #o2], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<?x64xf16>, tensor<64x256xf16>) outs(%o : tensor<?x256xf32>) {
    ^bb0(%a: f16, %b: f16, %c: f32):
      %1 = arith.extf %a : f16 to f32
      %2 = arith.extf %b : f16 to f32
      %3 = arith.mulf %1, %2 : f32
      %4 = arith.addf %c, %3 : f32
      linalg.yield %4 : f32
    } -> tensor<?x256xf32>
    return %r : tensor<?x256xf32>
  }
}
