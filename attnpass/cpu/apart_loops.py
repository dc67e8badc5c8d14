"""Products of many matrices whose numbers lie side by side, on a CPU: matrices stand in the lanes.

The updates of AlphaFold's triangles are such: `bikc,bjkc->bijc`. Vectors of some rows and columns
are read once for each element of the depth, and their sums stay in registers. IREE 3.13 has a
vector of eight matrices a step, of one row and column.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from iree.compiler import ir

from ..ir import Builder, collect, defining_op, filled_with
from ..ir.contractions import ContractionFacts, is_contraction, read_contraction
from ..ir.refusal import Refusal
from ..machines.cpu.window_tiles import line_vectors
from ..machines.cpu.workgroups import divisors
from .lowering import in_pieces, lower_tiles, put_loops
from .product_loops import known, sums_products_in_f32
from .vectors import Vectors
from .window_loops import places

# Rows, and columns, whose sums stay in registers, by the lanes of one, matrices of a vector, a line
# of the cache, and multiplications of a workgroup, about.
_TOGETHER, _MATRICES, _WORKGROUP = {16: (4, 4), 8: (2, 3)}, 16, 1 << 20


@dataclass(frozen=True)
class ApartProducts:
    """A contraction over known sizes whose last dim, of factors and result, counts matrices."""

    facts: ContractionFacts

    @property
    def op(self) -> ir.Operation:
        return self.facts.op

    def size(self, loop: int) -> int:
        """Of a loop; 0 for an unknown one."""
        return known(self.facts.sizes[loop]) or 0


def read_apart(function: ir.Operation) -> ApartProducts | None:
    """The products of a kernel, if they are such, and all that it multiplies."""
    ops = collect(function, is_contraction, bodies=False)
    facts = read_contraction(ops[0]) if len(ops) == 1 else None
    if facts is None or not facts.m or not facts.n or not facts.k:
        return None
    last = facts.result[-1]
    if last not in facts.batch or {facts.left[-1], facts.right[-1]} != {last}:
        return None
    found = ApartProducts(facts)
    loops = (last, facts.m[-1], facts.n[-1], *facts.k)
    return found if all(map(found.size, loops)) and found.size(last) > 1 else None


def lower_apart(function: ir.Operation, target: str, lanes: int) -> Refusal | None:
    """Lowers such a kernel; why it cannot be, with the kernel in any state, or None."""
    found = read_apart(function)
    assert found is not None, "the caller has seen it"
    if lanes not in _TOGETHER:
        return Refusal(f"nothing was measured for vectors of {lanes} lanes")
    op, facts = found.op, found.facts
    if op.name == "linalg.generic" and not sums_products_in_f32(op):
        return Refusal("it does not sum up products in f32")
    if filled_with(op.operands[2]) is None:
        return Refusal("its sums do not begin at a number")
    steps = [0 if loop in facts.k else 1 for loop in range(len(facts.sizes))]
    steps[facts.result[-1] or 0] = found.size(facts.result[-1] or 0)
    for loop, most in zip((facts.m[-1], facts.n[-1]), _TOGETHER[lanes], strict=True):
        steps[loop] = max(size for size in divisors(found.size(loop)) if size <= most)
    pieces, work = list(steps), prod(max(steps[loop], 1) for loop in facts.kept)
    work *= prod(map(found.size, facts.k))
    column = facts.n[-1]
    whole = [n for n in divisors(found.size(column)) if n % steps[column] == 0]
    enough = (n for n in whole if n // steps[column] * work >= _WORKGROUP)
    pieces[column] = next(enough, whole[-1])

    def put(function: ir.Operation) -> Refusal | None:
        tiled = read_apart(function)
        if tiled is None or not all(map(tiled.size, tiled.facts.kept)):
            return Refusal("IREE made several products of one, or some of unknown size")
        put_loops(tiled.op, _ApartLoops(tiled).emit)
        return None

    return lower_tiles(function, op, in_pieces(pieces, steps), put, lanes, target)


class _ApartLoops:
    """The vector code of a tile of some rows and columns of all matrices."""

    def __init__(self, products: ApartProducts):
        self.products, self.facts = products, products.facts
        self.rows, self.columns = (
            places(loops, products.size) for loops in (self.facts.m, self.facts.n)
        )

    def emit(self) -> ir.Value:
        """The op's result."""
        op = self.facts.op
        v, fill = Vectors(Builder(op)), defining_op(op.operands[2])
        assert fill is not None, "lower_apart has seen it"
        output = fill.operands[1]
        matrices = self.products.size(self.facts.result[-1] or 0)
        for first, width in line_vectors(matrices, _MATRICES):
            output = self.some(v, first, width, output)
        return output

    def some(self, v: Vectors, first: int, width: int, output: ir.Value) -> ir.Value:
        """So many matrices from `first` on."""
        number = filled_with(self.facts.op.operands[2])
        assert number is not None, "lower_apart has seen it"
        pairs = list(itertools.product(self.rows, self.columns))
        sizes = {loop: self.products.size(loop) for loop in self.facts.k}
        start = [v.spread(number, width)] * len(pairs)
        sums = v.nest(sizes, start, lambda v, at, sums: self.add(v, at, first, sums))
        for (row, column), value in zip(pairs, sums, strict=True):
            place = self.place(v, self.facts.result, row | column, {}, first)
            output = v.write(value, output, place, [len(place) - 1], [True])
        return output

    def add(
        self, v: Vectors, at: dict[int, ir.Value], first: int, sums: list[ir.Value]
    ) -> list[ir.Value]:
        """Adds the products of one place in the depth."""
        (width,) = sums[0].type.shape
        left, right = (
            [self.read(v, number, dims, known, at, first, width) for known in several]
            for number, dims, several in (
                (0, self.facts.left, self.rows),
                (1, self.facts.right, self.columns),
            )
        )
        return v.add_outer(left, right, sums)

    def read(
        self,
        v: Vectors,
        number: int,
        dims: Sequence[int | None],
        known: dict[int, int],
        at: dict[int, ir.Value],
        first: int,
        width: int,
    ) -> ir.Value:
        place = self.place(v, dims, known, at, first)
        tensor = self.facts.op.operands[number]
        return v.wide(v.read(tensor, place, [len(place) - 1], [width], [True]))

    def place(
        self,
        v: Vectors,
        dims: Sequence[int | None],
        known: dict[int, int],
        at: dict[int, ir.Value],
        first: int,
    ) -> list[ir.Value]:
        """Indices of a row, a column and the depth, in the first of some matrices."""
        *outer, _ = dims
        found = [
            at[loop] if loop in at else v.number(known.get(loop, 0) if loop is not None else 0)
            for loop in outer
        ]
        return [*found, v.number(first)]
