"""What the fast paths of torch.nn's attention and encoder layers, which are single ops, are made
of."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F

_ROWS_AND_KEYS, _BATCHES_AND_KEYS = 0, 1


def self_attention(
    query: Any,
    key: Any,
    value: Any,
    width: int,
    heads: int,
    qkv_weight: Any,
    qkv_bias: Any,
    out_weight: Any,
    out_bias: Any,
    mask: Any = None,
    need_weights: bool = True,
    average_weights: bool = True,
    mask_type: int | None = None,
) -> tuple[Any, Any]:
    """`aten._native_multi_head_attention`: the result [batch, rows, width], and the weights of the
    keys, where they are needed."""
    weights, biases = qkv_weight.chunk(3), qkv_bias.chunk(3)
    q, k, v = (
        F.linear(x, weight, bias).unflatten(-1, (heads, width // heads)).transpose(1, 2)
        for x, weight, bias in zip((query, key, value), weights, biases, strict=True)
    )
    seen = None if mask is None else ~_of_all_dims(mask.to(torch.bool), mask_type)
    shares = query.new_empty(0)
    if need_weights:
        scores = q @ k.transpose(-1, -2) / math.sqrt(width // heads)
        if seen is not None:
            scores = torch.where(seen, scores, float("-inf"))
        shares = scores.softmax(-1)
        result = shares @ v
        shares = shares.mean(1) if average_weights else shares
    else:
        result = F.scaled_dot_product_attention(q, k, v, seen)
    return F.linear(result.transpose(1, 2).flatten(2), out_weight, out_bias), shares


def _of_all_dims(mask: Any, mask_type: int | None) -> Any:
    """A mask as one of batches, heads, rows and keys."""
    if mask_type == _ROWS_AND_KEYS:
        return mask[None, None]
    return mask[:, None, None] if mask_type == _BATCHES_AND_KEYS else mask


def encoder_layer(
    x: Any,
    width: int,
    heads: int,
    qkv_weight: Any,
    qkv_bias: Any,
    out_weight: Any,
    out_bias: Any,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: Any,
    norm_bias_1: Any,
    norm_weight_2: Any,
    norm_bias_2: Any,
    weight_1: Any,
    bias_1: Any,
    weight_2: Any,
    bias_2: Any,
    mask: Any = None,
    mask_type: int | None = None,
) -> Any:
    """`aten._transformer_encoder_layer_fwd` of [batch, rows, width]."""

    def attention(x: Any) -> Any:
        return self_attention(
            *(x, x, x, width, heads, qkv_weight, qkv_bias, out_weight, out_bias),
            *(mask, False, False, mask_type),
        )[0]

    def forward(x: Any) -> Any:
        hidden = F.linear(x, weight_1, bias_1)
        return F.linear(F.gelu(hidden) if use_gelu else F.relu(hidden), weight_2, bias_2)

    def norm(x: Any, weight: Any, bias: Any) -> Any:
        return F.layer_norm(x, (width,), weight, bias, eps)

    if norm_first:
        x = x + attention(norm(x, norm_weight_1, norm_bias_1))
        return x + forward(norm(x, norm_weight_2, norm_bias_2))
    x = norm(x + attention(x), norm_weight_1, norm_bias_1)
    return norm(x + forward(x), norm_weight_2, norm_bias_2)
