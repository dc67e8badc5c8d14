"""attn-scatter-rows: a scatter by a table of elements becomes one of rows, by one index each.

Exporters write a cache by `cache[:, :, positions] = new`. IREE 3.13 imports that as a scatter of
single elements by a table with an index for each dim: a decode step with 8 heads of 128 elements
makes and reads four numbers for each element it writes, in nine dispatches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iree.compiler import ir

from ..ir import (
    Builder,
    Size,
    concat_dim,
    copied_attributes,
    copy_region,
    defining_op,
    indexed_dims,
    product,
    ranked_shape,
    set_attribute,
    sizes_of,
)
from ..ir.bodies import INDEX_OPS, index_dim, read_elementwise
from ..ir.views import IN_PLACE
from ..layout.axes import Axes, Dims, source_below
from ..passes import OpPass
from .number_digits import digit_read

_SCATTER = "iree_linalg_ext.scatter"


class ScatterRows(OpPass):
    """Joins the indices of a scatter to one a row, where it can be seen how they are made.

    Indices of the last dims that only count the updates' own dims go: these dims become part of
    a row, which is written as it lies. The dims in front become one dim of the tensor, which is
    a view of it, and their indices one number. What is written, and where, is the same.

    A table that comes in from outside stays, and so does one made in a way that is not read here.
    """

    name = "attn-scatter-rows"
    summary = "caches are written by one index a row, not by a table of elements"
    why = (
        "IREE imports a write of rows of a cache as one of elements; before attn-fuse-pieces, "
        "behind which nobody sees how the table of indices is made"
    )

    what = "fitted"

    def wanted(self, op: ir.Operation) -> bool:
        return op.name == _SCATTER and indexed_dims(op) > 1

    def change(self, op: ir.Operation) -> str:
        writes = row_writes(op)
        if writes is None:
            return ""
        before = "x".join(str(size or "?") for size in ranked_shape(op.operands[1]))
        _rewrite(op, writes)
        return f"{writes} in place of a table of {before} indices"


@dataclass(frozen=True)
class _Column:
    """An index: elements of `table`, along whose dims the axes `dims` of the updates run; without
    a table the number that the axes of the only one of `dims` count."""

    table: ir.Value | None
    dims: Dims

    @property
    def axes(self) -> set[int]:
        return {axis for dim in self.dims for axis in dim}


@dataclass(frozen=True)
class WrittenRows:
    """What the scatter `op` writes: `source`, whose dims have the axes `dims`, at `columns`, one
    for each indexed dim of the tensor; axes of `batch` choose a row, `counted` has those of the
    indexed dims in it, and `slices` those of the others."""

    op: ir.Operation
    axes: Axes
    source: ir.Value
    dims: Dims
    columns: tuple[_Column, ...]
    batch: tuple[int, ...]
    counted: Dims
    slices: Dims

    def sizes(self, axes: Sequence[int]) -> list[Size]:
        return [self.axes.size(axis) for axis in axes]

    def __str__(self) -> str:
        size = product([*map(product, map(self.sizes, (*self.counted, *self.slices)))])
        elements = f"{size} elements" if isinstance(size, int) else "elements"
        return f"writes rows of {elements} by one index each"

    @property
    def count(self) -> Size:
        """How many rows are written."""
        return product(self.sizes(self.batch))

    @property
    def front(self) -> tuple[Size, ...]:
        """The sizes of the dims that choose a row of the tensor."""
        full = sizes_of(self.op.operands[-1])
        return full[: indexed_dims(self.op) - len(self.counted)]

    @property
    def groups(self) -> list[list[int]]:
        """The dims of the tensor whose first is one of rows."""
        front = len(self.front)
        rank = len(ranked_shape(self.op.operands[-1]))
        return [[*range(front)], *([dim] for dim in range(front, rank))]


def row_writes(op: ir.Operation) -> WrittenRows | None:
    """What `op` writes, None where that cannot be seen or would be no less."""
    updates, table, original = op.operands[0], op.operands[1], op.operands[-1]
    if len(op.operands) != 3 or len(ranked_shape(table)) != 2:
        return None
    axes = Axes()
    count, *slices = (axes.new(size) for size in sizes_of(updates))
    places = [list(op.attributes["dimension_map"]).index(dim) for dim in range(indexed_dims(op))]
    columns = [_column(table, count, place, axes) for place in places]
    found = [column for column in columns if column is not None]
    if len(found) < len(columns):
        return None
    source, dims = _source(updates, (count, *slices), axes)
    now = tuple(_Column(column.table, axes.dims(column.dims)) for column in found)
    batch, counted = _rows(axes, axes.now(count), now, sizes_of(original))
    dims, slices = axes.dims(dims), axes.dims(tuple(slices))
    return WrittenRows(op, axes, source, dims, now, batch, counted, slices)


def _source(updates: ir.Value, dims: Dims, axes: Axes) -> tuple[ir.Value, Dims]:
    """What the updates are views of, or read by digits of an element's number."""
    source, dims = source_below(updates, dims, axes, IN_PLACE)
    read = digit_read(source)
    if read is None or read.tensor is None:
        return source, dims
    used = {digit for digit in read.digits if digit is not None}
    digits = axes.cut(dims[0], read.sizes)
    if digits is None or any(digits[place] for place in {*range(len(digits))} - used):
        return source, dims
    found = tuple(() if digit is None else digits[digit] for digit in read.digits)
    if read.shape() != sizes_of(read.tensor):
        return read.tensor, found
    return source_below(read.tensor, found, axes, IN_PLACE)


def _column(table: ir.Value, rows: tuple[int, ...], place: int, axes: Axes) -> _Column | None:
    """Where the indices in this column of a table come from."""
    piece = _piece(table, place)
    if piece is None:
        return None
    source, dims = source_below(piece, (rows, ()), axes)
    read = digit_read(source)
    if read is not None:
        digits = axes.cut(dims[0], read.sizes)
        if digits is None or (read.tensor and read.shape() != sizes_of(read.tensor)):
            return None
        dims = tuple(() if digit is None else digits[digit] for digit in read.digits)
        if read.tensor is None:
            return _Column(None, dims)
        source, dims = source_below(read.tensor, dims, axes)
    op = defining_op(source)
    return (op and _counted(op, dims)) or _Column(source, dims)


def _piece(table: ir.Value, place: int) -> ir.Value | None:
    """The table of one column that is column `place` of a table made of such."""
    below = table
    while (op := defining_op(below, "tensor.insert_slice")) is not None:
        piece, below = op.operands[0], op.operands[1]
        offsets = list(op.attributes["static_offsets"])
        if offsets[0] != 0 or sizes_of(piece) != (sizes_of(table)[0], 1):
            return None
        if offsets[1] == place:
            return piece
    op = defining_op(below, "tensor.concat")
    if op is None or concat_dim(op) != 1:
        return None
    if any(ranked_shape(piece)[1] != 1 for piece in op.operands):
        return None
    return op.operands[place]


def _counted(op: ir.Operation, dims: Dims) -> _Column | None:
    """The column that `op` makes, where each element is the number of its own place along a
    dim."""
    made = read_elementwise(op) if len(op.results) == 1 else None
    if made is None:
        return None
    scalar = defining_op(made.scalar)
    if scalar is not None and scalar.name == "arith.index_cast":
        scalar = defining_op(scalar.operands[0])
    if scalar is None or scalar.name not in INDEX_OPS:
        return None
    return _Column(None, (dims[made.dim_of[index_dim(scalar)]],))


def _rows(
    axes: Axes, rows: tuple[int, ...], columns: Sequence[_Column], sizes: Sequence[Size]
) -> tuple[tuple[int, ...], Dims]:
    """The axes that choose a row, and those of each dim in it: the last columns may count all of
    their dim, along axes that no other column reads."""
    row: list[tuple[int, ...]] = []
    for number in reversed(range(1, len(columns))):
        column = columns[number]
        own = column.dims[0] if column.table is None else ()
        others = {axis for other in columns[:number] for axis in other.axes}
        whole = product([axes.size(axis) for axis in own]) == sizes[number]
        last = not own or rows[-len(own) :] == own
        if column.table is not None or not whole or not last or others & {*own}:
            break
        rows = rows[: len(rows) - len(own)]
        row.insert(0, own)
    return rows, tuple(row)


def _rewrite(op: ir.Operation, writes: WrittenRows) -> None:
    build, original = Builder(op), op.operands[-1]
    rows = build.collapse(original, writes.groups)
    operands = [row_updates(writes, build), row_indices(writes, build), rows]
    new = build.create(op.name, [rows.type], operands, copied_attributes(op), regions=1)
    set_attribute(new, "dimension_map", "array<i64: 0>")
    copy_region(op, new)
    back = build.expand(new.results[0], writes.groups, sizes_of(original))
    op.results[0].replace_all_uses_with(back)


def row_updates(writes: WrittenRows, build: Builder) -> ir.Value:
    """The rows to write: a dim that counts them, and those in them."""
    sizes = [writes.sizes(dim) for dim in writes.dims]
    source, read = writes.source, tuple(map(product, sizes))
    if read != sizes_of(source):
        source = build.extract_slice(source, [0] * len(read), read)
    value = build.split_dims(source, sizes)
    dims = (writes.batch, *writes.counted, *writes.slices)
    return build.join_dims(value, [*map(len, dims)], [*map(product, map(writes.sizes, dims))])


def row_indices(writes: WrittenRows, build: Builder) -> ir.Value:
    """For each row the number of its place, along the first dims, as one."""
    columns, sizes = writes.columns[: len(writes.front)], writes.front
    loops = {axis: loop for loop, axis in enumerate(writes.batch)}
    rank = max(1, len(loops))
    tables = [(column.table, column.dims) for column in columns if column.table is not None]
    given = [build.split_dims(table, [writes.sizes(dim) for dim in dims]) for table, dims in tables]
    reads = [tuple(loops[axis] for dim in dims for axis in dim) for _, dims in tables]
    i64 = ir.IntegerType.get_signless(64, build.anchor.context)
    init = build.empty(writes.sizes(writes.batch) or [1], i64)
    factors = [_factor(size, build) for size in sizes]
    counts = {axis: _factor(writes.axes.size(axis), build) for axis in loops}

    def body(inner: Builder, scalars: Sequence[ir.Value]) -> Sequence[ir.Value]:
        place, read = inner.constant_index(0), iter(scalars)
        for column, factor in zip(columns, factors, strict=True):
            at = inner.constant_index(0) if column.table is None else inner.to_index(next(read))
            for axis in () if column.table is not None else column.dims[0]:
                at = inner.multiply_add(at, counts[axis], inner.loop_index(loops[axis]))
            place = inner.multiply_add(place, factor, at)
        return [inner.convert("arith.index_cast", place, i64)]

    (numbers,) = build.generic(given, [init], [*reads, tuple(range(rank))], body)
    return build.join_dims(numbers, [rank, 0], [writes.count, 1])


def _factor(size: Size, build: Builder) -> ir.Value | int:
    return size if isinstance(size, int) else build.size(size)
