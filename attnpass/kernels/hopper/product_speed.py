"""How long products take with a kernel and without: what decides where a kernel is taken.

Read off runs of the kernels alone on an H200, operands not in the cache: docs/notes/kernels.md
has the rule in words. Where nothing is configured, in modules without attention, IREE's code takes
2 to 3 times as long.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import geometric_mean

from ...machines import Target
from .manifest import KernelTile, ProductKernel
from .streamed import division

_TILE_ROWS = 128
# Seconds for each sum of a tile and element of depth, and for each row or column.
_OF_SUM, _OF_END = 0.331e-12, 4.95e-12
# The share of idle units' time that busy ones save.
_IDLE = 0.14
# In all beside that; of batches and of rows in groups.
_START, _MANY_START = 3.6e-6, 3e-6
# The same of kernels with several tiles (41 products in each of 29, docs/notes/kernels.md), and the
# seconds behind each sum.
OF_SUM, OF_END, IDLE, BEHIND = 0.277e-12, 10.2e-12, 0.2, 38e-12
_TILES_START = 3.4e-6
# Of those for images (33 convolutions in each of 29 tiles): beside that, and bytes a second that
# all tiles read, most of them from the cache.
_IMAGES_START, _IMAGES_RATE = 5.2e-6, 8e12
_A_WAVE_OF_8_BITS = 3.1e-9
_TILE_RATE = 2.6e12
# An unknown number of rows is taken to be each of these: about ASSUMED_ROWS, which they are for
# other code.
_LIKELY_ROWS = (100, 300, 500, 777, 1777)
# Of f32, by columns of a tile: a step of 32 of the depth; a tile's end, and where a cluster divides
# the depth; what of a GPU's units clusters of so many workgroups fill.
_F32_DEPTH, _F32_START, _FILLED = 32, 2.5e-6, {1: 1.0, 2: 1.0, 4: 0.85}
_F32_STEP = {128: 0.97e-6, 64: 0.585e-6}
_F32_END, _F32_PARTS_END = {128: 2.6e-6, 64: 2.4e-6}, {128: 5.5e-6, 64: 3.3e-6}
# IREE's code of f32: sums a second of many and of some rows, an element of the depth, which is cut
# in parts from about so many on; bytes a second of few rows.
_IREE_F32_MANY, _IREE_F32_SOME, _IREE_F32_RATE = 15e12, 7e12, 2.2e12
_IREE_F32_DEPTH, _IREE_F32_PART = 0.038e-6, 768
# Of few rows: what they take beside, for parts of the depth, too; bytes a second of all, of a
# multiprocessor with one workgroup, and with more.
_FEW_START, _OF_PARTS = 2.2e-6, 0.3e-6
_FEW_RATE, _ALONE_RATE, _UNIT_RATE = 4.2e12, 52e9, 70e9
# Of batches: bytes a second of tiles and of few rows; seconds of each sum where it is told at run
# time what is behind it; of a workgroup of few rows: the seconds it takes, those of an element of
# depth, and how many of them run at once on a unit.
_BATCH_TILE_RATE, _BATCH_GENERAL = 3.4e12, 61e-12
_BATCH_FEW_ROWS = {8: 3.75e12, 16: 3.6e12, 64: 2.85e12}
_BATCH_WORKGROUPS = {
    (8, "nk"): (2.1e-6, 3.4e-9, 4),
    (16, "nk"): (2.1e-6, 3.4e-9, 3),
    (16, "kn"): (3.3e-6, 3.5e-9, 2),
    (64, "nk"): (2.4e-6, 4.5e-9, 1),
    (64, "kn"): (2.4e-6, 4.5e-9, 1),
}
# Rows, columns and seconds of IREE's tiles.
_IREE_TILES = ((64, 64, 7.1e-9), (64, 128, 9.0e-9), (128, 128, 15.5e-9), (128, 256, 20.8e-9))
IREE_FEW_ROWS, _IREE_DEPTH, _IREE_RATE = 16, 12.5e-9, 1.85e12
_IREE_ODD = 1.3
_IREE_ACTIVATIONS = {"none": 0.0, "gelu": 10e-12, "gelu_tanh": 4e-12, "silu": 4e-12}
_IREE_ACTIVATIONS |= {"quick_gelu": 4e-12}
# Seconds behind each sum: of a kernel for one tile; told at run time; of curves.
_BEHIND, _GENERAL = 18e-12, 27e-12
CURVES = {"none": 0.0, "clamp": 0.0, "gelu": 100e-12, "gelu_tanh": 80e-12, "silu": 80e-12}
CURVES |= {"sigmoid": 80e-12, "relu": 0.0}


@dataclass(frozen=True)
class ProductWork:
    """A product's size; `known` says whether its rows are, `count` of them are computed, and
    `batch` times as many with other rows or weights. `activation` is what IREE's code does behind
    one of them, to `activated` of its columns."""

    rows: int
    n: int
    k: int
    known: bool
    count: int = 1
    activation: str = "none"
    activated: int = 0
    batch: int = 1

    @property
    def bytes_moved(self) -> float:
        read = self.rows * self.k + self.n * self.k * self.count
        return 2.0 * self.batch * (read + self.rows * self.n)


def iree_product_seconds(work: ProductWork, target: Target) -> float:
    """IREE's code for this product, configured by attnpass, and for what is behind it."""
    elements = work.batch * work.rows * work.activated
    behind = elements * _IREE_ACTIVATIONS.get(work.activation, 0.0)
    if work.known and work.rows <= IREE_FEW_ROWS:
        each = max(work.k * _IREE_DEPTH, work.bytes_moved / work.count / _IREE_RATE)
        return behind + work.count * (2e-6 + each)
    waves = [
        math.ceil(
            work.batch
            * math.ceil(work.rows / rows)
            * math.ceil(work.n / columns)
            / target.compute_units
        )
        * seconds
        for rows, columns, seconds in _IREE_TILES
    ]
    whole = work.known and work.rows % _TILE_ROWS == 0
    each = 2e-6 + work.k * min(waves) * (1 if whole else _IREE_ODD)
    return behind + work.count * max(each, 2e-6 + work.bytes_moved / work.count / _IREE_RATE)


def iree_f32_seconds(work: ProductWork) -> float:
    """IREE's code for a product of f32, in tiles and parts of attnpass (`attn-split-depths`)."""
    sums = work.batch * work.count * float(work.rows) * work.n * work.k
    if work.known and work.rows <= IREE_FEW_ROWS:
        return 3e-6 + 2 * work.bytes_moved / _IREE_F32_RATE
    seconds = sums / (_IREE_F32_MANY if work.rows >= _TILE_ROWS else _IREE_F32_SOME)
    return 3e-6 + max(seconds, work.count * min(work.k, _IREE_F32_PART) * _IREE_F32_DEPTH)


def turn_seconds(work: ProductWork) -> float:
    """IREE's code that turns the weights of one product: not measured, taken to be slow."""
    return 4e-6 + 4.0 * work.n * work.k / 0.7e12


def product_seconds(work: ProductWork, kernel: ProductKernel, target: Target) -> float:
    """The kernel's time: in waves of workgroups, or reading the weights once."""
    if kernel.batched and kernel.most_rows:
        return 2.4e-6 + _few_of_batch(work, kernel, target)
    if kernel.most_rows:
        return _few_rows(work, kernel, target.compute_units)
    if kernel.grouped:
        return _grouped(work, kernel, target.compute_units)
    if kernel.imaged:
        size = (kernel, work.rows, (work.n,), work.k, target.compute_units)
        return _IMAGES_START + min(tile_seconds(tile, *size) for tile in kernel.tiles)
    if not work.known and not kernel.batched:
        # Each of them counts as much.
        likely = (replace(work, rows=rows, known=True) for rows in _LIKELY_ROWS)
        return geometric_mean(product_seconds(one, kernel, target) for one in likely)
    if kernel.element_type == "f32":
        return _of_f32(work, kernel, target.compute_units)
    rate = _BATCH_TILE_RATE if kernel.batched else _TILE_RATE
    if kernel.tiles:
        size = (kernel, work.rows, (work.n,), work.k, target.compute_units)
        # Of fewer columns than a tile has few workgroups read many rows: 15 us of 2048 x 16 x 2048.
        tiles = [tile for tile in kernel.tiles if tile.across or work.n >= tile.columns]
        waves = min(tile_seconds(tile, *size) for tile in tiles)
        return _TILES_START + max(waves, work.bytes_moved / rate)
    waves = _waves_seconds(work, kernel, target.compute_units)
    start = _MANY_START if kernel.batched else _START
    return start + max(waves, work.bytes_moved / rate)


def tile_seconds(
    tile: KernelTile, kernel: ProductKernel, rows: int, widths: Sequence[int], k: int, units: int
) -> float:
    """All waves of such tiles of products with so many rows, columns (`widths`) and depth `k`."""
    tiles = tiles_of_rows(tile, rows) * sum(math.ceil(n / tile.columns) for n in widths)
    part, sums, ends = tiles / units, tile.columns * tile.rows, tile.columns + tile.rows
    waves = (1 - IDLE) * math.ceil(part) + IDLE * part
    of_depth = OF_SUM * sums + OF_END * ends
    seconds = waves * (k * of_depth + (BEHIND + CURVES[kernel.activation]) * sums)
    return max(seconds, 2.0 * tiles * k * ends / _IMAGES_RATE) if kernel.imaged else seconds


def tiles_of_rows(tile: KernelTile, rows: int) -> int:
    """How many such tiles so many rows have, those of images with what is beyond their sides."""
    return math.ceil(rows / (tile.rows * tile.share) - 1e-6)


def _grouped(work: ProductWork, kernel: ProductKernel, units: int) -> float:
    """Of rows in groups, each of which ends with a tile that half of its rows fill."""
    filled = replace(work, rows=work.rows + work.batch * _TILE_ROWS // 2, batch=1)
    waves = _waves_seconds(filled, kernel, units)
    moved = 2.0 * (work.rows * (work.k + work.n) + min(work.batch, work.rows) * work.n * work.k)
    return _MANY_START + max(waves, moved / _BATCH_TILE_RATE)


def _waves_seconds(work: ProductWork, kernel: ProductKernel, units: int) -> float:
    """All waves of the tiles of a kernel that has one kind of them."""
    columns, rows = kernel.columns_per_tile, _TILE_ROWS
    tiles = work.batch * math.ceil(work.rows / rows) * math.ceil(work.n * work.count / columns)
    part = tiles / units
    waves = (1 - _IDLE) * math.ceil(part) + _IDLE * part if work.known else max(part, 1)
    narrow = kernel.element_type == "f8E4M3FN"
    each = _A_WAVE_OF_8_BITS if narrow else _OF_SUM * columns * rows + _OF_END * (columns + rows)
    told = _BATCH_GENERAL if kernel.batched else _GENERAL
    behind = _BEHIND + kernel.general * told + CURVES[kernel.activation] / work.count
    return waves * (work.k * each + behind * columns * rows)


def _of_f32(work: ProductWork, kernel: ProductKernel, units: int) -> float:
    """Waves of tiles, or of parts of them."""
    columns, parts = kernel.columns_per_tile, kernel.parts
    tiles = work.batch * math.ceil(work.rows / _TILE_ROWS) * math.ceil(work.n / columns)
    steps = math.ceil(math.ceil(work.k / _F32_DEPTH) / parts)
    end = (_F32_PARTS_END if parts > 1 else _F32_END)[columns]
    waves = math.ceil(tiles * parts / (units * _FILLED[parts]))
    seconds = waves * (steps * _F32_STEP[columns] + end)
    return _F32_START + max(seconds, 2 * work.bytes_moved / _TILE_RATE)


def _few_rows(work: ProductWork, kernel: ProductKernel, units: int) -> float:
    """Memory's time, or that in which a multiprocessor reads the tiles of its workgroups."""
    divided = division(kernel, work.n, units)
    assert divided is not None, "a kernel that fits"
    resident = math.ceil(divided.workgroups / units)
    columns = divided.width * kernel.columns_per_workgroup
    tile = 2.0 * (columns + work.rows) * work.k / divided.parts
    read = resident * divided.rounds * tile / (_ALONE_RATE if resident == 1 else _UNIT_RATE)
    start = _FEW_START + (_OF_PARTS if divided.parts > 1 else 0.0)
    return start + max(work.bytes_moved / _FEW_RATE, read)


def _few_of_batch(work: ProductWork, kernel: ProductKernel, target: Target) -> float:
    """Of few rows in a batch: memory's time, or that of the workgroups."""
    start, depth, resident = _BATCH_WORKGROUPS[kernel.most_rows, kernel.weights]
    columns = math.ceil(work.n / kernel.columns_per_workgroup)
    turns = math.ceil(work.batch * columns * kernel.cluster / (resident * target.compute_units))
    rate = _BATCH_FEW_ROWS[kernel.most_rows]
    return max(work.bytes_moved / rate, turns * (start + work.k * depth))
