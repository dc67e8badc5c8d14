"""What is in order: sorts, medians, searches."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

aten = torch.ops.aten


def _topk(x: Any, k: Any, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """In order where any order would do, of which the import knows nothing."""
    return NotImplemented if sorted else aten.topk.default(x, k, dim, largest, True)


def _sorted_truths(x: Any, dim: int = -1, descending: bool = False) -> Any:
    """IREE 3.13 has true before false."""
    if x.dtype != torch.bool:
        return NotImplemented
    values, places = aten.sort.default(x.to(torch.int32), dim, descending)
    return values != 0, places


def _stable_sort(x: Any, *, stable: Any = None, dim: int = -1, descending: bool = False) -> Any:
    """IREE's sort keeps the order of equal elements."""
    return aten.sort.default(x, dim, descending)


def _kth(x: Any, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Any, Any]:
    found = [result.narrow(dim, k - 1, 1) for result in torch.sort(x, dim)]
    value, place = found if keepdim else [result.squeeze(dim) for result in found]
    return value, place


def _median(x: Any, dim: int, keepdim: bool = False) -> Any:
    count = x.shape[dim] if x.dim() else 0
    if not isinstance(count, int) or not count:
        return NotImplemented
    value, place = _kth(x, (count + 1) // 2, dim, keepdim)
    if not x.is_floating_point():
        return value, place
    # It is NaN where one is.
    other = torch.isnan(x)
    first = other.to(torch.int64).argmax(dim, keepdim)
    other = other.any(dim, keepdim)
    return torch.where(other, math.nan, value), torch.where(other, first, place)


def _median_of_all(x: Any) -> Any:
    found = _median(x.reshape(-1), 0)
    return found if found is NotImplemented else found[0]


def _searched(sorted_sequence: Any, self: Any, *, right: bool = False, **more: Any) -> Any:
    """How many numbers of a row come before each that is looked for."""
    if more.get("sorter") is not None or more.get("side") is not None:
        return NotImplemented
    row, number = sorted_sequence.unsqueeze(-2), self.unsqueeze(-1)
    # NaN comes behind all numbers.
    before = ~((row > number) if right else (row >= number))
    kind = torch.int32 if more.get("out_int32") else torch.int64
    return before.to(torch.int32).sum(-1).to(kind)


RECIPES: dict[Any, Callable[..., Any]] = {
    aten.topk.default: _topk,
    aten.sort.stable: _stable_sort,
    aten.sort.default: _sorted_truths,
    aten.searchsorted.Tensor: _searched,
    aten.median.dim: _median,
    aten.median.default: _median_of_all,
    aten.kthvalue.default: _kth,
}
