"""CPUs: rows of whole numbers are sorted in runs, which are merged in pairs, tile by tile.

As `merged_runs`, with three differences. Runs begin with as many elements as are compared in pairs
in no time. Of each tile of a merged pair it is looked for first where it begins in both runs: then
an element is one of as many as a tile has. And a step of the search is one comparison.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from iree.compiler import ir

from ..attention.barrier import compute_barrier
from ..ir import Builder, Size, element_type, sizes_of
from .launch_constants import launch_constant
from .ordered_keys import ranks_of_keys

_RUN, _TILE = 64, 16
_INDEX = "arith.index_cast"

# The element of a tensor at a place of its row.
Read = Callable[[Builder, ir.Value, ir.Value], ir.Value]


def merged_keys(
    build: Builder, keys: ir.Value, dim: int, *, any_key: bool
) -> tuple[ir.Value, ir.Value]:
    """Stored keys of rows along `dim`, the largest first, and the places (i32) where they stood;
    equal ones in the order of these. Unless there may be `any_key`, none is the least of its
    type."""
    own = sizes_of(keys)
    n = own[dim]
    assert isinstance(n, int), "what is_long takes"
    row = _CutRow(build, dim, math.ceil(n / _RUN) * _RUN, own)
    found, length = row.runs(keys, any_key), _RUN
    while length < row.total:
        found, length = row.merged(*found, length), 2 * length
    if row.total == n:
        return found
    ordered, order = (build.extract_slice(one, [0] * len(own), own) for one in found)
    return ordered, order


@dataclass(frozen=True)
class _CutRow:
    """Rows along `dim`, filled up to `total` elements by keys that nothing is less than."""

    build: Builder
    dim: int
    total: int
    given: Sequence[Size]

    @property
    def i32(self) -> ir.Type:
        return ir.IntegerType.get_signless(32, self.build.anchor.context)

    def sizes(self, *along: Size) -> list[Size]:
        return [*self.given[: self.dim], *along, *self.given[self.dim + 1 :]]

    def cut(self, value: ir.Value, length: int) -> ir.Value:
        """The rows in pieces of `length`, which are a dim behind that of the row."""
        parts = [[size] for size in sizes_of(value)]
        parts[self.dim] = [self.total // length, length]
        return self.build.split_dims(value, parts)

    def joined(self, value: ir.Value) -> ir.Value:
        """The pieces in one row, in memory."""
        counts = [1] * len(self.given)
        counts[self.dim] = 2
        whole = self.build.join_dims(value, counts, self.sizes(self.total))
        return compute_barrier(self.build, whole)

    def reader(self, build: Builder, loops: int) -> Read:
        """What reads a place of the row, in a kernel that has so many loops for each."""
        rank = len(self.given)
        before = [build.loop_index(loop) for loop in range(self.dim)]
        behind = [build.loop_index(loop + loops - 1) for loop in range(self.dim + 1, rank)]

        def read(inner: Builder, value: ir.Value, place: ir.Value) -> ir.Value:
            return inner.extract(value, [*before, inner.to_index(place), *behind])

        return read

    def filled(self, keys: ir.Value, any_key: bool) -> ir.Value:
        """The keys, and behind each row what no key is less than."""
        if sizes_of(keys)[self.dim] == self.total:
            return keys
        build, kind = self.build, ir.IntegerType(element_type(keys))
        least = -(2 ** (kind.width - 1)) + (0 if any_key else 1)
        whole = build.fill(build.splat(least, kind), build.empty(self.sizes(self.total), kind))
        return compute_barrier(build, build.insert_slice(keys, whole))

    def runs(self, given: ir.Value, any_key: bool) -> tuple[ir.Value, ir.Value]:
        """Runs that are sorted by comparisons of all pairs, and the places of their elements."""
        build, keys = self.build, self.filled(given, any_key)
        ranks = ranks_of_keys(build, self.cut(keys, _RUN), self.dim + 1, any_key=any_key)
        ranks = compute_barrier(build, ranks)
        sizes, last = sizes_of(ranks), len(self.given) + 1
        dims = tuple(range(last))

        def number(inner: Builder, x: Sequence[ir.Value]) -> Sequence[ir.Value]:
            wanted = inner.convert(_INDEX, inner.loop_index(self.dim + 1), self.i32)
            own = inner.convert(_INDEX, inner.loop_index(last), self.i32)
            zero = inner.splat(0, self.i32)
            return [inner.addi(x[1], inner.select(inner.compare("eq", x[0], wanted), own, zero))]

        init = build.fill(build.splat(0, self.i32), build.empty(sizes, self.i32))
        read = (*dims[: self.dim + 1], last, *dims[self.dim + 2 :])
        within = compute_barrier(build, build.generic([ranks], [init], [read, dims], number)[0])

        def place(inner: Builder, x: Sequence[ir.Value]) -> ir.Value:
            run = inner.convert(_INDEX, inner.loop_index(self.dim), self.i32)
            return inner.addi(inner.muli(run, _RUN), x[0])

        order = self.joined(build.computed(sizes, self.i32, place, within))

        def key(inner: Builder, x: Sequence[ir.Value]) -> ir.Value:
            return self.reader(inner, 1)(inner, keys, x[0])

        ordered = build.computed(self.sizes(self.total), element_type(keys), key, order)
        return compute_barrier(build, ordered), order

    def merged(self, keys: ir.Value, order: ir.Value, length: int) -> tuple[ir.Value, ir.Value]:
        """The same of pairs of runs of `length`, of which the last may be shorter or alone."""
        build, tiles, rank = self.build, self.total // _TILE, len(self.given)
        known, step = (launch_constant(build, x, self.i32) for x in (length, length.bit_length()))

        def first_taken(inner: Builder, _: Sequence[ir.Value]) -> ir.Value:
            pair = _Pair(self, keys, inner, known, 1)
            high = inner.apply("arith.minsi", pair.place, pair.first)
            bounds = [inner.constant_index(0), inner.to_index(step), inner.constant_index(1)]

            def narrow(inner: Builder, at: ir.Value, found: Sequence[ir.Value]) -> list[ir.Value]:
                shift = inner.subi(inner.subi(bounds[1], 1), at)
                half = inner.apply("arith.shli", bounds[2], shift)
                return [pair.narrowed(inner, pair.place, found[0], half, high)]

            taken = inner.loop(bounds, [pair.least(pair.place)], narrow)[0]
            return inner.convert(_INDEX, taken, self.i32)

        splits = compute_barrier(build, build.computed(self.sizes(tiles), self.i32, first_taken))

        def element(inner: Builder, x: Sequence[ir.Value]) -> Sequence[ir.Value]:
            pair, within = _Pair(self, keys, inner, known, 2), inner.loop_index(self.dim + 1)
            place, begins = inner.addi(pair.place, within), inner.to_index(x[0])
            high = inner.apply("arith.minsi", inner.addi(begins, within), pair.first)
            taken = inner.apply("arith.maxsi", begins, pair.least(place))
            half = _TILE // 2
            while half:
                taken = pair.narrowed(inner, place, taken, inner.constant_index(half), high)
                half //= 2
            position = pair.position(place, taken)
            return [pair.read(inner, value, position) for value in (keys, order)]

        sizes = self.sizes(tiles, _TILE)
        inits = [build.empty(sizes, element_type(value)) for value in (keys, order)]
        whole = tuple(range(rank + 1))
        read = (*whole[: self.dim + 1], *whole[self.dim + 2 :])
        made = build.generic([splits], inits, [read, whole, whole], element)
        ordered, places = (self.joined(value) for value in made)
        return ordered, places


class _Pair:
    """The pair of runs of `length` that a tile of the row is in, which begins at its `place`."""

    def __init__(self, row: _CutRow, keys: ir.Value, build: Builder, length: ir.Value, loops: int):
        self.total, self.keys, self.build = row.total, keys, build
        self.read = row.reader(build, loops)
        own, length = build.muli(build.loop_index(row.dim), _TILE), build.to_index(length)
        both = build.addi(length, length)
        self.place = build.apply("arith.andi", own, build.subi(both, 1))
        self.start = build.subi(own, self.place)
        left = build.subi(build.constant_index(row.total), self.start)
        self.first = build.apply("arith.minsi", left, length)
        self.second = build.subi(build.apply("arith.minsi", left, both), self.first)
        self.middle = build.addi(self.start, self.first)

    def least(self, place: ir.Value) -> ir.Value:
        """How many of the first run stand in front of the place at least."""
        return self.build.apply("arith.maxsi", self.build.subi(place, self.second), 0)

    def narrowed(
        self, inner: Builder, place: ir.Value, taken: ir.Value, half: ir.Value, high: ir.Value
    ) -> ir.Value:
        """How many of the first run stand in front of the place, of which `taken` are known to and
        no more than `high` may: `half` more, if the last of these stands in front of what the
        second run then has at the place. Where no more may, nothing that is read matters."""
        more = inner.apply("arith.minsi", inner.addi(taken, half), high)
        one = inner.subi(inner.addi(self.start, more), 1)
        other = inner.addi(self.middle, inner.subi(place, more))
        return inner.select(self._stands_first(inner, one, other), more, taken)

    def position(self, place: ir.Value, taken: ir.Value) -> ir.Value:
        """Where in the row stands what comes to the place, of whose elements in front so many are
        of the first run."""
        build = self.build
        rest = build.subi(place, taken)
        one, other = build.addi(self.start, taken), build.addi(self.middle, rest)
        ended = build.compare("sge", rest, self.second)
        ahead = build.apply("arith.ori", ended, self._stands_first(build, one, other))
        is_first = build.andi(build.compare("slt", taken, self.first), ahead)
        return build.select(is_first, one, other)

    def _stands_first(self, inner: Builder, one: ir.Value, other: ir.Value) -> ir.Value:
        """Whether what is at a place of the first run stands in front of what is at one of the
        second."""
        bounds = ("arith.maxsi", one, 0), ("arith.minsi", other, self.total - 1)
        found = (self.read(inner, self.keys, inner.apply(*each)) for each in bounds)
        return inner.compare("sge", *found)
