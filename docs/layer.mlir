// Attention over 8 heads of 64, with the projection of V in front of it: a small model to try.
//
//   attn-compile layer.mlir -o layer.vmfb --iree-hal-target-device=local \
//       --iree-hal-local-target-device-backends=llvm-cpu --iree-llvmcpu-target-cpu=host \
//       --attn-summary
//   iree-run-module --module=layer.vmfb --device=local-task --input=256x512xf32=0.1 \
//       --input=512x512xf32=0.1 --input=8x256x64xf32=0.1 --input=8x256x64xf32=0.1

#query = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#key = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#value = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#scale = affine_map<(b, m, n, k1, k2) -> ()>
#output = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

func.func @main(%x: tensor<256x512xf32>, %wv: tensor<512x512xf32>, %q: tensor<8x256x64xf32>,
                %k: tensor<8x256x64xf32>) -> tensor<8x256x64xf32> {
  %zero = arith.constant 0.0 : f32
  %scale = arith.constant 0.125 : f32
  %sums = tensor.empty() : tensor<256x512xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%sums : tensor<256x512xf32>) -> tensor<256x512xf32>
  %flat = linalg.matmul ins(%x, %wv : tensor<256x512xf32>, tensor<512x512xf32>)
      outs(%zeros : tensor<256x512xf32>) -> tensor<256x512xf32>
  %split = tensor.expand_shape %flat [[0], [1, 2]] output_shape [256, 8, 64]
      : tensor<256x512xf32> into tensor<256x8x64xf32>
  %heads = tensor.empty() : tensor<8x256x64xf32>
  %v = linalg.transpose ins(%split : tensor<256x8x64xf32>) outs(%heads : tensor<8x256x64xf32>)
      permutation = [1, 0, 2]
  %out = tensor.empty() : tensor<8x256x64xf32>
  %result = iree_linalg_ext.attention <indexing_maps = [#query, #key, #value, #scale, #output]>
      ins(%q, %k, %v, %scale : tensor<8x256x64xf32>, tensor<8x256x64xf32>, tensor<8x256x64xf32>,
          f32) outs(%out : tensor<8x256x64xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<8x256x64xf32>
  return %result : tensor<8x256x64xf32>
}
