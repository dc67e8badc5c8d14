"""Ops that torch itself says what they are made of."""

from __future__ import annotations

import torch

aten = torch.ops.aten

# What IREE 3.13's import from torch leaves as it is, or lowers worse than what it is made of: the
# list of iree-turbine, which tests it against IREE.
DECOMPOSED = (
    aten.norm.ScalarOpt_dim,
    aten.native_group_norm,
    aten.upsample_bilinear2d.vec,
    aten.native_layer_norm,
    aten.masked_fill.Tensor,
    aten.masked_fill.Scalar,
    aten.t,
    aten.addmm,
    aten._native_batch_norm_legit_functional,
    aten._native_batch_norm_legit_no_training,
    aten._native_batch_norm_legit,
    aten._native_batch_norm_legit.no_stats,
    aten.soft_margin_loss,
    aten.im2col,
    aten._euclidean_dist,
    aten.index_copy,
    aten.index_copy_,
    aten.index_add,
    aten.index_add_,
    aten.grid_sampler_2d,
    aten.log_sigmoid_forward,
    aten.unsafe_split.Tensor,
    aten.dot,
    aten._adaptive_avg_pool2d,
    aten._prelu_kernel,
    aten.full,
    aten._log_softmax,
    aten._to_copy,
    aten.lift_fresh_copy.default,
    aten._unsafe_index.Tensor,
    aten.unbind.int,
    aten.linspace.Tensor_Tensor,
)
# What torch makes of others by itself, and IREE 3.13's import fails on.
COMPOSED = (
    *("aten._weight_norm.default", "aten._weight_norm_interface.default"),
    *("aten.meshgrid.default", "aten.meshgrid.indexing"),
    *("aten.logsumexp.default", "aten.instance_norm.default", "aten.isfinite.default"),
    # Its infinities are close to all numbers.
    "aten.isclose.default",
    *(f"aten._upsample_nearest_exact{dims}d.vec" for dims in (1, 2, 3)),
    *("aten.clamp_max.Tensor", "aten.broadcast_tensors.default"),
    # Of powers of 2 alone, or a crash.
    *(f"aten.fft_{name}.default" for name in ("fft", "ifft", "rfft", "irfft")),
    *("aten.stft.default", "aten.stft.center", "aten.istft.default"),
    *("aten.binary_cross_entropy_with_logits.default", "aten.kl_div.default"),
    "aten.cdist.default",
    *(f"aten.{kind}_cell.default" for kind in ("lstm", "gru", "rnn_tanh", "rnn_relu")),
    # Its factors between degrees and radians have six digits.
    *("aten.deg2rad.default", "aten.rad2deg.default"),
    # Its code for it is the logarithm of what is 0 below -90.
    "aten.log_sigmoid.default",
)
