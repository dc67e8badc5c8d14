"""Products of many rows with a matrix of weights, on a CPU: weights are packed in the cache.

A tile has as many columns as some vectors hold. Blocks of the depth go one after the other: the
weights of a block are copied to the stack, one element of the depth behind the other, in f32, and
stay in the first-level cache while the tile's rows go through them, some at a time, whose sums are
in registers. Between blocks sums stand in the result. Where the CPU adds up two products of bf16 at
once, two elements of the depth, as they lie in memory, stand where one of f32 does.
"""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from ..ir import Builder, element_bytes, element_type
from ..machines.cpu.product_tiles import NEAR_BYTES, TallTiles
from .computed_lines import read_line
from .decode_loops import LINE_BYTES, Stream
from .product_loops import Place, ProductLoops, RowProduct
from .vectors import Vectors, whole_steps


class TallLoops(ProductLoops):
    """The vector code of a tile of a product: many rows of one dim, and some vectors of columns."""

    def __init__(self, product: RowProduct, tiles: TallTiles):
        super().__init__(product, product.row)
        self.tiles = tiles
        # The number of columns of a tile that has fewer than others.
        self.most: ir.Value | None = None

    def emit(self) -> ir.Value:
        """The op's result."""
        v, tiles = Vectors(Builder(self.op)), self.tiles
        rows, output = self.op.operands[self.product.rows], self.op.operands[2]
        far = tiles.tall * self.depth * element_bytes(rows) > NEAR_BYTES
        self.far_rows = Stream.of(v, rows) if far else None
        most = min(tiles.depth, self.depth)
        lines = most // tiles.together
        self.packed = v.scratch(lines, tiles.columns)
        self.given = v.scratch(tiles.rows[0], lines) if self.is_narrow else None

        if isinstance(self.product.facts.sizes[self.product.column], int):
            return self.tile(v, most)
        # Some columns: all but the last tile are whole.
        size = v.dim(output, self.dim(2, self.product.column))
        whole = v.build.compare("eq", size, v.number(tiles.columns))

        def some(build: Builder) -> list[ir.Value]:
            self.most = size
            return [self.tile(Vectors(build), most)]

        return v.build.conditional(
            whole, [output.type], lambda build: [self.tile(Vectors(build), most)], some
        )[0]

    def tile(self, v: Vectors, most: int) -> ir.Value:
        """The result, in blocks of at most so many elements of the depth."""
        return self.in_blocks(v, most, self.pack, self.add_block)

    @property
    def is_narrow(self) -> bool:
        """Whether rows are of a narrower type than sums."""
        return not isinstance(element_type(self.op.operands[self.product.rows]), ir.F32Type)

    def place(self, v: Vectors, operand: int, at: Place) -> list[ir.Value]:
        """Indices into an operand: those that are given by loop, 0 elsewhere."""
        return self.indices(v, operand, at, {})

    def dim(self, operand: int, loop: int) -> int:
        return self.product.loops_of(operand).index(loop)

    def vectors(self, v: Vectors) -> list[ir.Value]:
        """First columns of the tile's vectors."""
        return [v.number(low) for low in range(0, self.tiles.columns, self.tiles.lanes)]

    # packing

    def pack(self, v: Vectors, first: ir.Value, count: int) -> None:
        """Copies the weights of `count` elements of the depth from `first` on."""
        lines = count // self.tiles.together
        if self.product.is_deep:
            v.in_chunks(lines, self.tiles.lanes, [], lambda v, i, _, n: self.turn(v, first, i, n))
        else:
            v.loop(0, lines, 1, [], lambda v, i, _: self.copy(v, first, i))

    def depth_of(self, v: Vectors, first: ir.Value, line: ir.Value) -> ir.Value:
        """The first element of the depth of a line, of a block that starts at `first`."""
        together = self.tiles.together
        offset = line if together == 1 else v.op("arith.muli", line, v.number(together))
        return v.op("arith.addi", first, offset)

    def in_lanes(self, v: Vectors, read: ir.Value) -> ir.Value:
        """What stands in lanes for elements of the depth that were read side by side."""
        return v.wide(read) if self.tiles.together == 1 else v.bits_in_f32(read)

    def line(
        self, v: Vectors, tensor: ir.Value, place: Sequence[ir.Value], dim: int, count: int
    ) -> ir.Value:
        """What stands in `count` lanes for elements of the depth, a tensor's `dim`, from a place
        on."""
        if self.tiles.together == 1:
            return read_line(v, tensor, place, dim, count)
        read = v.read(tensor, place, [dim], [count * self.tiles.together], [True])
        return self.in_lanes(v, read)

    def turn(self, v: Vectors, first: ir.Value, at: ir.Value, count: int) -> list[ir.Value]:
        """Packs `count` lines of the depth, whose elements lie side by side, of all columns."""
        product, operand, lanes = self.product, self.product.weights, self.tiles.lanes
        dims = [self.dim(operand, product.column), self.dim(operand, product.depth)]
        depth, wide = self.depth_of(v, first, at), count * self.tiles.together
        weights = self.op.operands[operand]
        for column in self.vectors(v):
            columns = [self.inside(v, v.at(column, i)) for i in range(lanes)]
            places = [
                self.place(v, operand, {product.column: each, product.depth: depth})
                for each in columns
            ]
            if product.codes is None and self.most is None:
                read = v.read(weights, places[0], dims, [lanes, wide], [True, True])
                tile = self.in_lanes(v, read)
            else:
                tile = v.stack([self.line(v, weights, each, dims[1], count) for each in places])
            tile = v.transposed(tile)
            for i in range(count):
                v.store(v.row(tile, i), self.packed, v.at(at, i), column)
            for each in columns:
                self.fetch_ahead(v, depth, each)
        return []

    def copy(self, v: Vectors, first: ir.Value, at: ir.Value) -> list[ir.Value]:
        """Packs a line of the depth, of whose elements columns lie side by side."""
        product, operand = self.product, self.product.weights
        dim, depth = self.dim(operand, product.column), self.depth_of(v, first, at)
        weights, lanes, whole = self.op.operands[operand], self.tiles.lanes, self.most is None
        for column in self.vectors(v):
            depths = [v.at(depth, i) for i in range(self.tiles.together)]
            places = [
                self.place(v, operand, {product.column: column, product.depth: each})
                for each in depths
            ]
            if len(places) == 1:
                part = read_line(v, weights, places[0], dim, lanes, whole)
            else:
                low, high = (v.read(weights, place, [dim], [lanes], [whole]) for place in places)
                part = v.bits_in_f32(v.pairs(low, high))
            v.store(part, self.packed, at, column)
            for each in depths:
                self.fetch_ahead(v, each, column)
        return []

    def inside(self, v: Vectors, column: ir.Value) -> ir.Value:
        """A column, or the last one of a tile that has fewer."""
        if self.most is None:
            return column
        return v.op("arith.minsi", column, v.at(self.most, -1))

    def fetch_ahead(self, v: Vectors, depth: ir.Value, column: ir.Value) -> None:
        """Has the weights of the next block fetched that lie a block behind a place."""
        if self.stream is not None:
            product, next_depth = self.product, v.at(depth, self.tiles.depth)
            place = {product.column: column, product.depth: next_depth}
            self.stream.fetch(v, self.place(v, product.weights, place))

    # multiplying

    def add_block(self, v: Vectors, first: ir.Value, count: int, output: ir.Value) -> ir.Value:
        """Adds the products of all rows with the packed weights."""
        low: int | ir.Value = 0
        # Of the one tile with fewer columns code is made once more: little of it.
        together = self.tiles.rows if self.most is None else (self.tiles.rows[0], 1)
        for rows in together:
            high = whole_steps(v, self.length, rows)
            if not isinstance(low, int) or not isinstance(high, int) or low < high:
                (output,) = v.loop(
                    low,
                    high,
                    rows,
                    [output],
                    lambda v, i, x, rows=rows: [self.multiply(v, first, count, i, rows, x[0])],
                )
            low = high
        return output

    def multiply(
        self, v: Vectors, first: ir.Value, count: int, row: ir.Value, rows: int, output: ir.Value
    ) -> ir.Value:
        """Adds the products of `rows` rows from `row` on with the packed weights."""
        product, lanes = self.product, self.tiles.lanes
        lines, columns = [v.at(row, i) for i in range(rows)], self.vectors(v)
        places = [
            self.place(v, 2, {product.row: line, product.column: column})
            for line in lines
            for column in columns
        ]
        across = [self.dim(2, product.column)]
        whole = [self.most is None]
        sums = [v.read(output, place, across, [lanes], whole) for place in places]
        self.fetch_rows(v, first, count, lines)
        if self.given is not None:
            self.widen(v, first, count, lines)

        def one(v: Vectors, i: int, at: ir.Value) -> ir.Value:
            if self.given is not None:
                return v.load_one(self.given, v.number(i), at)
            depth = v.op("arith.addi", first, at)
            place = self.place(v, product.rows, {product.row: lines[i], product.depth: depth})
            return v.build.extract(self.op.operands[product.rows], place)

        def step(v: Vectors, at: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
            parts = [v.load(self.packed, lanes, at, column) for column in columns]
            factors = (v.spread(one(v, i, at), lanes) for i in range(rows))
            add = v.fma if self.tiles.together == 1 else v.add_pair_products
            return v.add_outer(factors, parts, sums, add)

        sums = v.loop(0, count // self.tiles.together, 1, sums, step)
        for place, value in zip(places, sums, strict=True):
            output = v.write(value, output, place, across, whole)
        return output

    def fetch_rows(self, v: Vectors, first: ir.Value, count: int, lines: list[ir.Value]) -> None:
        """Has the next block's elements of some rows fetched, if the cache does not hold those of a
        tile: they are pieces too short for a CPU to see where they go on."""
        if self.far_rows is None:
            return
        product = self.product
        step = LINE_BYTES // element_bytes(self.op.operands[product.rows])
        for line in lines:
            for offset in range(0, count, step):
                depth = v.at(first, self.tiles.depth + offset)
                place = {product.row: line, product.depth: depth}
                self.far_rows.fetch(v, self.place(v, product.rows, place))

    def widen(self, v: Vectors, first: ir.Value, count: int, lines: list[ir.Value]) -> None:
        """Puts a block's elements of some rows where they are read, as weights are packed."""
        product, tensor = self.product, self.op.operands[self.product.rows]
        dim, given = self.dim(product.rows, product.depth), self.given
        assert given is not None

        def some(v: Vectors, at: ir.Value, _: list[ir.Value], width: int) -> list[ir.Value]:
            depth = self.depth_of(v, first, at)
            for i, line in enumerate(lines):
                place = self.place(v, product.rows, {product.row: line, product.depth: depth})
                v.store(self.line(v, tensor, place, dim, width), given, v.number(i), at)
            return []

        v.in_chunks(count // self.tiles.together, self.tiles.lanes, [], some)
