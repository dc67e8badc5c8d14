// A cache that holds no key yet: on CUDA its copies are grids of no workgroup, which a GPU refuses.
#q = affine_map<(b, m, d, k, n) -> (b, m, d)>
#k = affine_map<(b, m, d, k, n) -> (b, k, d)>
#v = affine_map<(b, m, d, k, n) -> (b, k, n)>
#s = affine_map<(b, m, d, k, n) -> ()>
#mask = affine_map<(b, m, d, k, n) -> (m, k)>
#o = affine_map<(b, m, d, k, n) -> (b, m, n)>
#id = affine_map<(a, b, c) -> (a, b, c)>

func.func @main(%q: tensor<2x40x64xf16>, %k: tensor<2x?x64xf32>, %v: tensor<2x?x64xf16>, %mask: tensor<40x?xi8>) -> tensor<2x40x64xf16> {
  %c1 = arith.constant 1 : index
  %n = tensor.dim %k, %c1 : tensor<2x?x64xf32>
  %s = arith.constant 0.125 : f16
  %e = tensor.empty(%n) : tensor<2x?x64xf16>
  %cast = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%k : tensor<2x?x64xf32>) outs(%e : tensor<2x?x64xf16>) {
    ^bb0(%in: f32, %out: f16):
      %1 = arith.truncf %in : f32 to f16
      linalg.yield %1 : f16
  } -> tensor<2x?x64xf16>
  %init = tensor.empty() : tensor<2x40x64xf16>
  %0 = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #mask, #o]>
      ins(%q, %cast, %v, %s, %mask : tensor<2x40x64xf16>, tensor<2x?x64xf16>, tensor<2x?x64xf16>, f16, tensor<40x?xi8>) outs(%init : tensor<2x40x64xf16>) {
    ^bb0(%x: f32):
      iree_linalg_ext.yield %x : f32
  } -> tensor<2x40x64xf16>
  return %0 : tensor<2x40x64xf16>
}
