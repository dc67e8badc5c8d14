"""How products of many rows on a CPU are cut for vector loops of our own.

Such loops pack weights for each tile of rows anew, which costs the less the more rows there are.
Measured with AVX-512 and AVX2 (see docs/notes/cpu.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

# Rows that have their sums in registers together, then what the rest goes by, and vectors of
# columns beside them, by bytes of a register.
TOGETHER = {64: (8, 4, 2, 1), 32: (6, 2, 1)}
VECTORS = 2
# Elements of the depth in a block: with the result's tile it has room on the stack, and the
# weights stay in the first-level cache.
BLOCK = 96
# Rows of a tile, the most and the least, and tiles that keep many cores busy.
MOST_TALL, LEAST_TALL, LEAST_TILES = 128, 32, 48


@dataclass(frozen=True)
class TallTiles:
    """How a product of many rows is cut: `lanes` of a vector, `columns` of a tile and `tall` rows,
    `rows` that go together, most first, and `depth` of a block."""

    lanes: int
    columns: int
    tall: int
    rows: tuple[int, ...]
    depth: int


def tall_tiles(rows: int | None, columns: int, register_bytes: int) -> TallTiles | str:
    """The tiles for a product of so many rows, None for an unknown number, and columns on vector
    registers of so many bytes; or why it gets no loops."""
    if register_bytes not in TOGETHER:
        return f"nothing was measured for vector registers of {register_bytes} bytes"
    lanes, together = register_bytes // 4, TOGETHER[register_bytes]
    wide = next((n * lanes for n in (VECTORS, 1) if columns % (n * lanes) == 0), 0)
    if not wide:
        return f"{columns} columns are cut into no whole vectors"
    tall = MOST_TALL
    if rows is not None:
        while tall > LEAST_TALL and ceil(rows / tall) * (columns // wide) < LEAST_TILES:
            tall //= 2
        tall = _even(rows, tall, together[0])
    return TallTiles(lanes, wide, tall, together, BLOCK)


def _even(rows: int, most: int, step: int) -> int:
    """Rows of a tile of at most so many, whole steps, so that tiles are of about one size."""
    even = ceil(rows / ceil(rows / most))
    return min(ceil(even / step) * step, rows)
