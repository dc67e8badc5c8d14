// RUN: attn-opt %s --attn-use-products="target=sm_90 mode=always" --split-input-file --remarks > %t.mlir 2> %t.txt
// RUN: FileCheck %s < %t.mlir
// RUN: FileCheck %s --check-prefix=REMARK < %t.txt

// What kernels are told at run time to do behind a product: their constants say what there is
// (rows, columns, depth, flags, rows of a factor, the bits of two scales, slope and cube); what there
// is not is the rows.

// A bias and ReLU, as torch writes it.
// CHECK-LABEL: func.func @relu(
// CHECK: arith.index_cast %c300{{[_0-9]*}} : index to i32
// CHECK: arith.index_cast %c520{{[_0-9]*}} : index to i32
// CHECK: arith.index_cast %c64{{[_0-9]*}} : index to i32
// CHECK: arith.index_cast %c1{{[_0-9]*}} : index to i32
// CHECK: arith.index_cast %c2147483647{{[_0-9]*}} : index to i32
// CHECK: arith.index_cast %c1065353216{{[_0-9]*}} : index to i32
// CHECK: arith.index_cast %c1065353216{{[_0-9]*}} : index to i32
// CHECK: arith.index_cast %c0{{[_0-9]*}} : index to i32
// CHECK: arith.index_cast %c0{{[_0-9]*}} : index to i32
// CHECK: hal.dispatch.extern "product_f16_tile128_clamp_general"[{{.*}}%arg0, %arg1, %arg2, %arg0, %arg0)
// CHECK-NOT: linalg.matmul
// REMARK: product_f16_tile128_clamp_general: {{.*}}, with a bias and ReLU
func.func @relu(%a: tensor<300x64xf16>, %w: tensor<520x64xf16>, %b: tensor<520xf16>) -> tensor<300x520xf16> {
  %z = arith.constant 0.0 : f32
  %cz = arith.constant 0.0 : f16
  %e32 = tensor.empty() : tensor<300x520xf32>
  %f32 = linalg.fill ins(%z : f32) outs(%e32 : tensor<300x520xf32>) -> tensor<300x520xf32>
  %e16 = tensor.empty() : tensor<300x520xf16>
  %pp = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %w : tensor<300x64xf16>, tensor<520x64xf16>) outs(%f32 : tensor<300x520xf32>) {
  ^bb0(%x: f16, %y: f16, %s: f32):
    %xe = arith.extf %x : f16 to f32
    %ye = arith.extf %y : f16 to f32
    %mu = arith.mulf %xe, %ye : f32
    %ad = arith.addf %s, %mu : f32
    linalg.yield %ad : f32
  } -> tensor<300x520xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%pp : tensor<300x520xf32>) outs(%e16 : tensor<300x520xf16>) {
  ^bb0(%x0: f32, %out: f16):
    %t = arith.truncf %x0 : f32 to f16
    linalg.yield %t : f16
  } -> tensor<300x520xf16>
  %pb = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%p, %b : tensor<300x520xf16>, tensor<520xf16>) outs(%e16 : tensor<300x520xf16>) {
  ^bb0(%x0: f16, %x1: f16, %out: f16):
    %t = arith.addf %x0, %x1 : f16
    linalg.yield %t : f16
  } -> tensor<300x520xf16>
  %act = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%pb : tensor<300x520xf16>) outs(%e16 : tensor<300x520xf16>) {
  ^bb0(%x0: f16, %out: f16):
    %pc = arith.cmpf ugt, %x0, %cz : f16
    %v = arith.select %pc, %x0, %cz : f16
    linalg.yield %v : f16
  } -> tensor<300x520xf16>
  return %act : tensor<300x520xf16>
}

// -----

// CLIP's GELU.
// CHECK-LABEL: func.func @quick(
// CHECK: hal.dispatch.extern "product_bf16_tile128_kn_sigmoid_general"[
// CHECK-NOT: linalg.matmul
// REMARK: product_bf16_tile128_kn_sigmoid_general: {{.*}}, with a bias and GELU by a sigmoid
func.func @quick(%a: tensor<300x64xbf16>, %w: tensor<64x520xbf16>, %b: tensor<520xbf16>) -> tensor<300x520xbf16> {
  %z = arith.constant 0.0 : f32
  %c1 = arith.constant 1.0 : bf16
  %cq = arith.constant 1.702 : bf16
  %e32 = tensor.empty() : tensor<300x520xf32>
  %f32 = linalg.fill ins(%z : f32) outs(%e32 : tensor<300x520xf32>) -> tensor<300x520xf32>
  %e16 = tensor.empty() : tensor<300x520xbf16>
  %pp = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %w : tensor<300x64xbf16>, tensor<64x520xbf16>) outs(%f32 : tensor<300x520xf32>) {
  ^bb0(%x: bf16, %y: bf16, %s: f32):
    %xe = arith.extf %x : bf16 to f32
    %ye = arith.extf %y : bf16 to f32
    %mu = arith.mulf %xe, %ye : f32
    %ad = arith.addf %s, %mu : f32
    linalg.yield %ad : f32
  } -> tensor<300x520xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%pp : tensor<300x520xf32>) outs(%e16 : tensor<300x520xbf16>) {
  ^bb0(%x0: f32, %out: bf16):
    %t = arith.truncf %x0 : f32 to bf16
    linalg.yield %t : bf16
  } -> tensor<300x520xbf16>
  %pb = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%p, %b : tensor<300x520xbf16>, tensor<520xbf16>) outs(%e16 : tensor<300x520xbf16>) {
  ^bb0(%x0: bf16, %x1: bf16, %out: bf16):
    %t = arith.addf %x0, %x1 : bf16
    linalg.yield %t : bf16
  } -> tensor<300x520xbf16>
  %act = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%pb : tensor<300x520xbf16>) outs(%e16 : tensor<300x520xbf16>) {
  ^bb0(%x0: bf16, %out: bf16):
    %s = arith.mulf %x0, %cq : bf16
    %q = arith.negf %s : bf16
    %t = math.exp %q : bf16
    %u = arith.addf %t, %c1 : bf16
    %v = arith.divf %c1, %u : bf16
    %g = arith.mulf %x0, %v : bf16
    linalg.yield %g : bf16
  } -> tensor<300x520xbf16>
  return %act : tensor<300x520xbf16>
}

// -----

// A factor of each column, and a residual: flags 1 + 4 + 16.
// CHECK-LABEL: func.func @layer_scale(
// CHECK: arith.index_cast %c21{{[_0-9]*}} : index to i32
// CHECK: hal.dispatch.extern "product_f16_tile128_clamp_general"[{{.*}}%arg0, %arg1, %arg2, %arg3, %arg4)
// CHECK-NOT: linalg.matmul
// REMARK: product_f16_tile128_clamp_general: {{.*}}, with a bias and a factor of each column and a residual
func.func @layer_scale(%a: tensor<300x64xf16>, %w: tensor<520x64xf16>, %b: tensor<520xf16>, %g0: tensor<520xf16>, %o: tensor<300x520xf16>) -> tensor<300x520xf16> {
  %z = arith.constant 0.0 : f32
  %e32 = tensor.empty() : tensor<300x520xf32>
  %f32 = linalg.fill ins(%z : f32) outs(%e32 : tensor<300x520xf32>) -> tensor<300x520xf32>
  %e16 = tensor.empty() : tensor<300x520xf16>
  %pp = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %w : tensor<300x64xf16>, tensor<520x64xf16>) outs(%f32 : tensor<300x520xf32>) {
  ^bb0(%x: f16, %y: f16, %s: f32):
    %xe = arith.extf %x : f16 to f32
    %ye = arith.extf %y : f16 to f32
    %mu = arith.mulf %xe, %ye : f32
    %ad = arith.addf %s, %mu : f32
    linalg.yield %ad : f32
  } -> tensor<300x520xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%pp : tensor<300x520xf32>) outs(%e16 : tensor<300x520xf16>) {
  ^bb0(%x0: f32, %out: f16):
    %t = arith.truncf %x0 : f32 to f16
    linalg.yield %t : f16
  } -> tensor<300x520xf16>
  %pb = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%p, %b : tensor<300x520xf16>, tensor<520xf16>) outs(%e16 : tensor<300x520xf16>) {
  ^bb0(%x0: f16, %x1: f16, %out: f16):
    %t = arith.addf %x0, %x1 : f16
    linalg.yield %t : f16
  } -> tensor<300x520xf16>
  %ga = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%pb, %g0 : tensor<300x520xf16>, tensor<520xf16>) outs(%e16 : tensor<300x520xf16>) {
  ^bb0(%x0: f16, %x1: f16, %out: f16):
    %t = arith.mulf %x1, %x0 : f16
    linalg.yield %t : f16
  } -> tensor<300x520xf16>
  %add = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%o, %ga : tensor<300x520xf16>, tensor<300x520xf16>) outs(%e16 : tensor<300x520xf16>) {
  ^bb0(%x0: f16, %x1: f16, %out: f16):
    %t = arith.addf %x0, %x1 : f16
    linalg.yield %t : f16
  } -> tensor<300x520xf16>
  return %add : tensor<300x520xf16>
}

// -----

// A factor of each column for each of two sequences.
// CHECK-LABEL: func.func @gated_residual(
// CHECK: arith.index_cast %c21{{[_0-9]*}} : index to i32
// CHECK: arith.index_cast %c128{{[_0-9]*}} : index to i32
// CHECK: hal.dispatch.extern "product_f16_tile128_clamp_general"[
// CHECK-NOT: linalg.matmul
// REMARK: product_f16_tile128_clamp_general: {{.*}}, with a bias and a factor of each column and batch and a residual
func.func @gated_residual(%a: tensor<2x128x64xf16>, %w: tensor<520x64xf16>, %b: tensor<520xf16>, %g0: tensor<2x520xf16>, %o: tensor<2x128x520xf16>) -> tensor<2x128x520xf16> {
  %z = arith.constant 0.0 : f32
  %e32 = tensor.empty() : tensor<2x128x520xf32>
  %f32 = linalg.fill ins(%z : f32) outs(%e32 : tensor<2x128x520xf32>) -> tensor<2x128x520xf32>
  %e16 = tensor.empty() : tensor<2x128x520xf16>
  %pp = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>, affine_map<(d0, d1, d2, d3) -> (d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%a, %w : tensor<2x128x64xf16>, tensor<520x64xf16>) outs(%f32 : tensor<2x128x520xf32>) {
  ^bb0(%x: f16, %y: f16, %s: f32):
    %xe = arith.extf %x : f16 to f32
    %ye = arith.extf %y : f16 to f32
    %mu = arith.mulf %xe, %ye : f32
    %ad = arith.addf %s, %mu : f32
    linalg.yield %ad : f32
  } -> tensor<2x128x520xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%pp : tensor<2x128x520xf32>) outs(%e16 : tensor<2x128x520xf16>) {
  ^bb0(%x0: f32, %out: f16):
    %t = arith.truncf %x0 : f32 to f16
    linalg.yield %t : f16
  } -> tensor<2x128x520xf16>
  %pb = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%p, %b : tensor<2x128x520xf16>, tensor<520xf16>) outs(%e16 : tensor<2x128x520xf16>) {
  ^bb0(%x0: f16, %x1: f16, %out: f16):
    %t = arith.addf %x0, %x1 : f16
    linalg.yield %t : f16
  } -> tensor<2x128x520xf16>
  %ga = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%pb, %g0 : tensor<2x128x520xf16>, tensor<2x520xf16>) outs(%e16 : tensor<2x128x520xf16>) {
  ^bb0(%x0: f16, %x1: f16, %out: f16):
    %t = arith.mulf %x1, %x0 : f16
    linalg.yield %t : f16
  } -> tensor<2x128x520xf16>
  %add = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%o, %ga : tensor<2x128x520xf16>, tensor<2x128x520xf16>) outs(%e16 : tensor<2x128x520xf16>) {
  ^bb0(%x0: f16, %x1: f16, %out: f16):
    %t = arith.addf %x0, %x1 : f16
    linalg.yield %t : f16
  } -> tensor<2x128x520xf16>
  return %add : tensor<2x128x520xf16>
}

// -----

// Tiles would have rows of both sequences: the bias alone is taken.
// CHECK-LABEL: func.func @uneven(
// CHECK: hal.dispatch.extern "product_f16_tiles_bias"[
// CHECK-NOT: linalg.matmul
// REMARK: product_f16_tiles_bias: about {{[0-9]+}} us instead of {{[0-9]+}}, with a bias, and about {{[0-9]+}} us beside it{{$}}
func.func @uneven(%a: tensor<2x100x64xf16>, %w: tensor<520x64xf16>, %b: tensor<520xf16>, %g0: tensor<2x520xf16>, %o: tensor<2x100x520xf16>) -> tensor<2x100x520xf16> {
  %z = arith.constant 0.0 : f32
  %e32 = tensor.empty() : tensor<2x100x520xf32>
  %f32 = linalg.fill ins(%z : f32) outs(%e32 : tensor<2x100x520xf32>) -> tensor<2x100x520xf32>
  %e16 = tensor.empty() : tensor<2x100x520xf16>
  %pp = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>, affine_map<(d0, d1, d2, d3) -> (d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%a, %w : tensor<2x100x64xf16>, tensor<520x64xf16>) outs(%f32 : tensor<2x100x520xf32>) {
  ^bb0(%x: f16, %y: f16, %s: f32):
    %xe = arith.extf %x : f16 to f32
    %ye = arith.extf %y : f16 to f32
    %mu = arith.mulf %xe, %ye : f32
    %ad = arith.addf %s, %mu : f32
    linalg.yield %ad : f32
  } -> tensor<2x100x520xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%pp : tensor<2x100x520xf32>) outs(%e16 : tensor<2x100x520xf16>) {
  ^bb0(%x0: f32, %out: f16):
    %t = arith.truncf %x0 : f32 to f16
    linalg.yield %t : f16
  } -> tensor<2x100x520xf16>
  %pb = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%p, %b : tensor<2x100x520xf16>, tensor<520xf16>) outs(%e16 : tensor<2x100x520xf16>) {
  ^bb0(%x0: f16, %x1: f16, %out: f16):
    %t = arith.addf %x0, %x1 : f16
    linalg.yield %t : f16
  } -> tensor<2x100x520xf16>
  %ga = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%pb, %g0 : tensor<2x100x520xf16>, tensor<2x520xf16>) outs(%e16 : tensor<2x100x520xf16>) {
  ^bb0(%x0: f16, %x1: f16, %out: f16):
    %t = arith.mulf %x1, %x0 : f16
    linalg.yield %t : f16
  } -> tensor<2x100x520xf16>
  %add = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%o, %ga : tensor<2x100x520xf16>, tensor<2x100x520xf16>) outs(%e16 : tensor<2x100x520xf16>) {
  ^bb0(%x0: f16, %x1: f16, %out: f16):
    %t = arith.addf %x0, %x1 : f16
    linalg.yield %t : f16
  } -> tensor<2x100x520xf16>
  return %add : tensor<2x100x520xf16>
}

// -----

// A bias in f32, in front of the rounding: flags 1 + 2.
// CHECK-LABEL: func.func @wide_bias(
// CHECK: arith.index_cast %c3{{[_0-9]*}} : index to i32
// CHECK: hal.dispatch.extern "product_f16_few16_4x2_gelu_general"[
// CHECK-NOT: linalg.matmul
// REMARK: product_f16_few16_4x2_gelu_general: {{.*}}, with a bias and GELU
func.func @wide_bias(%a: tensor<12x64xf16>, %w: tensor<520x64xf16>, %b: tensor<520xf32>) -> tensor<12x520xf16> {
  %z = arith.constant 0.0 : f32
  %c1 = arith.constant 1.0 : f16
  %ch = arith.constant 0.5 : f16
  %c2 = arith.constant 2.0 : f16
  %e32 = tensor.empty() : tensor<12x520xf32>
  %f32 = linalg.fill ins(%z : f32) outs(%e32 : tensor<12x520xf32>) -> tensor<12x520xf32>
  %e16 = tensor.empty() : tensor<12x520xf16>
  %pp = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %w : tensor<12x64xf16>, tensor<520x64xf16>) outs(%f32 : tensor<12x520xf32>) {
  ^bb0(%x: f16, %y: f16, %s: f32):
    %xe = arith.extf %x : f16 to f32
    %ye = arith.extf %y : f16 to f32
    %mu = arith.mulf %xe, %ye : f32
    %ad = arith.addf %s, %mu : f32
    linalg.yield %ad : f32
  } -> tensor<12x520xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%pp, %b : tensor<12x520xf32>, tensor<520xf32>) outs(%e16 : tensor<12x520xf16>) {
  ^bb0(%x0: f32, %x1: f32, %out: f16):
    %t0 = arith.addf %x0, %x1 : f32
    %t = arith.truncf %t0 : f32 to f16
    linalg.yield %t : f16
  } -> tensor<12x520xf16>
  %act = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%p : tensor<12x520xf16>) outs(%e16 : tensor<12x520xf16>) {
  ^bb0(%x0: f16, %out: f16):
    %q = math.sqrt %c2 : f16
    %t = arith.divf %x0, %q : f16
    %u = math.erf %t : f16
    %v = arith.addf %u, %c1 : f16
    %r = arith.mulf %v, %ch : f16
    %g = arith.mulf %x0, %r : f16
    linalg.yield %g : f16
  } -> tensor<12x520xf16>
  return %act : tensor<12x520xf16>
}

// -----

// A residual in f32, and so the result.
// CHECK-LABEL: func.func @stream(
// CHECK: arith.index_cast %c17{{[_0-9]*}} : index to i32
// CHECK: hal.dispatch.extern "product_f16_tile128_clamp_general_wide"[
// CHECK-NOT: linalg.matmul
// REMARK: product_f16_tile128_clamp_general_wide: {{.*}}, with a bias and a residual
func.func @stream(%a: tensor<300x64xf16>, %w: tensor<520x64xf16>, %b: tensor<520xf16>, %o: tensor<300x520xf32>) -> tensor<300x520xf32> {
  %z = arith.constant 0.0 : f32
  %e32 = tensor.empty() : tensor<300x520xf32>
  %f32 = linalg.fill ins(%z : f32) outs(%e32 : tensor<300x520xf32>) -> tensor<300x520xf32>
  %e16 = tensor.empty() : tensor<300x520xf16>
  %pp = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %w : tensor<300x64xf16>, tensor<520x64xf16>) outs(%f32 : tensor<300x520xf32>) {
  ^bb0(%x: f16, %y: f16, %s: f32):
    %xe = arith.extf %x : f16 to f32
    %ye = arith.extf %y : f16 to f32
    %mu = arith.mulf %xe, %ye : f32
    %ad = arith.addf %s, %mu : f32
    linalg.yield %ad : f32
  } -> tensor<300x520xf32>
  %wb = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%pp, %b : tensor<300x520xf32>, tensor<520xf16>) outs(%e32 : tensor<300x520xf32>) {
  ^bb0(%x0: f32, %x1: f16, %out: f32):
    %t0 = arith.extf %x1 : f16 to f32
    %t = arith.addf %x0, %t0 : f32
    linalg.yield %t : f32
  } -> tensor<300x520xf32>
  %wa = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%wb, %o : tensor<300x520xf32>, tensor<300x520xf32>) outs(%e32 : tensor<300x520xf32>) {
  ^bb0(%x0: f32, %x1: f32, %out: f32):
    %t = arith.addf %x1, %x0 : f32
    linalg.yield %t : f32
  } -> tensor<300x520xf32>
  return %wa : tensor<300x520xf32>
}

// -----

// GELU of one product times another, both with a bias; weights as (k, n).
// CHECK-LABEL: func.func @geglu(
// CHECK: arith.index_cast %c5{{[_0-9]*}} : index to i32
// CHECK: hal.dispatch.extern "product_f16_tile256_kn_sigmoid_gated_general"[
// CHECK-NOT: linalg.matmul
// REMARK: product_f16_tile256_kn_sigmoid_gated_general: {{.*}}, with a bias and GELU by tanh and another product's result, and the product that it is multiplied with
func.func @geglu(%a: tensor<300x64xf16>, %w: tensor<64x520xf16>, %b: tensor<520xf16>, %w2: tensor<64x520xf16>, %b2: tensor<520xf16>) -> tensor<300x520xf16> {
  %z = arith.constant 0.0 : f32
  %c1 = arith.constant 1.0 : f16
  %ch = arith.constant 0.5 : f16
  %c3 = arith.constant 3.0 : f16
  %ca = arith.constant 0.044715 : f16
  %cb = arith.constant 0.79788456 : f16
  %e32 = tensor.empty() : tensor<300x520xf32>
  %f32 = linalg.fill ins(%z : f32) outs(%e32 : tensor<300x520xf32>) -> tensor<300x520xf32>
  %e16 = tensor.empty() : tensor<300x520xf16>
  %pp = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %w : tensor<300x64xf16>, tensor<64x520xf16>) outs(%f32 : tensor<300x520xf32>) {
  ^bb0(%x: f16, %y: f16, %s: f32):
    %xe = arith.extf %x : f16 to f32
    %ye = arith.extf %y : f16 to f32
    %mu = arith.mulf %xe, %ye : f32
    %ad = arith.addf %s, %mu : f32
    linalg.yield %ad : f32
  } -> tensor<300x520xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%pp : tensor<300x520xf32>) outs(%e16 : tensor<300x520xf16>) {
  ^bb0(%x0: f32, %out: f16):
    %t = arith.truncf %x0 : f32 to f16
    linalg.yield %t : f16
  } -> tensor<300x520xf16>
  %pb = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%p, %b : tensor<300x520xf16>, tensor<520xf16>) outs(%e16 : tensor<300x520xf16>) {
  ^bb0(%x0: f16, %x1: f16, %out: f16):
    %t = arith.addf %x0, %x1 : f16
    linalg.yield %t : f16
  } -> tensor<300x520xf16>
  %act = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%pb : tensor<300x520xf16>) outs(%e16 : tensor<300x520xf16>) {
  ^bb0(%x0: f16, %out: f16):
    %q = math.powf %x0, %c3 : f16
    %t = arith.mulf %q, %ca : f16
    %u = arith.addf %x0, %t : f16
    %v = arith.mulf %u, %cb : f16
    %w1 = math.tanh %v : f16
    %y = arith.addf %w1, %c1 : f16
    %h = arith.mulf %x0, %ch : f16
    %g = arith.mulf %h, %y : f16
    linalg.yield %g : f16
  } -> tensor<300x520xf16>
  %up = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %w2 : tensor<300x64xf16>, tensor<64x520xf16>) outs(%f32 : tensor<300x520xf32>) {
  ^bb0(%x: f16, %y: f16, %s: f32):
    %xe = arith.extf %x : f16 to f32
    %ye = arith.extf %y : f16 to f32
    %mu = arith.mulf %xe, %ye : f32
    %ad = arith.addf %s, %mu : f32
    linalg.yield %ad : f32
  } -> tensor<300x520xf32>
  %u = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%up : tensor<300x520xf32>) outs(%e16 : tensor<300x520xf16>) {
  ^bb0(%x0: f32, %out: f16):
    %t = arith.truncf %x0 : f32 to f16
    linalg.yield %t : f16
  } -> tensor<300x520xf16>
  %ub = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%u, %b2 : tensor<300x520xf16>, tensor<520xf16>) outs(%e16 : tensor<300x520xf16>) {
  ^bb0(%x0: f16, %x1: f16, %out: f16):
    %t = arith.addf %x0, %x1 : f16
    linalg.yield %t : f16
  } -> tensor<300x520xf16>
  %pm = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%act, %ub : tensor<300x520xf16>, tensor<300x520xf16>) outs(%e16 : tensor<300x520xf16>) {
  ^bb0(%x0: f16, %x1: f16, %out: f16):
    %t = arith.mulf %x0, %x1 : f16
    linalg.yield %t : f16
  } -> tensor<300x520xf16>
  return %pm : tensor<300x520xf16>
}

// -----

// A scale of the product: 0.125 by its bits.
// CHECK-LABEL: func.func @scaled(
// CHECK: arith.index_cast %c1040187392{{[_0-9]*}} : index to i32
// CHECK: arith.index_cast %c1065353216{{[_0-9]*}} : index to i32
// CHECK: hal.dispatch.extern "product_f16_tile128_clamp_general"[
// CHECK-NOT: linalg.matmul
// REMARK: product_f16_tile128_clamp_general: {{.*}}, with a scale and a bias
func.func @scaled(%a: tensor<300x64xf16>, %w: tensor<520x64xf16>, %b: tensor<520xf16>) -> tensor<300x520xf16> {
  %z = arith.constant 0.0 : f32
  %c8 = arith.constant 0.125 : f16
  %e32 = tensor.empty() : tensor<300x520xf32>
  %f32 = linalg.fill ins(%z : f32) outs(%e32 : tensor<300x520xf32>) -> tensor<300x520xf32>
  %e16 = tensor.empty() : tensor<300x520xf16>
  %pp = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %w : tensor<300x64xf16>, tensor<520x64xf16>) outs(%f32 : tensor<300x520xf32>) {
  ^bb0(%x: f16, %y: f16, %s: f32):
    %xe = arith.extf %x : f16 to f32
    %ye = arith.extf %y : f16 to f32
    %mu = arith.mulf %xe, %ye : f32
    %ad = arith.addf %s, %mu : f32
    linalg.yield %ad : f32
  } -> tensor<300x520xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%pp : tensor<300x520xf32>) outs(%e16 : tensor<300x520xf16>) {
  ^bb0(%x0: f32, %out: f16):
    %t = arith.truncf %x0 : f32 to f16
    linalg.yield %t : f16
  } -> tensor<300x520xf16>
  %sc = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%p : tensor<300x520xf16>) outs(%e16 : tensor<300x520xf16>) {
  ^bb0(%x0: f16, %out: f16):
    %t = arith.mulf %x0, %c8 : f16
    linalg.yield %t : f16
  } -> tensor<300x520xf16>
  %scb = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%sc, %b : tensor<300x520xf16>, tensor<520xf16>) outs(%e16 : tensor<300x520xf16>) {
  ^bb0(%x0: f16, %x1: f16, %out: f16):
    %t = arith.addf %x0, %x1 : f16
    linalg.yield %t : f16
  } -> tensor<300x520xf16>
  return %scb : tensor<300x520xf16>
}

// -----

// Both products of a gate are halves of one, its biases, too: flags 1 + 4 + 1024.
// CHECK-LABEL: func.func @halves(
// CHECK: arith.index_cast %c1029 : index to i32
// CHECK: hal.dispatch.extern "product_f16_tile256_sigmoid_gated_general"[{{.*}}, %arg1, %arg1,
// CHECK-NOT: linalg
// REMARK: product_f16_tile256_sigmoid_gated_general: {{.*}}, with a bias and GELU by tanh of one half of the columns times the other
func.func @halves(%a: tensor<300x64xf16>, %w: tensor<528x64xf16>, %b: tensor<528xf16>) -> tensor<300x264xf16> {
  %z = arith.constant 0.0 : f32
  %c1 = arith.constant 1.0 : f16
  %ch = arith.constant 0.5 : f16
  %c3 = arith.constant 3.0 : f16
  %ca = arith.constant 0.044715 : f16
  %cb = arith.constant 0.79788456 : f16
  %e32 = tensor.empty() : tensor<300x528xf32>
  %e16 = tensor.empty() : tensor<300x528xf16>
  %eh = tensor.empty() : tensor<300x264xf16>
  %f32 = linalg.fill ins(%z : f32) outs(%e32 : tensor<300x528xf32>) -> tensor<300x528xf32>
  %p0 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %w : tensor<300x64xf16>, tensor<528x64xf16>) outs(%f32 : tensor<300x528xf32>) {
  ^bb0(%x: f16, %y: f16, %s: f32):
    %xe = arith.extf %x : f16 to f32
    %ye = arith.extf %y : f16 to f32
    %mu = arith.mulf %xe, %ye : f32
    %ad = arith.addf %s, %mu : f32
    linalg.yield %ad : f32
  } -> tensor<300x528xf32>
  %n0 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%p0 : tensor<300x528xf32>) outs(%e16 : tensor<300x528xf16>) {
  ^bb0(%x0: f32, %out: f16):
    %t = arith.truncf %x0 : f32 to f16
    linalg.yield %t : f16
  } -> tensor<300x528xf16>
  %nb = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%n0, %b : tensor<300x528xf16>, tensor<528xf16>) outs(%e16 : tensor<300x528xf16>) {
  ^bb0(%x0: f16, %x1: f16, %out: f16):
    %t = arith.addf %x0, %x1 : f16
    linalg.yield %t : f16
  } -> tensor<300x528xf16>
  %lo = tensor.extract_slice %nb[0, 0] [300, 264] [1, 1] : tensor<300x528xf16> to tensor<300x264xf16>
  %hi = tensor.extract_slice %nb[0, 264] [300, 264] [1, 1] : tensor<300x528xf16> to tensor<300x264xf16>
  %act = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%lo : tensor<300x264xf16>) outs(%eh : tensor<300x264xf16>) {
  ^bb0(%x0: f16, %out: f16):
    %q = math.powf %x0, %c3 : f16
    %t = arith.mulf %q, %ca : f16
    %u = arith.addf %x0, %t : f16
    %v = arith.mulf %u, %cb : f16
    %w1 = math.tanh %v : f16
    %y = arith.addf %w1, %c1 : f16
    %h = arith.mulf %x0, %ch : f16
    %g = arith.mulf %h, %y : f16
    linalg.yield %g : f16
  } -> tensor<300x264xf16>
  %r = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%act, %hi : tensor<300x264xf16>, tensor<300x264xf16>) outs(%eh : tensor<300x264xf16>) {
  ^bb0(%x0: f16, %x1: f16, %out: f16):
    %t = arith.mulf %x0, %x1 : f16
    linalg.yield %t : f16
  } -> tensor<300x264xf16>
  return %r : tensor<300x264xf16>
}

// -----

// The activation is of the last half.
// CHECK-LABEL: func.func @last_half(
// CHECK: arith.index_cast %c512 : index to i32
// CHECK: hal.dispatch.extern "product_f16_tile256_gelu_gated_general"[{{.*}}, %arg1, %arg1,
// CHECK-NOT: linalg
// REMARK: product_f16_tile256_gelu_gated_general: {{.*}}, with GELU of one half of the columns times the other
func.func @last_half(%a: tensor<2x300x64xf16>, %w: tensor<528x64xf16>) -> tensor<2x300x264xf16> {
  %z = arith.constant 0.0 : f32
  %c1 = arith.constant 1.0 : f16
  %ch = arith.constant 0.5 : f16
  %c2 = arith.constant 2.0 : f16
  %e32 = tensor.empty() : tensor<2x300x528xf32>
  %e16 = tensor.empty() : tensor<2x300x528xf16>
  %eh = tensor.empty() : tensor<2x300x264xf16>
  %f32 = linalg.fill ins(%z : f32) outs(%e32 : tensor<2x300x528xf32>) -> tensor<2x300x528xf32>
  %p0 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>, affine_map<(d0, d1, d2, d3) -> (d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%a, %w : tensor<2x300x64xf16>, tensor<528x64xf16>) outs(%f32 : tensor<2x300x528xf32>) {
  ^bb0(%x: f16, %y: f16, %s: f32):
    %xe = arith.extf %x : f16 to f32
    %ye = arith.extf %y : f16 to f32
    %mu = arith.mulf %xe, %ye : f32
    %ad = arith.addf %s, %mu : f32
    linalg.yield %ad : f32
  } -> tensor<2x300x528xf32>
  %n0 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%p0 : tensor<2x300x528xf32>) outs(%e16 : tensor<2x300x528xf16>) {
  ^bb0(%x0: f32, %out: f16):
    %t = arith.truncf %x0 : f32 to f16
    linalg.yield %t : f16
  } -> tensor<2x300x528xf16>
  %lo = tensor.extract_slice %n0[0, 0, 0] [2, 300, 264] [1, 1, 1] : tensor<2x300x528xf16> to tensor<2x300x264xf16>
  %hi = tensor.extract_slice %n0[0, 0, 264] [2, 300, 264] [1, 1, 1] : tensor<2x300x528xf16> to tensor<2x300x264xf16>
  %act = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%hi : tensor<2x300x264xf16>) outs(%eh : tensor<2x300x264xf16>) {
  ^bb0(%x0: f16, %out: f16):
    %q = math.sqrt %c2 : f16
    %t = arith.divf %x0, %q : f16
    %u = math.erf %t : f16
    %v = arith.addf %u, %c1 : f16
    %r = arith.mulf %v, %ch : f16
    %g = arith.mulf %x0, %r : f16
    linalg.yield %g : f16
  } -> tensor<2x300x264xf16>
  %r = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%lo, %act : tensor<2x300x264xf16>, tensor<2x300x264xf16>) outs(%eh : tensor<2x300x264xf16>) {
  ^bb0(%x0: f16, %x1: f16, %out: f16):
    %t = arith.mulf %x0, %x1 : f16
    linalg.yield %t : f16
  } -> tensor<2x300x264xf16>
  return %r : tensor<2x300x264xf16>
}

// -----

// Kernels for few rows compute one product each: the gate is left.
// CHECK-LABEL: func.func @few_halves(
// CHECK: hal.dispatch.extern "product_f16_few16_4x2_clamp_general"[
// CHECK: linalg.generic
// REMARK: product_f16_few16_4x2_clamp_general: about {{[0-9]+}} us instead of {{[0-9]+}}, and about 4 us beside it
func.func @few_halves(%a: tensor<12x64xf16>, %w: tensor<528x64xf16>) -> tensor<12x264xf16> {
  %z = arith.constant 0.0 : f32
  %c1 = arith.constant 1.0 : f16
  %e32 = tensor.empty() : tensor<12x528xf32>
  %e16 = tensor.empty() : tensor<12x528xf16>
  %eh = tensor.empty() : tensor<12x264xf16>
  %f32 = linalg.fill ins(%z : f32) outs(%e32 : tensor<12x528xf32>) -> tensor<12x528xf32>
  %p0 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %w : tensor<12x64xf16>, tensor<528x64xf16>) outs(%f32 : tensor<12x528xf32>) {
  ^bb0(%x: f16, %y: f16, %s: f32):
    %xe = arith.extf %x : f16 to f32
    %ye = arith.extf %y : f16 to f32
    %mu = arith.mulf %xe, %ye : f32
    %ad = arith.addf %s, %mu : f32
    linalg.yield %ad : f32
  } -> tensor<12x528xf32>
  %n0 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%p0 : tensor<12x528xf32>) outs(%e16 : tensor<12x528xf16>) {
  ^bb0(%x0: f32, %out: f16):
    %t = arith.truncf %x0 : f32 to f16
    linalg.yield %t : f16
  } -> tensor<12x528xf16>
  %lo = tensor.extract_slice %n0[0, 0] [12, 264] [1, 1] : tensor<12x528xf16> to tensor<12x264xf16>
  %hi = tensor.extract_slice %n0[0, 264] [12, 264] [1, 1] : tensor<12x528xf16> to tensor<12x264xf16>
  %act = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%lo : tensor<12x264xf16>) outs(%eh : tensor<12x264xf16>) {
  ^bb0(%x0: f16, %out: f16):
    %q = arith.negf %x0 : f16
    %t = math.exp %q : f16
    %u = arith.addf %t, %c1 : f16
    %v = arith.divf %c1, %u : f16
    %g = arith.mulf %v, %x0 : f16
    linalg.yield %g : f16
  } -> tensor<12x264xf16>
  %r = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%act, %hi : tensor<12x264xf16>, tensor<12x264xf16>) outs(%eh : tensor<12x264xf16>) {
  ^bb0(%x0: f16, %x1: f16, %out: f16):
    %t = arith.mulf %x0, %x1 : f16
    linalg.yield %t : f16
  } -> tensor<12x264xf16>
  return %r : tensor<12x264xf16>
}
