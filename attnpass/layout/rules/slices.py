"""Slices and what puts tensors together: the demand moves to the pieces.

A slice becomes a window of the demand, so that a packed projection (Q, K and V in one
matmul) computes V's columns alone, in V's layout.
"""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from ...ir import Size, sizes_of
from ...ir.views import SLICE, View, view_of
from ..layout import Layout, Window, make_layout
from . import Alternative, Demand, Refusal, Request, Rule, Ways


class ExtractSlice(Rule):
    """`tensor.extract_slice` with static offsets and unit strides: a window per axis."""

    ops = (SLICE,)

    def match(self, op: ir.Operation, number: int, demand: Demand) -> Ways:
        view = slice_of(op)
        if isinstance(view, Refusal):
            return view
        source_sizes = sizes_of(view.source)
        layout = demand.layout
        axes_of_dim: list[tuple[int, ...]] = []
        windows: dict[int, Window] = {axis: w for axis, w in enumerate(layout.windows) if w}
        units: list[Window] = []
        for run, (offset, size) in zip(view.runs, window_of(view), strict=True):
            axes = tuple(axis for dim in run.result for axis in layout.dims[dim])
            axes_of_dim.append(axes)
            full = source_sizes[run.source[0]]
            if size == full:
                continue
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


def slice_of(op: ir.Operation) -> View | Refusal:
    """The `tensor.extract_slice` that `op` is, of offsets that are known and unit strides."""
    view = view_of(op)
    if view is None or any(run.step != 1 for run in view.runs):
        return Refusal("it slices with a stride", op)
    if any(run.start is None for run in view.runs):
        return Refusal("the slice's offset is known only at run time", op)
    return view


def window_of(view: View) -> list[tuple[int, Size]]:
    """Per dim of what is sliced, the (offset, size) of the slice."""
    sizes = sizes_of(view.result)
    return [(run.start or 0, sizes[run.result[0]] if run.result else 1) for run in view.runs]
