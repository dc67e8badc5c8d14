// A loop that divides the number of an element by what divides the dim gets a dim for each digit;
// one that divides by another number, or where nothing is known of the size, stays.
//
// RUN: attn-opt %s --attn-split-indices | FileCheck %s
// RUN: sed 's/"cuda", "cuda-nvptx-fb"/"llvm-cpu", "embedded-elf-x86_64"/' %s | attn-opt --attn-split-indices | FileCheck %s --check-prefixes=CHECK,CPU
// CPU-NOT: compilation_info

#same = affine_map<(a, b) -> (a, b)>
module attributes {hal.device.targets = [#hal.device.target<"cuda", [#hal.executable.target<"cuda", "cuda-nvptx-fb">]> : !hal.device]} {
  // CHECK-LABEL: func.func @halves(
  // CHECK: linalg.generic
  // CHECK-SAME: iterator_types = ["parallel", "parallel", "parallel"]
  // CHECK-SAME: outs(%{{.*}} : tensor<512x2x64xf16>)
  // CHECK-NOT: arith.divsi
  // CHECK-NOT: arith.remsi
  // CHECK: tensor.extract
  // CHECK: tensor.collapse_shape
  func.func @halves(%x: tensor<512x2x64xf16>) -> tensor<512x128xf16> {
    %width = arith.constant 64 : index
    %one = arith.constant 1 : index
    %space = tensor.empty() : tensor<512x128xf16>
    %r = linalg.generic {indexing_maps = [#same], iterator_types = ["parallel", "parallel"]}
        outs(%space : tensor<512x128xf16>) {
    ^bb0(%out: f16):
      %row = linalg.index 0 : index
      %at = linalg.index 1 : index
      %half = arith.divsi %at, %width : index
      %rest = arith.remsi %at, %width : index
      %other = arith.subi %one, %half : index
      %a = tensor.extract %x[%row, %other, %rest] : tensor<512x2x64xf16>
      linalg.yield %a : f16
    } -> tensor<512x128xf16>
    return %r : tensor<512x128xf16>
  }

  // CHECK-LABEL: func.func @uneven(
  // CHECK: arith.divsi
  func.func @uneven(%x: tensor<512x3x48xf16>) -> tensor<512x128xf16> {
    %width = arith.constant 48 : index
    %space = tensor.empty() : tensor<512x128xf16>
    %r = linalg.generic {indexing_maps = [#same], iterator_types = ["parallel", "parallel"]}
        outs(%space : tensor<512x128xf16>) {
    ^bb0(%out: f16):
      %row = linalg.index 0 : index
      %at = linalg.index 1 : index
      %part = arith.divsi %at, %width : index
      %rest = arith.remsi %at, %width : index
      %a = tensor.extract %x[%row, %part, %rest] : tensor<512x3x48xf16>
      linalg.yield %a : f16
    } -> tensor<512x128xf16>
    return %r : tensor<512x128xf16>
  }
  // Of an unknown number a known number of times: a multiple.
  // CHECK-LABEL: func.func @unknown(
  // CHECK: linalg.generic
  // CHECK-SAME: outs(%{{.*}} : tensor<?x2x64xf16>)
  // CHECK-NOT: arith.remsi
  func.func @unknown(%x: tensor<?x2x64xf16>, %rows: index) -> tensor<?xf16> {
    %width = arith.constant 64 : index
    %whole = arith.constant 128 : index
    %count = arith.muli %rows, %whole : index
    %space = tensor.empty(%count) : tensor<?xf16>
    %r = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>], iterator_types = ["parallel"]}
        outs(%space : tensor<?xf16>) {
    ^bb0(%out: f16):
      %at = linalg.index 0 : index
      %row = arith.divsi %at, %whole : index
      %place = arith.remsi %at, %whole : index
      %half = arith.divsi %place, %width : index
      %rest = arith.remsi %place, %width : index
      %a = tensor.extract %x[%row, %half, %rest] : tensor<?x2x64xf16>
      linalg.yield %a : f16
    } -> tensor<?xf16>
    return %r : tensor<?xf16>
  }

  // CHECK-LABEL: func.func @any(
  // CHECK: arith.remsi
  func.func @any(%x: tensor<?x64xf16>, %count: index) -> tensor<?xf16> {
    %width = arith.constant 64 : index
    %space = tensor.empty(%count) : tensor<?xf16>
    %r = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>], iterator_types = ["parallel"]}
        outs(%space : tensor<?xf16>) {
    ^bb0(%out: f16):
      %at = linalg.index 0 : index
      %row = arith.divsi %at, %width : index
      %rest = arith.remsi %at, %width : index
      %a = tensor.extract %x[%row, %rest] : tensor<?x64xf16>
      linalg.yield %a : f16
    } -> tensor<?xf16>
    return %r : tensor<?xf16>
  }
}
