"""Sums of the rows that are added to one place, which stand side by side in the order of places."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from iree.compiler import ir

from ..attention.barrier import compute_barrier
from ..forms.merged_runs import searched
from ..forms.rank_sorts import RankSorts
from ..ir import Builder, Size, element_type, erase_unused, sizes_of

_SORT = "iree_linalg_ext.sort"
# Rows of an unknown number, or of less than four times the square of this, are added up in blocks
# as long.
_BLOCK = 128
_MOST_BITS = 31


def added(
    build: Builder, original: ir.Value, updates: ir.Value, places: ir.Value, add: str, kind: ir.Type
) -> ir.Value:
    """`original` and to its rows e, in `kind`, those of `updates` whose place (i32) is e: in the
    order of these, so that the sums of one call are those of the next.

    A stable sort of the places, as attn-rank-sorts makes it, has the rows of a place beside one
    another, and a binary search their first. Where they fill whole blocks, the sums of these are
    made first, beside one another: few places with many rows keep the GPU as busy as many.
    """
    sort = _sorted(build, places)
    ordered, numbers = (compute_barrier(build, value) for value in sort.results)
    sums = _OrderedSums(build, updates, ordered, numbers, add, kind)
    result = sums.with_rows(original)
    said = RankSorts().change(sort)
    assert said, "a sort by a comparison of integers"
    erase_unused([sort])
    return result


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


@dataclass(frozen=True)
class _OrderedSums:
    """Sums, in `kind`, of rows of `updates`: that of number `numbers[k]` has the k-th least place,
    `ordered[k]`."""

    build: Builder
    updates: ir.Value
    ordered: ir.Value
    numbers: ir.Value
    add: str
    kind: ir.Type

    @property
    def count(self) -> Size:
        return sizes_of(self.ordered)[0]

    @property
    def block(self) -> int:
        if not isinstance(self.count, int):
            return _BLOCK
        return max(_BLOCK, math.isqrt(self.count) // 2)

    @property
    def row(self) -> tuple[Size, ...]:
        return sizes_of(self.updates)[1:]

    def with_rows(self, original: ir.Value) -> ir.Value:
        """`original` and the rows that are added to its."""
        build, sizes, block = self.build, sizes_of(original), self.block
        starts = self._starts(build.size_op("addi", sizes[0], 1))
        blocks = self._blocks() if not isinstance(self.count, int) or self.count > block else None

        def body(inner: Builder, scalars: Sequence[ir.Value]) -> ir.Value:
            place, *row = (inner.loop_index(loop) for loop in range(len(sizes)))
            total = self._as(inner, scalars[0])
            first, end = (
                inner.to_index(inner.extract(starts, [at]))
                for at in (place, inner.addi(place, inner.constant_index(1)))
            )
            if blocks is None:
                total = self._rows(inner, first, end, total, row)
            else:
                above = inner.apply("arith.ceildivui", first, block)
                below = inner.apply("arith.divui", end, block)
                head = inner.apply("arith.minui", inner.muli(above, block), end)
                tail = inner.apply("arith.maxui", inner.muli(below, block), head)
                total = self._rows(inner, first, head, total, row)
                total = self._total(inner, above, below, total, blocks, row)
                total = self._rows(inner, tail, end, total, row)
            return inner.cast_float(total, scalars[0].type) if self._is_float else total

        return build.computed(sizes, element_type(original), body, original)

    @property
    def _is_float(self) -> bool:
        return isinstance(self.kind, ir.FloatType)

    def _as(self, build: Builder, scalar: ir.Value) -> ir.Value:
        return build.cast_float(scalar, self.kind) if self._is_float else scalar

    def _starts(self, count: Size) -> ir.Value:
        """For each place the number of rows of lower ones."""
        i32 = element_type(self.ordered)

        def start(inner: Builder, _: Sequence[ir.Value]) -> ir.Value:
            place = inner.convert("arith.index_cast", inner.loop_index(0), i32)
            count = inner.size(self.count)
            last = inner.subi(count, inner.constant_index(1))

            def comes_first(step: Builder, half: ir.Value) -> ir.Value:
                at = step.apply("arith.minui", step.to_index(half), last)
                return step.compare("slt", step.extract(self.ordered, [at]), place)

            low, high = inner.splat(0, i32), inner.convert("arith.index_cast", count, i32)
            if isinstance(self.count, int):
                steps = inner.splat(self.count.bit_length(), i32)
            else:
                # Nothing can be read of no rows.
                some = inner.compare("sgt", high, low)
                steps = inner.select(some, inner.splat(_MOST_BITS, i32), low)
            return searched(inner, low, high, steps, comes_first)

        return compute_barrier(self.build, self.build.computed([count], i32, start))

    def _blocks(self) -> ir.Value:
        """The sums of the blocks all of whose rows have the same place; others are not read."""
        build, block = self.build, self.block
        count = build.size_op("ceildivui", self.count, block)

        def body(inner: Builder, _: Sequence[ir.Value]) -> ir.Value:
            number, *row = (inner.loop_index(loop) for loop in range(1 + len(self.row)))
            first = inner.muli(number, block)
            end = inner.addi(first, inner.constant_index(block))
            all_rows = inner.size(self.count)
            last = inner.subi(inner.apply("arith.minui", end, all_rows), inner.constant_index(1))
            lowest, highest = (inner.extract(self.ordered, [at]) for at in (first, last))
            is_whole = inner.andi(
                inner.compare("eq", lowest, highest), inner.compare("ule", end, all_rows)
            )
            end = inner.select(is_whole, end, first)
            return self._rows(inner, first, end, inner.splat(0, self.kind), row)

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
        return self._total(build, low, high, total, self.updates, row, self.numbers)

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
            return [
                inner.apply(self.add, x[0], self._as(inner, inner.extract(rows, [place, *row])))
            ]

        return build.loop([low, high, build.constant_index(1)], [total], step)[0]
