"""Layouts: how the elements of a value are wanted, as pure data.

A permutation of a value's dims is too weak a wish. Behind an einsum projection V's chain
is `[32,64] -> expand [2,16,4,16] -> transpose -> collapse`: the wish (b, h, d, s) splits 32
into (b, s). So a layout names *axes*: factors of the value's dims, in the order wanted. And
where a slice is wanted (V out of a packed QKV projection), an axis has a *window*.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..ir import Size, product
from ..ir.views import DimRun

# (offset, full size): the axis is elements offset .. offset + size of a factor of full size.
Window = tuple[int, int]


@dataclass(frozen=True)
class Layout:
    """`sizes[i]` is the size of axis i, outermost first in the wanted order; `dims[d]` are
    the axes that dim d of the value splits into, major to minor. A dim of size one has no
    axes, and no axis has size one unless a window cuts it out of more. `windows` is empty
    where whole dims are wanted, else one entry per axis, None for a whole one."""

    sizes: tuple[Size, ...]
    dims: tuple[tuple[int, ...], ...]
    windows: tuple[Window | None, ...] = ()

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.sizes)

    @property
    def is_row_major(self) -> bool:
        """Whether the value itself has this layout already, up to reshapes and a slice."""
        return tuple(axis for dim in self.dims for axis in dim) == tuple(range(self.rank))

    def window(self, axis: int) -> Window | None:
        return self.windows[axis] if self.windows else None

    def full_size(self, axis: int) -> Size:
        """The size of the factor that the axis is a window of."""
        window = self.window(axis)
        return self.sizes[axis] if window is None else window[1]

    def dim_sizes(self) -> list[list[Size]]:
        """Per dim of the value, the sizes of its axes."""
        return [[self.sizes[axis] for axis in axes] for axes in self.dims]

    def through(self, runs: Sequence[DimRun], sizes: Sequence[Size]) -> Refinement | None:
        """The layout of what a view with these runs shows, of shape `sizes`, given this one of
        the view's result.

        Axes that span several dims of the source are split, those of a repeat left out (no
        group). None where the two ways to cut a dim have no common refinement, or a window does
        not fall on the cuts. Slices have windows of their own.
        """
        cuts: dict[int, list[Size]] = {}
        owners: list[list[tuple[int, int]]] = [[] for _ in sizes]
        lost: set[int] = set()
        for run in runs:
            axes = [axis for dim in run.result for axis in self.dims[dim]]
            if not run.source:
                lost.update(axes)
                continue
            if len(run.source) == 1:
                owners[run.source[0]] = [(axis, 0) for axis in axes]
                continue
            inner = [dim for dim in run.source if sizes[dim] != 1]
            pairs = common_refinement(
                [self.full_size(axis) for axis in axes], [sizes[dim] for dim in inner]
            )
            if pairs is None:
                return None
            for size, outer, dim in pairs:
                axis = axes[outer]
                cuts.setdefault(axis, []).append(size)
                owners[inner[dim]].append((axis, len(cuts[axis]) - 1))
        parts = []
        for axis in range(self.rank):
            cut = _cut_window(self.sizes[axis], self.window(axis), cuts.get(axis, []))
            if cut is None:
                return None
            parts.append([] if axis in lost else cut)
        refinement = self.refined(parts)
        dims = tuple(
            tuple(refinement.groups[axis][part] for axis, part in owner) for owner in owners
        )
        layout = Layout(refinement.layout.sizes, dims, refinement.layout.windows)
        return Refinement(layout, refinement.groups)

    def refined(self, cuts: Sequence[Sequence[tuple[Size, Window | None]]]) -> Refinement:
        """This layout with axis i cut into the axes (size, window) of cuts[i]."""
        groups: list[tuple[int, ...]] = []
        flat: list[tuple[Size, Window | None]] = []
        for parts in cuts:
            groups.append(tuple(range(len(flat), len(flat) + len(parts))))
            flat += parts
        dims = tuple(tuple(new for axis in axes for new in groups[axis]) for axes in self.dims)
        layout = make_layout([size for size, _ in flat], dims, [window for _, window in flat])
        return Refinement(layout, tuple(groups))

    def merged(self) -> Refinement:
        """The coarsest equal layout: neighbours in a dim that stay neighbours become one axis.

        `groups[i]` lists the axes of `self` that new axis i stands for. A windowed axis joins
        one on its outside only if that is whole and has one element, one on its inside if
        that is whole: else the window would not be one piece.
        """
        follows = {axes[i]: axes[i + 1] for axes in self.dims for i in range(len(axes) - 1)}
        groups: list[list[int]] = []
        for axis in range(self.rank):
            joins = groups and follows.get(groups[-1][-1]) == axis and self.window(axis) is None
            if joins:
                groups[-1].append(axis)
            else:
                groups.append([axis])
        new_axis = {group[0]: number for number, group in enumerate(groups)}
        sizes = [product([self.sizes[axis] for axis in group]) for group in groups]
        windows = [self._merged_window(group) for group in groups]
        dims = tuple(tuple(new_axis[a] for a in axes if a in new_axis) for axes in self.dims)
        return Refinement(make_layout(sizes, dims, windows), tuple(tuple(g) for g in groups))

    def _merged_window(self, group: Sequence[int]) -> Window | None:
        window = self.window(group[0])
        inner = product([self.sizes[axis] for axis in group[1:]])
        if window is None:
            return None
        assert isinstance(inner, int), "a window outside a dynamic size"
        return window[0] * inner, window[1] * inner

    def __str__(self) -> str:
        names = {}
        for dim, axes in enumerate(self.dims):
            for part, axis in enumerate(axes):
                names[axis] = f"d{dim}" if len(axes) == 1 else f"d{dim}.{part}"
        return f"({', '.join(names[axis] for axis in range(self.rank))})"


@dataclass(frozen=True)
class Refinement:
    """A layout made from another, and how the axes of the two belong together."""

    layout: Layout
    groups: tuple[tuple[int, ...], ...]


def make_layout(
    sizes: Sequence[Size],
    dims: tuple[tuple[int, ...], ...],
    windows: Sequence[Window | None],
) -> Layout:
    """A layout whose `windows` are left out where there are none."""
    return Layout(tuple(sizes), dims, tuple(windows) if any(windows) else ())


def permuted(sizes: Sequence[Size], order: Sequence[int]) -> Layout:
    """The layout that wants dim order[i] of a value of shape `sizes` at place i."""
    dims: list[tuple[int, ...]] = [()] * len(sizes)
    wanted = [dim for dim in order if sizes[dim] != 1]
    for axis, dim in enumerate(wanted):
        dims[dim] = (axis,)
    return Layout(tuple(sizes[dim] for dim in wanted), tuple(dims))


def common_refinement(
    first: Sequence[Size], second: Sequence[Size]
) -> list[tuple[Size, int, int]] | None:
    """Cuts two factorisations of the same number alike: (size, index in first, index in second).

    None if they have no common refinement, or none that can be proven for dynamic sizes.
    """
    front: list[tuple[Size, int, int]] = []
    back: list[tuple[Size, int, int]] = []
    a, b = [*enumerate(first)], [*enumerate(second)]
    while a and b:
        if len(a) == 1:
            front += [(size, a[0][0], i) for i, size in b]
            a = b = []
        elif len(b) == 1:
            front += [(size, i, b[0][0]) for i, size in a]
            a = b = []
        elif (part := _common_part(a[0][1], b[0][1])) is not None:
            front.append((part, a[0][0], b[0][0]))
            a, b = _without(a, 0, part), _without(b, 0, part)
        elif (part := _common_part(a[-1][1], b[-1][1])) is not None:
            back.insert(0, (part, a[-1][0], b[-1][0]))
            a, b = _without(a, -1, part), _without(b, -1, part)
        else:
            return None
    return None if a or b else front + back


def _common_part(a: Size, b: Size) -> Size | None:
    if a == b:
        return a
    if isinstance(a, int) and isinstance(b, int):
        small, large = min(a, b), max(a, b)
        return small if large % small == 0 else None
    return None


def _without(items: list[tuple[int, Size]], end: int, part: Size) -> list[tuple[int, Size]]:
    """`items` with `part` divided out of the first (end 0) or last (end -1) factor."""
    index, size = items[end]
    rest = items[1:] if end == 0 else items[:-1]
    if size == part:
        return rest
    assert isinstance(size, int) and isinstance(part, int)
    left = [(index, size // part)]
    return left + rest if end == 0 else rest + left


def _cut_window(
    size: Size, window: Window | None, cuts: Sequence[Size]
) -> list[tuple[Size, Window | None]] | None:
    """An axis cut into factors of sizes `cuts` (of its full size), its window with it: whole
    inside the cut that it falls on, one element of each factor outside. None where the
    window does not fall on the cuts."""
    if window is None:
        return [(cut, None) for cut in cuts] if cuts else [(size, None)]
    if not cuts:
        return [(size, window)]
    offset, full = window
    parts: list[tuple[Size, Window | None]] = []
    for cut in cuts:
        if not isinstance(cut, int) or not isinstance(size, int):
            return None
        inner = full // cut
        if size == full:
            parts.append((cut, None))
        elif offset % inner == 0 and size % inner == 0:
            parts.append((size // inner, (offset // inner, cut)))
            size, offset = inner, 0
        elif offset // inner == (offset + size - 1) // inner:
            parts.append((1, (offset // inner, cut)))
            offset %= inner
        else:
            return None
        full = inner
    return parts
