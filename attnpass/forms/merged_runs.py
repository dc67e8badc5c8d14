"""Sorts long rows by merging: runs of one element become runs of 2, 4, 8, until one is the row.

Each place of a merged run finds by bisection how many of the elements in front of it come from the
first of the two runs: a row of n takes log n kernels, which compare n log n log n pairs in all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from iree.compiler import ir

from ..attention.barrier import compute_barrier
from ..ir import Builder, Size, element_type, sizes_of

# Rows for which as many kernels take less time than n x n comparisons.
LEAST = 512

# Whether the first element, of the numbers of all operands, stands in front of the second, which
# comes later in the row.
InFront = Callable[[Builder, Sequence[ir.Value], Sequence[ir.Value]], ir.Value]


def merged_order(
    build: Builder, values: Sequence[ir.Value], dim: int, kept: Size, in_front: InFront
) -> ir.Value:
    """For each of the `kept` first places of rows along `dim`, whose number is known, where in the
    row (i32) the element stands that `in_front` puts there; of equal ones the first."""
    sizes = list(sizes_of(values[0]))
    length = sizes[dim]
    assert isinstance(length, int), "rows of a known length"
    i32 = ir.IntegerType.get_signless(32, build.anchor.context)
    places = build.computed(
        sizes, i32, lambda inner, _: inner.convert("arith.index_cast", inner.loop_index(dim), i32)
    )
    runs, run = [*values, places], 1
    while run < length:
        made = [*sizes[:dim], kept, *sizes[dim + 1 :]] if 2 * run >= length else sizes
        inits = [build.empty(made, element_type(value)) for value in runs]
        everywhere = [tuple(range(len(sizes)))] * len(inits)
        merge = _Merge(runs, dim, length, run, in_front)
        runs = build.generic([], inits, everywhere, merge.body)
        runs = [compute_barrier(build, value) for value in runs]
        run *= 2
    return runs[-1]


class _Merge:
    """Pairs of runs, each of `run` elements but for the last ones, of rows of a length. The last of
    the `values` says where the elements came from."""

    def __init__(
        self, values: Sequence[ir.Value], dim: int, length: int, run: int, in_front: InFront
    ):
        self.values, self.dim, self.length, self.run = values, dim, length, run
        self.in_front = in_front
        self.loops: list[ir.Value] = []

    def body(self, build: Builder, _: Sequence[ir.Value]) -> list[ir.Value]:
        self.loops = [build.loop_index(loop) for loop in range(len(sizes_of(self.values[0])))]
        place, run = self.loops[self.dim], self.run
        start = build.muli(build.apply("arith.divui", place, 2 * run), 2 * run)
        second = build.apply("arith.minui", build.addi(start, run), self.length)
        end = build.apply("arith.minui", build.addi(second, run), self.length)
        before, count = build.subi(place, start), build.subi(end, second)
        # Of the places in front, `low` to `high` are of the first run.
        low = build.subi(build.apply("arith.maxui", before, count), count)
        high = build.apply("arith.minui", before, build.subi(second, start))

        def bisect(inner: Builder, _: ir.Value, found: Sequence[ir.Value]) -> list[ir.Value]:
            low, high = found
            middle = inner.apply("arith.shrui", inner.addi(low, high), 1)
            behind = inner.addi(middle, 1)
            one, other = inner.addi(start, middle), inner.subi(inner.addi(second, before), behind)
            is_open = inner.compare("ult", low, high)
            is_first = self._is_first(inner, one, other)
            return [
                inner.select(inner.andi(is_open, is_first), behind, low),
                inner.select(is_first, high, inner.select(is_open, middle, high)),
            ]

        # A loop, though the number of steps is known: unrolled, and in vectors, a sort takes a
        # third less time, and three times as long to compile.
        bounds = [build.constant_index(number) for number in (0, run.bit_length(), 1)]
        low, _high = build.loop(bounds, [low, high], bisect)
        one, other = build.addi(start, low), build.addi(second, build.subi(before, low))
        is_left = build.compare("ult", one, second)
        is_alone = build.compare("uge", other, end)
        is_first = build.apply("arith.ori", is_alone, self._is_first(build, one, other))
        taken = build.select(build.andi(is_left, is_first), one, other)
        return [self._element(build, value, taken) for value in self.values]

    def _is_first(self, build: Builder, one: ir.Value, other: ir.Value) -> ir.Value:
        read = self.values[:-1]
        first, second = ([self._element(build, x, at) for x in read] for at in (one, other))
        return self.in_front(build, first, second)

    def _element(self, build: Builder, value: ir.Value, at: ir.Value) -> ir.Value:
        """What stands at a place, or at the row's last for one behind it."""
        places = list(self.loops)
        places[self.dim] = build.apply("arith.minui", at, self.length - 1)
        return build.extract(value, places)
