"""Images of other sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

aten = torch.ops.aten


def _smoothed(x: Any, size: Any, corners: bool, scales: Any, weigh: Any) -> Any:
    """Interpolation of images that smooths them where they shrink, dim by dim: products with what
    `weigh` has for the distance between a new point and an old one. Bytes are rounded behind each,
    as PyTorch's are."""
    kind = x.dtype
    wide = torch.promote_types(kind, torch.float32)
    for dim, wanted, given in reversed(list(zip((-2, -1), size, scales, strict=True))):
        count = x.shape[dim]
        if corners:
            step = (count - 1) / (wanted - 1) if wanted > 1 else 0.0
        else:
            step = 1 / given if given else count / wanted
        old, new = (torch.arange(n, device=x.device).to(wide) + 0.5 for n in (count, wanted))
        weights = weigh((old[:, None] - new * step).abs() / max(step, 1.0))
        weights = weights / weights.sum(0)
        if kind.is_floating_point:
            x = torch.matmul(x.movedim(dim, -1), weights.to(kind)).movedim(-1, dim)
        else:
            made = torch.matmul(x.movedim(dim, -1).to(wide), weights).movedim(-1, dim)
            x = made.round().clamp(0, torch.iinfo(kind).max).to(kind)
    return x


def _smoothly(weigh: Any) -> Callable[..., Any]:
    return lambda x, size, corners, *scales: _smoothed(
        x, size, corners, scales or (None, None), weigh
    )


def _cubic(t: Any) -> Any:
    near, far = (1.5 * t - 2.5) * t * t + 1, ((-0.5 * t + 2.5) * t - 4) * t + 2
    return torch.where(t < 1, near, torch.where(t < 2, far, 0.0))


def _grid_sampler(x: Any, grid: Any, mode: int, padding: int, corners: bool) -> Any:
    """Cubic samples, which IREE 3.13 takes for bilinear ones, and those of f64, of which it has no
    program."""
    if x.dim() != 4 or (mode != 2 and x.dtype != torch.float64):
        return NotImplemented
    return torch._decomp.decompositions._grid_sampler_2d(x, grid, mode, padding, corners)


RECIPES: dict[Any, Callable[..., Any]] = {
    aten.grid_sampler.default: _grid_sampler,
    aten._upsample_bilinear2d_aa.default: _smoothly(lambda t: torch.where(t < 1, 1 - t, 0.0)),
    aten._upsample_bicubic2d_aa.default: _smoothly(_cubic),
}
