// RUN: attn-opt %s --attn-use-products="target=sm_90 mode=always" --split-input-file --remarks > %t.mlir 2> %t.txt
// RUN: FileCheck %s < %t.mlir
// RUN: FileCheck %s --check-prefix=REMARK < %t.txt

// Kernels for few rows are told how to divide the work: parts of the depth, blocks of 64 columns in a
// tile, tiles one after the other, in 4, 4 and the other bits.

#w = affine_map<(m, n, k) -> (n, k)>
#k = affine_map<(m, n, k) -> (k, n)>
#a = affine_map<(m, n, k) -> (m, k)>
#r = affine_map<(m, n, k) -> (m, n)>
#id = affine_map<(m, n) -> (m, n)>

// Few columns: four parts of the depth, which a cluster adds up.
// CHECK-LABEL: func.func @quarters(
// CHECK: %[[D:.*]] = arith.index_cast %c276{{[_0-9]*}} : index to i32
// CHECK: hal.dispatch.extern "product_f16_few16_4x2_clamp_general"[%c64{{[_0-9]*}}, %c1{{[_0-9]*}}]({{.*}}, %[[D]], %arg0, %arg1, %arg0, %arg0, %arg0)
// CHECK-NOT: linalg.matmul
// REMARK: product_f16_few16_4x2_clamp_general: about
func.func @quarters(%a: tensor<8x512xf16>, %w: tensor<1024x512xf16>) -> tensor<8x1024xf16> {
  %zero = arith.constant 0.0 : f32
  %e32 = tensor.empty() : tensor<8x1024xf32>
  %e = tensor.empty() : tensor<8x1024xf16>
  %f = linalg.fill ins(%zero : f32) outs(%e32 : tensor<8x1024xf32>) -> tensor<8x1024xf32>
  %p = linalg.matmul indexing_maps = [#a, #w, #r] ins(%a, %w : tensor<8x512xf16>, tensor<1024x512xf16>) outs(%f : tensor<8x1024xf32>) -> tensor<8x1024xf32>
  %c = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%p : tensor<8x1024xf32>) outs(%e : tensor<8x1024xf16>) {
  ^bb0(%i: f32, %o: f16):
    %t = arith.truncf %i : f32 to f16
    linalg.yield %t : f16
  } -> tensor<8x1024xf16>
  return %c : tensor<8x1024xf16>
}

// -----

#w = affine_map<(m, n, k) -> (n, k)>
#k = affine_map<(m, n, k) -> (k, n)>
#a = affine_map<(m, n, k) -> (m, k)>
#r = affine_map<(m, n, k) -> (m, n)>
#id = affine_map<(m, n) -> (m, n)>

// About as many halves of the depth as there are multiprocessors.
// CHECK-LABEL: func.func @halves(
// CHECK: %[[D:.*]] = arith.index_cast %c274{{[_0-9]*}} : index to i32
// CHECK: hal.dispatch.extern "product_bf16_few16_2x3_kn_clamp_general"[%c128{{[_0-9]*}}, %c1{{[_0-9]*}}]({{.*}}, %[[D]], %arg0, %arg1, %arg0, %arg0, %arg0)
// CHECK-NOT: linalg.matmul
// REMARK: product_bf16_few16_2x3_kn_clamp_general: about
func.func @halves(%a: tensor<16x512xbf16>, %w: tensor<512x4096xbf16>) -> tensor<16x4096xbf16> {
  %zero = arith.constant 0.0 : f32
  %e32 = tensor.empty() : tensor<16x4096xf32>
  %e = tensor.empty() : tensor<16x4096xbf16>
  %f = linalg.fill ins(%zero : f32) outs(%e32 : tensor<16x4096xf32>) -> tensor<16x4096xf32>
  %p = linalg.matmul indexing_maps = [#a, #k, #r] ins(%a, %w : tensor<16x512xbf16>, tensor<512x4096xbf16>) outs(%f : tensor<16x4096xf32>) -> tensor<16x4096xf32>
  %c = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%p : tensor<16x4096xf32>) outs(%e : tensor<16x4096xbf16>) {
  ^bb0(%i: f32, %o: bf16):
    %t = arith.truncf %i : f32 to bf16
    linalg.yield %t : bf16
  } -> tensor<16x4096xbf16>
  return %c : tensor<16x4096xbf16>
}

// -----

#w = affine_map<(m, n, k) -> (n, k)>
#k = affine_map<(m, n, k) -> (k, n)>
#a = affine_map<(m, n, k) -> (m, k)>
#r = affine_map<(m, n, k) -> (m, n)>
#id = affine_map<(m, n) -> (m, n)>

// The same of more rows, of which a multiprocessor has one, with all of its memory.
// CHECK-LABEL: func.func @alone(
// CHECK: %[[D:.*]] = arith.index_cast %c274{{[_0-9]*}} : index to i32
// CHECK: hal.dispatch.extern "product_f16_few64_2x1_clamp_general"[%c128{{[_0-9]*}}, %c1{{[_0-9]*}}]({{.*}}, %[[D]], %arg0, %arg1, %arg0, %arg0, %arg0)
// CHECK-NOT: linalg.matmul
// REMARK: product_f16_few64_2x1_clamp_general: about
func.func @alone(%a: tensor<64x512xf16>, %w: tensor<4096x512xf16>) -> tensor<64x4096xf16> {
  %zero = arith.constant 0.0 : f32
  %e32 = tensor.empty() : tensor<64x4096xf32>
  %e = tensor.empty() : tensor<64x4096xf16>
  %f = linalg.fill ins(%zero : f32) outs(%e32 : tensor<64x4096xf32>) -> tensor<64x4096xf32>
  %p = linalg.matmul indexing_maps = [#a, #w, #r] ins(%a, %w : tensor<64x512xf16>, tensor<4096x512xf16>) outs(%f : tensor<64x4096xf32>) -> tensor<64x4096xf32>
  %c = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%p : tensor<64x4096xf32>) outs(%e : tensor<64x4096xf16>) {
  ^bb0(%i: f32, %o: f16):
    %t = arith.truncf %i : f32 to f16
    linalg.yield %t : f16
  } -> tensor<64x4096xf16>
  return %c : tensor<64x4096xf16>
}

// -----

#w = affine_map<(m, n, k) -> (n, k)>
#k = affine_map<(m, n, k) -> (k, n)>
#a = affine_map<(m, n, k) -> (m, k)>
#r = affine_map<(m, n, k) -> (m, n)>
#id = affine_map<(m, n) -> (m, n)>

// Two on each.
// CHECK-LABEL: func.func @both(
// CHECK: %[[D:.*]] = arith.index_cast %c274{{[_0-9]*}} : index to i32
// CHECK: hal.dispatch.extern "product_f16_few64_2x2_kn_clamp_general"[%c192{{[_0-9]*}}, %c1{{[_0-9]*}}]({{.*}}, %[[D]], %arg0, %arg1, %arg0, %arg0, %arg0)
// CHECK-NOT: linalg.matmul
// REMARK: product_f16_few64_2x2_kn_clamp_general: about
func.func @both(%a: tensor<17x512xf16>, %w: tensor<512x6144xf16>) -> tensor<17x6144xf16> {
  %zero = arith.constant 0.0 : f32
  %e32 = tensor.empty() : tensor<17x6144xf32>
  %e = tensor.empty() : tensor<17x6144xf16>
  %f = linalg.fill ins(%zero : f32) outs(%e32 : tensor<17x6144xf32>) -> tensor<17x6144xf32>
  %p = linalg.matmul indexing_maps = [#a, #k, #r] ins(%a, %w : tensor<17x512xf16>, tensor<512x6144xf16>) outs(%f : tensor<17x6144xf32>) -> tensor<17x6144xf32>
  %c = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%p : tensor<17x6144xf32>) outs(%e : tensor<17x6144xf16>) {
  ^bb0(%i: f32, %o: f16):
    %t = arith.truncf %i : f32 to f16
    linalg.yield %t : f16
  } -> tensor<17x6144xf16>
  return %c : tensor<17x6144xf16>
}

// -----

#w = affine_map<(m, n, k) -> (n, k)>
#k = affine_map<(m, n, k) -> (k, n)>
#a = affine_map<(m, n, k) -> (m, k)>
#r = affine_map<(m, n, k) -> (m, n)>
#id = affine_map<(m, n) -> (m, n)>

// Whole depths where there are columns enough.
// CHECK-LABEL: func.func @whole(
// CHECK: %[[D:.*]] = arith.index_cast %c273{{[_0-9]*}} : index to i32
// CHECK: hal.dispatch.extern "product_f16_few16_2x3_clamp_general"[%c224{{[_0-9]*}}, %c1{{[_0-9]*}}]({{.*}}, %[[D]], %arg0, %arg1, %arg0, %arg0, %arg0)
// CHECK-NOT: linalg.matmul
// REMARK: product_f16_few16_2x3_clamp_general: about
func.func @whole(%a: tensor<8x512xf16>, %w: tensor<14336x512xf16>) -> tensor<8x14336xf16> {
  %zero = arith.constant 0.0 : f32
  %e32 = tensor.empty() : tensor<8x14336xf32>
  %e = tensor.empty() : tensor<8x14336xf16>
  %f = linalg.fill ins(%zero : f32) outs(%e32 : tensor<8x14336xf32>) -> tensor<8x14336xf32>
  %p = linalg.matmul indexing_maps = [#a, #w, #r] ins(%a, %w : tensor<8x512xf16>, tensor<14336x512xf16>) outs(%f : tensor<8x14336xf32>) -> tensor<8x14336xf32>
  %c = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%p : tensor<8x14336xf32>) outs(%e : tensor<8x14336xf16>) {
  ^bb0(%i: f32, %o: f16):
    %t = arith.truncf %i : f32 to f16
    linalg.yield %t : f16
  } -> tensor<8x14336xf16>
  return %c : tensor<8x14336xf16>
}

// -----

#w = affine_map<(m, n, k) -> (n, k)>
#k = affine_map<(m, n, k) -> (k, n)>
#a = affine_map<(m, n, k) -> (m, k)>
#r = affine_map<(m, n, k) -> (m, n)>
#id = affine_map<(m, n) -> (m, n)>

// Three tiles of two blocks for each workgroup.
// CHECK-LABEL: func.func @rounds(
// CHECK: %[[D:.*]] = arith.index_cast %c801{{[_0-9]*}} : index to i32
// CHECK: hal.dispatch.extern "product_f16_few16_2x3_clamp_general"[%c334{{[_0-9]*}}, %c1{{[_0-9]*}}]({{.*}}, %[[D]], %arg0, %arg1, %arg0, %arg0, %arg0)
// CHECK-NOT: linalg.matmul
// REMARK: product_f16_few16_2x3_clamp_general: about
func.func @rounds(%a: tensor<1x512xf16>, %w: tensor<128256x512xf16>) -> tensor<1x128256xf16> {
  %zero = arith.constant 0.0 : f32
  %e32 = tensor.empty() : tensor<1x128256xf32>
  %e = tensor.empty() : tensor<1x128256xf16>
  %f = linalg.fill ins(%zero : f32) outs(%e32 : tensor<1x128256xf32>) -> tensor<1x128256xf32>
  %p = linalg.matmul indexing_maps = [#a, #w, #r] ins(%a, %w : tensor<1x512xf16>, tensor<128256x512xf16>) outs(%f : tensor<1x128256xf32>) -> tensor<1x128256xf32>
  %c = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%p : tensor<1x128256xf32>) outs(%e : tensor<1x128256xf16>) {
  ^bb0(%i: f32, %o: f16):
    %t = arith.truncf %i : f32 to f16
    linalg.yield %t : f16
  } -> tensor<1x128256xf16>
  return %c : tensor<1x128256xf16>
}
