"""Layouts: how the elements of a value are wanted, as pure data.

A permutation of a value's dims is too weak a wish. Behind an einsum projection V's chain
is `[32,64] -> expand [2,16,4,16] -> transpose -> collapse`: the wish (b, h, d, s) splits 32
into (b, s). So a layout names *axes*: factors of the value's dims, in the order wanted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..ir import Size, product


@dataclass(frozen=True)
class Layout:
    """`sizes[i]` is the size of axis i, outermost first in the wanted order; `dims[d]` are
    the axes that dim d of the value splits into, major to minor. A dim of size one has no
    axes, and no axis has size one."""

    sizes: tuple[Size, ...]
    dims: tuple[tuple[int, ...], ...]

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.sizes)

    @property
    def is_row_major(self) -> bool:
        """Whether the value itself has this layout already, up to reshapes."""
        return tuple(axis for dim in self.dims for axis in dim) == tuple(range(self.rank))

    @property
    def splits_dims(self) -> bool:
        return any(len(axes) > 1 for axes in self.dims)

    def dim_sizes(self) -> list[list[Size]]:
        """Per dim of the value, the sizes of its axes."""
        return [[self.sizes[axis] for axis in axes] for axes in self.dims]

    def transposed(self, permutation: Sequence[int]) -> Layout:
        """The layout for x, given this one for a transpose of x (result dim i = x dim
        permutation[i])."""
        dims: list[tuple[int, ...]] = [()] * len(self.dims)
        for result_dim, source_dim in enumerate(permutation):
            dims[source_dim] = self.dims[result_dim]
        return Layout(self.sizes, tuple(dims))

    def expanded(self, groups: Sequence[Sequence[int]]) -> Layout:
        """The layout for x, given this one for an expand_shape of x with these groups."""
        return Layout(
            self.sizes,
            tuple(tuple(axis for dim in group for axis in self.dims[dim]) for group in groups),
        )

    def collapsed(
        self, groups: Sequence[Sequence[int]], sizes: Sequence[Size]
    ) -> Refinement | None:
        """The layout for x of shape `sizes`, given this one for a collapse_shape of x.

        Axes that span several dims of x are split; None where the two ways to cut a dim
        have no common refinement.
        """
        cuts: dict[int, list[Size]] = {}
        owners: list[list[tuple[int, int]]] = [[] for _ in sizes]
        for axes, group in zip(self.dims, groups, strict=True):
            inner = [dim for dim in group if sizes[dim] != 1]
            pairs = common_refinement([self.sizes[a] for a in axes], [sizes[dim] for dim in inner])
            if pairs is None:
                return None
            for size, outer, dim in pairs:
                axis = axes[outer]
                cuts.setdefault(axis, []).append(size)
                owners[inner[dim]].append((axis, len(cuts[axis]) - 1))
        refinement = self.refined([cuts.get(axis, [size]) for axis, size in enumerate(self.sizes)])
        dims = tuple(
            tuple(refinement.groups[axis][part] for axis, part in owner) for owner in owners
        )
        return Refinement(Layout(refinement.layout.sizes, dims), refinement.groups)

    def refined(self, cuts: Sequence[Sequence[Size]]) -> Refinement:
        """This layout with axis i cut into axes of sizes cuts[i]."""
        groups: list[tuple[int, ...]] = []
        sizes: list[Size] = []
        for parts in cuts:
            groups.append(tuple(range(len(sizes), len(sizes) + len(parts))))
            sizes += parts
        dims = tuple(tuple(new for axis in axes for new in groups[axis]) for axes in self.dims)
        return Refinement(Layout(tuple(sizes), dims), tuple(groups))

    def merged(self) -> Refinement:
        """The coarsest equal layout: neighbours in a dim that stay neighbours become one axis.

        `groups[i]` lists the axes of `self` that new axis i stands for.
        """
        follows = {axes[i]: axes[i + 1] for axes in self.dims for i in range(len(axes) - 1)}
        groups: list[list[int]] = []
        for axis in range(self.rank):
            if groups and follows.get(groups[-1][-1]) == axis:
                groups[-1].append(axis)
            else:
                groups.append([axis])
        new_axis = {group[0]: number for number, group in enumerate(groups)}
        sizes = tuple(
            self.sizes[group[0]]
            if len(group) == 1
            else product([self.sizes[axis] for axis in group])
            for group in groups
        )
        dims = tuple(tuple(new_axis[a] for a in axes if a in new_axis) for axes in self.dims)
        return Refinement(Layout(sizes, dims), tuple(tuple(group) for group in groups))

    def restricted(self, dims: Sequence[int | None]) -> Layout:
        """The layout of an operand whose dim j is dim dims[j] of this value (None: size one)."""
        kept = sorted(axis for dim in dims if dim is not None for axis in self.dims[dim])
        number = {axis: i for i, axis in enumerate(kept)}
        return Layout(
            tuple(self.sizes[axis] for axis in kept),
            tuple(
                () if dim is None else tuple(number[axis] for axis in self.dims[dim])
                for dim in dims
            ),
        )

    def axes_of(self, dims: Sequence[int | None]) -> list[int]:
        """The axes that belong to any of `dims`, in the wanted order."""
        return sorted(axis for dim in dims if dim is not None for axis in self.dims[dim])

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
