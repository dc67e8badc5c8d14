"""Sorts of long rows: sorted runs are merged in pairs, each place finding its own element.

Runs of one element become runs of two, of four, and so on. The element at place s of a merged pair
is told by how many of the first s + 1 come from the first run, which a binary search finds (merge
path), so that all places are looked for side by side: n log2(n)^2 / 2 comparisons in log2(n)
steps, not n x n.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from iree.compiler import ir

from ..attention.barrier import compute_barrier
from ..ir import Builder, Size, element_type, sizes_of
from ..ir.limits import ASSUMED_EXTENT
from .launch_constants import launch_constant

# All pairs of fewer elements, or of rows so short, are compared as fast.
_FEW_PAIRS, _SHORT = 1 << 25, 64
# Rows that CPUs compare as fast: 16 x 4096 take a thread of a Zen 3 215 ms by pairs, 20 merged.
_SHORT_ON_CPUS = 511

# Whether the element of the scalars that are given first has to stand in front of the other.
Before = Callable[[Builder, Sequence[ir.Value], Sequence[ir.Value]], ir.Value]


def is_long(sizes: Sequence[Size], dim: int, on_cpu: bool) -> bool:
    """Whether rows along `dim` take longer by comparisons of all pairs than merged."""
    n = sizes[dim]
    if not isinstance(n, int) or not _SHORT < n < 1 << 30:
        return False
    if on_cpu:
        return n > _SHORT_ON_CPUS
    rows = [one if isinstance(one, int) else ASSUMED_EXTENT for one in sizes]
    return n * math.prod(rows) > _FEW_PAIRS


def merged(
    build: Builder, keys: Sequence[ir.Value], dim: int, before: Before
) -> tuple[list[ir.Value], ir.Value]:
    """The keys of rows along `dim` in their order, and the places (i32) where they stood; equal
    ones in the order of these."""
    n = sizes_of(keys[0])[dim]
    assert isinstance(n, int), "what is_long takes"
    found, length = list(keys), 1
    while length < n:
        i32 = _i32(build)
        known, steps = (launch_constant(build, x, i32) for x in (length, length.bit_length()))
        merge = _Merge(found, len(keys), dim, n, known, steps, before)
        inits = [build.empty(sizes_of(key), element_type(key)) for key in keys]
        inits.append(build.empty(sizes_of(keys[0]), _i32(build)))
        everywhere = tuple(range(len(sizes_of(keys[0]))))
        made = build.generic([], inits, [everywhere] * len(inits), merge.element)
        found, length = [compute_barrier(build, value) for value in made], 2 * length
    return found[:-1], found[-1]


@dataclass(frozen=True)
class _Merge:
    """Pairs of sorted runs, the last of which may be shorter or alone. `found` has the keys and,
    but for runs of one, their places; `steps` halve a run of `length` down to one place."""

    found: Sequence[ir.Value]
    keys: int
    dim: int
    n: int
    length: ir.Value
    steps: ir.Value
    before: Before

    def element(self, build: Builder, _: Sequence[ir.Value]) -> Sequence[ir.Value]:
        rows = [build.loop_index(loop) for loop in range(len(sizes_of(self.found[0])))]
        own = build.convert("arith.index_cast", rows[self.dim], _i32(build))
        pair = build.addi(self.length, self.length)
        place = build.apply("arith.andi", own, build.subi(pair, 1))
        start = build.subi(own, place)
        left = build.subi(build.splat(self.n, own.type), start)
        first = build.apply("arith.minsi", left, self.length)
        both = build.apply("arith.minsi", left, pair)
        second, middle = build.subi(both, first), build.addi(start, first)

        def at(inner: Builder, position: ir.Value, count: int) -> list[ir.Value]:
            """What stands at a position of the row, if there is one."""
            inside = inner.apply("arith.minsi", position, self.n - 1)
            places = [*rows[: self.dim], inner.to_index(inside), *rows[self.dim + 1 :]]
            return [inner.extract(value, places) for value in self.found[:count]]

        def comes_first(inner: Builder, half: ir.Value) -> ir.Value:
            """Whether more than `half` elements of the first run come first."""
            one = at(inner, inner.addi(start, half), self.keys)
            # Once the bounds meet, the search stays where it is, and this may be before the row.
            rest = inner.subi(inner.subi(place, half), 1)
            rest = inner.apply("arith.maxsi", rest, 0)
            other = at(inner, inner.addi(middle, rest), self.keys)
            return inner.xori(self.before(inner, other, one), True)

        low = build.apply("arith.maxsi", build.subi(place, second), 0)
        high = build.apply("arith.minsi", place, first)
        taken = searched(build, low, high, self.steps, comes_first)
        rest = build.subi(place, taken)
        positions = build.addi(start, taken), build.addi(middle, rest)
        one, other = (at(build, position, self.keys) for position in positions)
        is_first = build.andi(
            build.compare("slt", taken, first),
            build.apply(
                "arith.ori",
                build.compare("sge", rest, second),
                build.xori(self.before(build, other, one), True),
            ),
        )
        position = build.select(is_first, *positions)
        places = at(build, position, len(self.found))[self.keys :] or [position]
        return [*(build.select(is_first, a, b) for a, b in zip(one, other, strict=True)), *places]


def ranks_in_row(
    build: Builder,
    keys: Sequence[ir.Value],
    found: tuple[Sequence[ir.Value], ir.Value],
    before: Before,
) -> ir.Value:
    """The place (i32) of each element of a single row in the order that `merged` has found."""
    ordered, order = found
    (n,) = sizes_of(order)
    assert isinstance(n, int), "what is_long takes"

    def rank(inner: Builder, scalars: Sequence[ir.Value]) -> ir.Value:
        own = scalars[: len(keys)]
        number = inner.convert("arith.index_cast", inner.loop_index(0), _i32(build))

        def comes_first(inner: Builder, half: ir.Value) -> ir.Value:
            """Whether what stands at this place comes before the element."""
            place = [inner.to_index(inner.apply("arith.minsi", half, n - 1))]
            other = [inner.extract(value, place) for value in ordered]
            earlier = inner.compare("slt", inner.extract(order, place), number)
            is_equal = inner.xori(before(inner, own, other), True)
            ahead = before(inner, other, own)
            return inner.apply("arith.ori", ahead, inner.andi(is_equal, earlier))

        low, high, steps = (inner.splat(x, number.type) for x in (0, n, n.bit_length()))
        return searched(inner, low, high, steps, comes_first)

    return compute_barrier(build, build.computed([n], _i32(build), rank, *keys))


def searched(
    build: Builder,
    low: ir.Value,
    high: ir.Value,
    steps: ir.Value,
    comes_first: Callable[[Builder, ir.Value], ir.Value],
) -> ir.Value:
    """The least number from `low` on that does not come first; `high` if none below it is one."""

    def narrow(inner: Builder, _: ir.Value, bounds: Sequence[ir.Value]) -> list[ir.Value]:
        low, high = bounds
        half = inner.apply("arith.shrui", inner.addi(low, high), 1)
        is_open, first = inner.compare("slt", low, high), comes_first(inner, half)
        behind = inner.andi(is_open, inner.xori(first, True))
        return [
            inner.select(inner.andi(is_open, first), inner.addi(half, 1), low),
            inner.select(behind, half, high),
        ]

    numbers = [build.constant_index(0), build.to_index(steps), build.constant_index(1)]
    return build.loop(numbers, [low, high], narrow)[0]


def _i32(build: Builder) -> ir.Type:
    return ir.IntegerType.get_signless(32, build.anchor.context)
