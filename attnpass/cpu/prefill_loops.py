"""Attention of many rows on a CPU: rows of the query across the lanes.

Q is transposed once for a tile of rows. A score is then a sum of K's elements, each spread over
a vector, times vectors of rows, in registers over the whole head dim; maximum, exponential and
sum of the softmax need no shuffles. V^T is read in the same way, into a transposed output.
"""

from __future__ import annotations

from collections.abc import Callable

from iree.compiler import ir

from ..ir import element_type
from ..ir.limits import LOG2_E
from .tile import TileLoops
from .vectors import Vectors


class PrefillLoops(TileLoops):
    """A tile of as many rows as some vectors have lanes, or the rest of them."""

    @property
    def whole_tile(self) -> bool:
        """Whether all lanes hold rows."""
        return self.rows == self.tiles.rows

    def prepare(self, v: Vectors) -> list[ir.Value]:
        tiles = self.tiles
        self.weights = v.scratch(tiles.keys, tiles.rows)
        self.decay = v.scratch(tiles.rows)
        self.scale = v.op("arith.mulf", v.wide(self.facts.value("scale")), LOG2_E)
        self.scale = v.spread(self.scale, tiles.lanes)
        self.prepare_products(v)
        return [*self.read_state(v, "max"), *self.read_state(v, "sum")]

    def prepare_products(self, v: Vectors) -> None:
        """Makes what Q K^T and P V keep on the stack."""
        self.wide = {name: self.wide_buffer(v, name) for name in ("key", "value")}
        self.queries = v.scratch(self.depth, self.tiles.rows)
        self.store_transposed(v, "query", self.queries, self.scale)
        if self.is_transposed("value"):
            self.output = v.scratch(self.width, self.tiles.rows)
            self.store_transposed(v, "output", self.output)

    def finish(self, v: Vectors, output: ir.Value, states: list[ir.Value]) -> list[ir.Value]:
        vectors = self.tiles.row_vectors
        return [
            self.write_output(v, output) if self.is_transposed("value") else output,
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
        return [*largest, *self.weigh_scores(v, largest, sums, count)]

    def weigh_scores(
        self, v: Vectors, largest: list[ir.Value], sums: list[ir.Value], count: int | ir.Value
    ) -> list[ir.Value]:
        """Scores of a block to weights, and their sums."""
        return v.in_steps(
            count, 4, sums, lambda v, i, x, size: self.exponentials(v, largest, i, x, size)
        )

    def wide_buffer(self, v: Vectors, operand: str) -> ir.Value | None:
        """Where a narrower type is widened, as it lies: elements of some lines of K or V^T."""
        in_place = operand == "value" and not self.is_transposed("value")
        if in_place or element_type(self.facts.value(operand)) == v.f32:
            return None
        lines, lanes = self.tiles.score_keys, self.tiles.lanes
        beside = operand == "key" and self.is_transposed("key")
        return v.scratch(lanes, lines) if beside else v.scratch(lines, lanes)

    def columns_of(self, operand: str) -> tuple[str, int]:
        """What a row of Q or the output has, by name and number."""
        return ("head", self.depth) if operand == "query" else ("column", self.width)

    def tile_dims(self, operand: str, across: str) -> list[int]:
        """Where rows and columns stand in Q or the output."""
        positions = self.facts.map_of(operand)
        return [positions.index(self.row), positions.index(getattr(self, across))]

    def store_transposed(
        self, v: Vectors, operand: str, buffer: ir.Value, factor: ir.Value | None = None
    ) -> None:
        """Q^T, or the output so far as a tile of columns by rows; times a factor."""

        def store(v: Vectors, first: ir.Value, row: ir.Value, columns: list[ir.Value]) -> None:
            for i, value in enumerate(columns):
                value = value if factor is None else v.op("arith.mulf", value, factor)
                v.store(value, buffer, v.at(first, i), row)

        self.read_columns(v, operand, store)

    def read_columns(
        self,
        v: Vectors,
        operand: str,
        store: Callable[[Vectors, ir.Value, ir.Value, list[ir.Value]], None],
    ) -> None:
        """Hands `store` vectors of rows of Q or the output in f32: some columns from a first one
        on, and the first row."""
        lanes, tensor = self.tiles.lanes, self.facts.value(operand)
        across, size = self.columns_of(operand)
        dims = self.tile_dims(operand, across)

        def step(v: Vectors, first: ir.Value, _: list[ir.Value], width: int) -> list[ir.Value]:
            for number in range(self.tiles.row_vectors):
                row = v.number(number * lanes)
                place = self.place(v, operand, row=row, **{across: first})
                tile = v.read(tensor, place, dims, [lanes, width], [self.whole_tile, True])
                tile = v.transposed(v.wide(tile))
                store(v, first, row, [v.row(tile, i) for i in range(width)])
            return []

        v.in_chunks(size, lanes, [], step)

    def write_output(self, v: Vectors, output: ir.Value) -> ir.Value:
        """The output that was summed up column by column."""
        lanes = self.tiles.lanes
        across, size = self.columns_of("output")
        dims = self.tile_dims("output", across)
        if not self.whole_tile:
            return v.loop(0, size, 1, [output], self.write_column)[0]

        def step(v: Vectors, first: ir.Value, x: list[ir.Value], width: int) -> list[ir.Value]:
            (output,) = x
            for number in range(self.tiles.row_vectors):
                row = v.number(number * lanes)
                columns = [v.load(self.output, lanes, v.at(first, i), row) for i in range(width)]
                place = self.place(v, "output", row=row, **{across: first})
                tile = v.transposed(v.stack(columns))
                output = v.write(tile, output, place, dims, [True, True])
            return [output]

        (output,) = v.in_chunks(size, lanes, [output], step)
        return output

    def write_column(self, v: Vectors, column: ir.Value, output: list[ir.Value]) -> list[ir.Value]:
        """A column of the output, row by row, as the state is written."""

        def step(v: Vectors, row: ir.Value, x: list[ir.Value]) -> list[ir.Value]:
            place = self.place(v, "output", row=row, column=column)
            return [v.insert(v.load_one(self.output, column, row), x[0], place)]

        return v.loop(0, self.rows, 1, output, step)

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
        """The maxima or sums of the rows that there are, row by row where lanes are left over:
        IREE 3.13 puts what a vector holds in front of a tensor's end somewhere else, unless it
        is the tensor's first (a copy of a part, with the places in both mixed up)."""
        tensor, dim = self.facts.value(name), self.facts.map_of(name).index(self.row)
        for number, value in enumerate(vectors):
            low = v.number(number * self.tiles.lanes)
            if self.whole_tile:
                tensor = v.write(value, tensor, self.place(v, name, row=low), [dim], [True])
            else:
                v.store(value, self.decay, low)
        if self.whole_tile:
            return tensor

        def step(v: Vectors, row: ir.Value, x: list[ir.Value]) -> list[ir.Value]:
            return [v.insert(v.load_one(self.decay, row), x[0], self.place(v, name, row=row))]

        return v.loop(0, self.rows, 1, [tensor], step)[0]

    def scores(
        self, v: Vectors, first: ir.Value, key: ir.Value, largest: list[ir.Value], count: int
    ) -> list[ir.Value]:
        """The scores of `count` keys for all rows, with the mask; their maxima."""
        lanes, vectors = self.tiles.lanes, self.tiles.row_vectors
        keys = [v.at(v.op("arith.addi", first, key), i) for i in range(count)]
        sums = self.score_sums(v, keys)
        for j in range(vectors):
            bias = self.bias(v, keys, j)
            for i in range(count):
                value = self.function(v, sums[i * vectors + j])
                if bias:
                    value = v.op("arith.addf", value, bias[i])
                v.store(value, self.weights, v.at(key, i), v.number(j * lanes))
                largest[j] = v.larger(largest[j], value)
        return largest

    def score_sums(self, v: Vectors, keys: list[ir.Value]) -> list[ir.Value]:
        """Q K^T of some keys in base 2: for each key, vectors of rows."""
        sums = [v.zeros(self.tiles.lanes)] * (len(keys) * self.tiles.row_vectors)
        lines = [{"key": at} for at in keys]
        return self.add_products(v, "key", lines, v.number(0), self.depth, self.queries, sums)

    def add_transposed(
        self, v: Vectors, first: ir.Value, count: int | ir.Value, output: ir.Value
    ) -> ir.Value:
        """Weights times V^T, as Q K^T is computed; the sums stay on the stack until the end."""
        lanes, places = self.tiles.lanes, range(0, self.tiles.rows, self.tiles.lanes)
        rows = [v.number(low) for low in places]
        decays = [v.load(self.decay, lanes, row) for row in rows]

        def step(v: Vectors, column: ir.Value, _: list[ir.Value], count_: int) -> list[ir.Value]:
            columns = [v.at(column, i) for i in range(count_)]
            sums = [
                v.op("arith.mulf", v.load(self.output, lanes, at, row), decay)
                for at in columns
                for row, decay in zip(rows, decays, strict=True)
            ]
            lines = [{"column": at} for at in columns]
            sums = self.add_products(v, "value", lines, first, count, self.weights, sums)
            for number, value in enumerate(sums):
                at, row = columns[number // len(rows)], rows[number % len(rows)]
                v.store(value, self.output, at, row)
            return []

        v.in_steps(self.width, self.tiles.score_keys, [], step)
        return output

    def add_products(
        self,
        v: Vectors,
        operand: str,
        lines: list[dict[str, ir.Value]],
        first: ir.Value,
        count: int | ir.Value,
        factors: ir.Value,
        sums: list[ir.Value],
    ) -> list[ir.Value]:
        """Adds to sums, of lines times vectors of rows, the products of `count` elements of some
        lines of K or V^T, from `first` on, with lines of `factors`, a buffer."""
        lanes, vectors, tensor = self.tiles.lanes, self.tiles.row_vectors, self.facts.value(operand)
        along = "head" if operand == "key" else "key"

        def in_place(v: Vectors, line: int, at: ir.Value) -> ir.Value:
            here = {**lines[line], along: v.op("arith.addi", first, at)}
            return v.wide(v.build.extract(tensor, self.place(v, operand, **here)))

        def add(
            v: Vectors,
            low: int | ir.Value,
            high: int | ir.Value,
            sums: list[ir.Value],
            element: Callable[[Vectors, int, ir.Value], ir.Value],
        ) -> list[ir.Value]:
            def step(v: Vectors, at: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
                rows = [v.load(factors, lanes, at, v.number(j * lanes)) for j in range(vectors)]
                ones = (v.spread(element(v, i, at), lanes) for i in range(len(lines)))
                return v.add_outer(ones, rows, sums)

            return v.loop(low, high, 1, sums, step)

        def chunk(v: Vectors, low: ir.Value, sums: list[ir.Value], width: int) -> list[ir.Value]:
            if width == 1:
                return add(v, low, v.at(low, 1), sums, in_place)
            start = {along: v.op("arith.addi", first, low)}
            element = self.widen(v, operand, lines, start, width)
            return add(
                v, low, v.at(low, width), sums,
                lambda v, line, at: element(v, line, v.op("arith.subi", at, low)),
            )  # fmt: skip

        if self.wide[operand] is None:
            return add(v, 0, count, sums, in_place)
        return v.in_chunks(count, lanes, sums, chunk)

    def widen(
        self,
        v: Vectors,
        operand: str,
        lines: list[dict[str, ir.Value]],
        start: dict[str, ir.Value],
        width: int,
    ) -> Callable[[Vectors, int, ir.Value], ir.Value]:
        """Puts `width` elements of some lines, from `start` on, into a buffer in f32; what gives
        one of a line there."""
        tensor, buffer = self.facts.value(operand), self.wide[operand]
        assert buffer is not None, "elements that are wide already"
        (along, first), positions = next(iter(start.items())), self.facts.map_of(operand)
        if operand == "key" and self.is_transposed("key"):
            dim = positions.index(self.key)
            for i in range(width):
                place = self.place(v, operand, **lines[0], **{along: v.at(first, i)})
                part = v.read(tensor, place, [dim], [len(lines)], [True])
                v.store(v.wide(part), buffer, v.number(i), v.number(0))
            return lambda v, line, at: v.load_one(buffer, at, v.number(line))
        dim = positions.index(getattr(self, along))
        for i, line in enumerate(lines):
            part = v.read(tensor, self.place(v, operand, **line, **start), [dim], [width], [True])
            v.store(v.wide(part), buffer, v.number(i), v.number(0))
        return lambda v, line, at: v.load_one(buffer, v.number(line), at)

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
        """Scores of some keys to weights, and their sums."""
        for i in range(count):
            for j in range(self.tiles.row_vectors):
                weight = self.weight(v, largest, v.at(key, i), j)
                v.store(weight, self.weights, v.at(key, i), v.number(j * self.tiles.lanes))
                sums[j] = v.op("arith.addf", sums[j], weight)
        return sums

    def weight(self, v: Vectors, largest: list[ir.Value], key: ir.Value, number: int) -> ir.Value:
        """The weights of a key in vector `number` of rows."""
        lanes = self.tiles.lanes
        score = v.load(self.weights, lanes, key, v.number(number * lanes))
        return v.exp2(v.op("arith.subf", score, largest[number]))
