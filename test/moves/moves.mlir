// Copies of known sizes, transposes of any, and lines that are read by index are loops of ours; IREE
// keeps short lines that are written across.
//
// RUN: attn-compile %s --iree-hal-target-device=cuda --iree-cuda-target=sm_80 --iree-opt-level=O2 --compile-to=executable-configurations --attn-report=%t.json | FileCheck %s
// RUN: FileCheck %s --check-prefix=TOLD < %t.json
// RUN: attn-compile %s --iree-hal-target-device=cuda --iree-cuda-target=sm_80 --iree-opt-level=O2 --compile-to=executable-configurations --attn-configure=false | FileCheck %s --check-prefix=OFF

// Sixteen elements a thread, each 256 behind the last, are loaded before the first is stored.
// CHECK-LABEL: func.func @odd_dispatch_0
// CHECK-SAME: no_pipeline workgroup_size = [256, 1, 1]
// CHECK: scf.forall ({{.*}}) in (7)
// CHECK-COUNT-16: memref.load
// CHECK-NOT: memref.load
// CHECK-COUNT-16: memref.store
// TOLD: 256 threads of a workgroup copy 16 elements each
// OFF-LABEL: func.func @odd_dispatch_0
// OFF-SAME: pipeline<Distribute>
func.func @odd(%x: tensor<400x100xf16>) -> tensor<400x67xf16> {
  %part = tensor.extract_slice %x[0, 3] [400, 67] [1, 1] : tensor<400x100xf16> to tensor<400x67xf16>
  return %part : tensor<400x67xf16>
}

// Dims that lie behind one another are one, and their vectors whole.
// CHECK-LABEL: func.func @joined_dispatch_0
// CHECK: memref.collapse_shape {{.*}} into memref<30x420xf16, strided<[840, 1]
// CHECK-COUNT-4: vector.load {{.*}}vector<4xf16>
// CHECK-COUNT-4: vector.store
func.func @joined(%x: tensor<30x20x7x6xf16>) -> tensor<30x10x7x6xf16> {
  %part = tensor.extract_slice %x[0, 10, 0, 0] [30, 10, 7, 6] [1, 1, 1, 1] : tensor<30x20x7x6xf16> to tensor<30x10x7x6xf16>
  return %part : tensor<30x10x7x6xf16>
}

// CHECK-LABEL: func.func @even_dispatch_0
// CHECK-COUNT-2: vector.load {{.*}}vector<8xf16>
// CHECK-COUNT-2: vector.store
func.func @even(%x: tensor<400x256xf16>) -> tensor<400x64xf16> {
  %part = tensor.extract_slice %x[0, 64] [400, 64] [1, 1] : tensor<400x256xf16> to tensor<400x64xf16>
  return %part : tensor<400x64xf16>
}

// Through shared memory, whose lines are 132 bytes apart; what is added lies as the result does.
// CHECK-LABEL: func.func @turned_dispatch_0
// CHECK-SAME: no_pipeline workgroup_size = [256, 1, 1]
// CHECK: memref.alloc() : memref<64x66xf16, #gpu.address_space<workgroup>>
// CHECK: gpu.barrier
// CHECK: arith.addf
// TOLD: it is turned in tiles of 64 x 64
func.func @turned(%x: tensor<3x70x131xf16>, %bias: tensor<70xf16>) -> tensor<3x131x70xf16> {
  %space = tensor.empty() : tensor<3x131x70xf16>
  %made = linalg.generic {indexing_maps = [affine_map<(b, n, c) -> (b, c, n)>, affine_map<(b, n, c) -> (c)>, affine_map<(b, n, c) -> (b, n, c)>],
      iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x, %bias : tensor<3x70x131xf16>, tensor<70xf16>) outs(%space : tensor<3x131x70xf16>) {
  ^bb0(%a: f16, %b: f16, %out: f16):
    %y = arith.addf %a, %b : f16
    linalg.yield %y : f16
  } -> tensor<3x131x70xf16>
  return %made : tensor<3x131x70xf16>
}

// Lines that stay lines, in another order, are whole vectors, of unknown sizes, too.
// CHECK-LABEL: func.func @heads_dispatch_0
// CHECK-SAME: no_pipeline workgroup_size = [256, 1, 1]
// CHECK-COUNT-2: vector.load {{.*}}alignment = 16 : {{.*}}vector<8xf16>
// CHECK-NOT: vector.load
// CHECK-COUNT-2: vector.store
// TOLD: each thread moves 8 neighbours at once to where their line lies
func.func @heads(%x: tensor<?x49x3x8x32xf16>) -> tensor<3x?x8x49x32xf16> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x49x3x8x32xf16>
  %space = tensor.empty(%n) : tensor<3x?x8x49x32xf16>
  %made = linalg.transpose ins(%x : tensor<?x49x3x8x32xf16>) outs(%space : tensor<3x?x8x49x32xf16>) permutation = [2, 0, 3, 1, 4]
  return %made : tensor<3x?x8x49x32xf16>
}

// Lines of single elements have no vectors.
// CHECK-LABEL: func.func @single_dispatch_0
// CHECK-NOT: no_pipeline
// CHECK: return
func.func @single(%x: tensor<50x40x8x33xf16>) -> tensor<50x8x40x33xf16> {
  %space = tensor.empty() : tensor<50x8x40x33xf16>
  %made = linalg.transpose ins(%x : tensor<50x40x8x33xf16>) outs(%space : tensor<50x8x40x33xf16>) permutation = [0, 2, 1, 3]
  return %made : tensor<50x8x40x33xf16>
}

// Short lines are written by all lanes, who find what they read.
// CHECK-LABEL: func.func @short_dispatch_0
// CHECK-SAME: no_pipeline workgroup_size = [256, 1, 1]
// CHECK-NOT: gpu.barrier
// CHECK: return
func.func @short(%x: tensor<300x3x64xf16>) -> tensor<300x64x3xf16> {
  %space = tensor.empty() : tensor<300x64x3xf16>
  %made = linalg.transpose ins(%x : tensor<300x3x64xf16>) outs(%space : tensor<300x64x3xf16>) permutation = [0, 2, 1]
  return %made : tensor<300x64x3xf16>
}

// CHECK-LABEL: func.func @taps_dispatch_0
// CHECK-NOT: no_pipeline
// CHECK: return
func.func @taps(%x: tensor<300x64x9xf16>) -> tensor<300x9x64xf16> {
  %space = tensor.empty() : tensor<300x9x64xf16>
  %made = linalg.transpose ins(%x : tensor<300x64x9xf16>) outs(%space : tensor<300x9x64xf16>) permutation = [0, 2, 1]
  return %made : tensor<300x9x64xf16>
}

// Patches: what lies side by side in the image and in a patch is read at once.
// CHECK-LABEL: func.func @patches_dispatch_0
// CHECK-SAME: no_pipeline workgroup_size = [256, 1, 1]
// CHECK-COUNT-2: vector.load {{.*}}vector<8xf16>
// CHECK-NOT: vector.load
// TOLD: each thread makes 8 neighbours of what it reads by index
func.func @patches(%x: tensor<4x16x16x24xf16>) -> tensor<4x14x14x3x24xf16> {
  %space = tensor.empty() : tensor<4x14x14x3x24xf16>
  %made = linalg.generic {indexing_maps = [affine_map<(b, i, j, q, c) -> (b, i, j, q, c)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} outs(%space : tensor<4x14x14x3x24xf16>) {
  ^bb0(%o: f16):
    %b = linalg.index 0 : index
    %i = linalg.index 1 : index
    %j = linalg.index 2 : index
    %q = linalg.index 3 : index
    %c = linalg.index 4 : index
    %y = arith.addi %j, %q : index
    %v = tensor.extract %x[%b, %i, %y, %c] : tensor<4x16x16x24xf16>
    linalg.yield %v : f16
  } -> tensor<4x14x14x3x24xf16>
  return %made : tensor<4x14x14x3x24xf16>
}

// Windows of a maximum along a column share rows of the image: a thread makes four.
// CHECK-LABEL: func.func @windows_dispatch_0
// CHECK-SAME: no_pipeline workgroup_size = [256, 1, 1]
// CHECK: scf.forall ({{.*}}) in (280)
// CHECK-COUNT-8: memref.load
// CHECK-NOT: memref.load
// CHECK-COUNT-4: memref.store
// TOLD: each thread makes 4 of what it reads at computed places
func.func @windows(%x: tensor<160x33x57xf16>) -> tensor<160x32x56xf16> {
  %one = arith.constant 1 : index
  %space = tensor.empty() : tensor<160x32x56xf16>
  %made = linalg.generic {indexing_maps = [affine_map<(b, y, x) -> (b, y, x)>], iterator_types = ["parallel", "parallel", "parallel"]} outs(%space : tensor<160x32x56xf16>) {
  ^bb0(%o: f16):
    %b = linalg.index 0 : index
    %i = linalg.index 1 : index
    %j = linalg.index 2 : index
    %k = arith.addi %i, %one : index
    %l = arith.addi %j, %one : index
    %v = tensor.extract %x[%b, %i, %j] : tensor<160x33x57xf16>
    %w = tensor.extract %x[%b, %k, %l] : tensor<160x33x57xf16>
    %m = arith.mulf %v, %w : f16
    linalg.yield %m : f16
  } -> tensor<160x32x56xf16>
  return %made : tensor<160x32x56xf16>
}

// Places of 64 bits that are bounded behind their cast are IREE's: ours have 32.
// CHECK-LABEL: func.func @bounded_dispatch_0
// CHECK-NOT: memref.load
// CHECK: return
func.func @bounded(%x: tensor<160x33xf16>, %at: tensor<160x57xi64>) -> tensor<160x57xf16> {
  %last = arith.constant 32 : index
  %space = tensor.empty() : tensor<160x57xf16>
  %made = linalg.generic {indexing_maps = [affine_map<(b, n) -> (b, n)>], iterator_types = ["parallel", "parallel"]} outs(%space : tensor<160x57xf16>) {
  ^bb0(%o: f16):
    %b = linalg.index 0 : index
    %n = linalg.index 1 : index
    %i = tensor.extract %at[%b, %n] : tensor<160x57xi64>
    %j = arith.index_cast %i : i64 to index
    %k = arith.minui %j, %last : index
    %v = tensor.extract %x[%b, %k] : tensor<160x33xf16>
    linalg.yield %v : f16
  } -> tensor<160x57xf16>
  return %made : tensor<160x57xf16>
}

// Casts of 8-bit floats are IREE's: it cannot translate them as scalars.
// CHECK-LABEL: func.func @narrow_dispatch_0
// CHECK-NOT: memref.load
// CHECK: return
func.func @narrow(%x: tensor<100x70xf8E4M3FN>) -> tensor<70x100xf16> {
  %space = tensor.empty() : tensor<70x100xf16>
  %made = linalg.generic {indexing_maps = [affine_map<(i, j) -> (j, i)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<100x70xf8E4M3FN>) outs(%space : tensor<70x100xf16>) {
  ^bb0(%a: f8E4M3FN, %o: f16):
    %t = arith.extf %a : f8E4M3FN to f16
    linalg.yield %t : f16
  } -> tensor<70x100xf16>
  return %made : tensor<70x100xf16>
}

// There are no vectors of complex numbers.
// CHECK-LABEL: func.func @complex_dispatch_0
// CHECK-NOT: no_pipeline
// CHECK: return
func.func @complex(%x: tensor<30x64xcomplex<f32>>) -> tensor<25x3x64xcomplex<f32>> {
  %e = tensor.empty() : tensor<25x3x64xcomplex<f32>>
  %y = linalg.generic {indexing_maps = [affine_map<(i, k, j) -> (i, k, j)>], iterator_types = ["parallel", "parallel", "parallel"]} outs(%e : tensor<25x3x64xcomplex<f32>>) {
  ^bb0(%o: complex<f32>):
    %i = linalg.index 0 : index
    %k = linalg.index 1 : index
    %j = linalg.index 2 : index
    %r = arith.addi %i, %k : index
    %v = tensor.extract %x[%r, %j] : tensor<30x64xcomplex<f32>>
    linalg.yield %v : complex<f32>
  } -> tensor<25x3x64xcomplex<f32>>
  return %y : tensor<25x3x64xcomplex<f32>>
}

// Lines of no whole vectors that are read at one computed place: lanes lie along them.
// CHECK-LABEL: func.func @filled_dispatch_0
// CHECK: memref.load
// CHECK: arith.select
// CHECK: memref.store
func.func @filled(%x: tensor<64x301x77xf16>) -> tensor<64x301x80xf16> {
  %zero = arith.constant 0.0 : f16
  %last = arith.constant 76 : index
  %space = tensor.empty() : tensor<64x301x80xf16>
  %made = linalg.generic {indexing_maps = [affine_map<(b, m, n) -> (b, m, n)>], iterator_types = ["parallel", "parallel", "parallel"]} outs(%space : tensor<64x301x80xf16>) {
  ^bb0(%o: f16):
    %b = linalg.index 0 : index
    %m = linalg.index 1 : index
    %n = linalg.index 2 : index
    %inside = arith.cmpi ule, %n, %last : index
    %k = arith.minui %n, %last : index
    %v = tensor.extract %x[%b, %m, %k] : tensor<64x301x77xf16>
    %w = arith.select %inside, %v, %zero : f16
    linalg.yield %w : f16
  } -> tensor<64x301x80xf16>
  return %made : tensor<64x301x80xf16>
}
