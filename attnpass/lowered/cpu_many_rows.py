"""Attention of many rows on a CPU: rows of the query across the lanes.

Q is transposed once for a tile of rows. A score is then a sum of K's elements, each spread over
a vector, times vectors of rows, in registers over the whole head dim; maximum, exponential and
sum of the softmax need no shuffles.
"""

from __future__ import annotations

from collections.abc import Callable

from iree.compiler import ir

from ..ir import element_type
from .cpu_tile import TileLoops
from .vectors import LOG2_E, Vectors


class ManyRows(TileLoops):
    """A tile of as many rows as some vectors have lanes, or the rest of them."""

    @property
    def whole_tile(self) -> bool:
        """Whether all lanes hold rows."""
        return self.rows == self.tiles.rows

    def prepare(self, v: Vectors) -> list[ir.Value]:
        tiles = self.tiles
        self.queries = v.scratch(self.depth, tiles.rows)
        self.weights = v.scratch(tiles.keys, tiles.rows)
        self.decay = v.scratch(tiles.rows)
        if element_type(self.facts.value("key")) != v.f32:
            self.wide_keys = v.scratch(tiles.score_keys, tiles.lanes)
        self.store_queries(v)
        return [*self.read_state(v, "max"), *self.read_state(v, "sum")]

    def finish(self, v: Vectors, states: list[ir.Value]) -> list[ir.Value]:
        vectors = self.tiles.row_vectors
        return [
            self.write_state(v, "max", states[:vectors]),
            self.write_state(v, "sum", states[vectors:]),
        ]

    def weight_of(self, v: Vectors, row: ir.Value, key: ir.Value) -> ir.Value:
        return v.load_one(self.weights, key, row)

    def decay_of(self, v: Vectors, row: ir.Value) -> ir.Value:
        return v.load_one(self.decay, row)

    def weigh(
        self, v: Vectors, first: ir.Value, states: list[ir.Value], count: int | ir.Value
    ) -> list[ir.Value]:
        vectors = self.tiles.row_vectors
        old, sums = states[:vectors], states[vectors:]
        largest = v.in_steps(
            count,
            self.tiles.score_keys,
            old,
            lambda v, i, x, size: self.scores(v, first, i, x, size),
        )
        for number in range(vectors):
            decay = v.exp2(v.op("arith.subf", old[number], largest[number]))
            sums[number] = v.op("arith.mulf", sums[number], decay)
            v.store(decay, self.decay, v.number(number * self.tiles.lanes))
        sums = v.in_steps(
            count, 4, sums, lambda v, i, x, size: self.exponentials(v, largest, i, x, size)
        )
        return [*largest, *sums]

    def store_queries(self, v: Vectors) -> None:
        """Q^T, scaled, in base 2."""
        lanes, positions = self.tiles.lanes, self.facts.map_of("query")
        scale = v.op("arith.mulf", v.wide(self.facts.value("scale")), LOG2_E)
        scale = v.spread(scale, lanes)
        dims = [positions.index(self.row), positions.index(self.head)]

        def store(v: Vectors, first: ir.Value, number: int, width: int) -> None:
            column = v.number(number * lanes)
            place = self.place(v, "query", row=column, head=first)
            tile = v.read(
                self.facts.value("query"), place, dims, [lanes, width], [self.whole_tile, True]
            )
            tile = v.transposed(v.wide(tile))
            for i in range(width):
                value = v.op("arith.mulf", v.row(tile, i), scale)
                v.store(value, self.queries, v.at(first, i), column)

        def step(v: Vectors, first: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
            for number in range(self.tiles.row_vectors):
                store(v, first, number, lanes)
            return []

        whole = self.depth - self.depth % lanes
        if whole:
            v.loop(0, whole, lanes, [], step)
        if self.depth % lanes:
            for number in range(self.tiles.row_vectors):
                store(v, v.number(whole), number, self.depth % lanes)

    def read_state(self, v: Vectors, name: str) -> list[ir.Value]:
        lanes, dim = self.tiles.lanes, self.facts.map_of(name).index(self.row)
        return [
            v.read(
                self.facts.value(name),
                self.place(v, name, row=v.number(number * lanes)),
                [dim],
                [lanes],
                [self.whole_tile],
            )
            for number in range(self.tiles.row_vectors)
        ]

    def write_state(self, v: Vectors, name: str, vectors: list[ir.Value]) -> ir.Value:
        tensor, dim = self.facts.value(name), self.facts.map_of(name).index(self.row)
        for number, value in enumerate(vectors):
            place = self.place(v, name, row=v.number(number * self.tiles.lanes))
            tensor = v.write(value, tensor, place, dim, self.whole_tile)
        return tensor

    def scores(
        self, v: Vectors, first: ir.Value, key: ir.Value, largest: list[ir.Value], count: int
    ) -> list[ir.Value]:
        """Q K^T of `count` keys for all rows, with the mask; their maxima."""
        lanes, vectors = self.tiles.lanes, self.tiles.row_vectors
        keys = [v.at(v.op("arith.addi", first, key), i) for i in range(count)]
        sums = [v.zeros(lanes)] * (count * vectors)
        if element_type(self.facts.value("key")) == v.f32:
            sums = self.add_scores(v, 0, self.depth, sums, self.key_in_place(keys))
        else:
            sums = self.add_wide_scores(v, keys, sums)
        for j in range(vectors):
            bias = self.bias(v, keys, j)
            for i in range(count):
                value = sums[i * vectors + j]
                if bias:
                    value = v.op("arith.addf", value, bias[i])
                v.store(value, self.weights, v.at(key, i), v.number(j * lanes))
                largest[j] = v.larger(largest[j], value)
        return largest

    def add_scores(
        self,
        v: Vectors,
        low: int | ir.Value,
        high: int | ir.Value,
        sums: list[ir.Value],
        key: Callable[[Vectors, int, ir.Value], ir.Value],
    ) -> list[ir.Value]:
        """Adds the products over the head's elements from `low` to `high` to the scores of some
        keys; `key` gives an element of one of them."""
        lanes, vectors = self.tiles.lanes, self.tiles.row_vectors

        def step(v: Vectors, head: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
            rows = [v.load(self.queries, lanes, head, v.number(j * lanes)) for j in range(vectors)]
            for i in range(len(sums) // vectors):
                one = v.spread(key(v, i, head), lanes)
                for j in range(vectors):
                    sums[i * vectors + j] = v.fma(one, rows[j], sums[i * vectors + j])
            return sums

        return v.loop(low, high, 1, sums, step)

    def key_in_place(self, keys: list[ir.Value]) -> Callable[[Vectors, int, ir.Value], ir.Value]:
        key = self.facts.value("key")
        return lambda v, i, head: v.build.extract(key, self.place(v, "key", key=keys[i], head=head))

    def add_wide_scores(
        self, v: Vectors, keys: list[ir.Value], sums: list[ir.Value]
    ) -> list[ir.Value]:
        """The scores of keys in a narrower type, which go through a buffer in f32."""
        lanes, key = self.tiles.lanes, self.facts.value("key")
        dim = self.facts.map_of("key").index(self.head)

        def chunk(v: Vectors, low: ir.Value, sums: list[ir.Value], width: int) -> list[ir.Value]:
            for i, at in enumerate(keys):
                place = self.place(v, "key", key=at, head=low)
                part = v.read(key, place, [dim], [width], [True])
                v.store(v.wide(part), self.wide_keys, v.number(i), v.number(0))

            def element(v: Vectors, i: int, head: ir.Value) -> ir.Value:
                return v.load_one(self.wide_keys, v.number(i), v.op("arith.subi", head, low))

            return self.add_scores(v, low, v.at(low, width), sums, element)

        whole = self.depth - self.depth % lanes
        if whole:
            sums = v.loop(0, whole, lanes, sums, lambda v, i, x: chunk(v, i, x, lanes))
        if self.depth % lanes:
            sums = chunk(v, v.number(whole), sums, self.depth % lanes)
        return sums

    def bias(self, v: Vectors, keys: list[ir.Value], number: int) -> list[ir.Value]:
        """What the mask adds to the scores of consecutive keys in vector `number` of rows; no
        values without a mask."""
        if not self.facts.has_mask:
            return []
        mask, dims = self.facts.value("mask"), self.facts.map_of("mask")
        lanes = self.tiles.lanes
        place = self.place(v, "mask", row=v.number(number * lanes), key=keys[0])
        inside = [self.whole_tile, True]
        if self.key not in dims:
            part = v.read(mask, place, [dims.index(self.row)], [lanes], inside[:1])
            return [v.bias(part)] * len(keys)
        if self.row not in dims:
            part = v.bias(v.read(mask, place, [dims.index(self.key)], [len(keys)], [True]))
            return [v.spread(v.row(part, i), lanes) for i in range(len(keys))]
        order = [dims.index(self.row), dims.index(self.key)]
        part = v.transposed(v.bias(v.read(mask, place, order, [lanes, len(keys)], inside)))
        return [v.row(part, i) for i in range(len(keys))]

    def exponentials(
        self, v: Vectors, largest: list[ir.Value], key: ir.Value, sums: list[ir.Value], count: int
    ) -> list[ir.Value]:
        """Scores to weights, and their sums."""
        lanes = self.tiles.lanes
        for i in range(count):
            for j in range(self.tiles.row_vectors):
                place = (v.at(key, i), v.number(j * lanes))
                score = v.load(self.weights, lanes, *place)
                weight = v.exp2(v.op("arith.subf", score, largest[j]))
                v.store(weight, self.weights, *place)
                sums[j] = v.op("arith.addf", sums[j], weight)
        return sums
