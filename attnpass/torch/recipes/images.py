"""Images of other sizes, and samples of them."""

from __future__ import annotations

import itertools
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


def _position(at: Any, size: Any, padding: int, corners: bool) -> Any:
    """Where a grid's numbers from -1 to 1 are among `size` elements; with `padding` of 1 what lies
    outside is at the edge, of 2 it is mirrored at it."""
    at = (at + 1) * (size - 1) / 2 if corners else ((at + 1) * size - 1) / 2
    if padding == 2:
        low, span = (0.0, size - 1) if corners else (-0.5, size)
        far = (at - low).abs()
        turns = torch.floor(far / span)
        rest = far - turns * span
        at = torch.where(turns % 2 == 0, rest, span - rest) + low
        # A span of 0 has no mirrors.
        at = torch.where(at.isnan(), 0.0, at)
    return at.clamp(0, size - 1) if padding else at


def _sampled_volume(x: Any, grid: Any, mode: int, padding: int, corners: bool) -> Any:
    """The nearest voxel of each point, or the eight around it by their distance."""
    kind, sizes = x.dtype, x.shape[2:]
    grid = grid.to(torch.promote_types(kind, torch.float32))
    at = [
        _position(numbers, size, padding, corners)
        for numbers, size in zip(reversed(grid.unbind(-1)), sizes, strict=True)
    ]
    lows = [numbers.floor() if mode == 0 else numbers.round() for numbers in at]
    flat = x.flatten(2)
    found: Any = 0
    for steps in itertools.product(*[(0, 1) if mode == 0 else (0,)] * 3):
        weight, place = torch.ones_like(at[0]), torch.zeros_like(at[0], dtype=torch.int64)
        for numbers, low, step, size in zip(at, lows, steps, sizes, strict=True):
            inside = (low + step >= 0) & (low + step <= size - 1)
            share = 1 - (numbers - low - step).abs() if mode == 0 else 1.0
            weight = torch.where(inside, weight * share, 0.0)
            index = torch.where(inside, low + step, 0.0).to(torch.int64)
            place = place * size + index
        rows = place.flatten(1)[:, None].expand(-1, flat.shape[1], -1)
        found = found + torch.gather(flat, 2, rows) * weight.flatten(1)[:, None]
    return found.to(kind).unflatten(2, grid.shape[1:-1])


def _grid_sampler(x: Any, grid: Any, mode: int, padding: int, corners: bool) -> Any:
    """Cubic samples, which IREE 3.13 takes for bilinear ones, and those of f64, of which it has no
    program; samples of volumes, of which it has no import."""
    if x.dim() == 5 and mode != 2:
        return _sampled_volume(x, grid, mode, padding, corners)
    if x.dim() != 4 or (mode != 2 and x.dtype != torch.float64):
        return NotImplemented
    return torch._decomp.decompositions._grid_sampler_2d(x, grid, mode, padding, corners)


RECIPES: dict[Any, Callable[..., Any]] = {
    aten.grid_sampler.default: _grid_sampler,
    aten._upsample_bilinear2d_aa.default: _smoothly(lambda t: torch.where(t < 1, 1 - t, 0.0)),
    aten._upsample_bicubic2d_aa.default: _smoothly(_cubic),
}
