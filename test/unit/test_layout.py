"""Layouts as pure data, held to what numpy's reshapes, transposes and slices make.

A layout of a value is checked by making it: `deliver` splits an array into the layout's
axes, cuts the windows and puts the axes in order. The operations on layouts must say in
other words what the same array is.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from attnpass.ir.views import DimRun
from attnpass.layout.layout import Layout, common_refinement, make_layout, permuted

FACTORS = st.sampled_from([2, 3, 4, 5, 6])


def deliver(x: np.ndarray, layout: Layout) -> np.ndarray:
    """`x` with one dim per axis of `layout`, in its order, windows cut out."""
    axes = [axis for dim in layout.dims for axis in dim]
    assert sorted(axes) == list(range(layout.rank))
    split = x.reshape([layout.full_size(axis) for axis in axes])
    starts = [(layout.window(axis) or (0, 0))[0] for axis in axes]
    cut = split[
        tuple(
            slice(start, start + layout.sizes[axis])
            for axis, start in zip(axes, starts, strict=True)
        )
    ]
    return cut.transpose([axes.index(axis) for axis in range(layout.rank)])


def value_of(layout: Layout) -> np.ndarray:
    """A value with this layout, all elements different."""
    shape = [math.prod(layout.full_size(axis) for axis in axes) for axes in layout.dims]
    return np.arange(math.prod(shape)).reshape(shape)


@st.composite
def layouts(draw: st.DrawFn, windows: bool = True, max_dims: int = 4) -> Layout:
    counts = draw(st.lists(st.integers(0, 3), min_size=1, max_size=max_dims))
    assume(sum(counts) <= 6)
    order = draw(st.permutations(range(sum(counts))))
    full = [draw(FACTORS) for _ in order]
    sizes, cuts = list(full), [None] * len(full)
    for axis, size in enumerate(full):
        if windows and draw(st.integers(0, 3)) == 0:
            sizes[axis] = draw(st.integers(1, size - 1))
            cuts[axis] = (draw(st.integers(0, size - sizes[axis])), size)
    places = iter(order)
    dims = tuple(tuple(next(places) for _ in range(count)) for count in counts)
    return make_layout(sizes, dims, cuts)


@st.composite
def grouped(draw: st.DrawFn, count: int) -> list[list[int]]:
    """`count` dims in consecutive groups, none of them empty."""
    ends = draw(st.lists(st.booleans(), min_size=count - 1, max_size=count - 1))
    groups = [[0]]
    for dim, starts in enumerate(ends, 1):
        if starts:
            groups.append([dim])
        else:
            groups[-1].append(dim)
    return groups


@given(st.data())
def test_permuted(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    order = data.draw(st.permutations(range(len(shape))))
    x = np.arange(math.prod(shape)).reshape(shape)
    wanted = x.transpose(order)
    assert np.array_equal(
        deliver(x, permuted(shape, order)), wanted.reshape(wanted.squeeze().shape)
    )


@given(st.data())
def test_transposed(data: st.DataObject) -> None:
    layout = data.draw(layouts())
    y = value_of(layout)
    permutation = data.draw(st.permutations(range(y.ndim)))
    # y is a transpose of x: dim i of y is dim permutation[i] of x.
    x = y.transpose(np.argsort(permutation))
    assert np.array_equal(x.transpose(permutation), y)
    runs = [DimRun((dim,), (place,)) for place, dim in enumerate(permutation)]
    found = layout.through(runs, x.shape)
    assert found is not None
    assert np.array_equal(deliver(x, found.layout), deliver(y, layout))


@given(st.data())
def test_expanded(data: st.DataObject) -> None:
    layout = data.draw(layouts())
    y = value_of(layout)
    groups = data.draw(grouped(y.ndim))
    x = y.reshape([math.prod(y.shape[dim] for dim in group) for group in groups])
    found = layout.through([DimRun((d,), tuple(group)) for d, group in enumerate(groups)], x.shape)
    assert found is not None and np.array_equal(deliver(x, found.layout), deliver(y, layout))


@st.composite
def factorings(draw: st.DrawFn, size: int) -> list[int]:
    """Factors of `size`, major to minor, at times with ones between them."""
    factors: list[int] = []
    while size > 1:
        choices = [f for f in range(2, size + 1) if size % f == 0]
        factors.append(draw(st.sampled_from(choices)))
        size //= factors[-1]
    for place in draw(st.lists(st.integers(0, len(factors)), max_size=1)):
        factors.insert(place, 1)
    return factors or [1]


@given(st.data())
def test_collapsed(data: st.DataObject) -> None:
    layout = data.draw(layouts())
    y = value_of(layout)
    # y is a collapse_shape of x.
    shape, groups = [], []
    for size in y.shape:
        factors = data.draw(factorings(size))
        groups.append(list(range(len(shape), len(shape) + len(factors))))
        shape += factors
    runs = [DimRun(tuple(group), (dim,)) for dim, group in enumerate(groups)]
    found = layout.through(runs, shape)
    if found is None:
        refused(layout, groups, shape)
        return
    wanted, got = deliver(y, layout), deliver(y.reshape(shape), found.layout)
    # The new axes of one old axis stand side by side in its place.
    assert [axis for group in found.groups for axis in group] == list(range(found.layout.rank))
    assert np.array_equal(got.reshape(wanted.shape), wanted)
    for axis, group in enumerate(found.groups):
        assert math.prod(found.layout.sizes[new] for new in group) == layout.sizes[axis]


@settings(max_examples=500)
@given(st.data())
def test_a_window_is_cut_where_it_falls_on_the_factors(data: st.DataObject) -> None:
    full = data.draw(st.sampled_from([12, 24, 36, 60]))
    unit = data.draw(st.sampled_from([f for f in range(1, full) if full % f == 0]))
    size = data.draw(st.integers(1, full // unit)) * unit
    offset = data.draw(st.integers(0, (full - size) // unit)) * unit
    assume(size < full)
    shape = data.draw(factorings(full))
    layout = make_layout([size], ((0,),), [(offset, full)])
    found = layout.through([DimRun(tuple(range(len(shape))), (0,))], shape)
    x = np.arange(full)
    if found is not None:
        assert np.array_equal(
            deliver(x.reshape(shape), found.layout).ravel(), x[offset : offset + size]
        )
        return
    # Refused only where the slice is no box of the factors.
    box = np.argwhere(np.isin(x.reshape(shape), x[offset : offset + size]))
    extents = box.max(axis=0) - box.min(axis=0) + 1
    assert math.prod(extents) != size


def refused(layout: Layout, groups: Sequence[Sequence[int]], shape: Sequence[int]) -> None:
    """Holds a refusal to reshape against its two reasons."""
    if layout.windows:
        return
    for axes, group in zip(layout.dims, groups, strict=True):
        cuts = [layout.sizes[axis] for axis in axes], [shape[d] for d in group if shape[d] != 1]
        if mixed(*cuts):
            return
    raise AssertionError(f"{layout} refused for {shape}, though its cuts fit")


def points(sizes: Sequence[int]) -> set[int]:
    """The strides at which a factorisation cuts."""
    return {math.prod(sizes[i:]) for i in range(len(sizes) + 1)}


def mixed(first: Sequence[int], second: Sequence[int]) -> bool:
    """Whether two factorisations of a number have no common refinement: neighbouring cuts
    where neither stride divides the other."""
    cuts = sorted(points(first) | points(second))
    return any(b % a for a, b in itertools.pairwise(cuts))


@given(st.data())
def test_common_refinement_cuts_both_alike(data: st.DataObject) -> None:
    size = data.draw(st.sampled_from([12, 24, 30, 36, 60, 64, 72]))
    first = [f for f in data.draw(factorings(size)) if f != 1]
    second = [f for f in data.draw(factorings(size)) if f != 1]
    found = common_refinement(first, second)
    if found is None:
        assert mixed(first, second), (first, second)
        return
    for side, factors in ((1, first), (2, second)):
        owners = [part[side] for part in found]
        assert owners == sorted(owners)
        for i, factor in enumerate(factors):
            assert math.prod(part[0] for part in found if part[side] == i) == factor


@given(layouts())
def test_merged_is_the_same_layout_and_coarsest(layout: Layout) -> None:
    x, merged = value_of(layout), layout.merged()
    fine, coarse = deliver(x, layout), deliver(x, merged.layout)
    sizes = [math.prod(layout.sizes[axis] for axis in group) for group in merged.groups]
    assert list(merged.layout.sizes) == sizes
    assert np.array_equal(coarse, fine.reshape(sizes))
    if not layout.windows:
        flat = [axis for axes in merged.layout.dims for axis in axes]
        own = {axis: d for d, axes in enumerate(merged.layout.dims) for axis in axes}
        for a, b in itertools.pairwise(flat):
            assert b != a + 1 or own[a] != own[b], "neighbours in a dim stay neighbours"


@given(st.data())
def test_repeated(data: st.DataObject) -> None:
    """An operand that does not change along the dims it lacks, read broadcast."""
    layout = data.draw(layouts())
    y = value_of(layout)
    rank = y.ndim
    dims = data.draw(st.permutations(data.draw(st.sets(st.integers(0, rank - 1)).map(sorted))))
    small = np.arange(math.prod(y.shape[d] for d in dims)).reshape([y.shape[d] for d in dims])
    order = sorted(range(len(dims)), key=lambda i: dims[i])
    shape = [y.shape[d] if d in dims else 1 for d in range(rank)]
    whole = np.broadcast_to(small.transpose(order).reshape(shape), y.shape)
    runs = [DimRun((d,), (dim,)) for d, dim in enumerate(dims)]
    runs += [DimRun((), (dim,)) for dim in range(rank) if dim not in dims]
    found = layout.through(runs, small.shape)
    assert found is not None
    got = deliver(small, found.layout)
    kept = [axis for axis, new in enumerate(found.groups) if new]
    spread = got.reshape([layout.sizes[a] if a in kept else 1 for a in range(layout.rank)])
    wanted = deliver(whole, layout)
    assert np.array_equal(np.broadcast_to(spread, wanted.shape), wanted)


@given(layouts(windows=False))
def test_row_major_is_told(layout: Layout) -> None:
    x = value_of(layout)
    same = np.array_equal(deliver(x, layout).ravel(), x.ravel())
    assert layout.is_row_major == same
