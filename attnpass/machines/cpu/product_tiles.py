"""Which products with weights on a CPU become vector loops of our own, and how they are cut.

A product of few rows reads each weight once, and takes as long as memory needs for that. Loops of
many rows pack weights for each tile of rows anew, which costs the less the more rows there are.
Measured with AVX-512 and AVX2 (see docs/notes/cpu.md).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil

from ...ir import Refusal
from .workgroups import busy, divisors, reached

# The most rows that reading the weights once is worth loops for.
MOST_ROWS = 16
# Weights that are worth a kernel of ours.
LEAST_WEIGHTS = 1 << 16
# The same for each of very few rows whose weights lie as (columns, depth), which IREE's tiles turn.
FEWEST_ROWS, LEAST_ROW_WEIGHTS = 4, 1 << 12
# Fewer weights of more rows, and how many multiplications these are (pixels of convolutions).
LEAST_TALL_WEIGHTS, LEAST_TALL_WORK = 1 << 12, 1 << 22
# The same where rows have several dims, or matrices of their own, which IREE tiles worse, and of
# columns that fill no vectors of so many lanes, which it masks, or adds up number by number.
LEAST_APART_WORK, LEAST_ODD_WEIGHTS, LANES = 1 << 18, 1 << 11, 16
# Columns of a workgroup whose weights lie as (columns, depth), and those that starting one costs.
DEEP_COLUMNS, STARTING_COLUMNS = (64, 16, 32, 128), 2
# Of weights that lie as (depth, columns) a line of a workgroup is a piece of memory of its own,
# which should not be short, by bytes.
LINE_BYTES, LEAST_LINE_BYTES = 1024, 128
# Workgroups that keep many cores busy.
LEAST_WORKGROUPS = 16
# Columns that are read side by side where the depth is in the lanes.
MOST_STREAMS = 4
# Rows, and vectors of columns, that go together where columns are in the lanes, and lines of a
# block, which stays in the cache for all rows.
MOST_TOGETHER, MOST_VECTORS, BLOCK_LINES = 8, 8, 16
# Rows that have their sums in registers together, then what the rest goes by, each a divisor of the
# number before, and vectors of columns beside them, by bytes of a register.
TOGETHER = {64: (8, 4, 2, 1), 32: (6, 2, 1)}
VECTORS = 2
# Elements of the depth in a block: with the result's tile it has room on the stack, and the
# weights stay in the first-level cache.
BLOCK = 96
# Rows of a tile that the second-level cache holds between tiles of columns, by bytes.
NEAR_BYTES = 1 << 19
# Rows of a tile, and those that cost as much as packing weights for them.
TALL, PACKING_ROWS = (128, 64, 32), 16


@dataclass(frozen=True)
class RowTiles:
    """How a product of few rows is cut: `lanes` of a vector, `columns` of a workgroup, `rows` that
    have their sums in registers together, with `across` columns (the depth in the lanes) or vectors
    of columns (columns in the lanes)."""

    lanes: int
    columns: int
    rows: int
    across: int


def row_tiles(
    rows: int, columns: int, deep: bool, weight_bytes: int, register_bytes: int
) -> RowTiles | Refusal:
    """The tiles for a product of so many rows, whose weights of `weight_bytes` an element lie as
    (columns, depth) if `deep`, else as (depth, columns), on vector registers of so many bytes; or
    why it gets no loops."""
    if register_bytes not in (32, 64):
        return Refusal(f"nothing was measured for vector registers of {register_bytes} bytes")
    lanes = register_bytes // 4
    # Half of the registers have sums.
    sums = 16 if register_bytes == 64 else 8
    if deep:
        together = min(rows, MOST_TOGETHER, sums // 2)
        streams = max(min(MOST_STREAMS, sums // together), 1)
        return RowTiles(lanes, _deep_columns(columns), together, streams)
    wide = _line(columns, lanes, weight_bytes)
    if not wide:
        return Refusal(f"{columns} columns are cut into no whole vectors")
    together = min(rows, MOST_TOGETHER, sums // 2)
    return RowTiles(lanes, wide, together, min(MOST_VECTORS, sums // together))


def _deep_columns(columns: int) -> int:
    """Columns of a workgroup whose weights lie as (columns, depth), of which all have as many where
    that can be."""

    def speed(size: int) -> float:
        return busy(ceil(columns / size)) * size / (size + STARTING_COLUMNS)

    whole = [size for size in DEEP_COLUMNS if columns % size == 0]
    return max(whole, key=speed, default=min(DEEP_COLUMNS[0], columns))


def _line(columns: int, lanes: int, weight_bytes: int) -> int:
    """Columns of a workgroup whose weights lie as (depth, columns), whole vectors that divide all;
    0 if there are none."""
    sizes = [
        size for size in range(lanes, LINE_BYTES // weight_bytes + 1, lanes) if columns % size == 0
    ]
    most = [size for size in sizes if columns // size >= LEAST_WORKGROUPS]
    least = [size for size in sizes if size * weight_bytes >= LEAST_LINE_BYTES]
    return max(most, default=min(least, default=max(sizes, default=0)))


@dataclass(frozen=True)
class TallTiles:
    """How a product of many rows is cut: `lanes` of a vector, `columns` of a tile and `tall` rows,
    `across`, columns of a workgroup, `rows` that go together, most first, `depth` of a block, of
    which `together` elements stand in a lane."""

    lanes: int
    columns: int
    tall: int
    across: int
    rows: tuple[int, ...]
    depth: int
    together: int = 1

    def __post_init__(self) -> None:
        # Else the rest of some number of rows is not whole, and loops write behind the last row.
        if self.rows[-1] != 1 or any(most % least for most, least in pairwise(self.rows)):
            raise ValueError(f"of rows {self.rows} each has to divide the one before, down to 1")

    def in_pairs(self) -> TallTiles:
        """With two elements of 16 bits of the depth in each lane."""
        return replace(self, depth=2 * self.depth, together=2)


def tall_tiles(rows: int | None, columns: int, register_bytes: int) -> TallTiles | Refusal:
    """The tiles for a product of so many rows, None for an unknown number, and columns on vector
    registers of so many bytes; or why it gets no loops."""
    if register_bytes not in TOGETHER:
        return Refusal(f"nothing was measured for vector registers of {register_bytes} bytes")
    lanes, together = register_bytes // 4, TOGETHER[register_bytes]
    # Of columns that are no whole vectors the last tile has fewer.
    counts = range(VECTORS, 0, -1)
    whole = [n * lanes for n in counts if columns % (n * lanes) == 0]
    wide = next(iter(whole or [n * lanes for n in counts if n * lanes <= columns]), 0)
    if not wide:
        return Refusal(f"{columns} columns fill no vector")
    if rows is None:
        return TallTiles(lanes, wide, TALL[0], wide, together, BLOCK)
    found = [
        (_even(rows, most, together[0]), wide * count)
        for most in TALL
        for count in divisors(ceil(columns / wide))
    ]
    tall, across = max(found, key=lambda tile: reached(tile, rows, columns, PACKING_ROWS))
    return TallTiles(lanes, wide, tall, across, together, BLOCK)


def _even(rows: int, most: int, step: int) -> int:
    """Rows of a tile of at most so many, whole steps, so that tiles are of about one size."""
    even = ceil(rows / ceil(rows / most))
    return min(ceil(even / step) * step, rows)
