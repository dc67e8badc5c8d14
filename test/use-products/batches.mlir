// RUN: attn-opt %s --attn-use-products="target=sm_90 mode=always" --split-input-file --remarks > %t.mlir 2> %t.txt
// RUN: FileCheck %s < %t.mlir
// RUN: FileCheck %s --check-prefix=REMARK < %t.txt
// RUN: attn-opt %s --attn-use-products="target=sm_90 mode=cost" --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=COST

// Batches of products, each with weights of its own, and a product that is written with heads in
// front of rows: kernels that are told strides.

// Any number of products and rows.
// CHECK-LABEL: @experts
// CHECK-NOT: linalg.batch_matmul
// CHECK: hal.dispatch.extern "product_f16_batched_tile256_kn"
// REMARK: product_f16_batched_tile256_kn: about {{[0-9]+}} us instead of {{[0-9]+}} (for 32 times 512 rows
func.func @experts(%a: tensor<?x?x1024xf16>, %w: tensor<?x1024x4096xf16>) -> tensor<?x?x4096xf16> {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %b = tensor.dim %a, %c0 : tensor<?x?x1024xf16>
  %m = tensor.dim %a, %c1 : tensor<?x?x1024xf16>
  %e = tensor.empty(%b, %m) : tensor<?x?x4096xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?x?x4096xf32>) -> tensor<?x?x4096xf32>
  %p = linalg.batch_matmul ins(%a, %w : tensor<?x?x1024xf16>, tensor<?x1024x4096xf16>) outs(%f : tensor<?x?x4096xf32>) -> tensor<?x?x4096xf32>
  %h = tensor.empty(%b, %m) : tensor<?x?x4096xf16>
  %r = linalg.generic {indexing_maps = [affine_map<(b, m, n) -> (b, m, n)>, affine_map<(b, m, n) -> (b, m, n)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%p : tensor<?x?x4096xf32>) outs(%h : tensor<?x?x4096xf16>) {
  ^bb0(%i: f32, %o: f16):
    %t = arith.truncf %i : f32 to f16
    linalg.yield %t : f16
  } -> tensor<?x?x4096xf16>
  return %r : tensor<?x?x4096xf16>
}

// -----

// Scores: keys (heads, keys, dims) are read where they lie, and results in f32 are written.
// CHECK-LABEL: @scores
// CHECK-NOT: linalg.transpose
// CHECK: hal.dispatch.extern "product_bf16_batched_tile256_clamp_general_wide"[{{.*}}, %arg0, %arg1, %arg0
func.func @scores(%q: tensor<32x4x128xbf16>, %k: tensor<32x1024x128xbf16>) -> tensor<32x4x1024xf32> {
  %zero = arith.constant 0.0 : f32
  %et = tensor.empty() : tensor<32x128x1024xbf16>
  %kt = linalg.transpose ins(%k : tensor<32x1024x128xbf16>) outs(%et : tensor<32x128x1024xbf16>) permutation = [0, 2, 1]
  %e = tensor.empty() : tensor<32x4x1024xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<32x4x1024xf32>) -> tensor<32x4x1024xf32>
  %p = linalg.batch_matmul ins(%q, %kt : tensor<32x4x128xbf16>, tensor<32x128x1024xbf16>) outs(%f : tensor<32x4x1024xf32>) -> tensor<32x4x1024xf32>
  return %p : tensor<32x4x1024xf32>
}

// -----

// Latents: heads of queries are read out of rows, and of a slice of the weights, and results written
// as their transpose makes them.
// CHECK-LABEL: @absorbed
// CHECK: hal.dispatch.extern "product_f16_batched_tile{{.*}}_kn"[{{.*}}, %arg0, %arg1)
// CHECK-NOT: linalg.transpose
// CHECK: tensor.expand_shape {{.*}} output_shape [2, 512, 16, 512]
// REMARK: product_f16_batched_tile{{.*}}_kn: {{.*}}, written as its reader wants it
func.func @absorbed(%q: tensor<2x512x16x192xf16>, %w: tensor<16x256x512xf16>) -> tensor<2x512x16x512xf16> {
  %zero = arith.constant 0.0 : f32
  %qs = tensor.extract_slice %q[0, 0, 0, 0] [2, 512, 16, 128] [1, 1, 1, 1] : tensor<2x512x16x192xf16> to tensor<2x512x16x128xf16>
  %ws = tensor.extract_slice %w[0, 128, 0] [16, 128, 512] [1, 1, 1] : tensor<16x256x512xf16> to tensor<16x128x512xf16>
  %eq = tensor.empty() : tensor<16x2x512x128xf16>
  %qt = linalg.transpose ins(%qs : tensor<2x512x16x128xf16>) outs(%eq : tensor<16x2x512x128xf16>) permutation = [2, 0, 1, 3]
  %qc = tensor.collapse_shape %qt [[0], [1, 2], [3]] : tensor<16x2x512x128xf16> into tensor<16x1024x128xf16>
  %e = tensor.empty() : tensor<16x1024x512xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<16x1024x512xf32>) -> tensor<16x1024x512xf32>
  %p = linalg.batch_matmul ins(%qc, %ws : tensor<16x1024x128xf16>, tensor<16x128x512xf16>) outs(%f : tensor<16x1024x512xf32>) -> tensor<16x1024x512xf32>
  %h = tensor.empty() : tensor<16x1024x512xf16>
  %r = linalg.generic {indexing_maps = [affine_map<(b, m, n) -> (b, m, n)>, affine_map<(b, m, n) -> (b, m, n)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%p : tensor<16x1024x512xf32>) outs(%h : tensor<16x1024x512xf16>) {
  ^bb0(%i: f32, %o: f16):
    %t = arith.truncf %i : f32 to f16
    linalg.yield %t : f16
  } -> tensor<16x1024x512xf16>
  %x = tensor.expand_shape %r [[0], [1, 2], [3]] output_shape [16, 2, 512, 512] : tensor<16x1024x512xf16> into tensor<16x2x512x512xf16>
  %et = tensor.empty() : tensor<2x512x16x512xf16>
  %t = linalg.transpose ins(%x : tensor<16x2x512x512xf16>) outs(%et : tensor<2x512x16x512xf16>) permutation = [1, 2, 0, 3]
  return %t : tensor<2x512x16x512xf16>
}

// -----

// Experts of the same rows: these are no repeat of them, and biases are those of each expert.
// CHECK-LABEL: @shared_rows
// CHECK-NOT: linalg.generic
// CHECK: hal.dispatch.extern "product_f16_batched_tile{{.*}}_clamp_general"[{{.*}}, %arg0, %arg1, %{{[^,]*}}, %arg0, %arg0)
// REMARK: product_f16_batched_tile{{.*}}_clamp_general: {{.*}}, with a bias of each batch
func.func @shared_rows(%a: tensor<300x512xf16>, %w: tensor<8x520x512xf16>, %c: tensor<8x1x520xf16>) -> tensor<8x300x520xf16> {
  %zero = arith.constant 0.0 : f32
  %ea = tensor.empty() : tensor<8x300x512xf16>
  %all = linalg.generic {indexing_maps = [affine_map<(b, m, k) -> (m, k)>, affine_map<(b, m, k) -> (b, m, k)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%a : tensor<300x512xf16>) outs(%ea : tensor<8x300x512xf16>) {
  ^bb0(%i: f16, %o: f16):
    linalg.yield %i : f16
  } -> tensor<8x300x512xf16>
  %e = tensor.empty() : tensor<8x300x520xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x300x520xf32>) -> tensor<8x300x520xf32>
  %p = linalg.contract indexing_maps = [affine_map<(b, m, n, k) -> (b, m, k)>, affine_map<(b, m, n, k) -> (b, n, k)>, affine_map<(b, m, n, k) -> (b, m, n)>] ins(%all, %w : tensor<8x300x512xf16>, tensor<8x520x512xf16>) outs(%f : tensor<8x300x520xf32>) -> tensor<8x300x520xf32>
  %h = tensor.empty() : tensor<8x300x520xf16>
  %r = linalg.generic {indexing_maps = [affine_map<(b, m, n) -> (b, m, n)>, affine_map<(b, m, n) -> (b, 0, n)>, affine_map<(b, m, n) -> (b, m, n)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%p, %c : tensor<8x300x520xf32>, tensor<8x1x520xf16>) outs(%h : tensor<8x300x520xf16>) {
  ^bb0(%i: f32, %j: f16, %o: f16):
    %t = arith.truncf %i : f32 to f16
    %s = arith.addf %t, %j : f16
    linalg.yield %s : f16
  } -> tensor<8x300x520xf16>
  return %r : tensor<8x300x520xf16>
}

// -----

// A cache that is returned, heads in front of rows: no transpose is left.
// CHECK-LABEL: @cache
// CHECK: hal.dispatch.extern "product_f16_batched_tile{{.*}}"[
// CHECK-NOT: linalg.transpose
// CHECK: tensor.expand_shape {{.*}} output_shape [%{{.*}}, 8, %{{.*}}, 128]
// REMARK: product_f16_batched_tile{{.*}}: {{.*}}, written as its reader wants it
func.func @cache(%a: tensor<?x?x1024xf16>, %w: tensor<1024x1024xf16>) -> tensor<?x8x?x128xf16> {
  %zero = arith.constant 0.0 : f16
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %b = tensor.dim %a, %c0 : tensor<?x?x1024xf16>
  %m = tensor.dim %a, %c1 : tensor<?x?x1024xf16>
  %e = tensor.empty(%b, %m) : tensor<?x?x1024xf16>
  %f = linalg.fill ins(%zero : f16) outs(%e : tensor<?x?x1024xf16>) -> tensor<?x?x1024xf16>
  %p = linalg.contract indexing_maps = [affine_map<(b, m, n, k) -> (b, m, k)>, affine_map<(b, m, n, k) -> (n, k)>, affine_map<(b, m, n, k) -> (b, m, n)>] ins(%a, %w : tensor<?x?x1024xf16>, tensor<1024x1024xf16>) outs(%f : tensor<?x?x1024xf16>) -> tensor<?x?x1024xf16>
  %x = tensor.expand_shape %p [[0], [1], [2, 3]] output_shape [%b, %m, 8, 128] : tensor<?x?x1024xf16> into tensor<?x?x8x128xf16>
  %et = tensor.empty(%b, %m) : tensor<?x8x?x128xf16>
  %t = linalg.transpose ins(%x : tensor<?x?x8x128xf16>) outs(%et : tensor<?x8x?x128xf16>) permutation = [0, 2, 1, 3]
  return %t : tensor<?x8x?x128xf16>
}

// -----

// Heads of 80 columns are no whole lines of a tile: rows are written, and IREE transposes them.
// CHECK-LABEL: @odd_heads
// CHECK: hal.dispatch.extern "product_f16_tile
// CHECK: linalg.transpose
// REMARK: product_f16_tile{{.*}} us beside it
func.func @odd_heads(%a: tensor<2x512x640xf16>, %w: tensor<640x640xf16>) -> tensor<2x8x512x80xf16> {
  %zero = arith.constant 0.0 : f16
  %e = tensor.empty() : tensor<2x512x640xf16>
  %f = linalg.fill ins(%zero : f16) outs(%e : tensor<2x512x640xf16>) -> tensor<2x512x640xf16>
  %p = linalg.contract indexing_maps = [affine_map<(b, m, n, k) -> (b, m, k)>, affine_map<(b, m, n, k) -> (n, k)>, affine_map<(b, m, n, k) -> (b, m, n)>] ins(%a, %w : tensor<2x512x640xf16>, tensor<640x640xf16>) outs(%f : tensor<2x512x640xf16>) -> tensor<2x512x640xf16>
  %x = tensor.expand_shape %p [[0], [1], [2, 3]] output_shape [2, 512, 8, 80] : tensor<2x512x640xf16> into tensor<2x512x8x80xf16>
  %et = tensor.empty() : tensor<2x8x512x80xf16>
  %t = linalg.transpose ins(%x : tensor<2x512x8x80xf16>) outs(%et : tensor<2x8x512x80xf16>) permutation = [0, 2, 1, 3]
  return %t : tensor<2x8x512x80xf16>
}

// -----

// Weights of the expert that each row has chosen: IREE reads them where they are, and a kernel would
// have them copied.
// COST: stays IREE's own code: its weights are taken by index
func.func @chosen(%a: tensor<4x1x1024xf16>, %experts: tensor<8x1024x1024xf16>, %which: tensor<4xi32>) -> tensor<4x1x1024xf16> {
  %zero = arith.constant 0.0 : f16
  %ew = tensor.empty() : tensor<4x1024x1024xf16>
  %w = linalg.generic {indexing_maps = [affine_map<(b, n, k) -> (b)>, affine_map<(b, n, k) -> (b, n, k)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%which : tensor<4xi32>) outs(%ew : tensor<4x1024x1024xf16>) {
  ^bb0(%i: i32, %o: f16):
    %expert = arith.index_cast %i : i32 to index
    %n = linalg.index 1 : index
    %k = linalg.index 2 : index
    %x = tensor.extract %experts[%expert, %n, %k] : tensor<8x1024x1024xf16>
    linalg.yield %x : f16
  } -> tensor<4x1024x1024xf16>
  %e = tensor.empty() : tensor<4x1x1024xf16>
  %f = linalg.fill ins(%zero : f16) outs(%e : tensor<4x1x1024xf16>) -> tensor<4x1x1024xf16>
  %p = linalg.contract indexing_maps = [affine_map<(b, m, n, k) -> (b, m, k)>, affine_map<(b, m, n, k) -> (b, n, k)>, affine_map<(b, m, n, k) -> (b, m, n)>] ins(%a, %w : tensor<4x1x1024xf16>, tensor<4x1024x1024xf16>) outs(%f : tensor<4x1x1024xf16>) -> tensor<4x1x1024xf16>
  return %p : tensor<4x1x1024xf16>
}

// -----

// The batch is innermost in both factors (einsum "ikc,jkc->ijc"): these are transposed for a kernel.
// CHECK-LABEL: @triangle
// CHECK: %[[A:.*]] = linalg.transpose ins(%arg0
// CHECK: %[[B:.*]] = linalg.transpose ins(%arg1
// CHECK: hal.dispatch.extern "product_f16_batched_tile{{.*}}_kn"[{{.*}}%[[A]], %[[B]])
// REMARK: product_f16_batched_tile{{.*}}_kn: {{.*}} us beside it
// COST: product_f16_batched_tile{{.*}}_kn: {{.*}} us beside it
func.func @triangle(%x: tensor<256x256x128xf16>, %y: tensor<256x256x128xf16>) -> tensor<128x256x256xf16> {
  %zero = arith.constant 0.0 : f32
  %s = tensor.empty() : tensor<128x256x256xf16>
  %a = linalg.transpose ins(%x : tensor<256x256x128xf16>) outs(%s : tensor<128x256x256xf16>) permutation = [2, 0, 1]
  %b = linalg.transpose ins(%y : tensor<256x256x128xf16>) outs(%s : tensor<128x256x256xf16>) permutation = [2, 1, 0]
  %e = tensor.empty() : tensor<128x256x256xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<128x256x256xf32>) -> tensor<128x256x256xf32>
  %p = linalg.batch_matmul ins(%a, %b : tensor<128x256x256xf16>, tensor<128x256x256xf16>) outs(%f : tensor<128x256x256xf32>) -> tensor<128x256x256xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(b, m, n) -> (b, m, n)>, affine_map<(b, m, n) -> (b, m, n)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%p : tensor<128x256x256xf32>) outs(%s : tensor<128x256x256xf16>) {
  ^bb0(%i: f32, %o: f16):
    %t = arith.truncf %i : f32 to f16
    linalg.yield %t : f16
  } -> tensor<128x256x256xf16>
  return %r : tensor<128x256x256xf16>
}
