// Attention on memrefs: left alone.
#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
func.func @f(%q: memref<2x16x8xf32>, %k: memref<2x24x8xf32>, %v: memref<2x24x4xf32>, %o: memref<2x16x4xf32>) {
  %scale = arith.constant 1.0 : f32
  iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : memref<2x16x8xf32>, memref<2x24x8xf32>, memref<2x24x4xf32>, f32) outs(%o : memref<2x16x4xf32>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  }
  return
}
