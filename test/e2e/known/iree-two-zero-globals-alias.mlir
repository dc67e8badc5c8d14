// IREE 3.13 gives two mutable globals of one splat one buffer: V's cache overwrites K's.
util.global private mutable @ck = dense<0.0> : tensor<4x2xf32>
util.global private mutable @cv = dense<0.0> : tensor<4x2xf32>
func.func @step(%p: i32, %k: tensor<1x2xf32>, %v: tensor<1x2xf32>) -> (tensor<4x2xf32>, tensor<4x2xf32>) {
  %i = arith.index_cast %p : i32 to index
  %a = util.global.load @ck : tensor<4x2xf32>
  %b = tensor.insert_slice %k into %a[%i, 0] [1, 2] [1, 1] : tensor<1x2xf32> into tensor<4x2xf32>
  util.global.store %b, @ck : tensor<4x2xf32>
  %c = util.global.load @cv : tensor<4x2xf32>
  %d = tensor.insert_slice %v into %c[%i, 0] [1, 2] [1, 1] : tensor<1x2xf32> into tensor<4x2xf32>
  util.global.store %d, @cv : tensor<4x2xf32>
  %e = tensor.empty() : tensor<4x2xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i,j)->(i,j)>, affine_map<(i,j)->(i,j)>], iterator_types = ["parallel","parallel"]} ins(%b : tensor<4x2xf32>) outs(%e : tensor<4x2xf32>) { ^bb0(%x: f32, %y: f32):
 %z = arith.addf %x, %x : f32
 linalg.yield %z : f32 } -> tensor<4x2xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(i,j)->(i,j)>, affine_map<(i,j)->(i,j)>], iterator_types = ["parallel","parallel"]} ins(%d : tensor<4x2xf32>) outs(%e : tensor<4x2xf32>) { ^bb0(%x: f32, %y: f32):
 %z = arith.addf %x, %x : f32
 linalg.yield %z : f32 } -> tensor<4x2xf32>
  return %r, %s : tensor<4x2xf32>, tensor<4x2xf32>
}
