"""A decode step over a latent cache, as DeepSeek has it."""

from __future__ import annotations

from helpers import MAPS

# DeepSeek's decode: the heads are rows of one, K is a cache that a row is written to, V its first
# columns.
LATENT_CACHE = (
    MAPS
    + """
func.func @main(%rows: tensor<4x320xf32>, %old: tensor<1x40x320xf32>,
    %new: tensor<1x320xf32>, %at: tensor<1x2xi64>) -> tensor<4x256xf32> {
  %cache = iree_linalg_ext.scatter dimension_map = [0, 1] unique_indices(true)
      ins(%new, %at : tensor<1x320xf32>, tensor<1x2xi64>) outs(%old : tensor<1x40x320xf32>) {
    ^bb0(%x: f32, %y: f32):
      iree_linalg_ext.yield %x : f32
  } -> tensor<1x40x320xf32>
  %q = tensor.expand_shape %rows [[0, 1], [2]] output_shape [1, 4, 320]
      : tensor<4x320xf32> into tensor<1x4x320xf32>
  %scale = arith.constant 0.0625 : f32
  %k = tensor.expand_shape %cache [[0, 1], [2], [3]] output_shape [1, 1, 40, 320]
      : tensor<1x40x320xf32> into tensor<1x1x40x320xf32>
  %v4 = tensor.extract_slice %k[0, 0, 0, 0] [1, 1, 40, 256] [1, 1, 1, 1]
      : tensor<1x1x40x320xf32> to tensor<1x1x40x256xf32>
  %v = tensor.collapse_shape %v4 [[0, 1], [2], [3]]
      : tensor<1x1x40x256xf32> into tensor<1x40x256xf32>
  %out = tensor.empty() : tensor<1x4x256xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %cache, %v, %scale : tensor<1x4x320xf32>, tensor<1x40x320xf32>,
          tensor<1x40x256xf32>, f32) outs(%out : tensor<1x4x256xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<1x4x256xf32>
  %heads = tensor.collapse_shape %r [[0, 1], [2]] : tensor<1x4x256xf32> into tensor<4x256xf32>
  return %heads : tensor<4x256xf32>
}
"""
)
