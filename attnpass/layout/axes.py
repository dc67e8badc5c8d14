"""Axes: factors of the sizes of tensors, the same through views that order, cut and join dims."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from iree.compiler import ir

from ..ir import Size, defining_op, product, sizes_of
from ..ir.views import SLICE, view_of
from .layout import common_refinement

# The axes of each dim of a tensor, major to minor; a dim of size one has none.
Dims = tuple[tuple[int, ...], ...]


class Axes:
    """Numbers axes and remembers what they were cut into; none has size one."""

    def __init__(self) -> None:
        self._sizes: list[Size] = []
        self._parts: dict[int, tuple[int, ...]] = {}

    def new(self, size: Size) -> tuple[int, ...]:
        """The axes of a new dim of this size."""
        return () if size == 1 else (self._add(size),)

    def _add(self, size: Size) -> int:
        self._sizes.append(size)
        return len(self._sizes) - 1

    def size(self, axis: int) -> Size:
        return self._sizes[axis]

    def now(self, axes: Sequence[int]) -> tuple[int, ...]:
        """What these axes are cut into by now."""
        found: list[int] = []
        for axis in axes:
            parts = self._parts.get(axis)
            found += [axis] if parts is None else self.now(parts)
        return tuple(found)

    def dims(self, dims: Dims) -> Dims:
        return tuple(self.now(axes) for axes in dims)

    def cut(self, axes: Sequence[int], sizes: Sequence[Size]) -> Dims | None:
        """The axes of dims of these sizes that together have the elements of `axes`, which are
        cut where they must be; None where the sizes do not fit."""
        axes = self.now(axes)
        have = [self._sizes[axis] for axis in axes]
        if not _may_be_as_many(have, sizes):
            return None
        long = [dim for dim, size in enumerate(sizes) if size != 1]
        pairs = common_refinement(have, [sizes[dim] for dim in long])
        if pairs is None:
            return None
        parts: list[list[Size]] = [[] for _ in axes]
        owners: list[tuple[int, int, int]] = []
        for size, which, dim in pairs:
            owners.append((long[dim], which, len(parts[which])))
            parts[which].append(size)
        cut = [self._cut_axis(axis, given) for axis, given in zip(axes, parts, strict=True)]
        found: list[list[int]] = [[] for _ in sizes]
        for dim, which, part in owners:
            found[dim].append(cut[which][part])
        for whole, inside in zip(sizes, found, strict=True):
            known = _as_static_as(whole, [self._sizes[axis] for axis in inside])
            for axis, size in zip(inside, known, strict=True):
                self._sizes[axis] = size
        return tuple(map(tuple, found))

    def cut_alike(self, axes: Sequence[int], size: Size) -> tuple[int, ...] | None:
        """The axes of a dim of this size that has the elements of `axes`; the caller knows that
        one whose size is computed at run time is as long, whatever its size looks like."""
        now = self.now(axes)
        if len(now) == 1 and not isinstance(size, int):
            self._sizes[now[0]] = size
            return now
        cut = self.cut(now, [size])
        return None if cut is None else cut[0]

    def _cut_axis(self, axis: int, sizes: Sequence[Size]) -> tuple[int, ...]:
        if len(sizes) == 1:
            return (axis,)
        sizes = _as_static_as(self._sizes[axis], sizes)
        self._parts[axis] = tuple(self._add(size) for size in sizes)
        return self._parts[axis]


def _may_be_as_many(some: Sequence[Size], others: Sequence[Size]) -> bool:
    """Whether dims of these sizes can have as many elements; those computed at run time can."""
    first, second = product(some), product(others)
    return first == second or not (isinstance(first, int) and isinstance(second, int))


def _as_static_as(whole: Size, sizes: Sequence[Size]) -> Sequence[Size]:
    """The sizes, one that is computed at run time as the number that `whole` leaves for it."""
    dynamic = [number for number, size in enumerate(sizes) if not isinstance(size, int)]
    if not isinstance(whole, int) or len(dynamic) != 1:
        return sizes
    others = math.prod(size for size in sizes if isinstance(size, int))
    return [size if isinstance(size, int) else whole // others for size in sizes]


def source_of(op: ir.Operation, dims: Dims, axes: Axes) -> tuple[ir.Value, Dims] | None:
    """(x, its dims) where `op` is a view of all of x, or repeats it, and its result has `dims`."""
    view = view_of(op)
    if view is None or op.name == SLICE:
        return None
    pairs = [(run.result, run.source) for run in view.runs]
    found = _along(pairs, dims, sizes_of(view.source), axes)
    return None if found is None else (view.source, found)


def source_below(
    value: ir.Value, dims: Dims, axes: Axes, names: Collection[str] = ()
) -> tuple[ir.Value, Dims]:
    """(x, its dims) where `value`, which has `dims`, is a view of all of x, or repeats it, and x is
    none itself; through views of these names alone, if any are given."""
    while (op := defining_op(value, *names)) is not None:
        below = source_of(op, dims, axes)
        if below is None:
            break
        value, dims = below
    return value, axes.dims(dims)


def result_of(op: ir.Operation, dims: Dims, axes: Axes) -> Dims | None:
    """The dims of the result of `op`, a view of all of a tensor that has `dims`."""
    view = view_of(op)
    if view is None or op.name == SLICE:
        return None
    sizes = sizes_of(view.result)
    if any(sizes[dim] != 1 for run in view.runs if not run.source for dim in run.result):
        return None
    return _along([(run.source, run.result) for run in view.runs], dims, sizes, axes)


def _along(
    pairs: Sequence[tuple[Sequence[int], Sequence[int]]],
    dims: Dims,
    sizes: Sequence[Size],
    axes: Axes,
) -> Dims | None:
    """The dims of a tensor of these sizes that has along dims `other` the axes of dims `one` of
    another, for each pair (one, other)."""
    found: list[tuple[int, ...]] = [()] * len(sizes)
    for one, other in pairs:
        whole = tuple(axis for dim in one for axis in dims[dim])
        cut = [whole] if len(other) == 1 else axes.cut(whole, [sizes[dim] for dim in other])
        if other and cut is None:
            return None
        for dim, part in zip(other, cut or (), strict=False):
            found[dim] = part
    return tuple(found)
