"""Products of matrices, by triangular inverses, too, those of experts, and attention."""

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


def inverse_of_lower(a: Any, is_unit: bool) -> Any:
    """The inverse of lower triangular matrices of a known size n, in log2(n) steps: blocks of
    twice the size from the inverses of two, of which what is above the diagonal is not read."""
    batch, n = a.shape[:-2], a.shape[-1]
    size = 1 << max(n - 1, 0).bit_length()
    ones = torch.ones(*batch, n, dtype=a.dtype, device=a.device)
    ends = ones if is_unit else a.diagonal(dim1=-2, dim2=-1).reciprocal()
    made = torch.nn.functional.pad(ends, (0, size - n), value=1.0)[..., None, None]
    a = torch.nn.functional.pad(a, (0, size - n, 0, size - n))
    half = 1
    while half < size:
        count = size // (2 * half)
        cut = a.reshape(*batch, count, 2 * half, count, 2 * half)
        blocks = cut.diagonal(dim1=-4, dim2=-2).movedim(-1, -3)
        first, second = made.reshape(*batch, count, 2, half, half).unbind(-3)
        low = -(second @ blocks[..., half:, :half] @ first)
        upper = torch.nn.functional.pad(first, (0, half))
        made = torch.cat([upper, torch.cat([low, second], -1)], -2)
        half *= 2
    return made[..., 0, :n, :n]


def _solve_triangular(
    a: Any, b: Any, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Any:
    if not isinstance(a.shape[-1], int) or not a.shape[-1] or a.is_complex():
        return NotImplemented
    lower = a.flip(-2, -1) if upper else a
    inverse = inverse_of_lower(lower, unitriangular)
    inverse = inverse.flip(-2, -1) if upper else inverse
    return torch.matmul(inverse, b) if left else torch.matmul(b, inverse)


def _triangular_solve(
    b: Any, a: Any, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> Any:
    turned = a.mT if transpose else a
    options = {"upper": upper != transpose, "unitriangular": unitriangular}
    made = _solve_triangular(turned, b, **options)
    return made if made is NotImplemented else (made, a.expand(*made.shape[:-2], -1, -1).clone())


def library_recipes() -> dict[Any, Callable[..., Any]]:
    """Recipes of ops that other packages register, where they are loaded: transformers' product of
    experts' rows."""
    found = getattr(torch.ops.transformers, "grouped_mm_fallback", None)
    return {} if found is None else {found.default: _grouped_product}


RECIPES: dict[Any, Callable[..., Any]] = {
    aten._grouped_mm.default: _grouped_mm,
    aten.linalg_solve_triangular.default: _solve_triangular,
    aten.triangular_solve.default: _triangular_solve,
    aten.matmul.default: _times_vector,
    aten._native_multi_head_attention.default: self_attention,
    aten._transformer_encoder_layer_fwd.default: encoder_layer,
}
