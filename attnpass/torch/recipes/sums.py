"""Means, counts, distances and losses."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

aten = torch.ops.aten


def _mean(op: Any) -> Callable[..., Any]:
    """A mean of integers as floats."""

    def mean(x: Any, *rest: Any, dtype: Any = None) -> Any:
        if dtype is None or x.is_floating_point():
            return NotImplemented
        return op(x.to(dtype), *rest)

    return mean


def _histogram(x: Any, bins: int = 100, min: float = 0, max: float = 0) -> Any:
    if min == max:
        return NotImplemented
    bucket = ((x - min) * (bins / (max - min))).floor().clamp(max=bins - 1).to(torch.float32)
    place = torch.arange(bins, device=x.device, dtype=torch.float32).reshape(-1, 1)
    counted = (bucket.reshape(1, -1) == place) & ((x >= min) & (x <= max)).reshape(1, -1)
    # IREE 3.13 has no program for CUDA for a sum of whole numbers that compares floats.
    return counted.to(torch.float32).sum(1).to(x.dtype)


def _distances(x: Any, y: Any, p: float, compute_mode: Any = None) -> Any:
    return torch.linalg.vector_norm(x.unsqueeze(-2) - y.unsqueeze(-3), p, -1)


def _cross_entropy(
    x: Any,
    target: Any,
    weight: Any = None,
    reduction: int = 1,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Any:
    """Of class numbers or of shares of the classes; by `reduction` one a row (0), their mean (1) or
    sum (2)."""
    classes = 1 if x.dim() > 1 else 0
    logs = torch.log_softmax(x, classes)
    weighed = logs
    if weight is not None:
        weighed = logs * weight.reshape(-1, *[1] * (logs.dim() - classes - 1))
    even = -weighed.mean(classes) * label_smoothing
    if target.is_floating_point():
        losses = even - (1 - label_smoothing) * (target * weighed).sum(classes)
        return (losses, losses.mean(), losses.sum())[reduction]
    if not label_smoothing:
        return _negative_logs(logs, target, weight, reduction, ignore_index)
    losses = _negative_logs(logs, target, weight, 0, ignore_index)
    losses = torch.where(target != ignore_index, (1 - label_smoothing) * losses + even, 0)
    shares = _shares(logs, target, weight, ignore_index)
    return (losses, losses.sum() / shares.sum(), losses.sum())[reduction]


def _shares(logs: Any, target: Any, weight: Any, ignore_index: int) -> Any:
    """How much each row counts."""
    kept = target != ignore_index
    if weight is None:
        return kept.to(logs.dtype)
    place = torch.where(kept, target, 0)
    return kept.to(logs.dtype) * weight.index_select(0, place.reshape(-1)).reshape(place.shape)


def _negative_logs(
    logs: Any, target: Any, weight: Any = None, reduction: int = 1, ignore_index: int = -100
) -> Any:
    """Logarithms of classes' shares, those of the wanted ones; as `_cross_entropy`."""
    classes = 1 if logs.dim() > 1 else 0
    kept = target != ignore_index
    place = torch.where(kept, target, 0)
    share = _shares(logs, target, weight, ignore_index)
    found = torch.gather(logs, classes, place.unsqueeze(classes)).squeeze(classes)
    losses = torch.where(kept, -found * share, 0)
    return (losses, losses.sum() / share.sum(), losses.sum())[reduction]


def _bags(
    weight: Any,
    indices: Any,
    offsets: Any,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> tuple[Any, Any, Any, Any]:
    """Sums (mode 0), means (1) or maxima (2) of the rows of bags, which begin at `offsets`; beside
    them what gradients ask for: the bag of each row, and of each bag its rows, twice."""
    count = offsets.shape[0] - include_last_offset
    place = torch.arange(indices.shape[0], device=indices.device)
    bag = (place[:, None] >= offsets[:count]).sum(-1) - 1
    own = bag == torch.arange(count, device=indices.device)[:, None]
    if padding_idx is not None and padding_idx >= 0:
        own = own & (indices != padding_idx)
    rows, sizes = weight.index_select(0, indices), own.sum(-1)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights[:, None]
    if mode == 2:
        made = torch.where(own[:, :, None], rows, -math.inf).amax(1)
        made = torch.where(sizes[:, None] > 0, made, 0)
    else:
        made = own.to(rows.dtype) @ rows
        made = made / sizes.clamp(min=1)[:, None].to(rows.dtype) if mode == 1 else made
    return made, bag, sizes, sizes


RECIPES: dict[Any, Callable[..., Any]] = {
    **{op: _mean(op) for op in (aten.mean.default, aten.mean.dim)},
    aten.histc.default: _histogram,
    aten._cdist_forward.default: _distances,
    aten.cross_entropy_loss.default: _cross_entropy,
    aten.nll_loss_nd.default: _negative_logs,
    aten.embedding_bag.padding_idx: _bags,
}
