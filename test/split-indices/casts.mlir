// A loop that reads others by index casts in its body what one op casts for it alone; what others
// read, too, stays.
//
// RUN: attn-opt %s --attn-split-indices | FileCheck %s

#same = affine_map<(a, b) -> (a, b)>
#turned = affine_map<(a, b) -> (b, a)>
module attributes {hal.device.targets = [#hal.device.target<"cuda", [#hal.executable.target<"cuda", "cuda-nvptx-fb">]> : !hal.device]} {
  // CHECK-LABEL: func.func @alone(
  // CHECK-SAME: %[[X:.*]]: tensor<64x32xf16>
  // CHECK: linalg.generic
  // CHECK-SAME: ins(%[[X]] : tensor<64x32xf16>)
  // CHECK-NEXT: ^bb0(%[[A:.*]]: f16, %{{.*}}: f32):
  // CHECK: %[[W:.*]] = arith.extf %[[A]] : f16 to f32
  // CHECK: arith.mulf %[[W]], %{{.*}} : f32
  // CHECK-NOT: linalg.generic
  func.func @alone(%x: tensor<64x32xf16>, %y: tensor<32x64xf32>) -> tensor<32x64xf32> {
    %room = tensor.empty() : tensor<64x32xf32>
    %wide = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]}
        ins(%x : tensor<64x32xf16>) outs(%room : tensor<64x32xf32>) {
    ^bb0(%a: f16, %out: f32):
      %b = arith.extf %a : f16 to f32
      linalg.yield %b : f32
    } -> tensor<64x32xf32>
    %space = tensor.empty() : tensor<32x64xf32>
    %r = linalg.generic {indexing_maps = [#turned, #same], iterator_types = ["parallel", "parallel"]}
        ins(%wide : tensor<64x32xf32>) outs(%space : tensor<32x64xf32>) {
    ^bb0(%a: f32, %out: f32):
      %row = linalg.index 0 : index
      %at = linalg.index 1 : index
      %b = tensor.extract %y[%row, %at] : tensor<32x64xf32>
      %c = arith.mulf %a, %b : f32
      linalg.yield %c : f32
    } -> tensor<32x64xf32>
    return %r : tensor<32x64xf32>
  }

  // CHECK-LABEL: func.func @shared(
  // CHECK: arith.extf
  // CHECK: linalg.generic
  // CHECK-NOT: arith.extf
  // CHECK: return
  func.func @shared(%x: tensor<64x32xf16>, %y: tensor<32x64xf32>) -> (tensor<32x64xf32>, tensor<64x32xf32>) {
    %room = tensor.empty() : tensor<64x32xf32>
    %wide = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]}
        ins(%x : tensor<64x32xf16>) outs(%room : tensor<64x32xf32>) {
    ^bb0(%a: f16, %out: f32):
      %b = arith.extf %a : f16 to f32
      linalg.yield %b : f32
    } -> tensor<64x32xf32>
    %space = tensor.empty() : tensor<32x64xf32>
    %r = linalg.generic {indexing_maps = [#turned, #same], iterator_types = ["parallel", "parallel"]}
        ins(%wide : tensor<64x32xf32>) outs(%space : tensor<32x64xf32>) {
    ^bb0(%a: f32, %out: f32):
      %row = linalg.index 0 : index
      %at = linalg.index 1 : index
      %b = tensor.extract %y[%row, %at] : tensor<32x64xf32>
      %c = arith.mulf %a, %b : f32
      linalg.yield %c : f32
    } -> tensor<32x64xf32>
    return %r, %wide : tensor<32x64xf32>, tensor<64x32xf32>
  }
}
