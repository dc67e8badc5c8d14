"""Results of all elements up to a place."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

aten = torch.ops.aten


def _extremes_so_far(least: bool) -> Callable[..., Any]:
    """The largest (least) of those up to a place, and where the last of them is."""

    def extremes(x: Any, dim: int) -> Any:
        if not x.dim() or x.dtype == torch.bool or x.is_complex():
            return NotImplemented
        x = x.movedim(dim, -1)
        place = torch.arange(x.shape[-1], device=x.device)
        is_before = place <= place[:, None]
        bounds = (torch.finfo if x.is_floating_point() else torch.iinfo)(x.dtype)
        ends = (-math.inf, math.inf) if x.is_floating_point() else (bounds.min, bounds.max)
        terms = torch.where(is_before, x.unsqueeze(-2), ends[least])
        value = terms.amin(-1) if least else terms.amax(-1)
        is_it = (terms == value.unsqueeze(-1)) | torch.isnan(terms)
        last = torch.where(is_it & is_before, place, 0).amax(-1)
        return value.movedim(-1, dim), last.movedim(-1, dim)

    return extremes


def _so_far(join: Callable[[Any, Any], Any], least: float, x: Any, dim: int, kind: Any) -> Any:
    """Those up to a place, joined, as `kind`; each step takes in as many more as a result has.
    Nothing where their number is not known, or 0."""
    if not x.dim():
        return x.to(kind)
    count = x.shape[dim]
    if not isinstance(count, int) or not count:
        return NotImplemented
    x, step = x.movedim(dim, -1), 1
    while step < count:
        before = [torch.full_like(x.narrow(-1, 0, step), least), x.narrow(-1, 0, count - step)]
        x, step = join(x, torch.cat(before, -1)), 2 * step
    return x.movedim(-1, dim).to(kind)


def _running_product(x: Any, dim: int, *, dtype: Any = None) -> Any:
    """As torch's, products are of 64 bits: those of a part may be larger than all, or less."""
    if x.is_complex():
        return NotImplemented
    kind = dtype or (x.dtype if x.is_floating_point() else torch.int64)
    wide = torch.float64 if kind.is_floating_point else kind
    return _so_far(torch.mul, 1, x.to(wide), dim, kind)


def _running_log_of_sums(x: Any, dim: int) -> Any:
    """IREE 3.13 adds up powers of e, of which those of 89 are infinite."""

    def join(x: Any, y: Any) -> Any:
        most, least = torch.maximum(x, y), torch.minimum(x, y)
        return torch.where(most.isinf(), most, most + (least - most).exp().log1p())

    if x.is_complex():
        return NotImplemented
    wide = torch.promote_types(x.dtype, torch.float32)
    return _so_far(join, -math.inf, x.to(wide), dim, x.dtype)


RECIPES: dict[Any, Callable[..., Any]] = {
    aten.cummax.default: _extremes_so_far(False),
    aten.cummin.default: _extremes_so_far(True),
    aten.cumprod.default: _running_product,
    aten.logcumsumexp.default: _running_log_of_sums,
}
