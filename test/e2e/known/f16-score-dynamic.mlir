// A score function in f16 and dynamic sizes; IREE 3.13 refuses.
#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
func.func @f(%q: tensor<?x?x?xf16>, %k: tensor<?x?x?xf16>, %v: tensor<?x?x?xf16>, %e: tensor<?x?x?xf16>) -> tensor<?x?x?xf16> {
  %scale = arith.constant 1.0 : f16
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<?x?x?xf16>, tensor<?x?x?xf16>, tensor<?x?x?xf16>, f16) outs(%e : tensor<?x?x?xf16>) {
  ^bb0(%x: f16):
    iree_linalg_ext.yield %x : f16
  } -> tensor<?x?x?xf16>
  return %r : tensor<?x?x?xf16>
}
