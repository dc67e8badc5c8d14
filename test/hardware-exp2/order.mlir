// Without tensor cores a product whose result has its dims in another order than the loops gets
// other loops: IREE lowers it to wrong numbers. One in the usual order stays.

// RUN: attn-compile %s --iree-hal-target-device=cuda --compile-to=executable-configurations --attn-pipeline=attn-hardware-exp2 --iree-cuda-target=sm_80 --attn-summary 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt
// WHY: kernel turned_dispatch_0_attention{{.*}}: {{[12]}} product(s) have their loops put in the order of the result's dims: of another order IREE 3.13 makes wrong numbers
// WHY-NOT: product(s) have their loops

// CHECK-LABEL: func.func @turned_dispatch_0_attention
// CHECK: vector.contract {indexing_maps = [{{.*}} -> (d0, d1, d2, d3, d4, d5, d6, d7, d8)>], iterator_types = [{{("parallel", )+}}"reduction", "reduction", "reduction"]

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
#t = affine_map<(b, m, n, k1, k2) -> (b, n, m)>
func.func @turned(%q: tensor<2x20x72xf16>, %k: tensor<2x32x72xf16>, %v: tensor<2x32x40xf16>) -> tensor<2x40x20xf16> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<2x40x20xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #t]> ins(%q, %k, %v, %scale : tensor<2x20x72xf16>, tensor<2x32x72xf16>, tensor<2x32x40xf16>, f32) outs(%e : tensor<2x40x20xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x40x20xf16>
  return %r : tensor<2x40x20xf16>
}

func.func @straight(%q: tensor<2x128x64xf16>, %k: tensor<2x128x64xf16>, %v: tensor<2x128x64xf16>) -> tensor<2x128x64xf16> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<2x128x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<2x128x64xf16>, tensor<2x128x64xf16>, tensor<2x128x64xf16>, f32) outs(%e : tensor<2x128x64xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x128x64xf16>
  return %r : tensor<2x128x64xf16>
}
