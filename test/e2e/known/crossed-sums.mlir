// Ops that read a sum, a softmax or a product in two orders: IREE computes what lies on the diagonal.
#i = affine_map<(i, j) -> (i)>
#j = affine_map<(i, j) -> (j)>
#ij = affine_map<(i, j) -> (i, j)>
#ji = affine_map<(i, j) -> (j, i)>
func.func @main(%x: tensor<12x5xf32>, %y: tensor<12x12xf32>, %u: tensor<1x3xf32>, %w: tensor<3x12xf32>) -> (tensor<12x12xf32>, tensor<12x12xf32>, tensor<12x12xf32>) {
  %zero = arith.constant 0.0 : f32
  %er = tensor.empty() : tensor<12xf32>
  %e = tensor.empty() : tensor<12x12xf32>
  %fr = linalg.fill ins(%zero : f32) outs(%er : tensor<12xf32>) -> tensor<12xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<12x12xf32>) -> tensor<12x12xf32>
  %0 = linalg.generic {indexing_maps = [#ij, #i], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<12x5xf32>) outs(%fr : tensor<12xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %a, %o : f32
    linalg.yield %s : f32
  } -> tensor<12xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%0 : tensor<12xf32>) outs(%er : tensor<12xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = math.exp %a : f32
    linalg.yield %s : f32
  } -> tensor<12xf32>
  %2 = linalg.generic {indexing_maps = [#i, #j, #ij], iterator_types = ["parallel", "parallel"]} ins(%0, %1 : tensor<12xf32>, tensor<12xf32>) outs(%e : tensor<12x12xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.subf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<12x12xf32>
  %3 = linalg.softmax dimension(1) ins(%y : tensor<12x12xf32>) outs(%e : tensor<12x12xf32>) -> tensor<12x12xf32>
  %4 = linalg.generic {indexing_maps = [#ij, #ji, #ij], iterator_types = ["parallel", "parallel"]} ins(%3, %3 : tensor<12x12xf32>, tensor<12x12xf32>) outs(%e : tensor<12x12xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<12x12xf32>
  %eu = tensor.empty() : tensor<1x12xf32>
  %fu = linalg.fill ins(%zero : f32) outs(%eu : tensor<1x12xf32>) -> tensor<1x12xf32>
  %5 = linalg.matmul ins(%u, %w : tensor<1x3xf32>, tensor<3x12xf32>) outs(%fu : tensor<1x12xf32>) -> tensor<1x12xf32>
  %et = tensor.empty() : tensor<12x1xf32>
  %6 = linalg.transpose ins(%5 : tensor<1x12xf32>) outs(%et : tensor<12x1xf32>) permutation = [1, 0]
  %7 = linalg.generic {indexing_maps = [#ij, #ij], iterator_types = ["parallel", "parallel"]} ins(%5 : tensor<1x12xf32>) outs(%eu : tensor<1x12xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = math.tanh %a : f32
    linalg.yield %s : f32
  } -> tensor<1x12xf32>
  %8 = linalg.matmul ins(%6, %7 : tensor<12x1xf32>, tensor<1x12xf32>) outs(%f : tensor<12x12xf32>) -> tensor<12x12xf32>
  return %2, %4, %8 : tensor<12x12xf32>, tensor<12x12xf32>, tensor<12x12xf32>
}
