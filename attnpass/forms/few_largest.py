"""The few largest of many numbers: those of the runs whose largest number is among the largest.

A row of n is cut into runs. Each of the k largest numbers of the row stands in one of the k runs
with the largest maxima, of equal ones the first, so that 2 n k comparisons find them, not n x n.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from iree.compiler import ir

from ..attention.barrier import compute_barrier
from ..ir import Builder, Size, element_type, sizes_of
from ..ir.limits import ASSUMED_EXTENT
from .ordered_keys import ranks_of_keys

# All pairs of a row this long, or fewer in all, are compared as fast, and a row is to be that much
# longer than what is read of it. On CPUs rows of this many pairs in all are cut again.
_SHORT, _FEW_PAIRS, _LONGER = 2048, 1 << 25, 16
_MANY_PAIRS, _LONGER_AGAIN = 1 << 18, 4


@dataclass(frozen=True)
class Runs:
    """A row of `count` runs of `length`; the last may be filled up."""

    count: int
    length: int


def runs_of(sizes: Sequence[Size], dim: int, kept: Size, again: bool = False) -> Runs | None:
    """How to cut rows along `dim` for their `kept` largest, `again` what was taken of such runs;
    None where all pairs are compared."""
    n = sizes[dim]
    longer = _LONGER_AGAIN if again else _LONGER
    if not isinstance(n, int) or not isinstance(kept, int) or n < longer * kept:
        return None
    rows = [one if isinstance(one, int) else ASSUMED_EXTENT for one in sizes]
    if again and n * math.prod(rows) < _MANY_PAIRS:
        return None
    if not again and n < _SHORT and n * math.prod(rows) < _FEW_PAIRS:
        return None
    # As many runs as numbers in those that are looked at.
    best = math.sqrt(n / kept)
    near = [size for size in range(math.ceil(best / 2), int(2 * best) + 1) if n % size == 0]
    length = min(near, key=lambda size: abs(size - best), default=round(best))
    return Runs(math.ceil(n / length), length)


def order_of_few(
    build: Builder, value: ir.Value, dim: int, kept: int, runs: Runs, again: bool
) -> ir.Value:
    """For each of the `kept` first places of rows along `dim`, the largest number first and NaN in
    front of all, where in the row (i32) the number stands; equal ones in their order. Numbers are
    floats, or signed whole numbers of which none is the least. What is compared of the runs is cut
    `again`, if it is much, which takes more kernels."""
    row = _LongRow(build, compute_barrier(build, value), dim, kept, runs, again)
    numbers = row.chosen(row.largest())
    return row.order(row.taken(numbers), numbers)


@dataclass(frozen=True)
class _LongRow:
    build: Builder
    value: ir.Value
    dim: int
    kept: int
    runs: Runs
    again: bool

    @property
    def i32(self) -> ir.Type:
        return ir.IntegerType.get_signless(32, self.value.context)

    @property
    def kind(self) -> ir.Type:
        return element_type(self.value)

    @property
    def dims(self) -> tuple[int, ...]:
        return tuple(range(len(sizes_of(self.value))))

    @property
    def low(self) -> float:
        """Nothing is less."""
        is_float = isinstance(self.kind, ir.FloatType)
        return -math.inf if is_float else 1 - 2 ** (self.kind.width - 1)

    @property
    def maximum(self) -> str:
        return "arith.maximumf" if isinstance(self.kind, ir.FloatType) else "arith.maxsi"

    def at(self, *loops: int) -> tuple[int, ...]:
        """All dims, these loops in place of the row's."""
        return (*self.dims[: self.dim], *loops, *self.dims[self.dim + 1 :])

    def sizes(self, *sizes: Size) -> list[Size]:
        own = sizes_of(self.value)
        return [*own[: self.dim], *sizes, *own[self.dim + 1 :]]

    def largest(self) -> ir.Value:
        """The largest number of each run."""
        build, (count, length) = self.build, (self.runs.count, self.runs.length)
        low, value = build.splat(self.low, self.kind), self.value
        if sizes_of(value)[self.dim] != count * length:
            # Behind all others, these are never taken.
            whole = build.fill(low, build.empty(self.sizes(count * length), self.kind))
            value = build.insert_slice(value, whole)
        parts: list[list[Size]] = [[size] for size in sizes_of(value)]
        parts[self.dim] = [count, length]
        last = len(self.dims)
        init = build.fill(low, build.empty(self.sizes(count), self.kind))
        read, made = self.at(self.dim, last), self.dims
        return build.generic(
            [build.split_dims(value, parts)],
            [init],
            [read, made],
            lambda inner, x: [inner.create(self.maximum, [self.kind], x).results[0]],
        )[0]

    def chosen(self, largest: ir.Value) -> ir.Value:
        """The places in the row of all numbers of the runs whose largest are among the largest."""
        build, (kept, length) = self.build, (self.kept, self.runs.length)
        runs = self._first_places(compute_barrier(build, largest))
        if self.again:
            # Of equal numbers the first stands first in what is taken, then.
            ranks = compute_barrier(build, ranks_of_keys(build, runs, self.dim, any_key=False))
            runs = compute_barrier(build, self._numbers(ranks, runs, rising=True))
        last = len(self.dims)
        init = build.empty(self.sizes(kept, length), self.i32)

        def place(inner: Builder, x: Sequence[ir.Value]) -> Sequence[ir.Value]:
            start = inner.muli(x[0], length)
            within = inner.convert("arith.index_cast", inner.loop_index(last), self.i32)
            return [inner.addi(start, within)]

        made = build.generic([runs], [init], [self.dims, self.at(self.dim, last)], place)[0]
        groups = [[dim] for dim in self.dims[: self.dim]] + [[self.dim, self.dim + 1]]
        groups += [[dim + 1] for dim in self.dims[self.dim + 1 :]]
        return compute_barrier(build, build.collapse(made, groups))

    def taken(self, numbers: ir.Value) -> ir.Value:
        """The numbers at these places of the row."""
        build, n = self.build, sizes_of(self.value)[self.dim]
        assert isinstance(n, int), "runs_of knows it"
        filled = n != self.runs.count * self.runs.length

        def take(inner: Builder, x: Sequence[ir.Value]) -> ir.Value:
            place = x[0]
            if filled:
                place = inner.apply("arith.minsi", place, inner.splat(n - 1, self.i32))
            places = [inner.loop_index(loop) for loop in self.dims]
            places[self.dim] = inner.to_index(place)
            found = inner.extract(self.value, places)
            if not filled:
                return found
            there = inner.compare("slt", x[0], inner.splat(n, self.i32))
            return inner.select(there, found, inner.splat(self.low, self.kind))

        return compute_barrier(build, build.computed(sizes_of(numbers), self.kind, take, numbers))

    def _first_places(self, value: ir.Value) -> ir.Value:
        """Where the largest stand in rows, in their order."""
        build, runs = self.build, runs_of(sizes_of(value), self.dim, self.kept, again=True)
        if self.again and runs is not None:
            found = order_of_few(build, value, self.dim, self.kept, runs, again=True)
        else:
            found = self._numbers(compute_barrier(build, self._ranks(value, None)), None)
        return compute_barrier(build, found)

    def order(self, taken: ir.Value, numbers: ir.Value) -> ir.Value:
        if self.again:

            def take(inner: Builder, x: Sequence[ir.Value]) -> ir.Value:
                places = [inner.loop_index(loop) for loop in self.dims]
                places[self.dim] = inner.to_index(x[0])
                return inner.extract(numbers, places)

            places = (self._first_places(taken), self.dims)
            return self.build.computed(self.sizes(self.kept), self.i32, take, places)
        ranks = compute_barrier(self.build, self._ranks(taken, numbers))
        return self._numbers(ranks, numbers)

    def _ranks(self, value: ir.Value, numbers: ir.Value | None) -> ir.Value:
        """For each number how many stand in front of it, of equal ones those that have less
        `numbers`: their places, if they have none."""
        if not isinstance(self.kind, ir.FloatType):
            return ranks_of_keys(self.build, value, self.dim, numbers, any_key=False)
        other = self.at(len(self.dims))
        given = [value] if numbers is None else [value, numbers]

        def body(inner: Builder, x: Sequence[ir.Value]) -> Sequence[ir.Value]:
            own, others = x[0], x[len(given)]
            if numbers is None:
                loops = (inner.loop_index(len(self.dims)), inner.loop_index(self.dim))
                earlier = inner.compare("ult", *loops)
            else:
                earlier = inner.compare("ult", x[len(given) + 1], x[1])
            ahead = inner.andi(
                inner.compare_floats("ugt", others, own), inner.compare_floats("ord", own, own)
            )
            behind = inner.andi(
                inner.compare_floats("ugt", own, others),
                inner.compare_floats("ord", others, others),
            )
            same = inner.andi(inner.xori(behind, True), earlier)
            counts = inner.apply("arith.ori", ahead, same)
            return [inner.addi(x[-1], inner.convert("arith.extui", counts, self.i32))]

        maps = [*[self.dims] * len(given), *[other] * len(given), self.dims]
        init = self._zeros(sizes_of(value)[self.dim])
        return self.build.generic([*given, *given], [init], maps, body)[0]

    def _numbers(self, ranks: ir.Value, numbers: ir.Value | None, rising: bool = False) -> ir.Value:
        """For each of the first places, or with `rising` from the last on, the number, or else the
        place, of what has that rank."""
        last = len(self.dims)
        given = [ranks] if numbers is None else [ranks, numbers]

        def body(inner: Builder, x: Sequence[ir.Value]) -> Sequence[ir.Value]:
            wanted = inner.convert("arith.index_cast", inner.loop_index(self.dim), self.i32)
            if rising:
                wanted = inner.subi(inner.splat(self.kept - 1, self.i32), wanted)
            here = inner.compare("eq", x[0], wanted)
            own = inner.convert("arith.index_cast", inner.loop_index(last), self.i32)
            number = own if numbers is None else x[1]
            return [inner.addi(x[-1], inner.select(here, number, inner.splat(0, self.i32)))]

        maps = [*[self.at(last)] * len(given), self.dims]
        return self.build.generic(given, [self._zeros(self.kept)], maps, body)[0]

    def _zeros(self, size: Size) -> ir.Value:
        build = self.build
        return build.fill(build.splat(0, self.i32), build.empty(self.sizes(size), self.i32))
