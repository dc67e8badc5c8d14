// RUN: attn-opt %s --attn-use-kernels="target=sm_90 mode=always kernel=[ad][te]*" --split-input-file --remarks > %t.mlir 2> %t.txt
// RUN: FileCheck %s < %t.mlir
// RUN: attn-opt %s --attn-mask-positions --attn-use-kernels="target=sm_90 mode=always kernel=[ad][te]*" --split-input-file | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK < %t.txt

// Soft-caps: cap * tanh(score / cap), for kernels that are told the cap.

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// No key is hidden: by limits that are the numbers of keys and rows.
// CHECK-LABEL: func.func @divided(
// CHECK-DAG: %[[CAP:.*]] = arith.bitcast %{{.*}} : f32 to i32
// CHECK: hal.dispatch.extern "attention_f16_d128_window_cap"[%{{.*}}, %{{.*}}](%[[ROWS:.*]], %[[KEYS:.*]], %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %arg0, %arg1, %arg2)
// REMARK: output kernel: attention_f16_d128_window_cap
func.func @divided(%q: tensor<2x512x128xf16>, %k: tensor<2x384x128xf16>, %v: tensor<2x384x128xf16>) -> tensor<2x512x128xf16> {
  %scale = arith.constant 0.125 : f32
  %cap = arith.constant 50.0 : f32
  %e = tensor.empty() : tensor<2x512x128xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<2x512x128xf16>, tensor<2x384x128xf16>, tensor<2x384x128xf16>, f32) outs(%e : tensor<2x512x128xf16>) {
  ^bb0(%x: f32):
    %d = arith.divf %x, %cap : f32
    %t = math.tanh %d : f32
    %y = arith.mulf %cap, %t : f32
    iree_linalg_ext.yield %y : f32
  } -> tensor<2x512x128xf16>
  return %r : tensor<2x512x128xf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// The product with 1 / cap is the same, and a causal mask goes with it.
// CHECK-LABEL: func.func @causal(
// CHECK: hal.dispatch.extern "attention_bf16_d64_window_cap"
// REMARK: output kernel: attention_bf16_d64_window_cap
func.func @causal(%q: tensor<2x512x64xbf16>, %k: tensor<2x512x64xbf16>, %v: tensor<2x512x64xbf16>) -> tensor<2x512x64xbf16> {
  %scale = arith.constant 0.125 : f32
  %cap = arith.constant 50.0 : f32
  %inverse = arith.constant 0.02 : f32
  %hidden = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<2x512x64xbf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<2x512x64xbf16>, tensor<2x512x64xbf16>, tensor<2x512x64xbf16>, f32) outs(%e : tensor<2x512x64xbf16>) {
  ^bb0(%x: f32):
    %d = arith.mulf %x, %inverse : f32
    %t = math.tanh %d : f32
    %c = arith.mulf %t, %cap : f32
    %i = iree_linalg_ext.index 1 : index
    %j = iree_linalg_ext.index 4 : index
    %seen = arith.cmpi sge, %i, %j : index
    %y = arith.select %seen, %c, %hidden : f32
    iree_linalg_ext.yield %y : f32
  } -> tensor<2x512x64xbf16>
  return %r : tensor<2x512x64xbf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// Decode kernels have no kinds of their own.
// CHECK-LABEL: func.func @decode(
// CHECK: hal.dispatch.extern "decode_f16_d256"
// REMARK: output kernel: decode_f16_d256
func.func @decode(%q: tensor<8x4x256xf16>, %k: tensor<8x4096x256xf16>, %v: tensor<8x4096x256xf16>) -> tensor<8x4x256xf16> {
  %scale = arith.constant 0.125 : f32
  %cap = arith.constant 50.0 : f32
  %e = tensor.empty() : tensor<8x4x256xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<8x4x256xf16>, tensor<8x4096x256xf16>, tensor<8x4096x256xf16>, f32) outs(%e : tensor<8x4x256xf16>) {
  ^bb0(%x: f32):
    %d = arith.divf %x, %cap : f32
    %t = math.tanh %d : f32
    %y = arith.mulf %cap, %t : f32
    iree_linalg_ext.yield %y : f32
  } -> tensor<8x4x256xf16>
  return %r : tensor<8x4x256xf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// Another factor behind tanh is no soft-cap.
// CHECK-LABEL: func.func @uneven(
// CHECK-NOT: hal.dispatch.extern
// CHECK: math.tanh
// REMARK: output refused: its region changes the scores, other than by a soft-cap
func.func @uneven(%q: tensor<2x512x128xf16>, %k: tensor<2x384x128xf16>, %v: tensor<2x384x128xf16>) -> tensor<2x512x128xf16> {
  %scale = arith.constant 0.125 : f32
  %cap = arith.constant 50.0 : f32
  %other = arith.constant 49.0 : f32
  %e = tensor.empty() : tensor<2x512x128xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<2x512x128xf16>, tensor<2x384x128xf16>, tensor<2x384x128xf16>, f32) outs(%e : tensor<2x512x128xf16>) {
  ^bb0(%x: f32):
    %d = arith.divf %x, %cap : f32
    %t = math.tanh %d : f32
    %y = arith.mulf %other, %t : f32
    iree_linalg_ext.yield %y : f32
  } -> tensor<2x512x128xf16>
  return %r : tensor<2x512x128xf16>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, n, k2)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// CHECK-LABEL: func.func @narrow(
// CHECK: hal.dispatch.extern "attention_f16_d128_window_cap"
// REMARK: output kernel: attention_f16_d128_window_cap: {{.*}} widen the query and the key and the value to f16
func.func @narrow(%q: tensor<2x512x128xf8E4M3FN>, %k: tensor<2x128x128xf8E4M3FN>, %v: tensor<2x128x128xf8E4M3FN>) -> tensor<2x512x128xf16> {
  %scale = arith.constant 0.125 : f32
  %cap = arith.constant 50.0 : f32
  %e = tensor.empty() : tensor<2x512x128xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<2x512x128xf8E4M3FN>, tensor<2x128x128xf8E4M3FN>, tensor<2x128x128xf8E4M3FN>, f32) outs(%e : tensor<2x512x128xf16>) {
  ^bb0(%x: f32):
    %d = arith.divf %x, %cap : f32
    %t = math.tanh %d : f32
    %y = arith.mulf %cap, %t : f32
    iree_linalg_ext.yield %y : f32
  } -> tensor<2x512x128xf16>
  return %r : tensor<2x512x128xf16>
}
