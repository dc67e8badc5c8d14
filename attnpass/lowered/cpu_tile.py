"""What loops over one tile of attention have in common, whatever stands in the lanes of scores.

They go over blocks of keys, by the recurrence of `iree_linalg_ext.online_attention`: scores and
weights of a block, kept on the stack, and how far the sums so far decay under the new maximum;
then the weights times V, which is read along its rows, as it lies, into sums in registers.
"""

from __future__ import annotations

from itertools import accumulate

from iree.compiler import ir

from ..attention import AttentionFacts
from ..configs.cpu_loops import Tiles, row_dim
from ..ir import Builder
from .vectors import Vectors, whole_steps


class TileLoops:
    """The vector code of one `online_attention` whose dims of batch are 1."""

    def __init__(self, facts: AttentionFacts, tiles: Tiles):
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

    def finish(self, v: Vectors, states: list[ir.Value]) -> list[ir.Value]:
        """The op's results `max` and `sum`."""
        raise NotImplementedError

    def size(self, v: Vectors, operand: str, dim: int) -> int | ir.Value:
        """The size of an iteration dim, read off an operand where it is dynamic."""
        known = self.facts.sizes[dim]
        if known is not None:
            return known
        where = v.number(self.facts.map_of(operand).index(dim))
        return v.build.create("tensor.dim", [v.index], [self.facts.value(operand), where]).results[
            0
        ]

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
        return [output, *self.finish(v, states)]

    def block(
        self, v: Vectors, first: ir.Value, values: list[ir.Value], count: int | ir.Value
    ) -> list[ir.Value]:
        """One step of the recurrence: `count` keys from `first` on."""
        output, *states = values
        states = self.weigh(v, first, states, count)
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
        lanes, together = self.tiles.lanes, self.tiles.output_vectors
        wide = lanes * together
        whole = self.width - self.width % wide
        if whole:
            (output,) = v.loop(
                0,
                whole,
                wide,
                [output],
                lambda v, i, x: [
                    self.product(v, first, count, row, rows, i, x[0], [lanes] * together)
                ],
            )
        rest = self.width - whole
        if rest:
            tail = [lanes] * (rest // lanes) + [rest % lanes] * bool(rest % lanes)
            output = self.product(v, first, count, row, rows, v.number(whole), output, tail)
        return [output]

    def product(
        self,
        v: Vectors,
        first: ir.Value,
        count: int | ir.Value,
        row: ir.Value,
        rows: int,
        column: ir.Value,
        output: ir.Value,
        widths: list[int],
    ) -> ir.Value:
        value = self.facts.value("value")
        value_dim = self.facts.map_of("value").index(self.column)
        dim = self.facts.map_of("output").index(self.column)
        offsets = list(accumulate(widths[:-1], initial=0))
        columns = [v.at(column, offset) for offset in offsets]
        lines = [v.at(row, i) for i in range(rows)]
        sums: list[ir.Value] = []
        for line in lines:
            decay = self.decay_of(v, line)
            for at, width in zip(columns, widths, strict=True):
                old = v.read(
                    output, self.place(v, "output", row=line, column=at), [dim], [width], [True]
                )
                sums.append(v.op("arith.mulf", old, v.spread(decay, width)))

        def step(v: Vectors, key: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
            at_key = v.op("arith.addi", first, key)
            parts = [
                v.wide(
                    v.read(
                        value,
                        self.place(v, "value", key=at_key, column=at),
                        [value_dim],
                        [width],
                        [True],
                    )
                )
                for at, width in zip(columns, widths, strict=True)
            ]
            for at, offset in zip(columns, offsets, strict=True):
                self.fetch_ahead(v, "value", offset, key=at_key, column=at)
            for i, line in enumerate(lines):
                weight = self.weight_of(v, line, key)
                for j, part in enumerate(parts):
                    number = i * len(parts) + j
                    sums[number] = v.fma(v.spread(weight, widths[j]), part, sums[number])
            return sums

        sums = v.loop(0, count, 1, sums, step)
        number = 0
        for line in lines:
            for at in columns:
                place = self.place(v, "output", row=line, column=at)
                output = v.write(sums[number], output, place, dim, True)
                number += 1
        return output
