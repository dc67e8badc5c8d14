// A workgroup sums several rows of a head's width; rows that subgroups do not divide, and too few
// of them, keep IREE's workgroups. Sums without whole steps of lanes are loops of ours.
//
// RUN: attn-compile %s --iree-hal-target-device=cuda --iree-cuda-target=sm_80 --iree-opt-level=O2 --compile-to=executable-configurations --attn-report=%t.json | FileCheck %s
// RUN: FileCheck %s --check-prefix=TOLD < %t.json
// RUN: attn-compile %s --iree-hal-target-device=cuda --iree-cuda-target=sm_80 --iree-opt-level=O2 --compile-to=executable-configurations --attn-configure=false | FileCheck %s --check-prefix=OFF

#all = affine_map<(r, d) -> (r, d)>
#row = affine_map<(r, d) -> (r)>

// Sixteen lanes read 16 bytes each of a row: two rows a subgroup, at four places, four times.
// CHECK-LABEL: func.func @heads_dispatch_0
// CHECK-SAME: workgroup_size = [128, 1, 1]
// CHECK: lane_basis = {{\[}}[2, 16], [0, 1]]
// CHECK-SAME: subgroup_basis = {{\[}}[4, 1], [0, 1]]
// CHECK-SAME: thread = [1, 8], workgroup = [32, 0]
// TOLD: a workgroup of it reduces 32 rows of 128, not one
// OFF-LABEL: func.func @heads_dispatch_0
// OFF-SAME: workgroup_size = [32, 1, 1]
// OFF: workgroup = [1, 0]
func.func @heads(%x: tensor<98304x128xf16>) -> tensor<98304x128xf16> {
  %zero = arith.constant 0.0 : f32
  %sums = tensor.empty() : tensor<98304xf32>
  %none = linalg.fill ins(%zero : f32) outs(%sums : tensor<98304xf32>) -> tensor<98304xf32>
  %sum = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<98304x128xf16>) outs(%none : tensor<98304xf32>) {
  ^bb0(%a: f16, %s: f32):
    %b = arith.extf %a : f16 to f32
    %c = arith.mulf %b, %b : f32
    %t = arith.addf %c, %s : f32
    linalg.yield %t : f32
  } -> tensor<98304xf32>
  %space = tensor.empty() : tensor<98304x128xf16>
  %made = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x, %sum : tensor<98304x128xf16>, tensor<98304xf32>) outs(%space : tensor<98304x128xf16>) {
  ^bb0(%a: f16, %s: f32, %out: f16):
    %r = math.rsqrt %s : f32
    %b = arith.truncf %r : f32 to f16
    %c = arith.mulf %a, %b : f16
    linalg.yield %c : f16
  } -> tensor<98304x128xf16>
  return %made : tensor<98304x128xf16>
}

// CHECK-LABEL: func.func @odd_dispatch_0
// CHECK: workgroup = [1, 0]
func.func @odd(%x: tensor<98303x128xf16>) -> tensor<98303xf32> {
  %zero = arith.constant 0.0 : f32
  %sums = tensor.empty() : tensor<98303xf32>
  %none = linalg.fill ins(%zero : f32) outs(%sums : tensor<98303xf32>) -> tensor<98303xf32>
  %sum = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<98303x128xf16>) outs(%none : tensor<98303xf32>) {
  ^bb0(%a: f16, %s: f32):
    %b = arith.extf %a : f16 to f32
    %t = arith.addf %b, %s : f32
    linalg.yield %t : f32
  } -> tensor<98303xf32>
  return %sum : tensor<98303xf32>
}

// CHECK-LABEL: func.func @few_dispatch_0
// CHECK: workgroup = [1, 0]
func.func @few(%x: tensor<256x128xf16>) -> tensor<256xf32> {
  %zero = arith.constant 0.0 : f32
  %sums = tensor.empty() : tensor<256xf32>
  %none = linalg.fill ins(%zero : f32) outs(%sums : tensor<256xf32>) -> tensor<256xf32>
  %sum = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<256x128xf16>) outs(%none : tensor<256xf32>) {
  ^bb0(%a: f16, %s: f32):
    %b = arith.extf %a : f16 to f32
    %t = arith.addf %b, %s : f32
    linalg.yield %t : f32
  } -> tensor<256xf32>
  return %sum : tensor<256xf32>
}

// IREE's compiler comes to no end with an argmax over a vocabulary, whose rows 32 does not divide.
// CHECK-LABEL: func.func @vocabulary_dispatch_0
// CHECK: scf.forall (%[[ROW:.*]]) in (8)
// CHECK: gpu.subgroup_reduce maximumf {{.*}} cluster(size = 32)
// CHECK: gpu.subgroup_reduce minui {{.*}} cluster(size = 32)
// TOLD: 1024 threads of a workgroup share each of its sums
func.func @vocabulary(%x: tensor<8x50257xf16>) -> tensor<8xi32> {
  %low = arith.constant 0xFC00 : f16
  %zero = arith.constant 0 : i32
  %v = tensor.empty() : tensor<8xf16>
  %i = tensor.empty() : tensor<8xi32>
  %vs = linalg.fill ins(%low : f16) outs(%v : tensor<8xf16>) -> tensor<8xf16>
  %is = linalg.fill ins(%zero : i32) outs(%i : tensor<8xi32>) -> tensor<8xi32>
  %r:2 = iree_linalg_ext.arg_compare dimension(1) ins(%x : tensor<8x50257xf16>) outs(%vs, %is : tensor<8xf16>, tensor<8xi32>) {
  ^bb0(%a: f16, %b: f16):
    %c = arith.cmpf ogt, %a, %b : f16
    iree_linalg_ext.yield %c : i1
  } -> tensor<8xf16>, tensor<8xi32>
  return %r#1 : tensor<8xi32>
}

// A loop in a body: a thread makes an element.
// CHECK-LABEL: func.func @running_dispatch_0
// CHECK-NOT: serial
// CHECK: linalg.generic {{.*}}thread = [1, 1]
// CHECK: scf.for
func.func @running(%x: tensor<4x50257xf32>, %y: tensor<4x50257xf32>, %l: tensor<4xf32>) -> tensor<4x50257xf32> {
  %r:2 = iree_linalg_ext.scan dimension(1) inclusive(true) ins(%x : tensor<4x50257xf32>) outs(%y, %l : tensor<4x50257xf32>, tensor<4xf32>) {
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    iree_linalg_ext.yield %s : f32
  } -> tensor<4x50257xf32>, tensor<4xf32>
  return %r#0 : tensor<4x50257xf32>
}

// A product of few rows has all of them in a workgroup, which reads a row of the weights once.
// CHECK-LABEL: func.func @product_dispatch_0
// CHECK: workgroup = [4, 1, 0]
// TOLD: a workgroup of it multiplies 4 rows by what it reads, not one
func.func @product(%x: tensor<4x1024xf16>, %w: tensor<257x1024xf16>) -> tensor<4x257xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x257xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x257xf32>) -> tensor<4x257xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<4x1024xf16>, tensor<257x1024xf16>) outs(%f : tensor<4x257xf32>) {
  ^bb0(%a: f16, %b: f16, %c: f32):
    %u = arith.extf %a : f16 to f32
    %v = arith.extf %b : f16 to f32
    %t = arith.mulf %u, %v : f32
    %s = arith.addf %c, %t : f32
    linalg.yield %s : f32
  } -> tensor<4x257xf32>
  return %p : tensor<4x257xf32>
}

// Rows that are all the same, of a factor without them, stay IREE's: it fails to distribute several.
// CHECK-LABEL: func.func @repeated_dispatch_0
// CHECK: workgroup = [1, 1, 0]
func.func @repeated(%x: tensor<256xf32>, %w: tensor<768x256xf32>) -> tensor<2x768xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x768xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2x768xf32>) -> tensor<2x768xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<256xf32>, tensor<768x256xf32>) outs(%f : tensor<2x768xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %t = arith.mulf %a, %b : f32
    %s = arith.addf %c, %t : f32
    linalg.yield %s : f32
  } -> tensor<2x768xf32>
  return %p : tensor<2x768xf32>
}

// So do few rows times one vector: of two, IREE adds up both in the first one's place.
// CHECK-LABEL: func.func @vector_dispatch_0
// CHECK: workgroup = [1, 0]
func.func @vector(%x: tensor<256xf32>, %w: tensor<2x256xf16>) -> tensor<2xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2xf32>) -> tensor<2xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(n, k) -> (k)>, affine_map<(n, k) -> (n, k)>, affine_map<(n, k) -> (n)>], iterator_types = ["parallel", "reduction"]} ins(%x, %w : tensor<256xf32>, tensor<2x256xf16>) outs(%f : tensor<2xf32>) {
  ^bb0(%a: f32, %b: f16, %c: f32):
    %v = arith.extf %b : f16 to f32
    %t = arith.mulf %a, %v : f32
    %s = arith.addf %c, %t : f32
    linalg.yield %s : f32
  } -> tensor<2xf32>
  return %p : tensor<2xf32>
}

// What is summed does not lie side by side: lanes do along what is kept, and go down it together.
// CHECK-LABEL: func.func @down_dispatch_0
// CHECK-SAME: VectorDistribute> workgroup_size = [512, 1, 1]
// CHECK: lane_basis = {{\[}}[2, 16], [0, 1]], partial_reduction = [0, 512], subgroup_basis = {{\[}}[1, 16], [0, 1]], thread = [8, 2], workgroup = [16, 0]
// TOLD: its 512 threads a workgroup read side by side what they sum
// OFF-LABEL: func.func @down_dispatch_0
// OFF: reduction = [0, 4], thread = [1, 0]
func.func @down(%x: tensor<800x256xf16>) -> tensor<256xf32> {
  %zero = arith.constant 0.0 : f32
  %sums = tensor.empty() : tensor<256xf32>
  %none = linalg.fill ins(%zero : f32) outs(%sums : tensor<256xf32>) -> tensor<256xf32>
  %sum = linalg.generic {indexing_maps = [affine_map<(d, r) -> (r, d)>, affine_map<(d, r) -> (d)>],
      iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<800x256xf16>) outs(%none : tensor<256xf32>) {
  ^bb0(%a: f16, %s: f32):
    %b = arith.extf %a : f16 to f32
    %t = arith.addf %b, %s : f32
    linalg.yield %t : f32
  } -> tensor<256xf32>
  return %sum : tensor<256xf32>
}

// Eight subgroups have a row of 2048 in registers; a row of 3072 no number of them.
// CHECK-LABEL: func.func @long_dispatch_0
// CHECK-SAME: workgroup_size = [256, 1, 1]
// CHECK: partial_reduction = [0, 2048], subgroup_basis = {{\[}}[1, 8], [0, 1]]
// CHECK: serial = [0, 2048], subgroup_basis = {{\[}}[1, 8], [0, 1]]
// TOLD: 8 subgroups of a workgroup have a row in registers, not one
// CHECK-LABEL: func.func @longer_dispatch_0
// CHECK-SAME: workgroup_size = [32, 1, 1]
func.func @long(%x: tensor<4096x2048xf16>) -> tensor<4096x2048xf16> {
  %zero = arith.constant 0.0 : f32
  %sums = tensor.empty() : tensor<4096xf32>
  %none = linalg.fill ins(%zero : f32) outs(%sums : tensor<4096xf32>) -> tensor<4096xf32>
  %sum = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<4096x2048xf16>) outs(%none : tensor<4096xf32>) {
  ^bb0(%a: f16, %s: f32):
    %b = arith.extf %a : f16 to f32
    %c = arith.mulf %b, %b : f32
    %t = arith.addf %c, %s : f32
    linalg.yield %t : f32
  } -> tensor<4096xf32>
  %space = tensor.empty() : tensor<4096x2048xf16>
  %made = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x, %sum : tensor<4096x2048xf16>, tensor<4096xf32>) outs(%space : tensor<4096x2048xf16>) {
  ^bb0(%a: f16, %s: f32, %out: f16):
    %r = math.rsqrt %s : f32
    %b = arith.truncf %r : f32 to f16
    %c = arith.mulf %a, %b : f16
    linalg.yield %c : f16
  } -> tensor<4096x2048xf16>
  return %made : tensor<4096x2048xf16>
}

func.func @longer(%x: tensor<4096x3072xf16>) -> tensor<4096x3072xf16> {
  %zero = arith.constant 0.0 : f32
  %sums = tensor.empty() : tensor<4096xf32>
  %none = linalg.fill ins(%zero : f32) outs(%sums : tensor<4096xf32>) -> tensor<4096xf32>
  %sum = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<4096x3072xf16>) outs(%none : tensor<4096xf32>) {
  ^bb0(%a: f16, %s: f32):
    %b = arith.extf %a : f16 to f32
    %c = arith.mulf %b, %b : f32
    %t = arith.addf %c, %s : f32
    linalg.yield %t : f32
  } -> tensor<4096xf32>
  %space = tensor.empty() : tensor<4096x3072xf16>
  %made = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x, %sum : tensor<4096x3072xf16>, tensor<4096xf32>) outs(%space : tensor<4096x3072xf16>) {
  ^bb0(%a: f16, %s: f32, %out: f16):
    %r = math.rsqrt %s : f32
    %b = arith.truncf %r : f32 to f16
    %c = arith.mulf %a, %b : f16
    linalg.yield %c : f16
  } -> tensor<4096x3072xf16>
  return %made : tensor<4096x3072xf16>
}

// Lines that no lanes' reads divide: 32 threads, a line apart, share each of 8 sums.
// CHECK-LABEL: func.func @odd_lines_dispatch_0
// CHECK-SAME: no_pipeline workgroup_size = [256, 1, 1] subgroup_size = 32
// CHECK: scf.forall ({{.*}}) in (26)
// CHECK: scf.for {{.*}} -> (f32)
// CHECK-COUNT-8: memref.load
// CHECK: memref.alloc() : memref<32x8xf32, #gpu.address_space<workgroup>>
// CHECK: gpu.barrier
// TOLD: 32 threads of a workgroup share each of its sums
func.func @odd_lines(%x: tensor<800x201xf16>) -> tensor<201xf32> {
  %zero = arith.constant 0.0 : f32
  %sums = tensor.empty() : tensor<201xf32>
  %none = linalg.fill ins(%zero : f32) outs(%sums : tensor<201xf32>) -> tensor<201xf32>
  %sum = linalg.generic {indexing_maps = [affine_map<(d, r) -> (r, d)>, affine_map<(d, r) -> (d)>],
      iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<800x201xf16>) outs(%none : tensor<201xf32>) {
  ^bb0(%a: f16, %s: f32):
    %b = arith.extf %a : f16 to f32
    %t = arith.addf %b, %s : f32
    linalg.yield %t : f32
  } -> tensor<201xf32>
  return %sum : tensor<201xf32>
}

// Two elements of a lane's, not where a view of the result leaves out a dim between others.
// CHECK-LABEL: func.func @parts_dispatch_0
// CHECK: linalg.generic {{.*}} serial = [0, 64], {{.*}} thread = [0, 2], workgroup = [1, 64]
// CHECK-LABEL: func.func @parts_dispatch_1
// CHECK: memref.subview {{.*}} to memref<3x77xf16, strided<[385, 1]
// CHECK: linalg.generic {{.*}} serial = [0, 32], {{.*}} thread = [0, 1], workgroup = [1, 32]
func.func @parts(%x: tensor<3x77xf16>, %w: tensor<77xf16>, %o: tensor<3x5x77xf16>) -> (tensor<3x77xf16>, tensor<3x5x77xf16>) {
  %space = tensor.empty() : tensor<3x77xf16>
  %made = linalg.generic {indexing_maps = [#all, affine_map<(r, d) -> (d)>, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x, %w : tensor<3x77xf16>, tensor<77xf16>) outs(%space : tensor<3x77xf16>) {
  ^bb0(%a: f16, %b: f16, %s: f16):
    %y = arith.mulf %a, %b : f16
    linalg.yield %y : f16
  } -> tensor<3x77xf16>
  %sum = linalg.generic {indexing_maps = [#all, affine_map<(r, d) -> (d)>, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x, %w : tensor<3x77xf16>, tensor<77xf16>) outs(%space : tensor<3x77xf16>) {
  ^bb0(%a: f16, %b: f16, %s: f16):
    %y = arith.addf %a, %b : f16
    linalg.yield %y : f16
  } -> tensor<3x77xf16>
  %all = tensor.insert_slice %sum into %o[0, 2, 0] [3, 1, 77] [1, 1, 1] : tensor<3x77xf16> into tensor<3x5x77xf16>
  return %made, %all : tensor<3x77xf16>, tensor<3x5x77xf16>
}

// Windows have no lines.
// CHECK-LABEL: func.func @windows_dispatch_0
// CHECK-NOT: lane_basis
// CHECK: return
func.func @windows(%x: tensor<3x302xf32>) -> tensor<3x4x77xf32> {
  %space = tensor.empty() : tensor<3x4x77xf32>
  %made = linalg.generic {indexing_maps = [affine_map<(r, w, t) -> (r, w * 75 + t)>, affine_map<(r, w, t) -> (r, w, t)>],
      iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<3x302xf32>) outs(%space : tensor<3x4x77xf32>) {
  ^bb0(%a: f32, %s: f32):
    linalg.yield %a : f32
  } -> tensor<3x4x77xf32>
  return %made : tensor<3x4x77xf32>
}

// What is no plain sum, or maximum, cannot be done in parts: neither along rows nor down them.
// CHECK-LABEL: func.func @chain_dispatch_0
// CHECK-NOT: VectorDistribute
// CHECK: return
// CHECK-LABEL: func.func @chain_dispatch_1
// CHECK-NOT: VectorDistribute
// CHECK: return
func.func @chain(%x: tensor<64x333xf32>) -> (tensor<64xf32>, tensor<333xf32>) {
  %zero = arith.constant 0.0 : f32
  %half = arith.constant 0.5 : f32
  %e = tensor.empty() : tensor<64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<64xf32>) -> tensor<64xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<64x333xf32>) outs(%f : tensor<64xf32>) {
  ^bb0(%a: f32, %o: f32):
    %h = arith.mulf %o, %half : f32
    %r = arith.addf %h, %a : f32
    linalg.yield %r : f32
  } -> tensor<64xf32>
  %e2 = tensor.empty() : tensor<333xf32>
  %f2 = linalg.fill ins(%zero : f32) outs(%e2 : tensor<333xf32>) -> tensor<333xf32>
  %z = linalg.generic {indexing_maps = [affine_map<(i, j) -> (j, i)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<64x333xf32>) outs(%f2 : tensor<333xf32>) {
  ^bb0(%a: f32, %o: f32):
    %h = arith.mulf %o, %half : f32
    %r = arith.addf %h, %a : f32
    linalg.yield %r : f32
  } -> tensor<333xf32>
  return %y, %z : tensor<64xf32>, tensor<333xf32>
}

// A row of unknown size is four subgroups', not 32; columns of an unknown number of rows are summed side by side.
// CHECK-LABEL: func.func @unknown_dispatch_0
// CHECK-SAME: workgroup_size = [128, 1, 1]
// CHECK: partial_reduction = [0, 512], subgroup_basis = {{\[}}[1, 4], [0, 1]]
// TOLD: a workgroup of it has 128 threads for a row of unknown size
// OFF-LABEL: func.func @unknown_dispatch_0
// OFF-SAME: workgroup_size = [1024, 1, 1]
func.func @unknown(%x: tensor<?x?xf32>, %zeros: tensor<?xf32>) -> tensor<?xf32> {
  %sum = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<?x?xf32>) outs(%zeros : tensor<?xf32>) {
  ^bb0(%a: f32, %s: f32):
    %t = arith.addf %a, %s : f32
    linalg.yield %t : f32
  } -> tensor<?xf32>
  return %sum : tensor<?xf32>
}

// CHECK-LABEL: func.func @columns_dispatch_0
// CHECK: lane_basis = {{\[}}[1, 4, 8], [0, 1, 2]]
// TOLD: read side by side what they sum
func.func @columns(%x: tensor<?x?x768xf16>, %zeros: tensor<?x768xf32>) -> tensor<?x768xf32> {
  %sum = linalg.generic {indexing_maps = [affine_map<(a, b, c) -> (a, b, c)>, affine_map<(a, b, c) -> (a, c)>], iterator_types = ["parallel", "reduction", "parallel"]}
      ins(%x : tensor<?x?x768xf16>) outs(%zeros : tensor<?x768xf32>) {
  ^bb0(%a: f16, %s: f32):
    %b = arith.extf %a : f16 to f32
    %t = arith.addf %b, %s : f32
    linalg.yield %t : f32
  } -> tensor<?x768xf32>
  return %sum : tensor<?x768xf32>
}
