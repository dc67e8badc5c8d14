// Attention with a sink, which attn-raise makes online attention and a division by all weights, is
// one of kernels that add the sink's weight to their sums; few rows over a cache are the kernel that
// they were, and the one that adds up its partial results adds the sink's weight, too.

// RUN: attn-opt %s --attn-use-kernels="target=sm_90 mode=always" --split-input-file --remarks > %t.mlir 2> %t.txt
// RUN: FileCheck %s < %t.mlir
// RUN: FileCheck %s --check-prefix=WHY < %t.txt
// RUN: attn-opt %s --attn-use-kernels="target=sm_90 mode=always elsewhere=iree" --split-input-file | FileCheck %s --check-prefix=ELSE

// Grouped heads, whose result is written as it is read, with rows in front of heads; a sink in f16 is
// widened.

// WHY: output kernel: attention_f16_d64_{{.*}}causal_sink: {{.*}}; the sink's weight is added to the sums there

// CHECK-LABEL: func.func @grouped(
// CHECK-SAME: %[[SINK:[a-z0-9]+]]: tensor<2x4xf16>
// CHECK: %[[WIDE:.*]] = linalg.generic {{.*}} ins(%[[SINK]] : tensor<2x4xf16>) outs(%{{.*}} : tensor<2x4xf32>)
// CHECK: arith.extf
// CHECK-NOT: online_attention
// CHECK: %[[R:.*]]:2 = hal.dispatch.extern "attention_f16_d64_{{.*}}causal_sink"
// CHECK-SAME: %[[WIDE]]
// CHECK-SAME: tensor<2x4xf32>) -> (tensor<512x2x4x64xf16>
// CHECK: return %[[R]]#0

// ELSE-LABEL: func.func @grouped(
// ELSE: scf.if
// ELSE: hal.dispatch.extern "attention_f16_d64_{{.*}}causal_sink"
// ELSE: } else {
// ELSE: iree_linalg_ext.online_attention
// ELSE: math.exp2
// ELSE: arith.divf
// ELSE: scf.yield
#q = affine_map<(b, g, m, n, k1, k2) -> (b, g, m, k1)>
#k = affine_map<(b, g, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, g, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, g, m, n, k1, k2) -> ()>
#o = affine_map<(b, g, m, n, k1, k2) -> (b, g, m, n)>
#r = affine_map<(b, g, m, n, k1, k2) -> (b, g, m)>
#rows = affine_map<(b, g, m) -> (b, g, m)>
#heads = affine_map<(b, g, m) -> (b, g)>
func.func @grouped(%q: tensor<2x4x512x64xf16>, %k: tensor<2x512x64xf16>, %v: tensor<2x512x64xf16>, %sink: tensor<2x4xf16>) -> tensor<512x2x4x64xf16> {
  %zero = arith.constant 0.0 : f32
  %lowest = arith.constant -3.40282347E+38 : f32
  %scale = arith.constant 0.125 : f32
  %log = arith.constant 1.44269502 : f32
  %e = tensor.empty() : tensor<2x4x512x64xf32>
  %er = tensor.empty() : tensor<2x4x512xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x4x512x64xf32>) -> tensor<2x4x512x64xf32>
  %m0 = linalg.fill ins(%lowest : f32) outs(%er : tensor<2x4x512xf32>) -> tensor<2x4x512xf32>
  %l0 = linalg.fill ins(%zero : f32) outs(%er : tensor<2x4x512xf32>) -> tensor<2x4x512xf32>
  %r:3 = iree_linalg_ext.online_attention <indexing_maps = [#q, #k, #v, #s, #o, #r, #r]> ins(%q, %k, %v, %scale : tensor<2x4x512x64xf16>, tensor<2x512x64xf16>, tensor<2x512x64xf16>, f32) outs(%o0, %m0, %l0 : tensor<2x4x512x64xf32>, tensor<2x4x512xf32>, tensor<2x4x512xf32>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x4x512x64xf32>, tensor<2x4x512xf32>, tensor<2x4x512xf32>
  %es = tensor.empty() : tensor<2x4xf32>
  %wide = linalg.generic {indexing_maps = [affine_map<(b, g) -> (b, g)>, affine_map<(b, g) -> (b, g)>], iterator_types = ["parallel", "parallel"]} ins(%sink : tensor<2x4xf16>) outs(%es : tensor<2x4xf32>) {
  ^bb0(%x: f16, %o: f32):
    %y = arith.extf %x : f16 to f32
    linalg.yield %y : f32
  } -> tensor<2x4xf32>
  %total = linalg.generic {indexing_maps = [#rows, #rows, #heads, #rows], iterator_types = ["parallel", "parallel", "parallel"]} ins(%r#1, %r#2, %wide : tensor<2x4x512xf32>, tensor<2x4x512xf32>, tensor<2x4xf32>) outs(%er : tensor<2x4x512xf32>) {
  ^bb0(%m: f32, %l: f32, %s: f32, %o: f32):
    %a = arith.mulf %s, %log : f32
    %b = arith.subf %a, %m : f32
    %c = math.exp2 %b : f32
    %d = arith.addf %l, %c : f32
    linalg.yield %d : f32
  } -> tensor<2x4x512xf32>
  %eo = tensor.empty() : tensor<512x2x4x64xf16>
  %out = linalg.generic {indexing_maps = [affine_map<(m, b, g, n) -> (b, g, m, n)>, affine_map<(m, b, g, n) -> (b, g, m)>, affine_map<(m, b, g, n) -> (m, b, g, n)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%r#0, %total : tensor<2x4x512x64xf32>, tensor<2x4x512xf32>) outs(%eo : tensor<512x2x4x64xf16>) {
  ^bb0(%x: f32, %l: f32, %o: f16):
    %y = arith.divf %x, %l : f32
    %z = arith.truncf %y : f32 to f16
    linalg.yield %z : f16
  } -> tensor<512x2x4x64xf16>
  return %out : tensor<512x2x4x64xf16>
}

// -----

// A step of decode, whose heads are rows of one that has K and V; the sink is a number.

// WHY: output kernel: cached_f16_d64_by{{[248]}}_sink: {{.*}}; the sink's weight is added to the sums there

// CHECK-LABEL: func.func @decode(
// CHECK: %[[ONE:.*]] = linalg.fill ins(%{{.*}} : f32) outs(%{{.*}} : tensor<1xf32>)
// CHECK: hal.dispatch.extern "cached_f16_d64_by{{[248]}}_sink"
// CHECK-SAME: %[[ONE]]
// CHECK-SAME: -> tensor<8x8x64xf16>
#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
#r = affine_map<(b, m, n, k1, k2) -> (b, m)>
#rows = affine_map<(b, m) -> (b, m)>
func.func @decode(%q: tensor<8x8x64xf16>, %k: tensor<8x4096x64xf16>, %v: tensor<8x4096x64xf16>) -> tensor<8x8x64xf16> {
  %zero = arith.constant 0.0 : f32
  %lowest = arith.constant -3.40282347E+38 : f32
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<8x8x64xf32>
  %er = tensor.empty() : tensor<8x8xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%e : tensor<8x8x64xf32>) -> tensor<8x8x64xf32>
  %m0 = linalg.fill ins(%lowest : f32) outs(%er : tensor<8x8xf32>) -> tensor<8x8xf32>
  %l0 = linalg.fill ins(%zero : f32) outs(%er : tensor<8x8xf32>) -> tensor<8x8xf32>
  %r:3 = iree_linalg_ext.online_attention <indexing_maps = [#q, #k, #v, #s, #o, #r, #r]> ins(%q, %k, %v, %scale : tensor<8x8x64xf16>, tensor<8x4096x64xf16>, tensor<8x4096x64xf16>, f32) outs(%o0, %m0, %l0 : tensor<8x8x64xf32>, tensor<8x8xf32>, tensor<8x8xf32>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<8x8x64xf32>, tensor<8x8xf32>, tensor<8x8xf32>
  %total = linalg.generic {indexing_maps = [#rows, #rows, #rows], iterator_types = ["parallel", "parallel"]} ins(%r#1, %r#2 : tensor<8x8xf32>, tensor<8x8xf32>) outs(%er : tensor<8x8xf32>) {
  ^bb0(%m: f32, %l: f32, %o: f32):
    %b = arith.subf %zero, %m : f32
    %c = math.exp2 %b : f32
    %d = arith.addf %l, %c : f32
    linalg.yield %d : f32
  } -> tensor<8x8xf32>
  %eo = tensor.empty() : tensor<8x8x64xf16>
  %out = linalg.generic {indexing_maps = [affine_map<(b, m, n) -> (b, m, n)>, affine_map<(b, m, n) -> (b, m)>, affine_map<(b, m, n) -> (b, m, n)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%r#0, %total : tensor<8x8x64xf32>, tensor<8x8xf32>) outs(%eo : tensor<8x8x64xf16>) {
  ^bb0(%x: f32, %l: f32, %o: f16):
    %y = arith.divf %x, %l : f32
    %z = arith.truncf %y : f32 to f16
    linalg.yield %z : f16
  } -> tensor<8x8x64xf16>
  return %out : tensor<8x8x64xf16>
}

// -----

// 8 bits without a mask: the kernel for windows, with limits that hide nothing.

// WHY: output kernel: attention_f8e4m3fn_d128_vt_window_sink: {{.*}}; the sink's weight is added to the sums there

// CHECK-LABEL: func.func @narrow(
// CHECK: %[[KEYS:.*]] = arith.constant 1024 : index
// CHECK-NEXT: arith.index_cast %[[KEYS]]
// CHECK: %[[DIAGONAL:.*]] = arith.constant 1024 : index
// CHECK-NEXT: %[[D:.*]] = arith.index_cast %[[DIAGONAL]]
// CHECK-NEXT: %[[BEHIND:.*]] = arith.constant 512 : index
// CHECK-NEXT: %[[B:.*]] = arith.index_cast %[[BEHIND]]
// CHECK: hal.dispatch.extern "attention_f8e4m3fn_d128_vt_window_sink"[%{{.*}}](%{{.*}}, %{{.*}}, %{{.*}}, %[[D]], %[[B]], %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %arg0,
#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, n, k2)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
#r = affine_map<(b, m, n, k1, k2) -> (b, m)>
#rows = affine_map<(b, m) -> (b, m)>
func.func @narrow(%q: tensor<8x512x128xf8E4M3FN>, %k: tensor<8x1024x128xf8E4M3FN>, %v: tensor<8x128x1024xf8E4M3FN>) -> tensor<8x512x128xf16> {
  %zero = arith.constant 0.0 : f32
  %lowest = arith.constant -3.40282347E+38 : f32
  %scale = arith.constant 0.0883883461 : f32
  %e = tensor.empty() : tensor<8x512x128xf32>
  %er = tensor.empty() : tensor<8x512xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%e : tensor<8x512x128xf32>) -> tensor<8x512x128xf32>
  %m0 = linalg.fill ins(%lowest : f32) outs(%er : tensor<8x512xf32>) -> tensor<8x512xf32>
  %l0 = linalg.fill ins(%zero : f32) outs(%er : tensor<8x512xf32>) -> tensor<8x512xf32>
  %r:3 = iree_linalg_ext.online_attention <indexing_maps = [#q, #k, #v, #s, #o, #r, #r]> ins(%q, %k, %v, %scale : tensor<8x512x128xf8E4M3FN>, tensor<8x1024x128xf8E4M3FN>, tensor<8x128x1024xf8E4M3FN>, f32) outs(%o0, %m0, %l0 : tensor<8x512x128xf32>, tensor<8x512xf32>, tensor<8x512xf32>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<8x512x128xf32>, tensor<8x512xf32>, tensor<8x512xf32>
  %total = linalg.generic {indexing_maps = [#rows, #rows, #rows], iterator_types = ["parallel", "parallel"]} ins(%r#1, %r#2 : tensor<8x512xf32>, tensor<8x512xf32>) outs(%er : tensor<8x512xf32>) {
  ^bb0(%m: f32, %l: f32, %o: f32):
    %b = arith.subf %zero, %m : f32
    %c = math.exp2 %b : f32
    %d = arith.addf %l, %c : f32
    linalg.yield %d : f32
  } -> tensor<8x512xf32>
  %eo = tensor.empty() : tensor<8x512x128xf16>
  %out = linalg.generic {indexing_maps = [affine_map<(b, m, n) -> (b, m, n)>, affine_map<(b, m, n) -> (b, m)>, affine_map<(b, m, n) -> (b, m, n)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%r#0, %total : tensor<8x512x128xf32>, tensor<8x512xf32>) outs(%eo : tensor<8x512x128xf16>) {
  ^bb0(%x: f32, %l: f32, %o: f16):
    %y = arith.divf %x, %l : f32
    %z = arith.truncf %y : f32 to f16
    linalg.yield %z : f16
  } -> tensor<8x512x128xf16>
  return %out : tensor<8x512x128xf16>
}

// -----

// Sinks that rows have of their own, and a maximum that is read elsewhere.

// WHY: output refused: its sink changes from row to row, the kernels take one for each head
// WHY: output refused: online_attention has three results, the kernels have one

// CHECK-LABEL: func.func @refused(
// CHECK-COUNT-2: iree_linalg_ext.online_attention
#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
#r = affine_map<(b, m, n, k1, k2) -> (b, m)>
#rows = affine_map<(b, m) -> (b, m)>
func.func @refused(%q: tensor<8x512x64xf16>, %k: tensor<8x512x64xf16>, %v: tensor<8x512x64xf16>, %sinks: tensor<8x512xf32>) -> (tensor<8x512x64xf16>, tensor<8x512x64xf16>, tensor<8x512xf32>) {
  %zero = arith.constant 0.0 : f32
  %lowest = arith.constant -3.40282347E+38 : f32
  %scale = arith.constant 0.125 : f32
  %log = arith.constant 1.44269502 : f32
  %e = tensor.empty() : tensor<8x512x64xf32>
  %er = tensor.empty() : tensor<8x512xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%e : tensor<8x512x64xf32>) -> tensor<8x512x64xf32>
  %m0 = linalg.fill ins(%lowest : f32) outs(%er : tensor<8x512xf32>) -> tensor<8x512xf32>
  %l0 = linalg.fill ins(%zero : f32) outs(%er : tensor<8x512xf32>) -> tensor<8x512xf32>
  %r:3 = iree_linalg_ext.online_attention <indexing_maps = [#q, #k, #v, #s, #o, #r, #r]> ins(%q, %k, %v, %scale : tensor<8x512x64xf16>, tensor<8x512x64xf16>, tensor<8x512x64xf16>, f32) outs(%o0, %m0, %l0 : tensor<8x512x64xf32>, tensor<8x512xf32>, tensor<8x512xf32>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<8x512x64xf32>, tensor<8x512xf32>, tensor<8x512xf32>
  %total = linalg.generic {indexing_maps = [#rows, #rows, #rows, #rows], iterator_types = ["parallel", "parallel"]} ins(%r#1, %r#2, %sinks : tensor<8x512xf32>, tensor<8x512xf32>, tensor<8x512xf32>) outs(%er : tensor<8x512xf32>) {
  ^bb0(%m: f32, %l: f32, %s: f32, %o: f32):
    %a = arith.mulf %s, %log : f32
    %b = arith.subf %a, %m : f32
    %c = math.exp2 %b : f32
    %d = arith.addf %l, %c : f32
    linalg.yield %d : f32
  } -> tensor<8x512xf32>
  %eo = tensor.empty() : tensor<8x512x64xf16>
  %out = linalg.generic {indexing_maps = [affine_map<(b, m, n) -> (b, m, n)>, affine_map<(b, m, n) -> (b, m)>, affine_map<(b, m, n) -> (b, m, n)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%r#0, %total : tensor<8x512x64xf32>, tensor<8x512xf32>) outs(%eo : tensor<8x512x64xf16>) {
  ^bb0(%x: f32, %l: f32, %o: f16):
    %y = arith.divf %x, %l : f32
    %z = arith.truncf %y : f32 to f16
    linalg.yield %z : f16
  } -> tensor<8x512x64xf16>
  %t:3 = iree_linalg_ext.online_attention <indexing_maps = [#q, #k, #v, #s, #o, #r, #r]> ins(%q, %v, %k, %scale : tensor<8x512x64xf16>, tensor<8x512x64xf16>, tensor<8x512x64xf16>, f32) outs(%o0, %m0, %l0 : tensor<8x512x64xf32>, tensor<8x512xf32>, tensor<8x512xf32>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<8x512x64xf32>, tensor<8x512xf32>, tensor<8x512xf32>
  %total2 = linalg.generic {indexing_maps = [#rows, #rows, #rows], iterator_types = ["parallel", "parallel"]} ins(%t#1, %t#2 : tensor<8x512xf32>, tensor<8x512xf32>) outs(%er : tensor<8x512xf32>) {
  ^bb0(%m: f32, %l: f32, %o: f32):
    %b = arith.subf %zero, %m : f32
    %c = math.exp2 %b : f32
    %d = arith.addf %l, %c : f32
    linalg.yield %d : f32
  } -> tensor<8x512xf32>
  %out2 = linalg.generic {indexing_maps = [affine_map<(b, m, n) -> (b, m, n)>, affine_map<(b, m, n) -> (b, m)>, affine_map<(b, m, n) -> (b, m, n)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%t#0, %total2 : tensor<8x512x64xf32>, tensor<8x512xf32>) outs(%eo : tensor<8x512x64xf16>) {
  ^bb0(%x: f32, %l: f32, %o: f16):
    %y = arith.divf %x, %l : f32
    %z = arith.truncf %y : f32 to f16
    linalg.yield %z : f16
  } -> tensor<8x512x64xf16>
  return %out, %out2, %t#1 : tensor<8x512x64xf16>, tensor<8x512x64xf16>, tensor<8x512xf32>
}
