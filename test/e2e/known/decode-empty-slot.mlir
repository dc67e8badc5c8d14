// A step of decode over a cache with an empty slot: a sequence that sees no key is 0.
#q = affine_map<(b, h, m, n, k, s) -> (b, h, m, k)>
#k = affine_map<(b, h, m, n, k, s) -> (b, h, s, k)>
#v = affine_map<(b, h, m, n, k, s) -> (b, h, s, n)>
#c = affine_map<(b, h, m, n, k, s) -> ()>
#m = affine_map<(b, h, m, n, k, s) -> (b, m, s)>
#o = affine_map<(b, h, m, n, k, s) -> (b, h, m, n)>
func.func @main(%q: tensor<2x4x1x8xf32>, %k: tensor<2x4x16x8xf32>, %v: tensor<2x4x16x8xf32>, %lens: tensor<2xi64>) -> tensor<2x4x1x8xf32> {
  %scale = arith.constant 0.35355339 : f32
  %e = tensor.empty() : tensor<2x1x16xi1>
  %mask = linalg.generic {indexing_maps = [affine_map<(b, m, s) -> (b)>, affine_map<(b, m, s) -> (b, m, s)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%lens : tensor<2xi64>) outs(%e : tensor<2x1x16xi1>) {
  ^bb0(%l: i64, %x: i1):
    %i = linalg.index 2 : index
    %j = arith.index_cast %i : index to i64
    %c = arith.cmpi slt, %j, %l : i64
    linalg.yield %c : i1
  } -> tensor<2x1x16xi1>
  %o = tensor.empty() : tensor<2x4x1x8xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #c, #m, #o]> ins(%q, %k, %v, %scale, %mask : tensor<2x4x1x8xf32>, tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>, f32, tensor<2x1x16xi1>) outs(%o : tensor<2x4x1x8xf32>) {
  ^bb0(%s: f32):
    iree_linalg_ext.yield %s : f32
  } -> tensor<2x4x1x8xf32>
  return %r : tensor<2x4x1x8xf32>
}
