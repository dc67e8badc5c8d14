"""Where attention's operands and its result lie in memory: strides in place of copies.

The kernels find a row of a head by strides that they are told. So an operand need not be copied
where transposes, reshapes and slices make it of a tensor in which the elements of a row stand side
by side; and the result is written in the order in which the only one to read it wants it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from iree.compiler import ir

from ...ir import (
    Builder,
    DynamicSize,
    Size,
    SizeProduct,
    defining_op,
    element_bytes,
    product,
    sizes_of,
    users,
    whole_number,
)
from ...ir.views import IN_PLACE, REORDERS, SLICE, View, view_of

# What the kernels count strides in, in bytes.
UNIT = 16
_VIEWS = (*REORDERS, SLICE, "linalg.generic")


@dataclass(frozen=True)
class StridedAxis:
    """Elements at equal distances: `size` of them, `stride` elements apart. `path` says which part
    it is of which dim of the tensor that was asked for: in its order, and its dim in front."""

    size: Size
    stride: Size
    path: tuple[int, ...]


# What a dim runs through, major to minor, but for what has size one.
Dim = tuple[StridedAxis, ...]


@dataclass(frozen=True)
class Strided:
    """A tensor that lies in `source`: it begins at the sum of `starts`, in elements."""

    source: ir.Value
    starts: tuple[Size, ...]
    dims: tuple[Dim, ...]


@dataclass(frozen=True)
class HeadPlace:
    """Where rows lie, in elements: heads as axes, the distance of rows, and where the first is.

    `source` is None for what is to be written."""

    source: ir.Value | None
    starts: tuple[Size, ...]
    heads: Dim
    row: Size


def factors_of(value: ir.Value) -> tuple[Size, ...]:
    """The sizes of a tensor, those as products that are of other sizes."""
    return tuple(map(_factored, sizes_of(value)))


def _factored(size: Size) -> Size:
    if not isinstance(size, DynamicSize):
        return size
    op = defining_op(size.value)
    if op is None:
        return size
    if size.dim is None and op.name == "arith.muli":
        numbers = [whole_number(operand) for operand in op.operands]
        pairs = zip(numbers, op.operands, strict=True)
        return product([_factored(DynamicSize(v)) if n is None else n for n, v in pairs])
    view = view_of(op) if op.name in IN_PLACE and size.dim is not None else None
    if view is not None:
        (run,) = (run for run in view.runs if size.dim in run.result)
        if len(run.result) == 1 < len(run.source):
            return product([factors_of(view.source)[dim] for dim in run.source])
    return size


def dense(value: ir.Value) -> Strided:
    """A tensor as it is."""
    sizes = factors_of(value)
    dims = [_dim(size, product(sizes[at + 1 :]), (at,)) for at, size in enumerate(sizes)]
    return Strided(value, (), tuple(dims))


def places_of(value: ir.Value) -> Iterator[Strided]:
    """Where `value` lies: below each of its views that moves something, the deepest first, or as
    it is."""
    return _below(value, _views_below(value), False)


def lying_in(value: ir.Value) -> Iterator[Strided]:
    """Where `value` lies in each of the tensors that its views show, the deepest first."""
    views: list[View] = []
    below = value
    while (view := _view(below)) is not None:
        views.append(view)
        below = view.source
    return _below(value, views, True)


def _below(value: ir.Value, views: Sequence[View], in_place: bool) -> Iterator[Strided]:
    """Where `value` lies in what each of these views shows, the last of which is the deepest, also
    those that move nothing if `in_place`."""
    for depth in range(len(views), 0, -1):
        if not in_place and views[depth - 1].op.name in IN_PLACE:
            continue
        place: Strided | None = dense(views[depth - 1].source)
        for view in reversed(views[:depth]):
            place = place and through(place, view)
        if place is not None:
            yield place
    yield dense(value)


def through(place: Strided, view: View) -> Strided | None:
    """Where the view of a tensor lies; None if strides do not say it."""
    sizes, starts = factors_of(view.result), place.starts
    dims: list[Dim] = [()] * len(sizes)
    for run in view.runs:
        axes = tuple(axis for dim in run.source for axis in place.dims[dim])
        wanted = [sizes[dim] for dim in run.result]
        if view.op.name == SLICE:
            sliced = _sliced(axes, product(wanted), run.start, run.step)
            if sliced is None:
                return None
            axes, begun = sliced
            starts = (*starts, *begun)
        parts = _cut(axes, wanted)
        if parts is None:
            return None
        for dim, part in zip(run.result, parts, strict=True):
            dims[dim] = part
    return replace(place, starts=starts, dims=tuple(dims))


def heads_of(
    place: Strided, heads: Sequence[int], row: int, column: int, width: Size
) -> HeadPlace | None:
    """The rows of heads that lie so; None where the elements of a row, `width` of them, or the
    rows of a head are not at equal distances, or not aligned as the kernels read them."""
    columns, rows = (joined(place.dims[dim]) for dim in (column, row))
    unit = UNIT // element_bytes(place.source)
    if len(columns) > 1 or len(rows) > 1 or any(axis.stride != 1 for axis in columns):
        return None
    axes = joined(tuple(axis for dim in heads for axis in place.dims[dim]))
    step = rows[0].stride if rows else width
    strides = [step, *place.starts, *(axis.stride for axis in axes)]
    if any(in_units(stride, unit) is None for stride in strides):
        return None
    return HeadPlace(place.source, place.starts, axes, step)


def joined(axes: Dim) -> Dim:
    """Pieces, those as one that have the distances of one."""
    found: list[StridedAxis] = []
    for axis in axes:
        last = found[-1] if found else None
        if last is not None and last.stride == product([axis.size, axis.stride]):
            size = product([last.size, axis.size])
            found[-1] = StridedAxis(size, axis.stride, axis.path)
        else:
            found.append(axis)
    return tuple(found)


def rows_of(value: ir.Value, order: Sequence[int], views: bool = True) -> list[HeadPlace]:
    """How a kernel could read `value`, whose dims it wants in this order, (heads, rows, columns):
    in the deepest tensor in which its heads lie in two axes; without `views` as it is only."""
    *heads, row, column = order
    width = sizes_of(value)[column]
    places = places_of(value) if views else [dense(value)]
    found = [heads_of(place, heads, row, column, width) for place in places]
    return [place for place in found if place is not None and len(place.heads) <= 2]


def ordered_place(value: ir.Value, order: Sequence[int]) -> HeadPlace:
    """Where the rows of heads would lie in a tensor like `value` whose dims lie in this order."""
    sizes = [sizes_of(value)[dim] for dim in order]
    strides = [product(sizes[at + 1 :]) for at in range(len(sizes))]
    pairs = zip(sizes[:-2], strides, strict=False)
    heads = [axis for at, pair in enumerate(pairs) for axis in _dim(*pair, (at,))]
    return HeadPlace(None, (), joined(tuple(heads)), strides[-2])


def common_places(
    values: dict[str, ir.Value], orders: Mapping[str, Sequence[int]], group: Size
) -> dict[str, HeadPlace]:
    """Where kernels read those operands that need no copy; `orders` as in `rows_of`."""
    ways = {name: rows_of(value, orders[name]) for name, value in values.items()}
    found = {name: places[0] for name, places in ways.items() if places}
    if common_batch(found, group) is None:
        ways = {name: rows_of(value, orders[name], False) for name, value in values.items()}
        found = {name: places[0] for name, places in ways.items() if places}
    return {} if common_batch(found, group) is None else found


def written_place(
    result: ir.Value, order: Sequence[int], others: dict[str, HeadPlace], group: Size
) -> tuple[ir.Operation, HeadPlace] | None:
    """The transpose that alone reads `result`, and where the kernel writes its rows if it writes
    what that makes; None if nothing does, or strides do not say it."""
    found = read_by(result)
    if found is None:
        return None
    view, dims = found
    *heads, row, column = order
    width = sizes_of(result)[column]
    place = heads_of(Strided(view.result, (), dims), heads, row, column, width)
    if place is None or common_batch({**others, "output": place}, group) is None:
        return None
    return view.op, place


def result_place(
    result: ir.Value, order: Sequence[int], others: dict[str, HeadPlace], group: Size
) -> HeadPlace | None:
    """Where the kernel writes rows into what lies as `result` does; None if strides do not say
    it."""
    for place in rows_of(result, order, False):
        if common_batch({**others, "output": place}, group) is not None:
            return place
    return None


def is_moved(value: ir.Value) -> bool:
    """Whether views that move elements, or leave some out, make `value`."""
    return any(view.op.name not in IN_PLACE for view in _views_below(value))


def is_cut_out(value: ir.Value) -> bool:
    """Whether `value` is made, by views, of a slice."""
    return any(view.op.name == SLICE for view in _views_below(value))


def is_stored(value: ir.Value) -> bool:
    """Whether a caller, or a kernel of a provider, gets `value` in this or another shape: it will
    lie in memory as it is."""
    return any(_gives_away(op) for op in users(value))


def _gives_away(op: ir.Operation) -> bool:
    if op.name in IN_PLACE:
        return is_stored(op.results[0])
    return op.name.startswith("hal.") or op.name in ("util.return", "func.return")


def read_by(result: ir.Value) -> tuple[View, tuple[Dim, ...]] | None:
    """The last transpose of those views that alone read `result`, and where in what it makes the
    dims of `result` lie; None if something else reads it, or nothing transposes it."""
    place, found = dense(result), None
    while (view := _only_view(result)) is not None:
        below = through(place, view)
        if below is None:
            break
        place, result = below, view.result
        if view.op.name not in IN_PLACE:
            found = view, place.dims
    return found and (found[0], _where(found[1]))


def numbers_of(
    build: Builder, places: dict[str, HeadPlace], kv_heads: Size, group: Size, units: dict[str, int]
) -> dict[str, Size]:
    """The kernel's words for the places of its operands and its result: `kv_heads` heads of K and
    V in all, `group` times as many of the others; `units[name]` elements are 16 bytes."""
    found: dict[str, Size] = {}
    batch_heads = common_batch(places, group) or kv_heads
    found["batch_heads"] = batch_heads
    for name, place in places.items():
        own = batch_heads if name in ("key", "value") else product([batch_heads, group])
        unit = units[name]
        batch, head = _two(place.heads, own, place.row)
        steps = {"batch": batch, "head": head, "row": place.row}
        found |= {f"{name}_{word}": _whole(step, unit) for word, step in steps.items()}
        if name != "output":
            found[f"{name}_start"] = _sum(build, [_whole(start, unit) for start in place.starts])
    return found


def numbers_of_heads(build: Builder, name: str, place: HeadPlace, unit: int) -> dict[str, Size]:
    """The words of a kernel for an operand whose heads have one distance, in units of 16 bytes,
    which are `unit` elements."""
    head = place.heads[0].stride if place.heads else place.row
    steps = {"head": _whole(head, unit), "row": _whole(place.row, unit)}
    starts = _sum(build, [_whole(start, unit) for start in place.starts])
    return {f"{name}_start": starts, **{f"{name}_{word}": step for word, step in steps.items()}}


def common_batch(places: dict[str, HeadPlace], group: Size) -> Size | None:
    """How many heads of K and V have equal distances in all that lies in two axes; 0 where
    nothing does, None if that is no number for all of them."""
    found: list[Size] = []
    for name, place in places.items():
        if len(place.heads) < 2:
            continue
        inner = place.heads[-1].size
        own = inner if name in ("key", "value") else divided(inner, group)
        if len(place.heads) > 2 or own is None:
            return None
        found.append(own)
    return None if len({*found}) > 1 else found[0] if found else 0


def _two(heads: Dim, own: Size, row: Size) -> tuple[Size, Size]:
    """The distances of batches of `own` heads, and of heads; of one alone any will do."""
    if not heads:
        return row, row
    if len(heads) == 2:
        return heads[0].stride, heads[1].stride
    return product([own, heads[0].stride]), heads[0].stride


def _views_below(value: ir.Value) -> list[View]:
    """The views that make `value`, the last first, down to what is stored anyway."""
    found: list[View] = []
    while not is_stored(value) and (view := _view(value)) is not None:
        found.append(view)
        value = view.source
    return found


def _view(value: ir.Value) -> View | None:
    """The view that makes `value`, of all elements once or of a slice."""
    op = defining_op(value)
    return _moving(op) if op is not None else None


def _moving(op: ir.Operation) -> View | None:
    view = view_of(op) if op.name in _VIEWS else None
    if view is None:
        return None
    sizes = sizes_of(view.result)
    repeats = [dim for run in view.runs if not run.source for dim in run.result]
    return None if any(sizes[dim] != 1 for dim in repeats) else view


def _only_view(value: ir.Value) -> View | None:
    """The view that alone reads `value`, in the same block, of all elements once; its sizes may
    be asked for."""
    readers, maker = users(value), defining_op(value)
    readers = [op for op in readers if op.name != "tensor.dim"]
    if len(readers) != 1 or maker is None or readers[0].name == SLICE:
        return None
    view = _moving(readers[0])
    same = view is not None and view.source == value and readers[0].block == maker.block
    return view if same else None


def _where(dims: Sequence[Dim]) -> tuple[Dim, ...]:
    """The dims that those of a tensor are axes of, with their distances in it."""
    flat = [axis for dim in dims for axis in dim]
    placed = [
        replace(axis, stride=product([behind.size for behind in flat[at + 1 :]]))
        for at, axis in enumerate(flat)
    ]
    placed.sort(key=lambda axis: axis.path)
    rank = 1 + max((axis.path[0] for axis in placed), default=-1)
    return tuple(tuple(p for p in placed if p.path[0] == dim) for dim in range(rank))


def _dim(size: Size, stride: Size, path: tuple[int, ...]) -> Dim:
    return () if size == 1 else (StridedAxis(size, stride, path),)


def _sliced(
    axes: Dim, size: Size, start: int | None, step: int | None
) -> tuple[Dim, tuple[Size, ...]] | None:
    """A slice of a dim, and where it starts."""
    axes = joined(axes) if start or product([p.size for p in axes]) != size else axes
    if start == 0 and product([axis.size for axis in axes]) == size:
        return axes, ()
    if len(axes) != 1 or start is None or step != 1:
        return None
    (axis,) = axes
    begun = (product([start, axis.stride]),) if start else ()
    return (() if size == 1 else (replace(axis, size=size),)), begun


def _cut(axes: Dim, sizes: Sequence[Size]) -> list[Dim] | None:
    """Pieces as dims of these sizes, which are all of them; None if a dim would begin or end in one
    that is not known to have such parts. One dim may have what the others leave: its size may be
    another word for it."""
    if len(sizes) == 1:
        return [axes]
    if len(axes) == 1:
        return _parts(axes[0], sizes)
    found, left = list[Dim](), axes
    for size in sizes:
        taken = _taken(left, size)
        if taken is None:
            break
        found.append(taken[0])
        left = taken[1]
    else:
        return None if left else found
    behind = list[Dim]()
    for size in reversed(sizes[len(found) + 1 :]):
        own = next((left[at:] for at in range(len(left)) if _count(left[at:]) == size), None)
        if size == 1:
            own = ()
        if own is None:
            return None
        behind.insert(0, own)
        left = left[: len(left) - len(own)]
    return [*found, left, *behind]


def _taken(axes: Dim, size: Size) -> tuple[Dim, Dim] | None:
    """As many of the first axes as make this size, the last of which may be a part of one, and the
    others."""
    taken, left = list[StridedAxis](), [*axes]
    while (count := _count(taken)) != size:
        if not left:
            return None
        rest = divided(size, count)
        halves = None if rest is None else _halves(left[0], rest)
        left[:1] = halves or left[:1]
        taken.append(left.pop(0))
    return tuple(taken), tuple(left)


def _count(axes: Sequence[StridedAxis]) -> Size:
    return product([axis.size for axis in axes])


def _parts(axis: StridedAxis, sizes: Sequence[Size]) -> list[Dim]:
    """An axis as dims of these sizes, which are all of it."""
    strides = [product([*sizes[at + 1 :], axis.stride]) for at in range(len(sizes))]
    return [
        _dim(size, stride, (*axis.path, at))
        for at, (size, stride) in enumerate(zip(sizes, strides, strict=True))
    ]


def _halves(axis: StridedAxis, size: Size) -> list[StridedAxis] | None:
    """An axis as `size` major parts of as many minor ones as there are; None if it has no more."""
    inner = divided(axis.size, size)
    if inner is None or inner == 1 or size == 1:
        return None
    major = StridedAxis(size, product([inner, axis.stride]), (*axis.path, 0))
    return [major, StridedAxis(inner, axis.stride, (*axis.path, 1))]


def divided(size: Size, by: Size) -> Size | None:
    """`size` / `by` where that is known to be whole."""
    if by == 1:
        return size
    if size == by:
        return 1
    if isinstance(size, int) and isinstance(by, int):
        return size // by if size % by == 0 else None
    if isinstance(size, SizeProduct) and by in size.factors:
        left = list(size.factors)
        left.remove(by)  # pyright: ignore[reportArgumentType]
        return product(left)
    return None


def in_units(size: Size, unit: int) -> Size | None:
    """A distance in units; None if it is not known to be one."""
    if isinstance(size, int):
        return size // unit if size % unit == 0 else None
    factors = size.factors if isinstance(size, SizeProduct) else (size,)
    static = math.prod(factor for factor in factors if isinstance(factor, int))
    if static % unit:
        return None
    rest = [factor for factor in factors if not isinstance(factor, int)]
    return product([static // unit, *rest])


def _whole(size: Size, unit: int) -> Size:
    found = in_units(size, unit)
    assert found is not None, "a stride that was made sure of"
    return found


def _sum(build: Builder, sizes: Sequence[Size]) -> Size:
    total: Size = 0
    for size in sizes:
        total = build.size_op("addi", total, size)
    return total
