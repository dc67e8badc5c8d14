"""Which products with constant weights on a CPU read them from tiles, and from which.

Measured in f32 on one thread of a Zen 4, 1024 x 3072 x 768: as the matrices lie 58 ms, in tiles 45,
in loops that pack weights in the cache 48; with registers of 32 bytes 70 and 55
(docs/notes/cpu.md).
"""

from __future__ import annotations

from ...ir import Refusal, printed
from .workgroups import divisors, reached

# The most rows, and columns, of a tile whose sums stay in registers, by bytes of one: each element
# of the rows is spread over a register for two of columns.
TILES = {64: (8, 32), 32: (6, 16)}
# Of fewer rows twice as many columns, with large registers; fewer than the least were not measured.
FEW_ROWS, LEAST_TILE_ROWS = 4, {64: 1, 32: 3}
# Rows from which on copies pay, which are made once.
LEAST_ROWS = 64
# Multiplications of a product that is worth another kernel.
LEAST_WORK = 1 << 25
# Rows of a workgroup, those that cost as much as reading its weights, and bytes of these: they stay
# in the second-level cache.
WORKGROUP_ROWS, READING_ROWS, MOST_WEIGHTS = (128, 64, 32, 16), 16, 3 << 19


def product_tile(
    rows: int, columns: int, depth: int, register_bytes: int
) -> tuple[int, int] | Refusal:
    """The tile (rows, columns) for a product in f32 on vector registers of so many bytes; or why it
    stays as it is."""
    if register_bytes not in TILES:
        return Refusal(f"nothing was measured for vector registers of {register_bytes} bytes")
    most, wide = TILES[register_bytes]
    # Rows of another number would be masked, three times slower.
    high = next(size for size in range(most, 0, -1) if rows % size == 0)
    if register_bytes == 64 and high <= FEW_ROWS and columns % (2 * wide) == 0:
        wide *= 2
    if high < LEAST_TILE_ROWS[register_bytes] or columns % wide:
        return Refusal(f"{rows} rows and {columns} columns are cut into no whole tiles of many")
    if rows < LEAST_ROWS:
        return Refusal(f"{rows} rows are too few to copy its weights for: {LEAST_ROWS} pay")
    if rows * columns * depth < LEAST_WORK:
        return Refusal("it is too small to copy its weights for")
    return high, wide


def configuration(tile: tuple[int, int], rows: int, columns: int, depth: int) -> str:
    """The `compilation_info` of a product over loops of rows, tiles of columns, columns of a tile
    and the depth. The rows of a workgroup take its weights in turn."""
    found = [
        (high, count)
        for most in WORKGROUP_ROWS
        if (high := _whole(rows, most, tile[0]))
        for count in divisors(columns // tile[1])
        if count == 1 or 4 * count * tile[1] * depth <= MOST_WEIGHTS
    ]
    high, wide = max(found, key=lambda each: reached(each, rows, columns // tile[1], READING_ROWS))
    lowering = (
        f"#iree_cpu.lowering_config<distribution = [{high}, {wide}, {tile[1]}, 0], "
        f"vector_common_parallel = [{tile[0]}, 1, {tile[1]}, 0], vector_reduction = [0, 0, 0, 1]>"
    )
    return printed.compilation_info(lowering, "#iree_cpu.pipeline<DoubleTilingExpert>")


def _whole(rows: int, most: int, step: int) -> int:
    """Rows of a workgroup, at most so many: whole tiles, in each as many, or IREE masks them."""
    counts = range(max(most // step, 1), 0, -1)
    return step * next(n for n in counts if rows % (step * n) == 0 or step == 1)
