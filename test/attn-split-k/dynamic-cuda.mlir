// An unknown number of keys on CUDA: chunks of a fixed size can be none there, which the driver
// refuses, so auto leaves it; N chunks are never none.
// RUN: attn-opt %s --attn-split-k=target=sm_90 --remarks 2>&1 | FileCheck %s --check-prefix=AUTO
// RUN: attn-opt %s --attn-split-k=target=sm_90,splits=4 --remarks 2>&1 | FileCheck %s --check-prefix=FOUR

// AUTO: remark: key kept: the number of keys is known only at run time: chunks of a fixed size can be none
// AUTO-NOT: online_attention
// FOUR: remark: key split: 4 chunks of the length's share of keys, and a tail of what is left
// FOUR-COUNT-2: iree_linalg_ext.online_attention

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

func.func @decode(%q: tensor<8x1x128xf16>, %k: tensor<8x?x128xf16>, %v: tensor<8x?x128xf16>) -> tensor<8x1x128xf16> {
  %scale = arith.constant 0.25 : f16
  %out = tensor.empty() : tensor<8x1x128xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<8x1x128xf16>, tensor<8x?x128xf16>, tensor<8x?x128xf16>, f16) outs(%out : tensor<8x1x128xf16>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<8x1x128xf16>
  return %r : tensor<8x1x128xf16>
}
