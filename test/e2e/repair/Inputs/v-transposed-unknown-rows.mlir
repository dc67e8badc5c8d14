// f32, an attention block of unknown rows, whose V^T a product writes (random program 69530).
func.func @main(%arg0: tensor<1x?x64xf32>, %arg1: tensor<64x32xf32>, %arg2: tensor<64x32xf32>, %arg3: tensor<32xf32>, %arg4: tensor<32x64xf32>, %arg5: tensor<64x32xf32>) -> (tensor<1x?x64xf32>) {
  %c1 = arith.constant 1 : index
  %s0 = tensor.dim %arg0, %c1 : tensor<1x?x64xf32>
  %c2 = arith.constant 1 : index
  %s3 = arith.muli %c2, %s0 : index
  %v4 = tensor.collapse_shape %arg0 [[0, 1], [2]] : tensor<1x?x64xf32> into tensor<?x64xf32>
  %e5 = tensor.empty(%s3) : tensor<?x32xf32>
  %z7 = arith.constant 0.0 : f32
  %f6 = linalg.fill ins(%z7 : f32) outs(%e5 : tensor<?x32xf32>) -> tensor<?x32xf32>
  %v8 = linalg.matmul ins(%v4, %arg1 : tensor<?x64xf32>, tensor<64x32xf32>) outs(%f6 : tensor<?x32xf32>) -> tensor<?x32xf32>
  %v9 = tensor.expand_shape %v8 [[0, 1], [2]] output_shape [1, %s0, 32] : tensor<?x32xf32> into tensor<1x?x32xf32>
  %v10 = tensor.expand_shape %v9 [[0], [1], [2, 3]] output_shape [1, %s0, 1, 32] : tensor<1x?x32xf32> into tensor<1x?x1x32xf32>
  %e11 = tensor.empty(%s0) : tensor<1x1x?x32xf32>
  %v12 = linalg.transpose ins(%v10 : tensor<1x?x1x32xf32>) outs(%e11 : tensor<1x1x?x32xf32>) permutation = [0, 2, 1, 3]
  %e13 = tensor.empty(%s0) : tensor<1x?x32xf32>
  %z15 = arith.constant 0.0 : f32
  %f14 = linalg.fill ins(%z15 : f32) outs(%e13 : tensor<1x?x32xf32>) -> tensor<1x?x32xf32>
  %v16 = linalg.contract indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>, affine_map<(d0, d1, d2, d3) -> (d3, d2)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>] ins(%arg0, %arg2 : tensor<1x?x64xf32>, tensor<64x32xf32>) outs(%f14 : tensor<1x?x32xf32>) -> tensor<1x?x32xf32>
  %e17 = tensor.empty(%s0) : tensor<1x?x32xf32>
  %v18 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v16, %arg3 : tensor<1x?x32xf32>, tensor<32xf32>) outs(%e17 : tensor<1x?x32xf32>) {
  ^bb0(%in0: f32, %in1: f32, %out: f32):
    %r = arith.addf %in0, %in1 : f32
    linalg.yield %r : f32
  } -> tensor<1x?x32xf32>
  %v19 = tensor.expand_shape %v18 [[0], [1], [2, 3]] output_shape [1, %s0, 1, 32] : tensor<1x?x32xf32> into tensor<1x?x1x32xf32>
  %e20 = tensor.empty(%s0) : tensor<1x1x?x32xf32>
  %v21 = linalg.transpose ins(%v19 : tensor<1x?x1x32xf32>) outs(%e20 : tensor<1x1x?x32xf32>) permutation = [0, 2, 1, 3]
  %e22 = tensor.empty() : tensor<64x32xf32>
  %v23 = linalg.transpose ins(%arg4 : tensor<32x64xf32>) outs(%e22 : tensor<64x32xf32>) permutation = [1, 0]
  %e24 = tensor.empty() : tensor<1x64x32xf32>
  %v25 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v23 : tensor<64x32xf32>) outs(%e24 : tensor<1x64x32xf32>) {
  ^bb0(%in0: f32, %out: f32):
    linalg.yield %in0 : f32
  } -> tensor<1x64x32xf32>
  %e26 = tensor.empty(%s0) : tensor<1x?x32xf32>
  %z28 = arith.constant 0.0 : f32
  %f27 = linalg.fill ins(%z28 : f32) outs(%e26 : tensor<1x?x32xf32>) -> tensor<1x?x32xf32>
  %v29 = linalg.batch_matmul ins(%arg0, %v25 : tensor<1x?x64xf32>, tensor<1x64x32xf32>) outs(%f27 : tensor<1x?x32xf32>) -> tensor<1x?x32xf32>
  %v30 = tensor.expand_shape %v29 [[0], [1], [2, 3]] output_shape [1, %s0, 1, 32] : tensor<1x?x32xf32> into tensor<1x?x1x32xf32>
  %e31 = tensor.empty(%s0) : tensor<1x1x?x32xf32>
  %v32 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d2, d1, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%v30 : tensor<1x?x1x32xf32>) outs(%e31 : tensor<1x1x?x32xf32>) {
  ^bb0(%in0: f32, %out: f32):
    linalg.yield %in0 : f32
  } -> tensor<1x1x?x32xf32>
  %scale33 = arith.constant 0.08838834764831845 : f32
  %e34 = tensor.empty(%s0) : tensor<1x1x?x32xf32>
  %r35 = iree_linalg_ext.attention <indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d2, d4)>, affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d5, d4)>, affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d5, d3)>, affine_map<(d0, d1, d2, d3, d4, d5) -> ()>, affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d2, d3)>]> ins(%v12, %v21, %v32, %scale33 : tensor<1x1x?x32xf32>, tensor<1x1x?x32xf32>, tensor<1x1x?x32xf32>, f32) outs(%e34 : tensor<1x1x?x32xf32>) {
  ^bb0(%score: f32):
    iree_linalg_ext.yield %score : f32
  } -> tensor<1x1x?x32xf32>
  %e36 = tensor.empty(%s0) : tensor<1x?x1x32xf32>
  %v37 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d2, d1, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%r35 : tensor<1x1x?x32xf32>) outs(%e36 : tensor<1x?x1x32xf32>) {
  ^bb0(%in0: f32, %out: f32):
    linalg.yield %in0 : f32
  } -> tensor<1x?x1x32xf32>
  %v38 = tensor.collapse_shape %v37 [[0], [1], [2, 3]] : tensor<1x?x1x32xf32> into tensor<1x?x32xf32>
  %e39 = tensor.empty(%s0) : tensor<1x?x64xf32>
  %z41 = arith.constant 0.0 : f32
  %f40 = linalg.fill ins(%z41 : f32) outs(%e39 : tensor<1x?x64xf32>) -> tensor<1x?x64xf32>
  %v42 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>, affine_map<(d0, d1, d2, d3) -> (d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%v38, %arg5 : tensor<1x?x32xf32>, tensor<64x32xf32>) outs(%f40 : tensor<1x?x64xf32>) {
  ^bb0(%in0: f32, %in1: f32, %out: f32):
    %p = arith.mulf %in0, %in1 : f32
    %t = arith.addf %out, %p : f32
    linalg.yield %t : f32
  } -> tensor<1x?x64xf32>
  %e43 = tensor.empty(%s0) : tensor<1x?x64xf32>
  %v44 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%arg0, %v42 : tensor<1x?x64xf32>, tensor<1x?x64xf32>) outs(%e43 : tensor<1x?x64xf32>) {
  ^bb0(%in0: f32, %in1: f32, %out: f32):
    %r = arith.addf %in0, %in1 : f32
    linalg.yield %r : f32
  } -> tensor<1x?x64xf32>
  return %v44 : tensor<1x?x64xf32>
}
