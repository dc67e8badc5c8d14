"""Attention of few rows on a CPU: the head dim across the lanes, then keys, then V's columns.

K and V are read once, as they lie. The products of some rows with some keys are summed lane by
lane; then vectors of sums are folded pairwise until one holds a score in each lane. The softmax
has a row's keys in its lanes. With K^T the keys are there from the start, as V's columns are, and
what is summed lane by lane with V^T are weights times values.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from iree.compiler import ir

from ..codegen.kernel import load_of
from ..ir import element_bytes, ranked_shape
from ..ir.limits import LOG2_E
from .computed_lines import read_line, widened_from
from .tile import Columns, TileLoops
from .vectors import Vectors

# How far ahead of a read K and V are fetched, in lines of the cache. CPUs follow a stream by
# themselves, but not far enough, nor over the end of a page: fetched into the second-level cache
# reads of memory get 1.5 times faster on Emerald Rapids (8 and 32 KB ahead do as well) and up to
# 1.3 times on a Zen 4, which fetching into the first level slows down.
AHEAD_BYTES = 16384
LINE_BYTES = 64
# Vectors of a key's head dim in a row: a loop costs little more, and code no less.
UNROLLED = 8
# Vectors of a row's scores in a row, as many as a block has where registers have 64 bytes: of
# narrower ones a block has more, and LLVM takes seconds for the exponentials of all.
SOFTMAX_UNROLLED = 16


@dataclass(frozen=True)
class Stream:
    """Where a tensor is fetched from: the buffer that it, or the codes that it is made of, lies in,
    by these of its dims."""

    buffer: ir.Value
    dims: tuple[int | None, ...]
    element_bytes: int

    @classmethod
    def of(cls, v: Vectors, tensor: ir.Value) -> Stream | None:
        """Of a tensor; None where it does not lie in one buffer."""
        dims: tuple[int | None, ...] = tuple(range(len(ranked_shape(tensor))))
        if (codes := widened_from(tensor)) is not None:
            tensor, dims = codes.operand, codes.dims
        load = load_of(tensor)
        if load is None or not isinstance(load.operands[0].type, ir.MemRefType):
            return None
        buffer = v.buffer(tensor, load.operands[0].type.memory_space)
        return cls(buffer, dims, element_bytes(tensor))

    def fetch(self, v: Vectors, place: Sequence[ir.Value]) -> None:
        """Has the element at a place fetched, with its line of the cache."""
        v.prefetch(self.buffer, [v.number(0) if dim is None else place[dim] for dim in self.dims])


class DecodeLoops(TileLoops):
    """All rows of a head, each of its own."""

    @property
    def count(self) -> int:
        assert isinstance(self.rows, int), "few rows of unknown number"
        return self.rows

    def prepare(self, v: Vectors) -> list[ir.Value]:
        tiles = self.tiles
        self.queries = v.scratch(self.count, self.depth)
        self.weights = v.scratch(self.count, tiles.keys)
        self.decay = v.scratch(self.count, tiles.lanes)
        scale = v.op("arith.mulf", v.wide(self.facts.value("scale")), LOG2_E)
        dim = self.facts.map_of("query").index(self.head)
        for row in map(v.number, range(self.count)):
            for at, width in self.vectors_of_head(v):
                place = self.place(v, "query", row=row, head=at)
                part = v.wide(v.read(self.facts.value("query"), place, [dim], [width], [True]))
                v.store(v.op("arith.mulf", part, v.spread(scale, width)), self.queries, row, at)
        self.streams = {name: Stream.of(v, self.facts.value(name)) for name in ("key", "value")}
        # A sum is spread over the lanes until the end.
        sums = [v.op("arith.mulf", state, 1 / tiles.lanes) for state in self.read_state(v, "sum")]
        return [*self.read_state(v, "max"), *sums]

    def fetch_ahead(self, v: Vectors, operand: str, offset: int, **at: ir.Value) -> None:
        stream = self.streams[operand]
        if stream is None or offset * stream.element_bytes % LINE_BYTES:
            return
        row = stream.element_bytes * (self.depth if operand == "key" else self.width)
        ahead = self.tiles.keys if self.is_transposed(operand) else -(-AHEAD_BYTES // row)
        at["key"] = v.at(at["key"], ahead)
        stream.fetch(v, self.place(v, operand, **at))

    def vectors_of_head(self, v: Vectors) -> list[tuple[ir.Value, int]]:
        """Vectors, as (first element, lanes), that the head dim goes into."""
        lanes = self.tiles.lanes
        return [
            (v.number(low), min(lanes, self.depth - low)) for low in range(0, self.depth, lanes)
        ]

    def read_state(self, v: Vectors, name: str) -> list[ir.Value]:
        tensor = self.facts.value(name)
        places = [self.place(v, name, row=v.number(row)) for row in range(self.count)]
        return [v.spread(v.build.extract(tensor, place), self.tiles.lanes) for place in places]

    def finish(self, v: Vectors, output: ir.Value, states: list[ir.Value]) -> list[ir.Value]:
        tensors = [self.facts.value(name) for name in ("max", "sum")]
        for row in range(self.count):
            largest, total = states[row], v.across("arith.addf", states[self.count + row])
            for number, (name, value) in enumerate((("max", largest), ("sum", total))):
                place = self.place(v, name, row=v.number(row))
                tensors[number] = v.insert(v.row(value, 0), tensors[number], place)
        return [output, *tensors]

    def weight_of(self, v: Vectors, row: ir.Value, key: ir.Value) -> ir.Value:
        return v.load_one(self.weights, row, key)

    def decay_of(self, v: Vectors, row: ir.Value) -> ir.Value:
        return v.load_one(self.decay, row, v.number(0))

    def weigh(
        self, v: Vectors, first: ir.Value, states: list[ir.Value], count: int | ir.Value
    ) -> list[ir.Value]:
        whole = count == self.tiles.keys
        if self.is_transposed("key"):
            self.transposed_scores(v, first, count)
        else:
            v.loop(0, count, 1, [], lambda v, i, _: self.scores(v, first, i))
        if not whole:
            v.loop(count, self.tiles.keys, 1, [], lambda v, i, _: self.hide(v, i))
        largest, sums = states[: self.count], states[self.count :]
        for row in range(self.count):
            largest[row], sums[row] = self.softmax(v, first, row, largest[row], sums[row], whole)
        return [*largest, *sums]

    def rows_together(self, v: Vectors) -> list[list[ir.Value]]:
        """The rows, as many at a time as have their sums in registers."""
        together = self.tiles.output_rows
        return [
            [v.number(row) for row in range(low, min(low + together, self.count))]
            for low in range(0, self.count, together)
        ]

    def hide(self, v: Vectors, key: ir.Value) -> list[ir.Value]:
        """Gives a key of the block, which is none, no weight."""
        nothing = v.build.splat(-math.inf, v.f32)
        for row in map(v.number, range(self.count)):
            v.store_one(nothing, self.weights, row, key)
        return []

    def transposed_scores(self, v: Vectors, first: ir.Value, count: int | ir.Value) -> None:
        """Q K^T where keys lie side by side: some vectors of keys at a time, of which the last
        may go beyond the end."""
        lanes, vectors = self.tiles.lanes, self.tiles.output_vectors

        def step(v: Vectors, key: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
            inside = count == self.tiles.keys
            at = v.op("arith.addi", first, key)
            columns = Columns.of(v, at, [lanes] * vectors, inside)
            for rows in self.rows_together(v):
                sums = [v.zeros(lanes)] * (len(rows) * vectors)
                sums = self.add_lines(
                    v, "key", v.number(0), self.depth, columns, rows, self.query_of, sums
                )
                for number, value in enumerate(sums):
                    row, offset = rows[number // vectors], columns.offsets[number % vectors]
                    v.store(value, self.weights, row, v.at(key, offset))
            return []

        v.loop(0, count, lanes * vectors, [], step)

    def query_of(self, v: Vectors, row: ir.Value, head: ir.Value) -> ir.Value:
        return v.load_one(self.queries, row, head)

    def add_transposed(
        self, v: Vectors, first: ir.Value, count: int | ir.Value, output: ir.Value
    ) -> ir.Value:
        """Weights times V^T: keys in the lanes, some columns at a time."""
        for rows in self.rows_together(v):
            (output,) = v.in_steps(
                self.width,
                self.tiles.output_vectors,
                [output],
                lambda v, i, x, size, rows=rows: [
                    self.add_columns(v, first, count, rows, i, size, x[0])
                ],
            )
        return output

    def add_columns(
        self,
        v: Vectors,
        first: ir.Value,
        count: int | ir.Value,
        rows: list[ir.Value],
        column: ir.Value,
        width: int,
        output: ir.Value,
    ) -> ir.Value:
        """Adds to `width` columns of some rows of the output."""
        lanes, tensor = self.tiles.lanes, self.facts.value("value")
        dim = self.facts.map_of("value").index(self.key)
        columns = [v.at(column, i) for i in range(width)]
        inside = count == self.tiles.keys

        def step(v: Vectors, key: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
            at = v.op("arith.addi", first, key)
            weights = [v.load(self.weights, lanes, row, key) for row in rows]
            for j, line in enumerate(columns):
                self.fetch_ahead(v, "value", 0, key=at, column=line)
                place = self.place(v, "value", key=at, column=line)
                part = v.wide(v.read(tensor, place, [dim], [lanes], [inside]))
                for number, weight in zip(range(j, len(sums), width), weights, strict=True):
                    sums[number] = v.fma(weight, part, sums[number])
            return sums

        sums = v.loop(0, count, lanes, [v.zeros(lanes)] * (len(rows) * width), step)
        found, across = v.lane_sums(sums), self.facts.map_of("output").index(self.column)
        for number, row in enumerate(rows):
            place = self.place(v, "output", row=row, column=column)
            old = v.read(output, place, [across], [width], [True])
            part = v.shuffle(found, found, range(number * width, (number + 1) * width))
            new = v.fma(old, v.spread(self.decay_of(v, row), width), part)
            output = v.write(new, output, place, [across], [True])
        return output

    def scores(self, v: Vectors, first: ir.Value, key: ir.Value) -> list[ir.Value]:
        """Q K^T of one key for all rows. Keys go one by one: a single stream of memory is
        fetched ahead best, 1.2 to 1.7 times faster than four or eight keys at a time."""
        at = v.op("arith.addi", first, key)
        for rows in self.rows_together(v):
            scores = v.lane_sums(self.dot_product(v, at, rows))
            for lane, row in enumerate(rows):
                v.store_one(v.row(scores, lane), self.weights, row, key)
        return []

    def dot_product(self, v: Vectors, key: ir.Value, rows: Sequence[ir.Value]) -> list[ir.Value]:
        """Products of rows with one key."""
        lanes, dim = self.tiles.lanes, self.facts.map_of("key").index(self.head)

        def add(
            v: Vectors, start: ir.Value, offset: int, sums: list[ir.Value], width: int
        ) -> list[ir.Value]:
            head = v.at(start, offset)
            self.fetch_ahead(v, "key", offset, key=key, head=head)
            place = self.place(v, "key", key=key, head=head)
            part = read_line(v, self.facts.value("key"), place, dim, width)
            queries = [v.load(self.queries, width, row, head) for row in rows]
            return [v.fma(query, part, x) for query, x in zip(queries, sums, strict=True)]

        return v.sums_over(self.depth, lanes, UNROLLED, len(rows), add)

    def softmax(
        self,
        v: Vectors,
        first: ir.Value,
        row: int,
        old: ir.Value,
        total: ir.Value,
        whole: bool,
    ) -> tuple[ir.Value, ir.Value]:
        """One row's scores to weights; its maximum, in all lanes, and its sums by lane.

        Where a block's scores are too many vectors for code without loops, they are stored as the
        score function and the mask leave them, and read again for their exponentials.
        """
        line, lanes = v.number(row), self.tiles.lanes
        places = [v.number(low) for low in range(0, self.tiles.keys, lanes)]
        is_loop = len(places) > SOFTMAX_UNROLLED
        scores: list[ir.Value] = []

        def group(v: Vectors, at: ir.Value, size: int) -> list[ir.Value]:
            return [v.build.multiply_add(at, lanes, i * lanes) for i in range(size)]

        def limit(v: Vectors, at: ir.Value, states: list[ir.Value], size: int) -> list[ir.Value]:
            places = group(v, at, size)
            scores = self.final_scores(v, first, line, places, whole)
            for score, place in zip(scores, places, strict=True):
                v.store(score, self.weights, line, place)
            return [functools.reduce(v.larger, scores, *states)]

        def add(v: Vectors, at: ir.Value, states: list[ir.Value], size: int) -> list[ir.Value]:
            places = group(v, at, size)
            scores = [v.load(self.weights, lanes, line, place) for place in places]
            return [self.add_weights(v, line, places, scores, largest, *states)]

        if is_loop:
            (largest,) = v.in_steps(len(places), SOFTMAX_UNROLLED, [old], limit)
            largest = v.across("larger", largest)
        else:
            scores = self.final_scores(v, first, line, places, whole)
            largest = v.larger(old, v.across("larger", functools.reduce(v.larger, scores)))
        decay = v.exp2(v.op("arith.subf", old, largest))
        v.store(decay, self.decay, line, v.number(0))
        total = v.op("arith.mulf", total, decay)
        if is_loop:
            (total,) = v.in_steps(len(places), SOFTMAX_UNROLLED, [total], add)
        else:
            total = self.add_weights(v, line, places, scores, largest, total)
        return largest, total

    def final_scores(
        self, v: Vectors, first: ir.Value, row: ir.Value, places: list[ir.Value], whole: bool
    ) -> list[ir.Value]:
        """A row's scores at these places of the block, with the score function and the mask."""
        lanes = self.tiles.lanes
        scores = [
            self.changed(v, v.load(self.weights, lanes, row, place), whole) for place in places
        ]
        if not self.facts.has_mask:
            return scores
        return [
            v.op("arith.addf", score, self.bias(v, v.op("arith.addi", first, at), row, whole))
            for score, at in zip(scores, places, strict=True)
        ]

    def add_weights(
        self,
        v: Vectors,
        row: ir.Value,
        places: list[ir.Value],
        scores: list[ir.Value],
        largest: ir.Value,
        total: ir.Value,
    ) -> ir.Value:
        """Stores the weights of scores, and adds them to `total`."""
        for score, place in zip(scores, places, strict=True):
            weight = v.exp2(v.op("arith.subf", score, largest))
            v.store(weight, self.weights, row, place)
            total = v.op("arith.addf", total, weight)
        return total

    def changed(self, v: Vectors, products: ir.Value, whole: bool) -> ir.Value:
        """The score function of a vector of products; keys that are none stay hidden."""
        scores = self.function(v, products)
        if whole or scores is products:
            return scores
        nothing = v.build.splat(-math.inf, v.kind(self.tiles.lanes))
        none = v.build.compare_floats("oeq", products, nothing)
        return v.build.select(none, nothing, scores)

    def bias(self, v: Vectors, key: ir.Value, row: ir.Value, whole: bool) -> ir.Value:
        """What the mask adds to the scores of a vector of keys."""
        mask, dims = self.facts.value("mask"), self.facts.map_of("mask")
        lanes = self.tiles.lanes
        place = self.place(v, "mask", row=row, key=key)
        if self.key not in dims:
            return v.bias(v.spread(v.build.extract(mask, place), lanes))
        return v.bias(v.read(mask, place, [dims.index(self.key)], [lanes], [whole]))
