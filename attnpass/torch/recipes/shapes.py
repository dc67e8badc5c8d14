"""Dims that are cut, dropped, rolled and padded."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

aten = torch.ops.aten


def _split_with_sizes(x: Any, sizes: Any, dim: int = 0) -> Any:
    """In sizes that are computed, as the rows of experts: the import has no program for these."""
    if all(isinstance(size, int) for size in sizes):
        return NotImplemented
    parts, start = [], 0
    for size in sizes:
        parts.append(aten.slice.Tensor(x, dim, start, start + size))
        start = start + size
    return parts


def _roll(x: Any, shifts: Any, dims: Any = ()) -> Any:
    """Without dims all of it rolls as one."""
    if dims:
        return NotImplemented
    return torch.roll(x.reshape(-1), shifts, (0,)).reshape(x.shape)


def _pad(x: Any, pad: Any, mode: str = "constant", value: float | None = None) -> Any:
    """Round a circle: what is cut off at one end of a dim is put in front of the other. Mirrored
    along one dim: IREE 3.13 has no program where its sides differ, nor for edges repeated so, nor
    for three dims."""
    if mode == "reflect" and len(pad) in (2, 6) and min(pad) >= 0:
        for place in range(len(pad) // 2):
            dim, front, behind = -1 - place, *pad[2 * place : 2 * place + 2]
            sides = (x.narrow(dim, 1, front), x.narrow(dim, x.shape[dim] - 1 - behind, behind))
            before, after = (side.flip(dim) for side in sides)
            x = torch.cat([before, x, after], dim)
        return x
    if mode not in ("circular", "replicate"):
        return NotImplemented
    for place, dim in enumerate(range(x.dim() - 1, x.dim() - 1 - len(pad) // 2, -1)):
        cut = [min(count, 0) for count in pad[2 * place : 2 * place + 2]]
        middle = x.narrow(dim, -cut[0], x.shape[dim] + sum(cut))
        parts, last, is_edge = [middle], middle.shape[dim], mode == "replicate"
        for behind, count in enumerate(pad[2 * place : 2 * place + 2]):
            if count > 0:
                starts = (0, last - 1) if is_edge else (last - count, 0)
                side = middle.narrow(dim, starts[behind], 1 if is_edge else count)
                sizes = [count if each == dim else -1 for each in range(x.dim())]
                parts.insert(behind * len(parts), side.expand(sizes))
        x = torch.cat(parts, dim) if len(parts) > 1 else middle
    return x


def _squeezed(x: torch.Tensor, dims: Any) -> torch.Tensor:
    """Dim by dim: torch makes a `prims.squeeze` of it, which it does not decompose again."""
    for dim in sorted((dim % max(1, x.dim()) for dim in dims), reverse=True):
        x = x.squeeze(dim)
    return x


def of_number(op: Any, otherwise: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """An op along a dim, of a tensor without dims as of one with one: the import fails on it, or
    does not end; of others `otherwise`."""

    def made(x: Any, *rest: Any, **named: Any) -> Any:
        if x.dim():
            return otherwise(x, *rest, **named) if otherwise else NotImplemented
        return pytree.tree_map(lambda result: result.squeeze(), op(x.unsqueeze(0), *rest, **named))

    return made


def _in_order_of(x: Any, stride: Any) -> Any:
    """A copy whose dims lie in the order that strides say: torch's own decompositions end in it."""
    if not all(isinstance(step, int) for step in stride):
        return x.clone()
    order = sorted(range(x.dim()), key=lambda dim: -stride[dim])
    back = sorted(range(x.dim()), key=order.__getitem__)
    return x.permute(order).clone(memory_format=torch.contiguous_format).permute(back)


def _of_nothing(op: Any) -> Callable[..., Any]:
    """A variance or deviation, which is NaN of no elements, and 0 in the import; of a tensor
    without dims as `of_number`."""

    def made(
        x: Any, dim: Any = None, unbiased: bool = True, keepdim: bool = False, **named: Any
    ) -> Any:
        dims = [*dim] if dim else [*range(x.dim())]
        if 0 not in [x.shape[each] for each in dims]:
            return NotImplemented
        return x.sum(dims, keepdim=keepdim) + math.nan

    return of_number(op, made)


# Views of which torch has a copy, too (`torch.expand_copy`).
_VIEWS = (
    *("alias", "as_strided", "detach", "diagonal", "expand", "narrow", "permute", "select"),
    *("slice", "split", "split_with_sizes", "squeeze", "t", "transpose", "unbind", "unfold"),
    *("unsqueeze", "view"),
)


def _copied(view: Any) -> Callable[..., Any]:
    def copied(*args: Any, **named: Any) -> Any:
        return pytree.tree_map(torch.clone, view(*args, **named))

    return copied


RECIPES: dict[Any, Callable[..., Any]] = {
    aten.squeeze.dims: _squeezed,
    torch.ops.prims.copy_strided.default: _in_order_of,
    aten.split_with_sizes.default: _split_with_sizes,
    aten.roll.default: _roll,
    aten.pad.default: _pad,
    **{
        getattr(getattr(aten, f"{name}_copy"), form): _copied(getattr(getattr(aten, name), form))
        for name in _VIEWS
        for form in getattr(aten, f"{name}_copy").overloads()
        if "out" not in form
    },
    **{
        op: of_number(op)
        for op in (
            *(aten.softmax.int, aten._softmax.default, aten.log_softmax.int),
            *(aten.max.dim, aten.min.dim, aten.amax.default, aten.amin.default),
            *(aten.argmax.default, aten.argmin.default),
        )
    },
    **{op: _of_nothing(op) for of in (aten.var, aten.std) for op in (of.correction, of.dim)},
}
