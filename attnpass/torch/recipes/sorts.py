"""What is in order: sorts, medians, searches."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from .shapes import of_number

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


def _median_of_numbers(x: Any, dim: int, keepdim: bool = False) -> Any:
    """The median of those that are no NaN, which stand behind all others in order."""
    if not x.is_floating_point():
        return _median(x, dim, keepdim)
    count = x.shape[dim]
    if not isinstance(count, int) or not count:
        return NotImplemented
    values, places = torch.sort(x, dim)
    middle = ((torch.isnan(x).logical_not().sum(dim, keepdim=True) - 1) // 2).clamp(min=0)
    value, place = (torch.gather(found, dim, middle) for found in (values, places))
    return (value, place) if keepdim else (value.squeeze(dim), place.squeeze(dim))


def _median_of_all_numbers(x: Any) -> Any:
    found = _median_of_numbers(x.reshape(-1), 0)
    return found if found is NotImplemented else found[0]


def _mode(x: Any, dim: int = -1, keepdim: bool = False) -> Any:
    """The least of those that are there most often, and the last place of it."""
    if x.dtype == torch.bool or x.is_complex():
        return NotImplemented
    x = x.movedim(dim, -1)
    # NaN is another number each time, and behind all others.
    same = x.unsqueeze(-1) == x.unsqueeze(-2)
    counts = same.to(torch.int64).sum(-1).clamp(min=1)
    is_most = counts == counts.amax(-1, keepdim=True)
    bounds = (torch.finfo if x.is_floating_point() else torch.iinfo)(x.dtype)
    largest = math.inf if x.is_floating_point() else bounds.max
    is_number = is_most & (x == x)
    value = torch.where(is_number, x, largest).amin(-1, keepdim=True)
    value = torch.where(is_number.any(-1, keepdim=True), value, x.amax(-1, keepdim=True))
    place = torch.arange(x.shape[-1], device=x.device)
    is_it = (x == value) | (torch.isnan(x) & torch.isnan(value))
    last = torch.where(is_it, place, 0).amax(-1, keepdim=True)
    value, last = value.movedim(-1, dim), last.movedim(-1, dim)
    return (value, last) if keepdim else (value.squeeze(dim), last.squeeze(dim))


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
    aten.median.dim: of_number(aten.median.dim, _median),
    aten.nanmedian.dim: of_number(aten.nanmedian.dim, _median_of_numbers),
    aten.nanmedian.default: _median_of_all_numbers,
    aten.mode.default: of_number(aten.mode.default, _mode),
    aten.median.default: _median_of_all,
    aten.kthvalue.default: of_number(aten.kthvalue.default, _kth),
}
