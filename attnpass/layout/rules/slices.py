"""Slices and what puts tensors together: the demand moves to the pieces.

A slice becomes a window of the demand, so that a packed projection (Q, K and V in one
matmul) computes V's columns alone, in V's layout.
"""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from ...ir import DYNAMIC, Size, sizes_of
from ..layout import Layout, Window, make_layout
from . import Alternative, Demand, Refusal, Request, Rule


class ExtractSlice(Rule):
    """`tensor.extract_slice` with static offsets and unit strides: a window per axis."""

    ops = ("tensor.extract_slice",)

    def match(
        self, op: ir.Operation, number: int, demand: Demand
    ) -> Sequence[Alternative] | Refusal:
        window = slice_window(op)
        if isinstance(window, Refusal):
            return window
        source_sizes = sizes_of(op.operands[0])
        result_dim = _kept_dims(op)
        layout = demand.layout
        axes_of_dim: list[tuple[int, ...]] = []
        windows: dict[int, Window] = {axis: w for axis, w in enumerate(layout.windows) if w}
        units: list[Window] = []
        for dim, (offset, size) in enumerate(window):
            axes = layout.dims[result_dim[dim]] if dim in result_dim else ()
            axes_of_dim.append(axes)
            if size == source_sizes[dim]:
                continue
            full = source_sizes[dim]
            if not isinstance(full, int) or not isinstance(size, int):
                return Refusal("it slices a dim whose size is known only at run time", op)
            if not axes:
                # One element of the dim: a windowed axis of size one, outermost.
                axes_of_dim[-1] = (layout.rank + len(units),)
                units.append((offset, full))
                continue
            found = _window_axes(layout, axes, offset, full)
            if found is None:
                return Refusal("the slice does not fall on the factors that the layout needs", op)
            windows.update(found)
        return [_windowed(demand, axes_of_dim, windows, units)]


def _window_axes(
    layout: Layout, axes: Sequence[int], offset: int, full: int
) -> dict[int, Window] | None:
    """The window of each of a dim's axes, given that the dim is a slice of a larger one: the
    outermost axis takes it, if the inner ones divide offset and full size."""
    inner = 1
    for axis in axes[1:]:
        size = layout.full_size(axis)
        if not isinstance(size, int):
            return None
        inner *= size
    if offset % inner or full % inner:
        return None
    outer = layout.window(axes[0])
    start = outer[0] if outer else 0
    return {axes[0]: (start + offset // inner, full // inner)}


def _windowed(
    demand: Demand,
    axes_of_dim: list[tuple[int, ...]],
    windows: dict[int, Window],
    units: list[Window],
) -> Alternative:
    layout, count = demand.layout, len(units)
    # New axes of size one come first in the order, so every old axis moves up by `count`.
    shift = {axis: axis + count for axis in range(layout.rank)}
    shift |= {layout.rank + i: i for i in range(count)}
    new = make_layout(
        [1] * count + list(layout.sizes),
        tuple(tuple(shift[axis] for axis in axes) for axes in axes_of_dim),
        [*units, *(windows.get(axis) for axis in range(layout.rank))],
    )
    view: list[tuple[int, ...]] = [(axis + count,) for axis in range(layout.rank)]
    if count and view:
        view[0] = (*range(count), *view[0])
    droppable = frozenset(axis + count for axis in demand.droppable)
    return Alternative((Request(0, Demand(new, droppable)),), view=tuple(view))


def slice_window(op: ir.Operation) -> list[tuple[int, Size]] | Refusal:
    """Per source dim of a `tensor.extract_slice` its (offset, size)."""
    offsets = list(op.attributes["static_offsets"])
    if any(stride != 1 for stride in op.attributes["static_strides"]):
        return Refusal("it slices with a stride", op)
    if DYNAMIC in offsets:
        return Refusal("the slice's offset is known only at run time", op)
    result, kept = sizes_of(op.results[0]), _kept_dims(op)
    return [(offset, result[kept[dim]] if dim in kept else 1) for dim, offset in enumerate(offsets)]


def _kept_dims(op: ir.Operation) -> dict[int, int]:
    """Source dim -> result dim of a slice; unit dims may have been dropped."""
    static = list(op.attributes["static_sizes"])
    shape = list(op.results[0].type.shape)  # type: ignore[attr-defined]
    kept: dict[int, int] = {}
    drop = len(static) - len(shape)
    for dim, size in enumerate(static):
        place = len(kept)
        if drop and size == 1 and (place == len(shape) or shape[place] != 1):
            drop -= 1
        elif place < len(shape):
            kept[dim] = place
    return kept
