// A product for CUDA over a dim of unknown size, whose parts IREE would lose, is one thread's for
// each number; one over a known size stays. Named products are generics from O2 on, whose sums are right.

// RUN: attn-compile %s --iree-hal-target-device=cuda --iree-cuda-target=sm_80 --iree-opt-level=O0 --compile-to=executable-configurations --attn-pipeline=attn-whole-sums --attn-summary 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt
// WHY: kernel unknown_dispatch_0_contract{{.*}}: each sum is one thread's, since IREE 3.13 loses parts of them
// WHY: kernel filled_dispatch_0_{{.*}}: each sum is one thread's, since IREE 3.13 adds to them what stands behind the last term
// WHY: kernel two_dispatch_0_{{.*}}: each sum is one thread's, since IREE 3.13 adds to them what stands behind the last term
// WHY: kernel zeros_dispatch_0_{{.*}}: 2 read(s) end with their dims: IREE 3.13 multiplies zeros by what stands behind the last term
// WHY: kernel experts_dispatch_0_{{.*}}: 2 read(s) end with their dims: IREE 3.13 multiplies zeros by what stands behind the last term
// WHY-NOT: each sum is one thread's
// WHY-NOT: end with their dims

// CHECK-LABEL: func.func @unknown_dispatch_0
// CHECK-SAME: #iree_gpu.pipeline<TileAndFuse> workgroup_size = [32, 1, 1]
// CHECK: #iree_gpu.lowering_config<{reduction = [0, 0, 0, 0, 0, 1], thread = [1, 1, 1, 1, 1, 0], workgroup = [1, 1, 1, 1, 32, 0]}>
#q = affine_map<(g, h, b, m, k, d) -> (b, d, h, m, g)>
#k = affine_map<(g, h, b, m, k, d) -> (b, h, k, d)>
#o = affine_map<(g, h, b, m, k, d) -> (g, h, b, m, k)>
func.func @unknown(%q: tensor<8x?x?x?x2xf16>, %k: tensor<8x?x?x?xf16>) -> tensor<2x?x8x?x?xf32> {
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %zero = arith.constant 0.0 : f32
  %h = tensor.dim %q, %c2 : tensor<8x?x?x?x2xf16>
  %m = tensor.dim %q, %c3 : tensor<8x?x?x?x2xf16>
  %n = tensor.dim %k, %c2 : tensor<8x?x?x?xf16>
  %e = tensor.empty(%h, %m, %n) : tensor<2x?x8x?x?xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2x?x8x?x?xf32>) -> tensor<2x?x8x?x?xf32>
  %r = linalg.contract indexing_maps = [#q, #k, #o] ins(%q, %k : tensor<8x?x?x?x2xf16>, tensor<8x?x?x?xf16>) outs(%f : tensor<2x?x8x?x?xf32>) -> tensor<2x?x8x?x?xf32>
  return %r : tensor<2x?x8x?x?xf32>
}

// CHECK-LABEL: func.func @known_dispatch_0
// CHECK-NOT: reduction = [0, 0, 0, 0, 0, 1]
func.func @known(%q: tensor<8x64x?x?x2xf16>, %k: tensor<8x?x?x64xf16>) -> tensor<2x?x8x?x?xf32> {
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %zero = arith.constant 0.0 : f32
  %h = tensor.dim %q, %c2 : tensor<8x64x?x?x2xf16>
  %m = tensor.dim %q, %c3 : tensor<8x64x?x?x2xf16>
  %n = tensor.dim %k, %c2 : tensor<8x?x?x64xf16>
  %e = tensor.empty(%h, %m, %n) : tensor<2x?x8x?x?xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2x?x8x?x?xf32>) -> tensor<2x?x8x?x?xf32>
  %r = linalg.contract indexing_maps = [#q, #k, #o] ins(%q, %k : tensor<8x64x?x?x2xf16>, tensor<8x?x?x64xf16>) outs(%f : tensor<2x?x8x?x?xf32>) -> tensor<2x?x8x?x?xf32>
  return %r : tensor<2x?x8x?x?xf32>
}

// Sums of 24 terms fill no tile, and in both factors other dims stand behind them.
// CHECK-LABEL: func.func @filled_dispatch_0
// CHECK-SAME: #iree_gpu.pipeline<TileAndFuse> workgroup_size = [32, 1, 1]
// CHECK: #iree_gpu.lowering_config<{reduction = [0, 0, 0, 1], thread = [1, 1, 1, 0], workgroup = [1, 1, 32, 0]}>
#l = affine_map<(b, m, n, k) -> (b, k, m)>
#r = affine_map<(b, m, n, k) -> (b, k, n)>
#p = affine_map<(b, m, n, k) -> (b, m, n)>
func.func @filled(%l: tensor<8x24x16xf16>, %r: tensor<8x24x64xf16>) -> tensor<8x16x64xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x16x64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x16x64xf32>) -> tensor<8x16x64xf32>
  %p = linalg.contract indexing_maps = [#l, #r, #p] ins(%l, %r : tensor<8x24x16xf16>, tensor<8x24x64xf16>) outs(%f : tensor<8x16x64xf32>) -> tensor<8x16x64xf32>
  return %p : tensor<8x16x64xf32>
}

// So do those of 33, which go with a sum over another dim.
// CHECK-LABEL: func.func @two_dispatch_0
// CHECK: #iree_gpu.lowering_config<{reduction = [0, 0, 0, 1, 1], thread = [1, 1, 1, 0, 0], workgroup = [1, 1, 32, 0, 0]}>
func.func @two(%l: tensor<70x33x7xf16>, %r: tensor<7x50x33x9xf16>) -> tensor<70x50x9xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<70x50x9xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<70x50x9xf32>) -> tensor<70x50x9xf32>
  %p = linalg.contract indexing_maps = [affine_map<(y, x, m, a, b) -> (y, b, a)>, affine_map<(y, x, m, a, b) -> (a, x, b, m)>, affine_map<(y, x, m, a, b) -> (y, x, m)>] ins(%l, %r : tensor<70x33x7xf16>, tensor<7x50x33x9xf16>) outs(%f : tensor<70x50x9xf32>) -> tensor<70x50x9xf32>
  return %p : tensor<70x50x9xf32>
}

// Those of 32 do.
// CHECK-LABEL: func.func @whole_dispatch_0
// CHECK: mma_kind
func.func @whole(%l: tensor<8x32x16xf16>, %r: tensor<8x32x64xf16>) -> tensor<8x16x64xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x16x64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x16x64xf32>) -> tensor<8x16x64xf32>
  %p = linalg.contract indexing_maps = [#l, #r, #p] ins(%l, %r : tensor<8x32x16xf16>, tensor<8x32x64xf16>) outs(%f : tensor<8x16x64xf32>) -> tensor<8x16x64xf32>
  return %p : tensor<8x16x64xf32>
}

// Where the summed dim is the last of one factor, its zeros are multiplied by what is read of the other.
// CHECK-LABEL: func.func @zeros_dispatch_0
// CHECK: %[[INSIDE:.*]] = arith.cmpi ult, %[[AT:.*]], %c24{{.*}} : index
// CHECK: %[[PLACE:.*]] = arith.select %[[INSIDE]], %[[AT]], %c0
// CHECK: %[[READ:.*]] = vector.transfer_read {{.*}}, %[[PLACE]], {{.*}} : memref<8x24x64xf16
// CHECK: arith.select %[[INSIDE]], %[[READ]], %cst
#s = affine_map<(b, m, n, k) -> (b, m, k)>
func.func @zeros(%l: tensor<8x16x24xf16>, %r: tensor<8x24x64xf16>) -> tensor<8x16x64xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x16x64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x16x64xf32>) -> tensor<8x16x64xf32>
  %p = linalg.contract indexing_maps = [#s, #r, #p] ins(%l, %r : tensor<8x16x24xf16>, tensor<8x24x64xf16>) outs(%f : tensor<8x16x64xf32>) -> tensor<8x16x64xf32>
  return %p : tensor<8x16x64xf32>
}

// The same where one factor alone has a batch; a plain product's reads are IREE's.
// CHECK-LABEL: func.func @experts_dispatch_0
// CHECK: %[[INSIDE:.*]] = arith.cmpi ult, %[[AT:.*]], %c24{{.*}} : index
// CHECK: %[[PLACE:.*]] = arith.select %[[INSIDE]], %[[AT]], %c0
// CHECK: %[[READ:.*]] = vector.transfer_read {{.*}}, %[[PLACE]], {{.*}} : memref<8x24x64xf16
// CHECK: arith.select %[[INSIDE]], %[[READ]], %cst
// CHECK-LABEL: func.func @rows_dispatch_0
// CHECK: mma_kind
#rows = affine_map<(b, m, n, k) -> (m, k)>
func.func @experts(%l: tensor<16x24xf16>, %r: tensor<8x24x64xf16>) -> tensor<8x16x64xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x16x64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x16x64xf32>) -> tensor<8x16x64xf32>
  %p = linalg.contract indexing_maps = [#rows, #r, #p] ins(%l, %r : tensor<16x24xf16>, tensor<8x24x64xf16>) outs(%f : tensor<8x16x64xf32>) -> tensor<8x16x64xf32>
  return %p : tensor<8x16x64xf32>
}
func.func @rows(%l: tensor<16x24xf16>, %r: tensor<24x64xf16>) -> tensor<16x64xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<16x64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<16x64xf32>) -> tensor<16x64xf32>
  %p = linalg.matmul ins(%l, %r : tensor<16x24xf16>, tensor<24x64xf16>) outs(%f : tensor<16x64xf32>) -> tensor<16x64xf32>
  return %p : tensor<16x64xf32>
}
