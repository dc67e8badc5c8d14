"""attn-bounded-scatters: JAX's writes by index, which leave out what lies outside the tensor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from iree.compiler import ir

from ..ir import (
    Builder,
    body_ops,
    copied_attributes,
    defining_op,
    element_type,
    ranked_shape,
)
from ..ir.printed import numbered_dims
from ..passes import OpPass

_SCATTER = "stablehlo.scatter"
_TENSOR, _INDICES, _UPDATES = 0, 1, 2
# What a write makes of the element that stands and the new one, for floats and for whole numbers.
_COMBINES = {
    "stablehlo.add": ("arith.addf", "arith.addi"),
    "stablehlo.multiply": ("arith.mulf", "arith.muli"),
    "stablehlo.maximum": ("arith.maximumf", "arith.maxsi"),
    "stablehlo.minimum": ("arith.minimumf", "arith.minsi"),
}
_LISTS = (
    *("update_window_dims", "inserted_window_dims", "input_batching_dims"),
    *("scatter_indices_batching_dims", "scatter_dims_to_operand_dims"),
)
Range = tuple["int | None", "int | None"]
# Deeper than this nothing is read of what makes indices.
_DEEPEST = 20


class BoundedScatters(OpPass):
    """Makes each `stablehlo.scatter` of static sizes a scatter of rows by one index each, with a
    mask where an index may lie outside.

    IREE 3.13 imports some alone: none with batching dims, as `vmap` of `dynamic_update_slice` has
    them, and none with dims between the indexed ones. It turns the tensor, a whole cache, so that
    indexed dims come first, and back. And it writes where indices outside the tensor point, that
    StableHLO leaves out: to memory that is not the tensor's. A window that is in part outside is
    left out whole, as in XLA. Sizes known only at run time and
    bodies of several ops are left to IREE. Works on StableHLO, before IREE imports it.
    """

    name = "attn-bounded-scatters"
    summary = "JAX's writes by index leave out what lies outside"
    ops = (_SCATTER,)
    phase = "start"
    mends = "writes by indices outside a tensor change other memory"

    erases = True

    def change(self, op: ir.Operation) -> str:
        write = _write(op)
        if write is None:
            return ""
        _rewrite(op, write)
        masked = "; what lies outside is left out" if write.checked else ""
        return f"is a scatter of rows by one index{masked}"


@dataclass(frozen=True)
class _Dim:
    """How a dim of the tensor is addressed: by a column of the indices (None: none), from there on
    along a dim of the updates (None: one element), and at how many places a window may begin that
    is inside (None: all do)."""

    size: int
    column: int | None
    along: int | None
    begins: int | None


@dataclass(frozen=True)
class _Write:
    """A scatter: how the dims of the tensor are addressed, of which the last `rows` are written
    whole; which dims of the updates choose a row, and along which dim of the indices each of these
    runs (None: none); and which dim of the indices has the columns."""

    dims: tuple[_Dim, ...]
    rows: int
    batch: tuple[int, ...]
    places: dict[int, int]
    vector: int
    combine: str

    @property
    def checked(self) -> bool:
        return any(dim.begins is not None for dim in self.dims)

    @property
    def front(self) -> tuple[_Dim, ...]:
        """The dims that an index chooses."""
        return self.dims[: len(self.dims) - self.rows]


def _write(op: ir.Operation) -> _Write | None:
    """What a scatter writes; None for one that is left to IREE."""
    if len(op.operands) != 3 or not all(_is_known(value) for value in op.operands):
        return None
    combine, shapes = _combine(op), [ranked_shape(value) for value in op.operands]
    if combine is None or any(None in shape for shape in shapes) or not shapes[_TENSOR]:
        return None
    numbers = numbered_dims(op.attributes["scatter_dimension_numbers"])
    given = {key: numbers.get(key, []) for key in (*_LISTS, "index_vector_dim")}
    windows, inserted, batching, other_batching, scattered = (given[key] for key in _LISTS)
    (vector,) = given["index_vector_dim"] or [0]
    tensor, indices, updates = shapes
    batch = [dim for dim in range(len(updates)) if dim not in windows]
    runs = [dim for dim in range(len(indices)) if dim != vector]
    along = iter(windows)
    dims: list[_Dim] = []
    for dim, size in enumerate(tensor):
        column = scattered.index(dim) if dim in scattered else None
        if dim in batching:
            place = batch[runs.index(other_batching[batching.index(dim)])]
            dims.append(_Dim(size or 0, None, place, None))
            continue
        place = None if dim in inserted else next(along)
        span = 1 if place is None else updates[place] or 1
        low, high = (0, 0) if column is None else _range(op.operands[_INDICES], column, vector)
        begins = max(0, (size or 0) - span + 1)
        inside = low is not None and high is not None and 0 <= low <= high < begins
        column = None if low == high == 0 else column
        dims.append(_Dim(size or 0, column, place, None if inside else begins))
    rows = _whole_dims(dims, batch, updates)
    last = [dim.along for dim in dims[len(dims) - rows :]]
    chosen = tuple(dim for dim in range(len(updates)) if dim not in last)
    return _Write(tuple(dims), rows, chosen, dict(zip(batch, runs, strict=True)), vector, combine)


def _whole_dims(dims: Sequence[_Dim], batch: Sequence[int], updates: Sequence[int | None]) -> int:
    """How many of the last dims each write covers, but for the first dim."""
    for count, dim in enumerate(reversed(dims[1:])):
        span = 1 if dim.along is None else updates[dim.along]
        if dim.column is not None or dim.along in batch or span != dim.size:
            return count
    return len(dims) - 1


def _is_known(value: ir.Value) -> bool:
    """Whether a tensor has elements that need no cast between StableHLO and what IREE makes of
    it."""
    kind = element_type(value)
    return isinstance(kind, ir.FloatType) or (isinstance(kind, ir.IntegerType) and kind.is_signless)


def _combine(op: ir.Operation) -> str | None:
    """The op on scalars that joins the element that stands with the new one, '' for none; None
    where the body does more."""
    block = op.regions[0].blocks[0]
    *steps, end = body_ops(op)
    old, new = block.arguments[0], block.arguments[1]
    if not steps:
        return "" if len(end.operands) == 1 and end.operands[0] == new else None
    kind = element_type(op.operands[_TENSOR])
    if len(steps) > 1 or steps[0].name not in _COMBINES or len(op.results) != 1:
        return None
    if list(end.operands) != list(steps[0].results) or {*steps[0].operands} != {old, new}:
        return None
    return _COMBINES[steps[0].name][0 if isinstance(kind, ir.FloatType) else 1]


def _range(value: ir.Value, column: int, vector: int, depth: int = 0) -> Range:
    """The least and the largest number in this column of indices, None for what is not known.

    `vector` is the dim that has the columns; a tensor without that has one number for all.
    """
    op = defining_op(value)
    if op is None or depth > _DEEPEST:
        return None, None
    rule = _RANGES.get(op.name)
    return (None, None) if rule is None else rule(op, column, vector, depth + 1)


def _of_constant(op: ir.Operation, column: int, vector: int, depth: int) -> Range:
    elements = ir.DenseElementsAttr(op.attributes["value"])
    if elements.is_splat:
        number = ir.IntegerAttr(elements.get_splat_value()).value
        return number, number
    shape = ranked_shape(op.results[0])
    if len(shape) != 1 or vector != 0:
        return None, None
    number = list(ir.DenseIntElementsAttr(op.attributes["value"]))[column]
    return number, number


def _of_broadcast(op: ir.Operation, column: int, vector: int, depth: int) -> Range:
    places = list(op.attributes["broadcast_dimensions"])
    shape = ranked_shape(op.operands[0])
    if vector not in places or shape[places.index(vector)] == 1:
        return _range(op.operands[0], 0, -1, depth)
    return _range(op.operands[0], column, places.index(vector), depth)


def _of_concatenate(op: ir.Operation, column: int, vector: int, depth: int) -> Range:
    if ir.IntegerAttr(op.attributes["dimension"]).value != vector:
        return None, None
    for piece in op.operands:
        size = ranked_shape(piece)[vector]
        if size is None:
            return None, None
        if column < size:
            return _range(piece, column, vector, depth)
        column -= size
    return None, None


def _of_clamp(op: ir.Operation, column: int, vector: int, depth: int) -> Range:
    least, given, most = (_range(value, column, vector, depth) for value in op.operands)
    low = least[0] if given[0] is None or least[0] is None else max(least[0], given[0])
    high = most[1] if given[1] is None or most[1] is None else min(most[1], given[1])
    return (low, high) if low is None or high is None else (min(low, high), high)


def _of_minimum(op: ir.Operation, column: int, vector: int, depth: int) -> Range:
    ranges = [_range(value, column, vector, depth) for value in op.operands]
    lows, highs = zip(*ranges, strict=True)
    known = [high for high in highs if high is not None]
    return None if None in lows else min(lows), min(known, default=None)


def _of_same(op: ir.Operation, column: int, vector: int, depth: int) -> Range:
    return _range(op.operands[0], column, vector, depth)


_RANGES = {
    "stablehlo.constant": _of_constant,
    "stablehlo.broadcast_in_dim": _of_broadcast,
    "stablehlo.clamp": _of_clamp,
    "stablehlo.concatenate": _of_concatenate,
    "stablehlo.minimum": _of_minimum,
    "stablehlo.convert": _of_same,
}


def _rewrite(op: ir.Operation, write: _Write) -> None:
    build, tensor = Builder(op), op.operands[_TENSOR]
    front = len(write.front)
    groups = [[*range(front)], *([dim] for dim in range(front, len(write.dims)))]
    original = build.collapse(tensor, groups)
    inputs = [_rows(op, write, build), *_indices(op, write, build)]
    given = copied_attributes(op)
    attributes = {
        "dimension_map": ir.DenseI64ArrayAttr.get([0]),
        "unique_indices": given.get("unique_indices", ir.BoolAttr.get(False)),
    }
    operands, name = [*inputs, original], "iree_linalg_ext.scatter"
    new = build.create(name, [original.type], operands, attributes, regions=1)
    kind = element_type(tensor)
    block = new.regions[0].blocks.append(kind, kind, arg_locs=[op.location] * 2)
    build.fill_block(block, "iree_linalg_ext.yield", lambda inner: _joined(inner, block, write))
    sizes = [dim.size for dim in write.dims]
    op.results[0].replace_all_uses_with(build.expand(new.results[0], groups, sizes))


def _joined(inner: Builder, block: ir.Block, write: _Write) -> list[ir.Value]:
    new, old = block.arguments
    if not write.combine:
        return [new]
    return [inner.create(write.combine, [new.type], [old, new]).results[0]]


def _rows(op: ir.Operation, write: _Write, build: Builder) -> ir.Value:
    """The updates with a dim that counts rows in front, and the dims in a row behind it."""
    updates = op.operands[_UPDATES]
    last = write.dims[len(write.front) :]
    behind = [dim.along for dim in last if dim.along is not None]
    value = build.transpose(updates, [*write.batch, *behind])
    counts = [len(write.batch), *(0 if dim.along is None else 1 for dim in last)]
    shape = ranked_shape(updates)
    rows = math.prod(shape[dim] or 0 for dim in write.batch)
    return build.join_dims(value, counts, [rows, *(dim.size for dim in last)])


def _indices(op: ir.Operation, write: _Write, build: Builder) -> list[ir.Value]:
    """For each row the number of its place, and a mask of those that are inside, if that may be
    missed by any."""
    indices, shape = op.operands[_INDICES], ranked_shape(op.operands[_UPDATES])
    sizes = [shape[dim] or 0 for dim in write.batch]
    loops = {dim: loop for loop, dim in enumerate(write.batch)}
    rank = max(1, len(sizes))
    i64, i1 = (ir.IntegerType.get_signless(width) for width in (64, 1))
    inits = [build.empty(sizes or [1], kind) for kind in ((i64, i1) if write.checked else (i64,))]

    def body(inner: Builder, scalars: Sequence[ir.Value]) -> Sequence[ir.Value]:
        place, inside = inner.constant_index(0), None
        for dim in write.front:
            first = _first(inner, indices, write, dim, loops)
            if dim.begins is not None:
                fits = inner.compare("ult", first, inner.constant_index(dim.begins))
                inside = fits if inside is None else inner.andi(inside, fits)
            if dim.along is not None:
                first = inner.addi(inner.loop_index(loops[dim.along]), first)
            place = inner.multiply_add(place, dim.size, first)
        if inside is not None:
            place = inner.select(inside, place, inner.constant_index(0))
        number = inner.convert("arith.index_cast", place, i64)
        return [number] if inside is None else [number, inside]

    made = build.generic([], inits, [tuple(range(rank))] * len(inits), body)
    rows = math.prod(sizes)
    numbers = build.join_dims(made[0], [rank, 0], [rows, 1])
    return [numbers, *(build.join_dims(mask, [rank], [rows]) for mask in made[1:])]


def _first(
    inner: Builder, indices: ir.Value, write: _Write, dim: _Dim, loops: dict[int, int]
) -> ir.Value:
    """Where along a dim of the tensor the window begins that these loops choose."""
    if dim.column is None:
        return inner.constant_index(0)
    places = {where: inner.loop_index(loops[along]) for along, where in write.places.items()}
    rank = len(ranked_shape(indices))
    if write.vector < rank:
        places[write.vector] = inner.constant_index(dim.column)
    return inner.to_index(inner.extract(indices, [places[where] for where in range(rank)]))
