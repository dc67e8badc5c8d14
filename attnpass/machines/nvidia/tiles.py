"""Tiles of attention for NVIDIA GPUs: a table, and the first of it that a shape can have.

Knows shapes only, no IR. All of it was measured on an H200.
"""

from __future__ import annotations

from ...ir import Refusal
from .. import Target
from ..gpu.tiles import AttentionTile, Shape, fit

# Tensor-core instructions by the type of their factors, and how many products each adds up.
MMA = {
    "f16": ("NV_MMA_SYNC_F32_16x8x16_F16", 16),
    "bf16": ("NV_MMA_SYNC_F32_16x8x16_BF16", 16),
    "f8E4M3FN": ("NV_MMA_SYNC_F32_16x8x32_F8E4M3FN", 32),
}


# Tiles by V's head dim, up to which they hold, the best first: the first one is taken that the
# copies to shared memory divide among the threads of and that has room there. Head dims of 3,
# 5 or 7 times a power of two need as many subgroups. Measured: 64, 80, 96, 128, 160, 192, 256,
# 512 and 1024. Above 64, 64 keys at a time take more registers than a thread has, unless a
# subgroup has 16 rows only; the widest two are for GPUs with room for them.
_ROWS = ((128, 4), (192, 6), (80, 5), (112, 7))
_WIDE_ROWS = ((128, 32, 4), (96, 64, 6), (80, 32, 5), (112, 32, 7), (128, 64, 4), (112, 64, 7))
TILES = (
    (64, tuple(AttentionTile(rows, 64, 64, n) for rows, n in _ROWS)),
    (128, tuple(AttentionTile(rows, 128, keys, n) for rows, keys, n in _WIDE_ROWS)),
    (256, tuple(AttentionTile(16 * n, 256, 32, n) for n in (8, 12, 10, 6, 5, 14, 7))),
    (512, (AttentionTile(64, 512, 32, 4, 2), AttentionTile(64, 512, 16, 4, 2))),
    (1024, (AttentionTile(32, 1024, 16, 2, 4), AttentionTile(32, 256, 16, 2, 2))),
)
# For no more rows than its own, a tile whose sums of wide V fit registers: counted, not measured.
FEW_ROWS = (512, AttentionTile(16, 512, 32, 1, 4))


def find_tile(shape: Shape, target: Target) -> AttentionTile | Refusal:
    """The prefill tile for attention of this shape, or why there is none."""
    tiles = next((tiles for most, tiles in TILES if shape.width <= most), ())
    most, few = FEW_ROWS
    if tiles and tiles[0].columns == most and shape.rows is not None and shape.rows <= few.rows:
        tiles = (few, *tiles)
    if not tiles:
        return Refusal(f"head dim {shape.width} is wider than any that was measured")
    fitted = [fit(tile, shape, depths(shape), target) for tile in tiles]
    found = next((tile for tile in fitted if isinstance(tile, AttentionTile)), None)
    return found or fitted[0]


def depths(shape: Shape) -> tuple[int, int, int]:
    """What `fit` asks for: V's head dim, too, is taken in steps of the depth of Q K."""
    depth = MMA[shape.query][1]
    return depth, MMA[shape.value][1], depth
