"""Attention of many rows in bf16 on CPUs that multiply pairs: two products a lane and instruction.

As for other types a row of the query stands in each lane, but with two elements of the head, then
two keys: Q and the weights lie in pairs on the stack, pairs of K are read as they lie, and pairs of
V's rows are put together on the way. Weights are rounded to bf16, as IREE and PyTorch do; sums are
those of unrounded ones.
"""

from __future__ import annotations

import math

from iree.compiler import ir

from ..attention.facts import AttentionFacts
from ..machines.cpu.loops import LoopTiles
from .prefill_loops import PrefillLoops
from .tile import Columns
from .vectors import PAIR_LANES, Vectors, whole_steps


class PairedRows(PrefillLoops):
    """A tile of rows whose products are summed up in pairs."""

    @staticmethod
    def fits(facts: AttentionFacts, tiles: LoopTiles) -> bool:
        """Whether a tile of an attention is made of whole pairs."""
        names = ("query", "key", "value")
        return (
            tiles.lanes == PAIR_LANES
            and tiles.keys % 2 == 0
            and all(facts.element_types[name] == "bf16" for name in names)
            and facts.is_innermost("key", facts.k1)
            and facts.is_innermost("value", facts.n)
            and (facts.sizes[facts.k1[0]] or 1) % 2 == 0
            and (facts.sizes[facts.n[0]] or 1) % tiles.lanes == 0
        )

    def prepare_products(self, v: Vectors) -> None:
        rows = self.tiles.rows
        self.queries = v.scratch(self.depth // 2, rows, element=v.i32)
        self.weight_pairs = v.scratch(self.tiles.keys // 2, rows, element=v.i32)

        def store(v: Vectors, first: ir.Value, row: ir.Value, columns: list[ir.Value]) -> None:
            pair, bf16 = v.op("arith.divui", first, v.number(2)), ir.BF16Type.get()
            parts = [v.to("arith.truncf", bf16, column) for column in columns]
            for i in range(0, len(parts), 2):
                value = v.pairs(parts[i], parts[i + 1])
                v.store(value, self.queries, v.at(pair, i // 2), row)

        self.read_columns(v, "query", store)

    def score_sums(self, v: Vectors, keys: list[ir.Value]) -> list[ir.Value]:
        lanes, vectors, tensor = self.tiles.lanes, self.tiles.row_vectors, self.facts.value("key")
        dim = self.facts.map_of("key").index(self.head)

        def step(v: Vectors, pair: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
            head = v.op("arith.muli", pair, v.number(2))
            rows = [v.load(self.queries, lanes, pair, v.number(j * lanes)) for j in range(vectors)]
            for i, key in enumerate(keys):
                two = v.read(tensor, self.place(v, "key", key=key, head=head), [dim], [2], [True])
                one = self.spread_pair(v, two)
                for j, row in enumerate(rows, i * vectors):
                    sums[j] = v.add_pair_products(row, one, sums[j])
            return sums

        sums = [v.zeros(lanes)] * (len(keys) * vectors)
        sums = v.loop(0, self.depth // 2, 1, sums, step)
        return [v.op("arith.mulf", x, self.scale) for x in sums]

    def spread_pair(self, v: Vectors, two: ir.Value) -> ir.Value:
        """Two elements in each lane."""
        kind = v.kind(1, element=v.i32)
        pair = v.row(v.build.create("vector.bitcast", [kind], [two]).results[0], 0)
        return v.spread(pair, self.tiles.lanes)

    def weigh_scores(
        self, v: Vectors, largest: list[ir.Value], sums: list[ir.Value], count: int | ir.Value
    ) -> list[ir.Value]:
        # An odd last key gets a partner without weight.
        nothing = v.build.splat(-math.inf, v.kind(self.tiles.lanes))
        rows = [v.number(j * self.tiles.lanes) for j in range(self.tiles.row_vectors)]

        def hide(v: Vectors, key: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
            for row in rows:
                v.store(nothing, self.weights, v.at(key, 1), row)
            return []

        v.loop(whole_steps(v, count, 2), count, 1, [], hide)
        return v.loop(
            0, count, 2, sums, lambda v, key, sums: self.exponentials(v, largest, key, sums, 2)
        )

    def exponentials(
        self, v: Vectors, largest: list[ir.Value], key: ir.Value, sums: list[ir.Value], count: int
    ) -> list[ir.Value]:
        pair, bf16 = v.op("arith.divui", key, v.number(2)), ir.BF16Type.get()
        for j in range(self.tiles.row_vectors):
            weights = [self.weight(v, largest, v.at(key, i), j) for i in range(count)]
            for weight in weights:
                sums[j] = v.op("arith.addf", sums[j], weight)
            halves = [v.to("arith.truncf", bf16, weight) for weight in weights]
            v.store(v.pairs(*halves), self.weight_pairs, pair, v.number(j * self.tiles.lanes))
        return sums

    def add_lines(
        self,
        v: Vectors,
        operand: str,
        first: ir.Value,
        count: int | ir.Value,
        columns: Columns,
        rows: list[ir.Value],
        factor: object,
        sums: list[ir.Value],
    ) -> list[ir.Value]:
        tensor = self.facts.value(operand)
        dim = self.facts.map_of(operand).index(self.column)

        def line(v: Vectors, key: ir.Value) -> list[ir.Value]:
            return [
                v.read(tensor, self.place(v, operand, key=key, column=at), [dim], [width], [True])
                for at, width in zip(columns.starts, columns.widths, strict=True)
            ]

        def add(v: Vectors, key: ir.Value, sums: list[ir.Value], second: bool) -> list[ir.Value]:
            at = v.op("arith.addi", first, key)
            upper = line(v, v.at(at, 1)) if second else [None] * len(columns.starts)
            parts = [v.pairs(x, y) for x, y in zip(line(v, at), upper, strict=True)]
            pair = v.op("arith.divui", key, v.number(2))
            for number, row in enumerate(rows):
                weight = v.spread(v.load_one(self.weight_pairs, pair, row), self.tiles.lanes)
                for j, part in enumerate(parts, number * len(parts)):
                    sums[j] = v.add_pair_products(part, weight, sums[j])
            return sums

        whole = whole_steps(v, count, 2)
        sums = v.loop(0, whole, 2, sums, lambda v, key, x: add(v, key, x, second=True))
        if whole == count:
            return sums
        return v.loop(whole, count, 1, sums, lambda v, key, x: add(v, key, x, second=False))
