// On CPUs, indices that a body computes in floats are quotients where they come to these: the nearest
// pixels of twice as many. Those by 3 / 4 are no quotient, and stay; so does all on other targets.

// RUN: attn-opt %s --attn-split-indices | FileCheck %s
// RUN: sed 's/"llvm-cpu", "embedded-elf-x86_64"/"cuda", "cuda-nvptx-fb"/' %s | attn-opt --attn-split-indices | FileCheck %s --check-prefix=CUDA
// CUDA-COUNT-2: arith.sitofp
// CUDA-LABEL: func.func @gathered(
// CUDA-NOT: arith.divsi
// CUDA: return

module attributes {hal.device.targets = [#hal.device.target<"local", [#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64">]> : !hal.device]} {
  // CHECK-LABEL: func.func @twice(
  // CHECK: outs(%{{.*}} : tensor<10x2xf32>)
  // CHECK-NOT: arith.sitofp
  // CHECK: %[[I:.*]] = linalg.index 0
  // CHECK: tensor.extract %{{.*}}[%[[I]]]
  func.func @twice(%x: tensor<10xf32>) -> tensor<20xf32> {
    %two = arith.constant 2.0 : f32
    %half = arith.constant 0.5 : f32
    %e = tensor.empty() : tensor<20xf32>
    %r = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>], iterator_types = ["parallel"]} outs(%e : tensor<20xf32>) {
    ^bb0(%o: f32):
      %0 = linalg.index 0 : index
      %1 = arith.index_cast %0 : index to i64
      %2 = arith.sitofp %1 : i64 to f32
      %3 = arith.addf %2, %half : f32
      %4 = arith.divf %3, %two : f32
      %5 = math.floor %4 : f32
      %6 = arith.fptosi %5 : f32 to i64
      %7 = arith.index_cast %6 : i64 to index
      %v = tensor.extract %x[%7] : tensor<10xf32>
      linalg.yield %v : f32
    } -> tensor<20xf32>
    return %r : tensor<20xf32>
  }

  // CHECK-LABEL: func.func @odd(
  // CHECK: arith.sitofp
  // CHECK-NOT: arith.divsi
  // CHECK: return
  func.func @odd(%x: tensor<21xf32>) -> tensor<28xf32> {
    %part = arith.constant 0.75 : f32
    %e = tensor.empty() : tensor<28xf32>
    %r = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>], iterator_types = ["parallel"]} outs(%e : tensor<28xf32>) {
    ^bb0(%o: f32):
      %0 = linalg.index 0 : index
      %1 = arith.index_cast %0 : index to i64
      %2 = arith.sitofp %1 : i64 to f32
      %3 = arith.mulf %2, %part : f32
      %4 = arith.fptosi %3 : f32 to i64
      %5 = arith.index_cast %4 : i64 to index
      %v = tensor.extract %x[%5] : tensor<21xf32>
      linalg.yield %v : f32
    } -> tensor<28xf32>
    return %r : tensor<28xf32>
  }

  // Bits of the number, and nothing read by index: one long dim is fastest.
  // CHECK-LABEL: func.func @below(
  // CHECK: outs(%{{.*}} : tensor<64xf32>)
  // CHECK: arith.divsi
  func.func @below(%x: tensor<64xf32>) -> tensor<64xf32> {
    %eight = arith.constant 8 : index
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<64xf32>
    %r = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]} ins(%x : tensor<64xf32>) outs(%e : tensor<64xf32>) {
    ^bb0(%a: f32, %o: f32):
      %0 = linalg.index 0 : index
      %1 = arith.divsi %0, %eight : index
      %2 = arith.remsi %0, %eight : index
      %3 = arith.cmpi sle, %2, %1 : index
      %v = arith.select %3, %a, %zero : f32
      linalg.yield %v : f32
    } -> tensor<64xf32>
    return %r : tensor<64xf32>
  }

  // Elements from where others say lie apart in any loop: divided as they are.
  // CHECK-LABEL: func.func @gathered(
  // CHECK: arith.divsi
  // CHECK: return
  func.func @gathered(%x: tensor<4x21xf32>, %places: tensor<28xindex>) -> tensor<28xf32> {
    %width = arith.constant 7 : index
    %e = tensor.empty() : tensor<28xf32>
    %r = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]} ins(%places : tensor<28xindex>) outs(%e : tensor<28xf32>) {
    ^bb0(%place: index, %o: f32):
      %0 = linalg.index 0 : index
      %1 = arith.divsi %0, %width : index
      %v = tensor.extract %x[%1, %place] : tensor<4x21xf32>
      linalg.yield %v : f32
    } -> tensor<28xf32>
    return %r : tensor<28xf32>
  }
}
