// RUN: attn-opt %s --attn-propagate-layout=target=sm_80 --attn-use-kernels=target=sm_90 --split-input-file --remarks > %t.mlir 2> %t.txt
// RUN: FileCheck %s < %t.mlir
// RUN: FileCheck %s --check-prefix=REMARK < %t.txt
// RUN: attn-opt %s --attn-propagate-layout=target=sm_80 --attn-use-kernels="target=sm_90 mode=never" --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=NEVER

// What a layout is worth where kernels are taken is what it is worth to the kernel.

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// The 8-bit kernel reads V^T only: the projection writes it, and nothing is transposed.
// CHECK-LABEL: func.func @prefill_fp8(
// CHECK: %[[P:.*]] = linalg.matmul indexing_maps
// CHECK-NOT: linalg.transpose
// CHECK: %[[V:.*]] = tensor.expand_shape {{.*}} into tensor<32x128x4096xf8E4M3FN>
// CHECK: hal.dispatch.extern "attention_f8e4m3fn_d128_vt"
// CHECK-SAME: %[[V]])
// REMARK: value absorbed: k2 innermost in V, absorbed by linalg.matmul at {{.*}}; the kernel attention_f8e4m3fn_d128_vt reads V^T only (to have it so saves {{[0-9]+}} us)
// REMARK: output kernel: attention_f8e4m3fn_d128_vt
// NEVER: value folded: V stays as it is: measured on an H200: V^T costs up to 3% at head dim 128
func.func @prefill_fp8(%q: tensor<32x4096x128xf8E4M3FN>, %k: tensor<32x4096x128xf8E4M3FN>, %x: tensor<4096x4096xf16>, %w: tensor<4096x4096xf16>) -> tensor<32x4096x128xf16> {
  %zero = arith.constant 0.0 : f32
  %p0 = tensor.empty() : tensor<4096x4096xf32>
  %p1 = linalg.fill ins(%zero : f32) outs(%p0 : tensor<4096x4096xf32>) -> tensor<4096x4096xf32>
  %p = linalg.matmul ins(%x, %w : tensor<4096x4096xf16>, tensor<4096x4096xf16>) outs(%p1 : tensor<4096x4096xf32>) -> tensor<4096x4096xf32>
  %n0 = tensor.empty() : tensor<4096x4096xf8E4M3FN>
  %n = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%p : tensor<4096x4096xf32>) outs(%n0 : tensor<4096x4096xf8E4M3FN>) {
  ^bb0(%wide: f32, %out: f8E4M3FN):
    %narrow = arith.truncf %wide : f32 to f8E4M3FN
    linalg.yield %narrow : f8E4M3FN
  } -> tensor<4096x4096xf8E4M3FN>
  %h = tensor.expand_shape %n [[0], [1, 2]] output_shape [4096, 32, 128] : tensor<4096x4096xf8E4M3FN> into tensor<4096x32x128xf8E4M3FN>
  %t0 = tensor.empty() : tensor<32x4096x128xf8E4M3FN>
  %v = linalg.transpose ins(%h : tensor<4096x32x128xf8E4M3FN>) outs(%t0 : tensor<32x4096x128xf8E4M3FN>) permutation = [1, 0, 2]
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<32x4096x128xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<32x4096x128xf8E4M3FN>, tensor<32x4096x128xf8E4M3FN>, tensor<32x4096x128xf8E4M3FN>, f32) outs(%e : tensor<32x4096x128xf16>) {
  ^bb0(%s: f32):
    iree_linalg_ext.yield %s : f32
  } -> tensor<32x4096x128xf16>
  return %r : tensor<32x4096x128xf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// The 16-bit kernels read either layout as fast: V^T spares IREE's dispatch in between.
// CHECK-LABEL: func.func @prefill_f16(
// CHECK-NOT: linalg.transpose
// CHECK: hal.dispatch.extern "attention_f16_d128_vt"
// REMARK: value absorbed: k2 innermost in V, absorbed by linalg.matmul at {{.*}}; the dispatch of its own that transposes V goes; there are kernels for both layouts
// REMARK: output kernel: attention_f16_d128_vt
// NEVER: value folded: V stays as it is: measured on an H200: V^T costs up to 3% at head dim 128
func.func @prefill_f16(%q: tensor<32x4096x128xf16>, %k: tensor<32x4096x128xf16>, %x: tensor<4096x4096xf16>, %w: tensor<4096x4096xf16>) -> tensor<32x4096x128xf16> {
  %zero = arith.constant 0.0 : f32
  %p0 = tensor.empty() : tensor<4096x4096xf32>
  %p1 = linalg.fill ins(%zero : f32) outs(%p0 : tensor<4096x4096xf32>) -> tensor<4096x4096xf32>
  %p = linalg.matmul ins(%x, %w : tensor<4096x4096xf16>, tensor<4096x4096xf16>) outs(%p1 : tensor<4096x4096xf32>) -> tensor<4096x4096xf32>
  %n0 = tensor.empty() : tensor<4096x4096xf16>
  %n = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%p : tensor<4096x4096xf32>) outs(%n0 : tensor<4096x4096xf16>) {
  ^bb0(%wide: f32, %out: f16):
    %narrow = arith.truncf %wide : f32 to f16
    linalg.yield %narrow : f16
  } -> tensor<4096x4096xf16>
  %h = tensor.expand_shape %n [[0], [1, 2]] output_shape [4096, 32, 128] : tensor<4096x4096xf16> into tensor<4096x32x128xf16>
  %t0 = tensor.empty() : tensor<32x4096x128xf16>
  %v = linalg.transpose ins(%h : tensor<4096x32x128xf16>) outs(%t0 : tensor<32x4096x128xf16>) permutation = [1, 0, 2]
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<32x4096x128xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<32x4096x128xf16>, tensor<32x4096x128xf16>, tensor<32x4096x128xf16>, f32) outs(%e : tensor<32x4096x128xf16>) {
  ^bb0(%s: f32):
    iree_linalg_ext.yield %s : f32
  } -> tensor<32x4096x128xf16>
  return %r : tensor<32x4096x128xf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// So it does for 16-bit V below 8-bit Q and K.
// CHECK-LABEL: func.func @prefill_mixed(
// CHECK: hal.dispatch.extern "attention_f8e4m3fn_f16_d128_vt"
// REMARK: value absorbed: k2 innermost in V, absorbed by linalg.matmul at {{.*}}; the dispatch of its own that transposes V goes; there are kernels for both layouts
// REMARK: output kernel: attention_f8e4m3fn_f16_d128_vt: {{.*}} TFLOPS at {{[^,]*$}}
// NEVER: value folded: V stays as it is: measured on an H200: V^T costs up to 3% at head dim 128
func.func @prefill_mixed(%q: tensor<32x4096x128xf8E4M3FN>, %k: tensor<32x4096x128xf8E4M3FN>, %x: tensor<4096x4096xf16>, %w: tensor<4096x4096xf16>) -> tensor<32x4096x128xf16> {
  %zero = arith.constant 0.0 : f32
  %p0 = tensor.empty() : tensor<4096x4096xf32>
  %p1 = linalg.fill ins(%zero : f32) outs(%p0 : tensor<4096x4096xf32>) -> tensor<4096x4096xf32>
  %p = linalg.matmul ins(%x, %w : tensor<4096x4096xf16>, tensor<4096x4096xf16>) outs(%p1 : tensor<4096x4096xf32>) -> tensor<4096x4096xf32>
  %n0 = tensor.empty() : tensor<4096x4096xf16>
  %n = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%p : tensor<4096x4096xf32>) outs(%n0 : tensor<4096x4096xf16>) {
  ^bb0(%wide: f32, %out: f16):
    %narrow = arith.truncf %wide : f32 to f16
    linalg.yield %narrow : f16
  } -> tensor<4096x4096xf16>
  %h = tensor.expand_shape %n [[0], [1, 2]] output_shape [4096, 32, 128] : tensor<4096x4096xf16> into tensor<4096x32x128xf16>
  %t0 = tensor.empty() : tensor<32x4096x128xf16>
  %v = linalg.transpose ins(%h : tensor<4096x32x128xf16>) outs(%t0 : tensor<32x4096x128xf16>) permutation = [1, 0, 2]
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<32x4096x128xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<32x4096x128xf8E4M3FN>, tensor<32x4096x128xf8E4M3FN>, tensor<32x4096x128xf16>, f32) outs(%e : tensor<32x4096x128xf16>) {
  ^bb0(%s: f32):
    iree_linalg_ext.yield %s : f32
  } -> tensor<32x4096x128xf16>
  return %r : tensor<32x4096x128xf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// The decode kernel reads row-major V, of 8 bits too.
// CHECK-LABEL: func.func @decode_fp8(
// CHECK: hal.dispatch.extern "decode_f8e4m3fn_d128"
// REMARK: value kept: V stays as it is: the kernel decode_f8e4m3fn_d128 reads row-major V only
// REMARK: output kernel: decode_f8e4m3fn_d128
// NEVER: value folded: V stays as it is: with 1 query row(s) the kernel reads row-major V faster
func.func @decode_fp8(%q: tensor<32x1x128xf8E4M3FN>, %k: tensor<32x4096x128xf8E4M3FN>, %x: tensor<4096x4096xf16>, %w: tensor<4096x4096xf16>) -> tensor<32x1x128xf16> {
  %zero = arith.constant 0.0 : f32
  %p0 = tensor.empty() : tensor<4096x4096xf32>
  %p1 = linalg.fill ins(%zero : f32) outs(%p0 : tensor<4096x4096xf32>) -> tensor<4096x4096xf32>
  %p = linalg.matmul ins(%x, %w : tensor<4096x4096xf16>, tensor<4096x4096xf16>) outs(%p1 : tensor<4096x4096xf32>) -> tensor<4096x4096xf32>
  %n0 = tensor.empty() : tensor<4096x4096xf8E4M3FN>
  %n = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%p : tensor<4096x4096xf32>) outs(%n0 : tensor<4096x4096xf8E4M3FN>) {
  ^bb0(%wide: f32, %out: f8E4M3FN):
    %narrow = arith.truncf %wide : f32 to f8E4M3FN
    linalg.yield %narrow : f8E4M3FN
  } -> tensor<4096x4096xf8E4M3FN>
  %h = tensor.expand_shape %n [[0], [1, 2]] output_shape [4096, 32, 128] : tensor<4096x4096xf8E4M3FN> into tensor<4096x32x128xf8E4M3FN>
  %t0 = tensor.empty() : tensor<32x4096x128xf8E4M3FN>
  %v = linalg.transpose ins(%h : tensor<4096x32x128xf8E4M3FN>) outs(%t0 : tensor<32x4096x128xf8E4M3FN>) permutation = [1, 0, 2]
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<32x1x128xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<32x1x128xf8E4M3FN>, tensor<32x4096x128xf8E4M3FN>, tensor<32x4096x128xf8E4M3FN>, f32) outs(%e : tensor<32x1x128xf16>) {
  ^bb0(%s: f32):
    iree_linalg_ext.yield %s : f32
  } -> tensor<32x1x128xf16>
  return %r : tensor<32x1x128xf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// And where V is widened, too (16 does not divide the number of keys): the projection rounds it to 8 bits itself then.
// CHECK-LABEL: func.func @prefill_narrow_value(
// CHECK: hal.dispatch.extern "attention_f16_d64_wide_vt"
// REMARK: value absorbed: k2 innermost in V, absorbed by linalg.matmul at {{.*}}; the dispatch of its own that transposes V goes; there are kernels for both layouts
// REMARK: output kernel: attention_f16_d64_wide_vt: {{.*}} to widen the query and the key and the value to f16
func.func @prefill_narrow_value(%q: tensor<64x4096x64xf8E4M3FN>, %k: tensor<64x4104x64xf8E4M3FN>, %x: tensor<4104x4096xf16>, %w: tensor<4096x4096xf16>) -> tensor<64x4096x64xf16> {
  %zero = arith.constant 0.0 : f32
  %p0 = tensor.empty() : tensor<4104x4096xf32>
  %p1 = linalg.fill ins(%zero : f32) outs(%p0 : tensor<4104x4096xf32>) -> tensor<4104x4096xf32>
  %p = linalg.matmul ins(%x, %w : tensor<4104x4096xf16>, tensor<4096x4096xf16>) outs(%p1 : tensor<4104x4096xf32>) -> tensor<4104x4096xf32>
  %n0 = tensor.empty() : tensor<4104x4096xf8E4M3FN>
  %n = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%p : tensor<4104x4096xf32>) outs(%n0 : tensor<4104x4096xf8E4M3FN>) {
  ^bb0(%wide: f32, %out: f8E4M3FN):
    %narrow = arith.truncf %wide : f32 to f8E4M3FN
    linalg.yield %narrow : f8E4M3FN
  } -> tensor<4104x4096xf8E4M3FN>
  %h = tensor.expand_shape %n [[0], [1, 2]] output_shape [4104, 64, 64] : tensor<4104x4096xf8E4M3FN> into tensor<4104x64x64xf8E4M3FN>
  %t0 = tensor.empty() : tensor<64x4104x64xf8E4M3FN>
  %v = linalg.transpose ins(%h : tensor<4104x64x64xf8E4M3FN>) outs(%t0 : tensor<64x4104x64xf8E4M3FN>) permutation = [1, 0, 2]
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<64x4096x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<64x4096x64xf8E4M3FN>, tensor<64x4104x64xf8E4M3FN>, tensor<64x4104x64xf8E4M3FN>, f32) outs(%e : tensor<64x4096x64xf16>) {
  ^bb0(%s: f32):
    iree_linalg_ext.yield %s : f32
  } -> tensor<64x4096x64xf16>
  return %r : tensor<64x4096x64xf16>
}
