// On CPUs, what one comparison sorts is compared as whole numbers: floats by their bits, with one
// subtraction for equal ones, integers as they are. Bytes without a sign, and what other targets sort,
// stay as they are.

// RUN: attn-opt %s --attn-rank-sorts | FileCheck %s
// RUN: sed 's/"llvm-cpu", "embedded-elf-x86_64"/"cuda", "cuda-nvptx-fb"/' %s | attn-opt --attn-rank-sorts | FileCheck %s --check-prefix=CUDA
// CUDA-NOT: arith.bitcast
// CUDA-NOT: arith.xori {{.*}} : i32

module attributes {hal.device.targets = [#hal.device.target<"local", [#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64">]> : !hal.device]} {
  // CHECK-LABEL: func.func @largest(
  // CHECK: arith.bitcast {{.*}} : f32 to i32
  // CHECK: "reduction"]} ins(%[[KEYS:.*]], %[[KEYS]] : tensor<16x8xi32>, tensor<16x8xi32>)
  // CHECK: %[[LESS:.*]] = arith.subi
  // CHECK: arith.cmpi sgt, %{{.*}}, %[[LESS]] : i32
  // CHECK-NOT: arith.cmpf
  func.func @largest(%x: tensor<16x8xf16>) -> tensor<16x2xf16> {
    %0 = iree_linalg_ext.sort dimension(1) outs(%x : tensor<16x8xf16>) {
    ^bb0(%a: f16, %b: f16):
      %c = arith.cmpf oge, %a, %b : f16
      iree_linalg_ext.yield %c : i1
    } -> tensor<16x8xf16>
    %v = tensor.extract_slice %0[0, 0] [16, 2] [1, 1] : tensor<16x8xf16> to tensor<16x2xf16>
    return %v : tensor<16x2xf16>
  }

  // Few of many: the largest of runs are cut into runs again, and what is taken of these, too.
  // CHECK-LABEL: func.func @few(
  // CHECK: into tensor<1280x25xi32>
  // CHECK: into tensor<256x5xi32>
  // CHECK: into tensor<250x5xi32>
  func.func @few(%x: tensor<32000xf32>) -> tensor<50xf32> {
    %0 = iree_linalg_ext.sort dimension(0) outs(%x : tensor<32000xf32>) {
    ^bb0(%a: f32, %b: f32):
      %c = arith.cmpf oge, %a, %b : f32
      iree_linalg_ext.yield %c : i1
    } -> tensor<32000xf32>
    %v = tensor.extract_slice %0[0] [50] [1] : tensor<32000xf32> to tensor<50xf32>
    return %v : tensor<50xf32>
  }

  // CHECK-LABEL: func.func @experts(
  // CHECK: arith.xori %{{.*}}, %{{.*}} : i32
  // CHECK: arith.cmpi sge
  // CHECK: arith.cmpi sgt
  // CHECK: arith.select
  func.func @experts(%x: tensor<64xi32>) -> tensor<64xi32> {
    %0 = iree_linalg_ext.sort dimension(0) outs(%x : tensor<64xi32>) {
    ^bb0(%a: i32, %b: i32):
      %c = arith.cmpi slt, %a, %b : i32
      iree_linalg_ext.yield %c : i1
    } -> tensor<64xi32>
    return %0 : tensor<64xi32>
  }

  // CHECK-LABEL: func.func @bytes(
  // CHECK: arith.cmpi ult
  // CHECK-NOT: arith.cmpi sge
  // CHECK: return
  func.func @bytes(%x: tensor<64xi8>) -> tensor<64xi8> {
    %0 = iree_linalg_ext.sort dimension(0) outs(%x : tensor<64xi8>) {
    ^bb0(%a: i8, %b: i8):
      %c = arith.cmpi ult, %a, %b : i8
      iree_linalg_ext.yield %c : i1
    } -> tensor<64xi8>
    return %0 : tensor<64xi8>
  }
}
