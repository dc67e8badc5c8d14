"""Products of matrices, those of experts, and attention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..fast_paths import encoder_layer, self_attention
from .complexes import of_two

aten = torch.ops.aten


def _grouped_product(x: Any, weights: Any, ends: Any) -> Any:
    """Rows of group g, up to row `ends[g]`, times the weights of g; rows behind the last are 0.

    Few rows read their own weights; of many every group computes all.
    """
    rows, groups = x.shape[0], weights.shape[0]
    place = torch.arange(rows, device=x.device)[:, None]
    group = (place >= ends).sum(-1)
    if rows <= groups:
        own = weights.index_select(0, group.clamp(max=groups - 1))
        result = torch.bmm(x[:, None], own)[:, 0]
        return result.masked_fill((group == groups)[:, None], 0)
    chosen = (group == torch.arange(groups, device=x.device)[:, None])[:, :, None]
    return torch.where(chosen, torch.matmul(x, weights), 0).sum(0)


def _grouped_mm(x: Any, weights: Any, offs: Any = None, bias: Any = None, out_dtype: Any = None):
    if x.dim() != 2 or weights.dim() != 3 or offs is None or bias is not None:
        return NotImplemented
    return _grouped_product(x, weights, offs).to(out_dtype or x.dtype)


def _times_vector(x: Any, y: Any) -> Any:
    """The import has no program for batches of matrices times a vector."""
    if x.is_complex() or y.is_complex():
        return of_two(torch.matmul)(x, y)
    if y.dim() == 1 and x.dim() > 2:
        return torch.matmul(x, y.unsqueeze(-1)).squeeze(-1)
    if x.dim() == 1 and y.dim() > 2:
        return torch.matmul(x.unsqueeze(0), y).squeeze(-2)
    return NotImplemented


def library_recipes() -> dict[Any, Callable[..., Any]]:
    """Recipes of ops that other packages register, where they are loaded: transformers' product of
    experts' rows."""
    found = getattr(torch.ops.transformers, "grouped_mm_fallback", None)
    return {} if found is None else {found.default: _grouped_product}


RECIPES: dict[Any, Callable[..., Any]] = {
    aten._grouped_mm.default: _grouped_mm,
    aten.matmul.default: _times_vector,
    aten._native_multi_head_attention.default: self_attention,
    aten._transformer_encoder_layer_fwd.default: encoder_layer,
}
