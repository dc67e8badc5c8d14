"""What loops over one tile of attention have in common, whatever stands in the lanes of scores.

They go over blocks of keys, by the recurrence of `iree_linalg_ext.online_attention`: scores and
weights of a block, kept on the stack, and how far the sums so far decay under the new maximum;
then the weights times V, which is read along its rows, as it lies, into sums in registers. How
V^T is read depends on what stands in the lanes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate

from iree.compiler import ir

from ..attention.facts import AttentionFacts
from ..ir import Builder
from ..machines.cpu.loops import LoopTiles, row_dim
from .computed_lines import read_line
from .vectors import Vectors, whole_steps


@dataclass(frozen=True)
class Columns:
    """Vectors side by side in a line of K or V: first elements and their distance from the first
    one's, lanes, and whether all lanes are within the tensor."""

    starts: list[ir.Value]
    offsets: list[int]
    widths: list[int]
    inside: bool

    @classmethod
    def of(cls, v: Vectors, start: ir.Value, widths: list[int], inside: bool = True) -> Columns:
        offsets = list(accumulate(widths[:-1], initial=0))
        return cls([v.at(start, offset) for offset in offsets], offsets, widths, inside)


class TileLoops:
    """The vector code of one `online_attention` whose dims of batch are 1."""

    def __init__(self, facts: AttentionFacts, tiles: LoopTiles):
        self.facts, self.tiles = facts, tiles
        self.row, self.key = row_dim(facts), facts.k2[0]
        self.head, self.column = facts.k1[0], facts.n[0]
        v = Vectors(Builder(facts.op))
        self.depth, self.width = facts.sizes[self.head] or 0, facts.sizes[self.column] or 0
        self.rows = 1 if self.row is None else self.size(v, "query", self.row)
        self.keys = self.size(v, "key", self.key)

    def prepare(self, v: Vectors) -> list[ir.Value]:
        """Makes what the loops keep on the stack; maxima and sums so far."""
        raise NotImplementedError

    def weigh(
        self, v: Vectors, first: ir.Value, states: list[ir.Value], count: int | ir.Value
    ) -> list[ir.Value]:
        """The weights of `count` keys from `first` on; the new maxima and sums."""
        raise NotImplementedError

    def weight_of(self, v: Vectors, row: ir.Value, key: ir.Value) -> ir.Value:
        """The weight of a key of the block in one row."""
        raise NotImplementedError

    def decay_of(self, v: Vectors, row: ir.Value) -> ir.Value:
        """What a row of the output so far is multiplied with."""
        raise NotImplementedError

    def fetch_ahead(self, v: Vectors, operand: str, offset: int, **at: ir.Value) -> None:
        """Has fetched what will be read of K or V after a place, whose lanes start `offset`
        elements behind others that a loop reads with them."""

    def add_transposed(
        self, v: Vectors, first: ir.Value, count: int | ir.Value, output: ir.Value
    ) -> ir.Value:
        """Adds to the output, scaled down to the new maximum, the weights of `count` keys from
        `first` on times V^T."""
        raise NotImplementedError

    def finish(self, v: Vectors, output: ir.Value, states: list[ir.Value]) -> list[ir.Value]:
        """The op's results `output`, `max` and `sum`."""
        raise NotImplementedError

    def function(self, v: Vectors, scores: ir.Value) -> ir.Value:
        """The score function of a vector of scores."""
        if not self.facts.changes_scores:
            return scores
        return v.lanewise(self.facts.op, scores)

    def is_transposed(self, operand: str) -> bool:
        """Whether keys lie side by side in K or V."""
        return self.facts.is_innermost(operand, (self.key,))

    def size(self, v: Vectors, operand: str, dim: int) -> int | ir.Value:
        """The size of an iteration dim, read off an operand where it is dynamic."""
        known = self.facts.sizes[dim]
        if known is not None:
            return known
        return v.dim(self.facts.value(operand), self.facts.map_of(operand).index(dim))

    def place(self, v: Vectors, operand: str, **at: ir.Value) -> list[ir.Value]:
        """Indices into an operand: `row`, `key`, `head`, `column` as given, 0 elsewhere."""
        given = {getattr(self, name): value for name, value in at.items()}
        return [given[dim] if dim in given else v.number(0) for dim in self.facts.map_of(operand)]

    def emit(self) -> list[ir.Value]:
        """Output, maximum and sum, as the op's results."""
        v, most = Vectors(Builder(self.facts.op)), self.tiles.keys
        values = [self.facts.value("output"), *self.prepare(v)]
        whole = whole_steps(v, self.keys, most)
        if whole != 0:
            values = v.loop(0, whole, most, values, lambda v, i, x: self.block(v, i, x, most))
        rest = (
            self.keys - whole
            if isinstance(self.keys, int) and isinstance(whole, int)
            else v.op("arith.subi", v.index_of(self.keys), v.index_of(whole))
        )
        if rest != 0:
            values = self.block(v, v.index_of(whole), values, rest)
        output, *states = values
        return self.finish(v, output, states)

    def block(
        self, v: Vectors, first: ir.Value, values: list[ir.Value], count: int | ir.Value
    ) -> list[ir.Value]:
        """One step of the recurrence: `count` keys from `first` on."""
        output, *states = values
        states = self.weigh(v, first, states, count)
        if self.is_transposed("value"):
            return [self.add_transposed(v, first, count, output), *states]
        (output,) = v.in_steps(
            self.rows,
            self.tiles.output_rows,
            [output],
            lambda v, i, x, size: self.products(v, first, count, i, x[0], size),
        )
        return [output, *states]

    def products(
        self,
        v: Vectors,
        first: ir.Value,
        count: int | ir.Value,
        row: ir.Value,
        output: ir.Value,
        rows: int,
    ) -> list[ir.Value]:
        """Adds P V to `rows` rows of the output, scaled down to the new maximum."""
        lanes, lines = self.tiles.lanes, [v.at(row, i) for i in range(rows)]

        def some(v: Vectors, column: ir.Value, x: list[ir.Value], width: int) -> list[ir.Value]:
            widths = [lanes] * (width // lanes) + [width % lanes] * bool(width % lanes)
            columns = Columns.of(v, column, widths)
            return [self.product(v, first, count, lines, columns, x[0])]

        return v.in_chunks(self.width, lanes * self.tiles.output_vectors, [output], some)

    def product(
        self,
        v: Vectors,
        first: ir.Value,
        count: int | ir.Value,
        rows: list[ir.Value],
        columns: Columns,
        output: ir.Value,
    ) -> ir.Value:
        dim = self.facts.map_of("output").index(self.column)
        sums: list[ir.Value] = []
        for row in rows:
            decay = self.decay_of(v, row)
            for at, width in zip(columns.starts, columns.widths, strict=True):
                place = self.place(v, "output", row=row, column=at)
                old = v.read(output, place, [dim], [width], [True])
                sums.append(v.op("arith.mulf", old, v.spread(decay, width)))
        sums = self.add_lines(v, "value", first, count, columns, rows, self.weight_of, sums)
        number = 0
        for row in rows:
            for at in columns.starts:
                place = self.place(v, "output", row=row, column=at)
                output = v.write(sums[number], output, place, [dim], [True])
                number += 1
        return output

    def add_lines(
        self,
        v: Vectors,
        operand: str,
        first: ir.Value,
        count: int | ir.Value,
        columns: Columns,
        rows: list[ir.Value],
        factor: Callable[[Vectors, ir.Value, ir.Value], ir.Value],
        sums: list[ir.Value],
    ) -> list[ir.Value]:
        """Adds to sums, of rows times vectors, `count` lines of V (of one key each) or K^T (of one
        element of the head each) from `first` on; `factor` gives what a row multiplies one by."""
        along, across = ("head", "key") if operand == "key" else ("key", "column")
        dim = self.facts.map_of(operand).index(getattr(self, across))

        def step(v: Vectors, i: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
            line = {along: v.op("arith.addi", first, i)}
            parts: list[ir.Value] = []
            for at, width in zip(columns.starts, columns.widths, strict=True):
                place = self.place(v, operand, **line, **{across: at})
                tensor = self.facts.value(operand)
                parts.append(read_line(v, tensor, place, dim, width, columns.inside))
            for at, offset in zip(columns.starts, columns.offsets, strict=True):
                self.fetch_ahead(v, operand, offset, **line, **{across: at})
            for number, row in enumerate(rows):
                one = factor(v, row, i)
                for j, part in enumerate(parts, number * len(parts)):
                    sums[j] = v.fma(v.spread(one, *part.type.shape), part, sums[j])
            return sums

        return v.loop(0, count, 1, sums, step)
