// Q and K of two types narrower than f32 become one: of 8 and 16 bits, the 16; else Q is f32. Equal
// types stay, as where one is f32, and on CPUs; run twice the pass adds nothing.

// RUN: attn-opt %s --attn-same-types --split-input-file | FileCheck %s
// RUN: attn-opt %s --attn-same-types --split-input-file > %t.1 && attn-opt %s --attn-same-types --attn-same-types --split-input-file > %t.2 && diff %t.1 %t.2

#q = affine_map<(m, n, d, k) -> (m, d)>
#k = affine_map<(m, n, d, k) -> (k, d)>
#v = affine_map<(m, n, d, k) -> (k, n)>
#s = affine_map<(m, n, d, k) -> ()>
#o = affine_map<(m, n, d, k) -> (m, n)>
module attributes {hal.device.targets = [#hal.device.target<"cuda", [#hal.executable.target<"cuda", "cuda-nvptx-fb">]> : !hal.device]} {
  // CHECK-LABEL: func.func @key_of_8_bits(
  // CHECK: %[[CAST:.*]] = linalg.generic {{.*}} ins(%arg1 : tensor<32x16xf8E4M3FN>)
  // CHECK: %[[KEY:.*]] = iree_tensor_ext.compute_barrier.start %[[CAST]] : tensor<32x16xbf16>
  // CHECK: iree_linalg_ext.attention {{.*}} ins(%arg0, %[[KEY]], %arg2,
  func.func @key_of_8_bits(%q: tensor<8x16xbf16>, %k: tensor<32x16xf8E4M3FN>, %v: tensor<32x4xf32>) -> tensor<8x4xf32> {
    %scale = arith.constant 0.25 : f32
    %e = tensor.empty() : tensor<8x4xf32>
    %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<8x16xbf16>, tensor<32x16xf8E4M3FN>, tensor<32x4xf32>, f32) outs(%e : tensor<8x4xf32>) {
    ^bb0(%x: f32):
      iree_linalg_ext.yield %x : f32
    } -> tensor<8x4xf32>
    return %r : tensor<8x4xf32>
  }
  // CHECK-LABEL: func.func @neither_holds_the_other(
  // CHECK: %[[CAST:.*]] = linalg.generic {{.*}} ins(%arg0 : tensor<8x16xbf16>)
  // CHECK: %[[QUERY:.*]] = iree_tensor_ext.compute_barrier.start %[[CAST]] : tensor<8x16xf32>
  // CHECK: iree_linalg_ext.attention {{.*}} ins(%[[QUERY]], %arg1, %arg2,
  func.func @neither_holds_the_other(%q: tensor<8x16xbf16>, %k: tensor<32x16xf16>, %v: tensor<32x4xf32>) -> tensor<8x4xf32> {
    %scale = arith.constant 0.25 : f32
    %e = tensor.empty() : tensor<8x4xf32>
    %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<8x16xbf16>, tensor<32x16xf16>, tensor<32x4xf32>, f32) outs(%e : tensor<8x4xf32>) {
    ^bb0(%x: f32):
      iree_linalg_ext.yield %x : f32
    } -> tensor<8x4xf32>
    return %r : tensor<8x4xf32>
  }
  // CHECK-LABEL: func.func @one_is_f32(
  // CHECK-NOT: compute_barrier
  func.func @one_is_f32(%q: tensor<8x16xf32>, %k: tensor<32x16xf16>, %v: tensor<32x4xf32>) -> tensor<8x4xf32> {
    %scale = arith.constant 0.25 : f32
    %e = tensor.empty() : tensor<8x4xf32>
    %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<8x16xf32>, tensor<32x16xf16>, tensor<32x4xf32>, f32) outs(%e : tensor<8x4xf32>) {
    ^bb0(%x: f32):
      iree_linalg_ext.yield %x : f32
    } -> tensor<8x4xf32>
    return %r : tensor<8x4xf32>
  }
}

// -----

#q = affine_map<(m, n, d, k) -> (m, d)>
#k = affine_map<(m, n, d, k) -> (k, d)>
#v = affine_map<(m, n, d, k) -> (k, n)>
#s = affine_map<(m, n, d, k) -> ()>
#o = affine_map<(m, n, d, k) -> (m, n)>
module attributes {hal.device.targets = [#hal.device.target<"local", [#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64">]> : !hal.device]} {
  // CHECK-LABEL: func.func @on_cpus(
  // CHECK-NOT: compute_barrier
  func.func @on_cpus(%q: tensor<8x16xbf16>, %k: tensor<32x16xf16>, %v: tensor<32x4xf32>) -> tensor<8x4xf32> {
    %scale = arith.constant 0.25 : f32
    %e = tensor.empty() : tensor<8x4xf32>
    %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<8x16xbf16>, tensor<32x16xf16>, tensor<32x4xf32>, f32) outs(%e : tensor<8x4xf32>) {
    ^bb0(%x: f32):
      iree_linalg_ext.yield %x : f32
    } -> tensor<8x4xf32>
    return %r : tensor<8x4xf32>
  }
}
