"""Rows by index in the order of their places, and what is combined of those of each place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from iree.compiler import ir

from ..attention.barrier import compute_barrier
from ..forms.merged_runs import searched
from ..forms.rank_sorts import RankSorts
from ..ir import Builder, Size, element_type, erase_unused, sizes_of
from .combinations import Combination

_SORT = "iree_linalg_ext.sort"
# Rows of an unknown number, or of less than four times the square of this, are combined in blocks
# as long.
_BLOCK = 128
_MOST_BITS = 31


@dataclass(frozen=True)
class RowOrder:
    """The order of rows: that of number `numbers[k]` has the k-th least place, `ordered[k]`, and
    `starts[e]` rows have lower places than e."""

    ordered: ir.Value
    numbers: ir.Value
    starts: ir.Value

    @property
    def count(self) -> Size:
        return sizes_of(self.ordered)[0]


def row_order(build: Builder, places: ir.Value, length: Size) -> RowOrder:
    """The order of rows that have these places (i32), of `length` or of none: by a stable sort, as
    attn-rank-sorts makes it, and a binary search for the first row of each place."""
    sort = _sorted(build, places)
    ordered, numbers = (compute_barrier(build, value) for value in sort.results)
    starts = _starts(build, ordered, build.size_op("addi", length, 1))
    said = RankSorts().change(sort)
    assert said, "a sort by a comparison of integers"
    erase_unused([sort])
    return RowOrder(ordered, numbers, starts)


def _sorted(build: Builder, places: ir.Value) -> ir.Operation:
    """A sort of places, with the number of each."""
    i32 = element_type(places)
    numbers = build.computed(
        sizes_of(places),
        i32,
        lambda inner, _: inner.convert("arith.index_cast", inner.loop_index(0), i32),
    )
    dimension = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 0)
    values = [places, numbers]
    kinds = [value.type for value in values]
    sort = build.create(_SORT, kinds, values, {"dimension": dimension}, regions=1)
    block = sort.regions[0].blocks.append(*[i32] * 4, arg_locs=[build.location] * 4)
    one, other, *_ = block.arguments
    build.fill_block(
        block, "iree_linalg_ext.yield", lambda inner: [inner.compare("slt", one, other)]
    )
    return sort


def _starts(build: Builder, ordered: ir.Value, count: Size) -> ir.Value:
    """For each place the number of rows of lower ones."""
    i32, (rows,) = element_type(ordered), sizes_of(ordered)

    def start(inner: Builder, _: Sequence[ir.Value]) -> ir.Value:
        place = inner.convert("arith.index_cast", inner.loop_index(0), i32)
        count = inner.size(rows)
        last = inner.subi(count, inner.constant_index(1))

        def comes_first(step: Builder, half: ir.Value) -> ir.Value:
            at = step.apply("arith.minui", step.to_index(half), last)
            return step.compare("slt", step.extract(ordered, [at]), place)

        low, high = inner.splat(0, i32), inner.convert("arith.index_cast", count, i32)
        if isinstance(rows, int):
            steps = inner.splat(rows.bit_length(), i32)
        else:
            # Nothing can be read of no rows.
            some = inner.compare("sgt", high, low)
            steps = inner.select(some, inner.splat(_MOST_BITS, i32), low)
        return searched(inner, low, high, steps, comes_first)

    return compute_barrier(build, build.computed([count], i32, start))


@dataclass(frozen=True)
class CombinedRows:
    """What `combines` makes, in `kind`, of the elements of a tensor and the rows of `updates` whose
    places they are at; of `begins` in place of an element that is at the place of any.

    Rows are taken in their order, so that the results of one call are those of the next. Where they
    fill whole blocks, these are combined first, side by side: few places with many rows keep the
    GPU as busy as many.
    """

    build: Builder
    updates: ir.Value
    order: RowOrder
    combines: Combination
    kind: ir.Type
    begins: float | None = None

    @property
    def count(self) -> Size:
        return self.order.count

    @property
    def block(self) -> int:
        if not isinstance(self.count, int):
            return _BLOCK
        return max(_BLOCK, math.isqrt(self.count) // 2)

    @property
    def row(self) -> tuple[Size, ...]:
        return sizes_of(self.updates)[1:]

    def with_rows(self, original: ir.Value) -> ir.Value:
        """`original`, and what is combined of its elements and rows."""
        build, sizes, block = self.build, sizes_of(original), self.block
        whole = not isinstance(self.count, int) or self.count > block
        blocks = self._blocks() if whole and self.combines.each is None else None

        def body(inner: Builder, scalars: Sequence[ir.Value]) -> ir.Value:
            place, *row = (inner.loop_index(loop) for loop in range(len(sizes)))
            first, end = (
                inner.to_index(inner.extract(self.order.starts, [at]))
                for at in (place, inner.addi(place, inner.constant_index(1)))
            )
            total = self._as(inner, self._start(inner, scalars[0], first, end))
            if self.combines.each is not None:
                counts = self.combines.times(inner, inner.subi(end, first), self.kind)
                total = inner.apply(self.combines.name, total, counts)
            elif blocks is None:
                total = self._rows(inner, first, end, total, row)
            else:
                total = self._in_blocks(inner, (first, end), total, blocks, row)
            return inner.cast_float(total, scalars[0].type) if self._is_float else total

        return build.computed(sizes, element_type(original), body, original)

    def _start(self, build: Builder, element: ir.Value, first: ir.Value, end: ir.Value) -> ir.Value:
        if self.begins is None:
            return element
        begins = build.splat(self.begins, element.type)
        return build.select(build.compare("ult", first, end), begins, element)

    @property
    def _is_float(self) -> bool:
        return isinstance(self.kind, ir.FloatType)

    def _as(self, build: Builder, scalar: ir.Value) -> ir.Value:
        return build.cast_float(scalar, self.kind) if self._is_float else scalar

    def _in_blocks(
        self,
        build: Builder,
        bounds: tuple[ir.Value, ir.Value],
        total: ir.Value,
        blocks: ir.Value,
        row: Sequence[ir.Value],
    ) -> ir.Value:
        """`total` and the rows between these bounds, by whole blocks where these have some."""
        first, end = bounds
        above = build.apply("arith.ceildivui", first, self.block)
        below = build.apply("arith.divui", end, self.block)
        head = build.apply("arith.minui", build.muli(above, self.block), end)
        tail = build.apply("arith.maxui", build.muli(below, self.block), head)
        total = self._rows(build, first, head, total, row)
        total = self._total(build, above, below, total, blocks, row)
        return self._rows(build, tail, end, total, row)

    def _blocks(self) -> ir.Value:
        """What is combined of the blocks all of whose rows have the same place; others are not
        read."""
        build, block, ordered = self.build, self.block, self.order.ordered
        count = build.size_op("ceildivui", self.count, block)

        def body(inner: Builder, _: Sequence[ir.Value]) -> ir.Value:
            number, *row = (inner.loop_index(loop) for loop in range(1 + len(self.row)))
            first = inner.muli(number, block)
            end = inner.addi(first, inner.constant_index(block))
            all_rows = inner.size(self.count)
            last = inner.subi(inner.apply("arith.minui", end, all_rows), inner.constant_index(1))
            lowest, highest = (inner.extract(ordered, [at]) for at in (first, last))
            is_whole = inner.andi(
                inner.compare("eq", lowest, highest), inner.compare("ule", end, all_rows)
            )
            end = inner.select(is_whole, end, first)
            return self._rows(inner, first, end, self.combines.none(inner, self.kind), row)

        return compute_barrier(build, build.computed([count, *self.row], self.kind, body))

    def _rows(
        self,
        build: Builder,
        low: ir.Value,
        high: ir.Value,
        total: ir.Value,
        row: Sequence[ir.Value],
    ) -> ir.Value:
        """`total` and the rows from the `low`-th place up to the `high`-th."""
        return self._total(build, low, high, total, self.updates, row, self.order.numbers)

    def _total(
        self,
        build: Builder,
        low: ir.Value,
        high: ir.Value,
        total: ir.Value,
        rows: ir.Value,
        row: Sequence[ir.Value],
        numbers: ir.Value | None = None,
    ) -> ir.Value:
        def step(inner: Builder, at: ir.Value, x: Sequence[ir.Value]) -> list[ir.Value]:
            place = at if numbers is None else inner.to_index(inner.extract(numbers, [at]))
            new = self._as(inner, inner.extract(rows, [place, *row]))
            return [inner.apply(self.combines.name, x[0], new)]

        return build.loop([low, high, build.constant_index(1)], [total], step)[0]
