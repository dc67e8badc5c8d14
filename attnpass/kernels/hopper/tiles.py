"""Which of its tiles a kernel takes: the one that is done soonest with so many rows.

A kernel that is not told one chooses itself, which takes it a microsecond and more: each of the
instructions for it comes from memory, and is executed once; and what is done behind the sums is
slower where the compiler does not know that all lanes have the same tile (a GELU of 4096 x 4096: 72
us, told 65). So where the number of rows is known only at run time, the program chooses, by a few
comparisons on the host.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace

from ...ir import Builder, DynamicSize, Size
from ..image_rows import box_of
from .manifest import KernelTile, ProductKernel
from .product_speed import tile_seconds

# Fewer rows than these make no difference. The program chooses for up to so many, by so many
# comparisons, and takes what is slower than the best by these seconds or this share.
_STEP, _MOST_ROWS, _MOST_TILES = 32, 8192, 40
_MANY_ROWS = 8 * _MOST_ROWS
_SLOWER, _SHARE = 0.6e-6, 0.03


def boxed_tiles(
    kernel: ProductKernel, result: tuple[int, int], steps: tuple[int, int]
) -> tuple[KernelTile, ...]:
    """The tiles of a kernel for images as boxes of pixels of a `result` (lines, pixels)."""
    boxes = ((tile, box_of(result, steps, tile.height, tile.blocks)) for tile in kernel.tiles)
    return tuple(replace(tile, box=box[0], share=box[1]) for tile, box in boxes if box)


@functools.cache
def best_tile(
    kernel: ProductKernel, rows: int, widths: tuple[int, ...], k: int, units: int
) -> KernelTile:
    """The tile for products of `rows` rows and depth `k` with so many columns (`widths`)."""
    return min(kernel.tiles, key=lambda tile: tile_seconds(tile, kernel, rows, widths, k, units))


def told_shape(
    build: Builder, kernel: ProductKernel, rows: Size, widths: Sequence[int], k: int, units: int
) -> Size:
    """The number that tells a kernel its tile; 0: the kernel chooses."""
    if isinstance(rows, int):
        return best_tile(kernel, rows, tuple(widths), k, units).shape
    # Kernels for images choose none themselves.
    rest = best_tile(kernel, _MANY_ROWS, tuple(widths), k, units).shape if kernel.imaged else 0
    count, found = build.size(rows), build.constant_index(rest)
    for most, tile in reversed(tiles_by_rows(kernel, tuple(widths), k, units)):
        within = build.compare("ule", count, build.constant_index(most))
        found = build.select(within, build.constant_index(tile.shape), found)
    return DynamicSize(found)


@functools.cache
def tiles_by_rows(
    kernel: ProductKernel, widths: tuple[int, ...], k: int, units: int
) -> tuple[tuple[int, KernelTile], ...]:
    """Tiles, and up to how many rows each is taken, the fewest first."""
    found: list[tuple[int, KernelTile]] = []
    good: dict[KernelTile, float] = {}
    for rows in range(_STEP, _MOST_ROWS + 1, _STEP):
        times = {tile: tile_seconds(tile, kernel, rows, widths, k, units) for tile in kernel.tiles}
        least = min(times.values())
        most = least + max(_SLOWER, _SHARE * least)
        own = {tile: seconds for tile, seconds in times.items() if seconds <= most}
        both = {tile: good[tile] + own[tile] for tile in own if tile in good}
        if not both and len(found) == _MOST_TILES:
            break
        if both:
            found[-1] = (rows, min(both, key=lambda tile: both[tile]))
        else:
            found.append((rows, min(own, key=lambda tile: own[tile])))
        good = both or own
    return tuple(found)
