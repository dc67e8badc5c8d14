"""attn-find-writes: each element of a tensor finds what is written to it by index, for GPUs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from iree.compiler import ir

from ..attention.barrier import compute_barrier
from ..forms.scatter_rows import WrittenRows, row_indices, row_updates, row_writes
from ..ir import (
    Builder,
    Size,
    body_names,
    body_of,
    body_ops,
    defining_op,
    element_type,
    filled_with,
    has_one_use,
    indexed_dims,
    is_used,
    product,
    sizes_of,
    users,
)
from ..ir.bodies import constant_number, read_elementwise
from ..ir.sizes import static_size
from ..passes import OpPass
from .combinations import Combination, combination_of, writes_one_number, written_number
from .ordered_rows import CombinedRows, row_order

_SCATTER = "iree_linalg_ext.scatter"
# Longer tensors, and more comparisons in all, take longer than one write after the other.
_LONGEST, _MOST = 1 << 16, 1 << 32
# More rows that are combined, or comparisons in all, take longer than their order (9 us on an H200;
# comparisons with a row 40 ns); of the last number and more there is none.
_MOST_COMPARED_ROWS, _MOST_COMPARED, _MOST_ORDERED = 256, 1 << 20, 1 << 30
# As many elements by several indices one thread combines as fast.
_FEW_IN_TURN = 512


class FindWrites(OpPass):
    """Makes of writes of N rows by one index each to a tensor of E rows that is a constant

        last[e] = the last n with index[n] == e            (N comparisons for each e)
        result[e] = update[last[e]], or the constant where there is none

    and of what is combined (sums, products, largest and least numbers, counts) that of those with
    index[n] == e, of 16 bits in f32: by N comparisons for each element, or, where these are many,
    of rows in the order of their places (`ordered_rows.py`), which may be of several indices and of
    unknown number. A tensor of numbers, without dims of rows, and one with which rows are combined,
    may be any; a number that is written first to all places that have rows (`include_self=False`)
    is where these begin. What is combined by the same indices is so in one order. What is the same
    for all places (a mask of the k best) is written side by side.

    IREE 3.13 writes one row after the other, on the GPU too: the inverse of a permutation of 2048
    tokens, `inverse[order] = arange(2048)`, takes some 180 us, and 32 rows of 2048 that are added
    (the experts' of 4 tokens) a millisecond. Comparisons are 239 ms for 65536 rows of 128 that are
    added to 4096.
    """

    name = "attn-find-writes"
    summary = "GPUs: elements find what is written to them"
    why = "IREE writes by index in one thread, whatever is written"
    backends = ("cuda", "rocm")
    what = "fitted"

    def wanted(self, op: ir.Operation) -> bool:
        return op.name == _SCATTER and len(op.results) == 1 and len(op.operands) in (3, 4)

    def change(self, op: ir.Operation) -> str:
        if not is_used(op.results[0]):
            # It was combined, or begun with, together with another by the same indices.
            return "stands in the order of places with another by the same indices"
        together = _by_same_indices(op)
        if together and op in [one.op for one in together] + [one.begun for one in together]:
            _in_order(together)
            return f"{together[0].combines} the rows of each place in the order of places"
        write = _combined_write(op)
        if write is None and writes_one_number(op) and not _is_unique(op):
            op.attributes["unique_indices"] = ir.BoolAttr.get(True, op.context)
            return "writes the same to all places, whichever comes last"
        if write is not None and not write.is_few:
            return ""
        if write is None and not _is_cheap(op):
            return ""
        result = _last(op, Builder(op)) if write is None else _compared(write)
        op.results[0].replace_all_uses_with(result)
        rows, length = (
            (sizes_of(op.operands[0])[0], sizes_of(op.operands[-1])[0])
            if write is None
            else (write.count, product(write.front))
        )
        return f"each of {length} rows finds what is written to it among {rows}"


@dataclass(frozen=True)
class _CombinedWrite:
    """A scatter that combines what stands with rows, `rows` where a table of elements is one of
    these; `begun` writes the number `begins` to all their places before."""

    op: ir.Operation
    combines: Combination
    rows: WrittenRows | None
    begun: ir.Operation | None
    begins: float | None

    @property
    def original(self) -> ir.Value:
        return (self.begun or self.op).operands[-1]

    @property
    def count(self) -> Size:
        return sizes_of(self.op.operands[0])[0] if self.rows is None else self.rows.count

    @property
    def indexed(self) -> int:
        """How many dims of the tensor choose a row."""
        return indexed_dims(self.op) if self.rows is None else len(self.rows.front)

    @property
    def front(self) -> tuple[Size, ...]:
        return sizes_of(self.original)[: self.indexed]

    @property
    def groups(self) -> list[list[int]]:
        rank = len(sizes_of(self.original))
        return [[*range(self.indexed)], *([dim] for dim in range(self.indexed, rank))]

    def updates(self, build: Builder) -> ir.Value:
        """The rows, floats as they are before they are widened: what reads them widens them, too,
        without memory for them."""
        if self.rows is None:
            return _before_widening(self.op.operands[0])
        source = _before_widening(self.rows.source)
        return row_updates(dataclasses.replace(self.rows, source=source), build)

    @property
    def is_table(self) -> bool:
        """Whether a row has several indices."""
        return self.rows is None and self.indexed > 1

    @property
    def is_few(self) -> bool:
        """Whether comparisons find its rows: as many as are known, of known sizes."""
        sizes = [self.count, *sizes_of(self.original)]
        if self.is_table or self.begun is not None or not all(isinstance(x, int) for x in sizes):
            return False
        length = product(self.front)
        if len(sizes) > 1 + self.indexed:
            return static_size(self.count) > 1
        return _few(static_size(self.count), static_size(length))

    @property
    def is_long(self) -> bool:
        """Whether there are more rows than comparisons find."""
        full, rows, length = sizes_of(self.original), self.count, product(self.front)
        if any(isinstance(size, int) and size > _MOST_ORDERED for size in (rows, length)):
            return False
        if rows in (0, 1) and self.begun is None:
            return False
        if self.begun is not None:
            return True
        work = product([rows, *full[self.indexed :]] if self.is_table else [rows, *full])
        if self.is_table or not isinstance(work, int) or not isinstance(rows, int):
            return not isinstance(work, int) or work > _FEW_IN_TURN
        return rows > _MOST_COMPARED_ROWS or work > _MOST_COMPARED


def _combined_write(op: ir.Operation) -> _CombinedWrite | None:
    """What a scatter combines whole rows with; not where they are numbers, and differ, which IREE
    writes side by side."""
    combines, places = combination_of(op), list(op.attributes["dimension_map"])
    updates, indices, original = op.operands[0], op.operands[1], op.operands[-1]
    full = sizes_of(original)
    differ = len(full) > 1 and _is_unique(op)
    if combines is None or differ or places != [*range(len(places))]:
        return None
    if sizes_of(updates)[1:] != full[len(places) :] or not 1 <= len(sizes_of(indices)) < 3:
        return None
    rows = row_writes(op) if len(places) > 1 else None
    combines = combines.of_rows(updates if rows is None else rows.source)
    begun, begins = defining_op(original, _SCATTER), None
    if begun is not None and _same_places(begun, op):
        begins = written_number(begun) if has_one_use(original) else None
    return _CombinedWrite(op, combines, rows, None if begins is None else begun, begins)


def _is_unique(op: ir.Operation) -> bool:
    """Whether a scatter writes once to each place at most, as IREE takes it."""
    return ir.BoolAttr(op.attributes["unique_indices"]).value


def _before_widening(value: ir.Value) -> ir.Value:
    """What floats are widened from, element by element; else themselves."""
    op = defining_op(value)
    if (
        op is None
        or op.name != "linalg.generic"
        or body_names(op) != ["arith.extf", "linalg.yield"]
    ):
        return value
    made = read_elementwise(op)
    everywhere = tuple(range(len(sizes_of(value))))
    return op.operands[0] if made is not None and made.reads[0].dims == everywhere else value


def _same_places(one: ir.Operation, other: ir.Operation) -> bool:
    """Whether two scatters go by the same indices and mask, to tensors of the same sizes."""
    places = [[*op.operands][1:-1] for op in (one, other)]
    return (
        places[0] == places[1]
        and one.block == other.block
        and one.attributes["dimension_map"] == other.attributes["dimension_map"]
        and sizes_of(one.operands[-1]) == sizes_of(other.operands[-1])
    )


def _by_same_indices(op: ir.Operation) -> list[_CombinedWrite]:
    """The scatters by the indices of one, itself too, that combine more rows than comparisons find,
    in the order in which they stand."""
    scatters = [one for one in users(op.operands[1]) if one.name == _SCATTER]
    found = [
        _combined_write(one)
        for one in scatters
        if one.operands[1] == op.operands[1] and _same_places(one, op) and is_used(one.results[0])
    ]
    long = [write for write in found if write is not None and write.is_long]
    order = {one.operation: place for place, one in enumerate(op.block.operations)}
    return sorted(long, key=lambda write: order[write.op])


def _is_cheap(op: ir.Operation) -> bool:
    """Whether each row of a new tensor, or number of any, finds the last that is written to it."""
    updates, original = op.operands[0], op.operands[-1]
    *steps, end = body_ops(op)
    writes = not steps and end.operands[0] == body_of(op).arguments[0]
    if list(op.attributes["dimension_map"]) != [0] or not writes:
        return False
    sizes, full = sizes_of(updates), sizes_of(original)
    rows, length = sizes[0], full[0]
    if not isinstance(rows, int) or not isinstance(length, int) or sizes[1:] != full[1:]:
        return False
    if any(not isinstance(size, int) for size in full):
        return False
    is_new = _is_empty(original) or filled_with(original) is not None
    is_new = is_new or constant_number(original) is not None
    return (is_new if len(full) > 1 else True) and _few(rows, length)


def _is_empty(value: ir.Value) -> bool:
    """Whether nothing is in a tensor yet: what is not written may be anything."""
    return defining_op(value, "tensor.empty") is not None


def _few(rows: int, length: int) -> bool:
    return rows > 1 and length <= _LONGEST and rows * length <= _MOST


def _hits(
    build: Builder, indices: ir.Value, mask: Sequence[ir.Value], length: Size, loop: int
) -> tuple[list[ir.Value], list[tuple[int, ...]]]:
    """The indices, in 32 bits, and the mask, if there is one, read along a loop."""
    if len(sizes_of(indices)) == 2:
        indices = build.collapse(indices, [[0, 1]])
    i32 = ir.IntegerType.get_signless(32, indices.context)
    if element_type(indices) != i32:
        indices = _narrow(build, indices, length, i32)
    return [indices, *mask], [(loop,)] * (1 + len(mask))


def _narrow(build: Builder, indices: ir.Value, length: Size, i32: ir.Type) -> ir.Value:
    """Indices in 32 bits, which a GPU compares in one instruction; -1 where they are none of
    `length`."""

    def body(inner: Builder, scalars: Sequence[ir.Value]) -> ir.Value:
        index = inner.to_index(scalars[0])
        # A negative one is beyond all where it counts as one without sign.
        inside = inner.compare("ult", index, inner.size(length))
        place = inner.convert("arith.index_cast", index, i32)
        return inner.select(inside, place, inner.splat(-1, i32))

    # Else it is made anew for each row that looks for its index.
    return compute_barrier(build, build.computed(sizes_of(indices), i32, body, indices))


def _is_hit(inner: Builder, given: Sequence[ir.Value]) -> ir.Value:
    index, *mask = given
    place = inner.convert("arith.index_cast", inner.loop_index(0), index.type)
    hit = inner.compare("eq", index, place)
    return inner.andi(hit, mask[0]) if mask else hit


def _places(
    build: Builder, indices: ir.Value, mask: Sequence[ir.Value], sizes: Sequence[Size]
) -> ir.Value:
    """For each update the number (i32) of the row that it goes to, of dims of these sizes; -1 where
    that is none, or masked."""
    is_table, context = len(sizes_of(indices)) == 2, indices.context
    i1, i32 = (ir.IntegerType.get_signless(bits, context) for bits in (1, 32))

    def body(inner: Builder, scalars: Sequence[ir.Value]) -> ir.Value:
        at, inside = inner.constant_index(0), scalars[0] if mask else inner.splat(1, i1)
        for column, size in enumerate(sizes):
            places = [inner.loop_index(0), inner.constant_index(column)]
            index = inner.to_index(inner.extract(indices, places[: 1 + is_table]))
            # A negative one is beyond all where it counts as one without sign.
            inside = inner.andi(inside, inner.compare("ult", index, inner.size(size)))
            at = inner.addi(inner.muli(at, inner.size(size)), index)
        place = inner.convert("arith.index_cast", at, i32)
        return inner.select(inside, place, inner.splat(-1, i32))

    return build.computed(sizes_of(indices)[:1], i32, body, *mask)


def _in_order(writes: Sequence[_CombinedWrite]) -> None:
    """Puts what scatters by the same indices make in their place, by one order of the rows."""
    first = writes[0]
    build, length = Builder(first.op), product(first.front)
    indices, *mask = list(first.op.operands)[1:-1]
    sizes = first.front
    if first.rows is not None:
        indices, sizes = row_indices(first.rows, build), (length,)
    order = row_order(build, _places(build, indices, mask, sizes), length)
    for write in writes:
        build = Builder(write.op)
        updates = write.updates(build)
        if write.combines.each is None:
            updates = compute_barrier(build, updates)
        kind = _summed(element_type(write.original))
        rows = CombinedRows(build, updates, order, write.combines, kind, write.begins)
        made = rows.with_rows(build.collapse(write.original, write.groups))
        write.op.results[0].replace_all_uses_with(
            build.expand(made, write.groups, sizes_of(write.original))
        )
        if write.begun is not None:
            write.op.operands[len(write.op.operands) - 1] = write.original


def _summed(kind: ir.Type) -> ir.Type:
    """The type in which elements are combined."""
    return ir.F32Type.get(kind.context) if str(kind) in ("f16", "bf16") else kind


def _compared(write: _CombinedWrite) -> ir.Value:
    """What stands, and what is combined of the rows that comparisons find."""
    op, build, combines = write.op, Builder(write.op), write.combines
    indices, *mask = list(op.operands)[1:-1]
    updates = op.operands[0]
    if write.rows is not None:
        indices, updates = row_indices(write.rows, build), row_updates(write.rows, build)
    original = build.collapse(write.original, write.groups)
    everywhere, kind = tuple(range(len(sizes_of(original)))), element_type(original)
    rows = len(everywhere)
    read, reads = _hits(build, indices, mask, product(write.front), rows)
    summed = _summed(kind)

    def body(inner: Builder, scalars: Sequence[ir.Value]) -> Sequence[ir.Value]:
        *given, update, total = scalars
        if combines.each is not None:
            update = inner.splat(combines.each, kind)
        new = inner.select(_is_hit(inner, given), update, combines.none(inner, kind))
        return [inner.apply(combines.name, total, _as(inner, new, summed))]

    maps = [*reads, (rows, *everywhere[1:]), everywhere]
    start = _cast(build, original, summed)
    (total,) = build.generic([*read, updates], [start], maps, body)
    return build.expand(_cast(build, total, kind), write.groups, sizes_of(write.original))


def _as(build: Builder, scalar: ir.Value, kind: ir.Type) -> ir.Value:
    return scalar if scalar.type == kind else build.cast_float(scalar, kind)


def _cast(build: Builder, value: ir.Value, kind: ir.Type) -> ir.Value:
    if element_type(value) == kind:
        return value
    return build.computed(sizes_of(value), kind, lambda b, x: _as(b, x[0], kind), value)


def _last(op: ir.Operation, build: Builder) -> ir.Value:
    updates, original = op.operands[0], op.operands[-1]
    i32 = ir.IntegerType.get_signless(32, op.context)
    sizes, (indices, *mask) = sizes_of(original), list(op.operands)[1:-1]
    read, reads = _hits(build, indices, mask, sizes[0], 1)
    init = build.fill(build.splat(0, i32), build.empty(sizes[:1], i32))

    def find(inner: Builder, scalars: Sequence[ir.Value]) -> Sequence[ir.Value]:
        *given, last = scalars
        number = inner.addi(inner.loop_index(1), inner.constant_index(1))
        number = inner.convert("arith.index_cast", number, i32)
        found = inner.select(_is_hit(inner, given), number, inner.splat(0, i32))
        return [inner.apply("arith.maxsi", last, found)]

    (last,) = build.generic(read, [init], [*reads, (0,)], find)
    dims = tuple(range(len(sizes)))
    scalar = filled_with(original)
    if _is_empty(original):
        scalar = build.splat(0, element_type(original))

    def take(inner: Builder, scalars: Sequence[ir.Value]) -> ir.Value:
        found = inner.compare("sgt", scalars[0], inner.splat(0, i32))
        number = inner.select(found, inner.subi(scalars[0], 1), inner.splat(0, i32))
        places = [inner.to_index(number), *map(inner.loop_index, dims[1:])]
        other = scalars[1] if scalar is None else scalar
        return inner.select(found, inner.extract(updates, places), other)

    others = [] if scalar is not None else [original]
    return build.computed(sizes, element_type(original), take, (last, (0,)), *others)
