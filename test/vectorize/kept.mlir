// What the loops do not do stays with IREE and its configuration, with the reason.

// DEFINE: %{cpu} = --iree-hal-target-device=local --iree-hal-local-target-device-backends=llvm-cpu --iree-llvmcpu-target-cpu=x86-64-v4
// RUN: attn-compile %s %{cpu} --compile-to=executable-configurations --attn-summary 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt

// CHECK-COUNT-5: #iree_cpu.pipeline<LinalgExtTileAndVectorize>
// CHECK-NOT: no_pipeline

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#kh = affine_map<(b, m, n, k1, k2) -> (k2, k1, b)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#vt = affine_map<(b, m, n, k1, k2) -> (b, n, k2)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#mt = affine_map<(b, m, n, k1, k2) -> (k2, m)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// WHY: gets no loops of ours: neither keys nor the head dim are innermost in its key
func.func @heads_innermost(%q: tensor<2x8x64xf32>, %k: tensor<40x64x2xf32>, %v: tensor<2x40x64xf32>) -> tensor<2x8x64xf32> {
  %scale = arith.constant 0.125 : f32
  %out = tensor.empty() : tensor<2x8x64xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #kh, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x8x64xf32>, tensor<40x64x2xf32>, tensor<2x40x64xf32>, f32) outs(%out : tensor<2x8x64xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x8x64xf32>
  return %r : tensor<2x8x64xf32>
}

// WHY: gets no loops of ours: the keys of its mask do not lie side by side
func.func @keys_apart(%q: tensor<2x8x64xf32>, %k: tensor<2x40x64xf32>, %v: tensor<2x40x64xf32>, %mask: tensor<40x8xf32>) -> tensor<2x8x64xf32> {
  %scale = arith.constant 0.125 : f32
  %out = tensor.empty() : tensor<2x8x64xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #mt, #o]>
      ins(%q, %k, %v, %scale, %mask : tensor<2x8x64xf32>, tensor<2x40x64xf32>, tensor<2x40x64xf32>, f32, tensor<40x8xf32>) outs(%out : tensor<2x8x64xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x8x64xf32>
  return %r : tensor<2x8x64xf32>
}

// WHY: gets no loops of ours: its score function computes index
func.func @index_scores(%q: tensor<2x32x64xf32>, %k: tensor<2x40x64xf32>, %v: tensor<2x40x64xf32>) -> tensor<2x32x64xf32> {
  %scale = arith.constant 0.125 : f32
  %out = tensor.empty() : tensor<2x32x64xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x32x64xf32>, tensor<2x40x64xf32>, tensor<2x40x64xf32>, f32) outs(%out : tensor<2x32x64xf32>) {
    ^bb0(%score: f32):
      %bits = arith.bitcast %score : f32 to i32
      %index = arith.index_cast %bits : i32 to index
      %more = arith.muli %index, %index : index
      %even = arith.index_cast %more : index to i32
      %t = arith.bitcast %even : i32 to f32
      iree_linalg_ext.yield %t : f32
  } -> tensor<2x32x64xf32>
  return %r : tensor<2x32x64xf32>
}

// 31 rows make no groups of several, 32 do (wide.mlir).
// WHY: gets no loops of ours: head dim 512 needs more than 32768 bytes of stack
func.func @wide(%q: tensor<2x31x512xf32>, %k: tensor<2x40x512xf32>, %v: tensor<2x40x512xf32>) -> tensor<2x31x512xf32> {
  %scale = arith.constant 0.125 : f32
  %out = tensor.empty() : tensor<2x31x512xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x31x512xf32>, tensor<2x40x512xf32>, tensor<2x40x512xf32>, f32) outs(%out : tensor<2x31x512xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x31x512xf32>
  return %r : tensor<2x31x512xf32>
}

// WHY: gets no loops of ours: head dim 256 needs more than 32768 bytes of stack
func.func @wide_transposed(%q: tensor<2x31x256xf32>, %k: tensor<2x40x256xf32>, %v: tensor<2x256x40xf32>) -> tensor<2x31x256xf32> {
  %scale = arith.constant 0.125 : f32
  %out = tensor.empty() : tensor<2x31x256xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #vt, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x31x256xf32>, tensor<2x40x256xf32>, tensor<2x256x40xf32>, f32) outs(%out : tensor<2x31x256xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x31x256xf32>
  return %r : tensor<2x31x256xf32>
}

#i = affine_map<(a, b, c) -> (a, b, c)>
