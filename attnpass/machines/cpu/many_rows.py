"""How products of many rows on a CPU are cut for vector loops of our own.

Such loops pack weights for each tile of rows anew, which costs the less the more rows there are.
Measured with AVX-512 and AVX2 (see docs/notes/cpu.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from ...ir import Refusal
from .workgroups import divisors, reached

# Rows that have their sums in registers together, then what the rest goes by, and vectors of
# columns beside them, by bytes of a register.
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
class TallTiles:
    """How a product of many rows is cut: `lanes` of a vector, `columns` of a tile and `tall` rows,
    `across`, columns of a workgroup, `rows` that go together, most first, `depth` of a block."""

    lanes: int
    columns: int
    tall: int
    across: int
    rows: tuple[int, ...]
    depth: int


def tall_tiles(rows: int | None, columns: int, register_bytes: int) -> TallTiles | Refusal:
    """The tiles for a product of so many rows, None for an unknown number, and columns on vector
    registers of so many bytes; or why it gets no loops."""
    if register_bytes not in TOGETHER:
        return Refusal(f"nothing was measured for vector registers of {register_bytes} bytes")
    lanes, together = register_bytes // 4, TOGETHER[register_bytes]
    wide = next((n * lanes for n in (VECTORS, 1) if columns % (n * lanes) == 0), 0)
    if not wide:
        return Refusal(f"{columns} columns are cut into no whole vectors")
    if rows is None:
        return TallTiles(lanes, wide, TALL[0], wide, together, BLOCK)
    found = [
        (_even(rows, most, together[0]), wide * count)
        for most in TALL
        for count in divisors(columns // wide)
    ]
    tall, across = max(found, key=lambda tile: reached(tile, rows, columns, PACKING_ROWS))
    return TallTiles(lanes, wide, tall, across, together, BLOCK)


def _even(rows: int, most: int, step: int) -> int:
    """Rows of a tile of at most so many, whole steps, so that tiles are of about one size."""
    even = ceil(rows / ceil(rows / most))
    return min(ceil(even / step) * step, rows)
