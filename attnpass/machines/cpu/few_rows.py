"""Which products of few rows on a CPU become vector loops of our own, and how they cut them.

Such a product reads each weight once, and takes as long as memory needs for that. Measured with
AVX-512 and AVX2 (see docs/notes/cpu.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from ...ir import Refusal
from .workgroups import busy

# The most rows that reading the weights once is worth loops for.
MOST_ROWS = 16
# Weights that are worth a kernel of ours.
LEAST_WEIGHTS = 1 << 16
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
