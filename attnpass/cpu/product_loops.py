"""Products of few rows with a matrix of weights, on a CPU: each weight is read once, as it lies.

Weights that lie as (columns, depth) have the depth in the lanes: some columns at a time, whose
vectors of sums are folded into numbers of the result. Those that lie as (depth, columns) have
columns in the lanes: blocks of some lines go through the rows, whose elements are spread over
vectors, and sums stand in the result. Either way memory is fetched ahead.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from iree.compiler import ir

from ..codegen.kernel import load_of
from ..ir import Builder, body_names, element_bytes, element_type_name
from ..ir.bodies import ElementRead
from ..ir.contractions import ContractionFacts, read_contraction
from ..ir.refusal import Refusal
from ..machines.cpu.product_tiles import (
    BLOCK_LINES,
    FEWEST_ROWS,
    LANES,
    LEAST_APART_WORK,
    LEAST_ODD_WEIGHTS,
    LEAST_ROW_WEIGHTS,
    LEAST_TALL_WEIGHTS,
    LEAST_TALL_WORK,
    LEAST_WEIGHTS,
    MOST_ROWS,
    RowTiles,
)
from .computed_lines import read_line, widened_from
from .decode_loops import AHEAD_BYTES, LINE_BYTES, Stream
from .vectors import Vectors

# Vectors of the depth in a step of a loop, by the sums that each is added to.
STEP_PRODUCTS = 16
_TYPES = ("f32", "f16", "bf16")
# The most columns of a tile of packed weights.
WIDEST_TILE = 64

# Elements of the rows that a block has on the stack, where the depth is in the lanes.
GIVEN_ELEMENTS = 4096

Place = Mapping[int, ir.Value]
Block = Callable[[Vectors, ir.Value, int, ir.Value], ir.Value]


@dataclass(frozen=True)
class RowProduct:
    """A product of rows with a matrix: `rows` and `weights` are numbers of operands, the loops
    `row_loops` count rows (and have a batch of one), `outer` and, innermost, `column` the columns,
    and `depth` what is summed over. Each index of the loops `batch` has matrices of its own."""

    facts: ContractionFacts
    rows: int
    weights: int

    @property
    def op(self) -> ir.Operation:
        return self.facts.op

    def loops_of(self, operand: int) -> tuple[int | None, ...]:
        return (self.facts.left, self.facts.right, self.facts.result)[operand]

    @property
    def depth(self) -> int:
        return self.facts.k[0]

    @property
    def column(self) -> int:
        return _columns(self.facts, self.weights)[-1]

    @property
    def outer(self) -> tuple[int, ...]:
        return _columns(self.facts, self.weights)[:-1]

    @property
    def batch(self) -> tuple[int, ...]:
        """Loops of several matrices, those of one not."""
        return _batch(self.facts)

    @property
    def row_loops(self) -> tuple[int, ...]:
        others = _columns(self.facts, self.weights) + self.batch
        return tuple(loop for loop in self.facts.kept if loop not in others)

    @property
    def row(self) -> int:
        """The longest loop of rows, the innermost of some: weights are packed for each index of
        the others."""
        return max(self.row_loops[::-1], key=lambda loop: _count([self.facts.sizes[loop]]))

    @property
    def is_few(self) -> bool:
        return _are_few([self.facts.sizes[loop] for loop in self.row_loops])

    @property
    def count(self) -> int:
        """The number of rows."""
        sizes = [self.facts.sizes[loop] for loop in self.row_loops]
        assert all(isinstance(size, int) for size in sizes)
        return math.prod(size for size in sizes if isinstance(size, int))

    @property
    def is_deep(self) -> bool:
        """Whether the depth is innermost in the weights."""
        return self.loops_of(self.weights)[-1] == self.depth

    @property
    def codes(self) -> ElementRead | None:
        """What weights that are computed are widened from; None for others."""
        return widened_from(self.op.operands[self.weights])

    @property
    def weight_bytes(self) -> int:
        """Of an element as it lies in memory."""
        codes = self.codes
        return element_bytes(self.op.operands[self.weights] if codes is None else codes.operand)


def _columns(facts: ContractionFacts, weights: int) -> tuple[int, ...]:
    """Loops of the columns, in the result's order, if operand `weights` has the weights."""
    return facts.n if weights == 1 else facts.m


def _batch(facts: ContractionFacts) -> tuple[int, ...]:
    return tuple(loop for loop in facts.batch if facts.sizes[loop] != 1)


def _matrices(op: ir.Operation) -> ContractionFacts | None:
    """The contraction over one dim with matrices that `op` is, each dim of which has a loop."""
    facts = read_contraction(op)
    if facts is None or len(facts.k) != 1:
        return None
    has_loops = all(None not in dims for dims in (facts.left, facts.right, facts.result))
    return facts if has_loops else None


def read_row_product(op: ir.Operation, least_weights: int = LEAST_WEIGHTS) -> RowProduct | None:
    """The product of few rows with a matrix that `op` is; None for another op, for more rows or a
    number of them that is known only at run time, for few weights, for several matrices, and for a
    sum over several dims."""
    facts = _matrices(op)
    if facts is None or _batch(facts):
        return None
    sizes = facts.sizes
    found = [
        RowProduct(facts, 1 - weights, weights)
        for weights in (1, 0)
        if (columns := _columns(facts, weights))
        and _are_few([sizes[loop] for loop in facts.kept if loop not in columns])
    ]
    if not found:
        return None
    # Of two vectors of numbers the longer one is the weights.
    counts = [_count(sizes[loop] for loop in (one.column, *one.outer)) for one in found]
    product = found[counts.index(max(counts))]
    if product.is_deep and product.count <= FEWEST_ROWS:
        least_weights = min(least_weights, LEAST_ROW_WEIGHTS * product.count)
    return product if max(counts) * _count([sizes[facts.k[0]]]) >= least_weights else None


def read_tall_product(op: ir.Operation, least_weights: int = LEAST_WEIGHTS) -> RowProduct | None:
    """The product of more rows, or of any number of them, with a matrix, or several, whose columns
    are innermost in the result; None for another op, for few weights, and for a sum over several
    dims."""
    facts = _matrices(op)
    if facts is None or not facts.m or not facts.n:
        return None
    found = RowProduct(facts, 0, 1) if facts.result[-1] in facts.n else RowProduct(facts, 1, 0)
    sizes, columns = facts.sizes, (*found.outer, found.column)
    lies = tuple(loop for loop in found.loops_of(found.weights) if loop not in facts.batch)
    if lies == (*found.outer, found.depth, found.column):
        # Weights that lie in tiles already have loops of IREE's.
        is_tile = _count([sizes[found.column]]) <= WIDEST_TILE
        if is_tile and any(sizes[loop] != 1 for loop in found.outer):
            return None
    elif lies not in ((*columns, found.depth), (found.depth, *columns)):
        return None
    weights = _count(sizes[loop] for loop in (*columns, found.depth))
    work = weights * _count(sizes[loop] for loop in (*found.row_loops, *found.batch))
    several = found.batch or sum(sizes[loop] != 1 for loop in found.row_loops) > 1
    is_odd = bool((known(sizes[found.column]) or 0) % LANES)
    least_work = LEAST_APART_WORK if several or is_odd else LEAST_TALL_WORK
    is_long = (
        weights >= (LEAST_ODD_WEIGHTS if is_odd else LEAST_TALL_WEIGHTS) and work >= least_work
    )
    return found if weights >= least_weights or is_long else None


def known(size: object) -> int | None:
    """A size, if it is known."""
    return size if isinstance(size, int) else None


def _are_few(sizes: Sequence[object]) -> bool:
    numbers = [size for size in sizes if isinstance(size, int)]
    return len(numbers) == len(sizes) and math.prod(numbers) <= MOST_ROWS


def _count(sizes: Iterable[object]) -> int:
    """The product of sizes, of which unknown ones are large."""
    return math.prod(size if isinstance(size, int) else 1 << 30 for size in sizes)


def unfit(product: RowProduct) -> Refusal | None:
    """Why a product in a kernel cannot have loops; None if it can."""
    op, codes = product.op, product.codes
    weights = op.operands[product.weights] if codes is None else codes.operand
    lies = (("rows", op.operands[product.rows]), ("weights", weights))
    computed = [name for name, value in lies if load_of(value) is None]
    why = misfit(product)
    return why or (Refusal(f"its {computed[0]} are computed in the kernel") if computed else None)


def misfit(product: RowProduct) -> Refusal | None:
    """Why a product cannot have loops wherever its factors are; None if it can."""
    op = product.op
    kinds = [element_type_name(value) for value in op.operands]
    if kinds[2] != "f32" or not set(kinds) <= set(_TYPES):
        return Refusal(f"its types are {', '.join(kinds)}")
    if op.name == "linalg.generic" and not sums_products_in_f32(op):
        return Refusal("it does not sum up products in f32")
    if product.loops_of(2)[-1] != product.column:
        return Refusal("its result has another dim innermost than the columns")
    if product.loops_of(product.weights)[-1] not in (product.depth, product.column):
        return Refusal("its weights have another dim innermost than the depth and the columns")
    if product.loops_of(product.rows)[-1] != product.depth:
        return Refusal("its rows have another dim innermost than the depth")
    if not isinstance(product.facts.sizes[product.depth], int):
        return Refusal("its depth is known only at run time")
    return None


def sums_products_in_f32(op: ir.Operation) -> bool:
    names = body_names(op)
    if not set(names) <= {"arith.extf", "arith.mulf", "arith.addf", "linalg.yield"}:
        return False
    product = next(one for one in op.regions[0].blocks[0].operations if one.name == "arith.mulf")
    return isinstance(product.operation.results[0].type, ir.F32Type)


def is_of_pairs(op: ir.Operation, depth: int | None) -> bool:
    """Whether a product's factors are of bf16, and known numbers of pairs are summed over."""
    kinds = {element_type_name(factor) for factor in list(op.operands)[:2]}
    return kinds == {"bf16"} and depth is not None and depth % 2 == 0


class ProductLoops:
    """What the vector code of products with weights has in common. Loop `along` of the result is as
    long as `length`; `stream` is where the weights lie, if that is one buffer."""

    def __init__(self, product: RowProduct, along: int):
        self.product, self.op = product, product.op
        depth, length = (product.facts.sizes[loop] for loop in (product.depth, along))
        assert isinstance(depth, int)
        self.depth = depth
        v = Vectors(Builder(self.op))
        dim = product.loops_of(2).index(along)
        self.length = length if isinstance(length, int) else v.dim(self.op.operands[2], dim)
        self.stream = Stream.of(v, self.op.operands[product.weights])

    def indices(
        self, v: Vectors, operand: int, at: Place, row: Mapping[int, int]
    ) -> list[ir.Value]:
        """Indices into an operand: those that are given by loop, those of a row, 0 elsewhere."""
        return [
            at[loop] if loop in at else v.number(row.get(loop, 0))
            for loop in self.product.loops_of(operand)
            if loop is not None
        ]

    def in_blocks(
        self, v: Vectors, most: int, prepare: Callable[..., None], body: Block
    ) -> ir.Value:
        """The result behind blocks of the depth, of `most` elements at most; `prepare` puts those
        of a block, given the first and their number, where the body reads them."""

        def block(
            v: Vectors, first: ir.Value, outputs: Sequence[ir.Value], count: int
        ) -> list[ir.Value]:
            prepare(v, first, count)
            return [body(v, first, count, outputs[0])]

        (output,) = v.in_chunks(self.depth, most, [self.op.operands[2]], block)
        return output


class RowLoops(ProductLoops):
    """The vector code of a product of few rows."""

    def __init__(self, product: RowProduct, tiles: RowTiles):
        super().__init__(product, product.column)
        self.tiles, sizes = tiles, product.facts.sizes
        counts = [range(size) for loop in product.row_loops if isinstance(size := sizes[loop], int)]
        # The indices of each row.
        self.places = [
            dict(zip(product.row_loops, place, strict=True)) for place in itertools.product(*counts)
        ]
        self.rows = range(len(self.places))

    def emit(self) -> ir.Value:
        """The op's result."""
        v = Vectors(Builder(self.op))
        return self.deep(v) if self.product.is_deep else self.wide(v)

    def group(self, low: int) -> range:
        """The rows from `low` on that go together."""
        return self.rows[low : low + self.tiles.rows]

    def place(self, v: Vectors, operand: int, row: int, at: Place) -> list[ir.Value]:
        """Indices into an operand: those of a row, and the column and the depth that are given; a
        tile has one index of the outer columns."""
        return self.indices(v, operand, at, self.places[row])

    def read(self, v: Vectors, operand: int, row: int, at: Place, lanes: int) -> ir.Value:
        """A vector of the innermost dim of an operand, in f32."""
        last = len(self.product.loops_of(operand)) - 1
        return read_line(v, self.op.operands[operand], self.place(v, operand, row, at), last, lanes)

    def weights(self, v: Vectors, at: Place, lanes: int) -> ir.Value:
        return self.read(v, self.product.weights, 0, at, lanes)

    def old(self, v: Vectors, output: ir.Value, row: int, column: ir.Value, lanes: int) -> ir.Value:
        """Numbers of the result so far."""
        place = self.place(v, 2, row, {self.product.column: column})
        return v.read(output, place, [len(place) - 1], [lanes], [True])

    def written(
        self, v: Vectors, value: ir.Value, output: ir.Value, row: int, column: ir.Value
    ) -> ir.Value:
        place = self.place(v, 2, row, {self.product.column: column})
        return v.write(value, output, place, [len(place) - 1], [True])

    def fetch_ahead(self, v: Vectors, at: Place, offset: int) -> None:
        """Has the weights at a place fetched, whose lanes start `offset` elements behind others
        that are read with them."""
        if self.stream is not None and offset * self.stream.element_bytes % LINE_BYTES == 0:
            self.stream.fetch(v, self.place(v, self.product.weights, 0, at))

    def in_row_blocks(self, v: Vectors, most: int, body: Block) -> ir.Value:
        """`in_blocks`, with a block's elements of the rows on the stack, in f32."""
        most = min(most, self.depth)
        self.given = v.scratch(len(self.rows), most)
        return self.in_blocks(v, most, self.take_rows, body)

    def take_rows(self, v: Vectors, first: ir.Value, count: int) -> None:
        """Puts `count` elements of the rows from `first` on where loops read them."""

        def some(v: Vectors, at: ir.Value, _: list[ir.Value], width: int) -> list[ir.Value]:
            depth = {self.product.depth: v.op("arith.addi", first, at)}
            for number, row in enumerate(self.rows):
                part = self.read(v, self.product.rows, row, depth, width)
                v.store(part, self.given, v.number(number), at)
            return []

        v.in_chunks(count, self.tiles.lanes, [], some)

    # the depth in the lanes

    def deep(self, v: Vectors) -> ir.Value:
        most = GIVEN_ELEMENTS // len(self.rows)
        return self.in_row_blocks(v, most - most % (4 * self.tiles.lanes), self.deep_block)

    def deep_block(self, v: Vectors, first: ir.Value, count: int, output: ir.Value) -> ir.Value:
        def some(
            v: Vectors, column: ir.Value, output: Sequence[ir.Value], width: int
        ) -> list[ir.Value]:
            (value,) = output
            for low in range(0, len(self.rows), self.tiles.rows):
                value = self.dot_products(v, low, first, count, column, width, value)
            return [value]

        (output,) = v.in_steps(self.length, self.tiles.across, [output], some)
        return output

    def dot_products(
        self,
        v: Vectors,
        low: int,
        first: ir.Value,
        count: int,
        column: ir.Value,
        width: int,
        output: ir.Value,
    ) -> ir.Value:
        """Adds the products of rows from `low` on with `count` elements of `width` columns."""
        lanes, product, rows = self.tiles.lanes, self.product, self.group(low)
        piece = width * count * product.weight_bytes
        ahead = width * -(-AHEAD_BYTES // piece)

        def add(
            v: Vectors, start: ir.Value, offset: int, sums: list[ir.Value], wide: int
        ) -> list[ir.Value]:
            at = v.at(start, offset)
            depth = v.op("arith.addi", first, at)
            given = [v.load(self.given, wide, v.number(row), at) for row in rows]
            for j in range(width):
                if not low:
                    far = {product.column: v.at(column, j + ahead), product.depth: depth}
                    self.fetch_ahead(v, far, offset)
                place = {product.column: v.at(column, j), product.depth: depth}
                part = self.weights(v, place, wide)
                for number, one in zip(range(j, len(sums), width), given, strict=True):
                    sums[number] = v.fma(one, part, sums[number])
            return sums

        # A line of the cache at least.
        most = max(STEP_PRODUCTS // (len(rows) * width), 4 // product.weight_bytes)
        unrolled = 1 << (most.bit_length() - 1)
        found = v.lane_sums(v.sums_over(count, lanes, unrolled, len(rows) * width, add))
        for number, row in enumerate(rows):
            part = v.shuffle(found, found, range(number * width, (number + 1) * width))
            part = v.op("arith.addf", self.old(v, output, row, column, width), part)
            output = self.written(v, part, output, row, column)
        return output

    # columns in the lanes

    def wide(self, v: Vectors) -> ir.Value:
        return self.in_row_blocks(v, BLOCK_LINES, self.wide_block)

    def wide_block(self, v: Vectors, first: ir.Value, count: int, output: ir.Value) -> ir.Value:
        lanes, columns = self.tiles.lanes, self.length
        assert isinstance(columns, int), "tiles of columns divide them"
        for low in range(0, len(self.rows), self.tiles.rows):

            def some(
                v: Vectors, column: ir.Value, x: list[ir.Value], width: int, low: int = low
            ) -> list[ir.Value]:
                return [self.add_lines(v, low, first, count, column, width // lanes, x[0])]

            (output,) = v.in_chunks(columns, lanes * self.tiles.across, [output], some)
        return output

    def add_lines(
        self,
        v: Vectors,
        low: int,
        first: ir.Value,
        count: int,
        column: ir.Value,
        vectors: int,
        output: ir.Value,
    ) -> ir.Value:
        """Adds the products of rows from `low` on with `count` lines of `vectors` vectors."""
        product, lanes, rows = self.product, self.tiles.lanes, self.group(low)
        columns = [v.at(column, j * lanes) for j in range(vectors)]
        sums = [self.old(v, output, row, at, lanes) for row in rows for at in columns]

        def step(v: Vectors, i: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
            depth = v.op("arith.addi", first, i)
            parts: list[ir.Value] = []
            for j, at in enumerate(columns):
                place = {product.depth: depth, product.column: at}
                parts.append(self.weights(v, place, lanes))
                if not low:
                    far = place | {product.depth: v.at(depth, BLOCK_LINES)}
                    self.fetch_ahead(v, far, j * lanes)
            given = (v.load_one(self.given, v.number(row), i) for row in rows)
            return v.add_outer((v.spread(one, lanes) for one in given), parts, sums)

        sums = v.loop(0, count, 1, sums, step)
        for number, row in enumerate(rows):
            for j, at in enumerate(columns):
                output = self.written(v, sums[number * vectors + j], output, row, at)
        return output
