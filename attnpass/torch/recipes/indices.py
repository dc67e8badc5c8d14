"""Reads and writes by index, by condition, and by place in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

aten = torch.ops.aten

# So many pairs of a place and an index are compared, not more.
_MOST_COMPARED = 1 << 20


def _index(x: Any, indices: Any) -> Any:
    """By conditions: IREE 3.13's import of these does not end. A single one is an index of the dims
    that it is of, joined."""
    if not any(map(_is_condition, indices)):
        joined = _joined(x, indices)
        return joined[0].index_select(0, joined[1]) if joined else NotImplemented
    alone = _alone(indices)
    if alone is None:
        return aten.index.Tensor(x, _places(indices))
    first, where = alone
    rows = x.flatten(first, first + where.dim() - 1)
    return rows.index_select(first, torch.nonzero(where.flatten())[:, 0])


def _index_put(x: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """Where conditions hold; a single number goes where one does without an index."""
    if not any(map(_is_condition, indices)):
        joined = _joined(x, indices)
        if joined is None:
            return NotImplemented
        rows, place = joined
        values = values.expand(place.shape[0], *rows.shape[1:])
        return aten.index_put.default(rows, [place], values, accumulate).reshape(x.shape)
    alone = _alone(indices)
    if alone is None or alone[0]:
        return aten.index_put.default(x, _places(indices), values, accumulate)
    _, where = alone
    rest = x.shape[where.dim() :]
    spread = where.reshape(*where.shape, *[1] * len(rest))
    if not isinstance(values.numel(), int) and values.dim() == 1 + len(rest):
        return _put_in_turn(x, spread, values, accumulate)
    if values.numel() == 1 and not accumulate:
        return torch.where(spread, values.reshape(()), x)
    rows, place = x.flatten(0, where.dim() - 1), torch.nonzero(where.flatten())[:, 0]
    values = values.expand(place.shape[0], *rest)
    return aten.index_put.default(rows, [place], values, accumulate).reshape(x.shape)


def _put_in_turn(x: Any, where: Any, values: Any, accumulate: bool) -> Any:
    """As many rows as are known at run time (`x[m] = y[m]`), each at the next place of a condition:
    nothing says to torch that there are as many of these. A single row goes to all places."""
    first = values if values.dim() == 1 else values.flatten(1)[:, 0]
    last = torch.ones_like(first, dtype=torch.int64).sum() - 1
    place = where.flatten().to(torch.int64).cumsum(0) - 1
    place = torch.minimum(place, last).clamp(min=0)
    # There may be none.
    values = torch.cat([values, values.new_zeros(1, *values.shape[1:])])
    rows = values.index_select(0, place).reshape(x.shape)
    return torch.where(where, x + rows if accumulate else rows, x)


def _joined(x: Any, indices: Any) -> tuple[Any, Any] | None:
    """Several lists of places, as many as are known at run time, as one of places in the dims that
    they are of, joined: the import has no program for more. None for other indices."""
    if len(indices) < 2 or any(index is None or index.dim() != 1 for index in indices):
        return None
    if all(isinstance(index.shape[0], int) for index in indices):
        return None
    place: Any = 0
    for size, index in zip(x.shape, indices, strict=False):
        place = place * size + torch.where(index < 0, index + size, index)
    return x.flatten(0, len(indices) - 1), place


def _is_condition(index: Any) -> bool:
    return index is not None and index.dtype in (torch.bool, torch.uint8)


def _alone(indices: Any) -> tuple[int, Any] | None:
    """The dim and the condition, where that is the only index."""
    given = [(dim, index) for dim, index in enumerate(indices) if index is not None]
    return (given[0][0], given[0][1].to(torch.bool)) if len(given) == 1 else None


def _places(indices: Any) -> list[Any]:
    """Indices, with the places where they hold in place of conditions."""
    places: list[Any] = []
    for index in indices:
        places += torch.nonzero(index).unbind(1) if _is_condition(index) else [index]
    return places


def _masked_select(x: Any, where: Any) -> Any:
    x, where = torch.broadcast_tensors(x, where)
    return x.flatten().index_select(0, torch.nonzero(where.flatten())[:, 0])


def _masked_scatter(x: Any, where: Any, source: Any) -> Any:
    """The import broadcasts neither."""
    if x.shape == where.shape:
        return NotImplemented
    return aten.masked_scatter.default(*torch.broadcast_tensors(x, where), source)


def _diagonal_scatter(x: Any, new: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    whole = x.movedim((dim1, dim2), (-2, -1))
    row, column = (torch.arange(size, device=x.device) for size in whole.shape[-2:])
    place = (row + min(offset, 0)).clamp(0, new.shape[-1] - 1)
    rows = new.index_select(-1, place).unsqueeze(-1)
    whole = torch.where(column - row[:, None] == offset, rows, whole)
    return whole.movedim((-2, -1), (dim1, dim2))


def _strided_scatter(
    x: Any, new: Any, size: Any, stride: Any, storage_offset: int | None = None
) -> Any:
    """Writes by places in memory (`fill_diagonal_`), of a tensor that lies there in any order."""
    if not all(isinstance(number, int) for number in (*x.shape, *size, *stride)):
        return NotImplemented
    order = sorted(range(x.dim()), key=lambda dim: -x.stride(dim))
    lying = x.permute(order)
    if not lying.is_contiguous() or x.storage_offset():
        return NotImplemented
    if not new.numel():
        return x.clone()
    places = torch.full((), storage_offset or 0, dtype=torch.int64, device=x.device)
    for count, step in zip(size, stride, strict=True):
        places = places.unsqueeze(-1) + torch.arange(count, device=x.device) * step
    written = lying.reshape(-1).scatter(0, places.reshape(-1), new.reshape(-1))
    back = sorted(range(x.dim()), key=order.__getitem__)
    return written.reshape(lying.shape).permute(back)


def _index_reduce(
    x: Any, dim: int, index: Any, new: Any, reduce: str, include_self: bool = True
) -> Any:
    """Rows that are combined with those of a tensor: what is scattered by the same index each."""
    if not x.dim():
        return NotImplemented
    behind = x.dim() - 1 - dim % x.dim()
    places = index.reshape(-1, *[1] * behind).expand_as(new)
    return x.scatter_reduce(dim % x.dim(), places, new, reduce, include_self=include_self)


def _strided(
    x: torch.Tensor, size: Sequence[Any], stride: Sequence[Any], storage_offset: Any = None
) -> Any:
    """Windows (Longformer's chunks) as such: the import takes each element by indices that stand in
    tables as large as the result, one for each dim."""
    if storage_offset or not all(isinstance(n, int) for n in (*x.shape, *size, *stride)):
        return NotImplemented
    order = sorted(range(x.dim()), key=lambda dim: -x.stride(dim))
    lying = x.permute(order)
    if not lying.is_contiguous() or x.storage_offset() or 0 in size:
        return NotImplemented
    dims = _joined_dims(size, stride)
    whole, outer = lying.reshape(-1), list[int]()
    # Windows lie in the parts of dims before them.
    while len(dims) > 2 and _reach(dims[1:]) <= dims[0][1]:
        (count, step), *dims = dims
        if count * step > whole.shape[-1]:
            return NotImplemented
        whole = whole[..., : count * step].reshape(*outer, count, step)
        outer.append(count)
    if len(dims) > 2 or dims[-1][1] != 1 or _reach(dims) > whole.shape[-1]:
        return NotImplemented
    last = dims[-1][0]
    if len(dims) == 1:
        return whole[..., :last].reshape(*size)
    count, step = dims[0]
    return whole.unfold(-1, last, step).narrow(-2, 0, count).reshape(*size)


def _joined_dims(size: Sequence[int], stride: Sequence[int]) -> list[tuple[int, int]]:
    """Sizes and strides, of dims that lie behind one another as one."""
    found: list[tuple[int, int]] = []
    for count, step in zip(size, stride, strict=True):
        if count == 1:
            continue
        if found and found[-1][1] == count * step:
            count *= found.pop()[0]
        found.append((count, step))
    return found or [(1, 1)]


def _reach(dims: Sequence[tuple[int, int]]) -> int:
    """How many elements lie from the first to the last."""
    return 1 + sum((count - 1) * step for count, step in dims)


def _filled(x: Any, dim: int, index: Any, value: Any) -> Any:
    """A choice of a number by place; torch makes a write of it, and a copy in the order of `x`."""
    size = x.shape[dim] if x.dim() else 0
    known = all(isinstance(count, int) for count in (size, index.numel()))
    if not x.dim() or x.is_complex() or (known and size * index.numel() > _MOST_COMPARED):
        return NotImplemented
    place = torch.where(index < 0, index + size, index).reshape(-1)
    found = (torch.arange(size, device=x.device)[:, None] == place).any(-1)
    found = found.reshape([-1 if each == dim % x.dim() else 1 for each in range(x.dim())])
    if not isinstance(value, torch.Tensor):
        value = torch.full((), value, dtype=x.dtype, device=x.device)
    return torch.where(found, value.to(x.dtype), x)


def _scatter_number(x: Any, dim: int, index: Any, value: Any, *, reduce: str) -> Any:
    source = torch.full_like(index, value, dtype=x.dtype)
    name = {"add": "sum", "multiply": "prod"}[reduce]
    return torch.scatter_reduce(x, dim, index, source, name)


def _item(x: Any) -> Any:
    """IREE's runtime knows no numbers of 16 bits."""
    if x.dtype not in (torch.float16, torch.bfloat16):
        return NotImplemented
    return aten.item.default(x.float())


RECIPES: dict[Any, Callable[..., Any]] = {
    aten.item.default: _item,
    aten.index_fill.int_Scalar: _filled,
    aten.index_fill.int_Tensor: _filled,
    aten.scatter.value_reduce: _scatter_number,
    aten.index.Tensor: _index,
    aten.index_put.default: _index_put,
    aten.index_reduce.default: _index_reduce,
    aten.masked_select.default: _masked_select,
    aten.masked_scatter.default: _masked_scatter,
    aten.nonzero_numpy.default: lambda x: torch.nonzero(x).unbind(1),
    aten.as_strided.default: _strided,
    aten.as_strided_scatter.default: _strided_scatter,
    aten.diagonal_scatter.default: _diagonal_scatter,
}
