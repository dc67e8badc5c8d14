"""Configurations for f32 contractions on NVIDIA GPUs, which have no tensor cores for them.

IREE 3.13 has each thread read both factors from memory: an H200 multiplies 2048 x 4096 x 4096 at 2
to 4 TFLOPS, PyTorch at 50. Here a workgroup copies tiles of both to shared memory, and a thread
adds up a small tile of the result in its registers: 35 to 37.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from iree.compiler import ir

from ...attention.facts import configured_by
from ...ir import Refusal, Size, printed, product
from ...ir.contractions import ContractionFacts
from ...ir.limits import ASSUMED_TILES
from .. import Target
from .contractions import find as find_contraction

_PIPELINE = "#iree_gpu.pipeline<TileAndFuse>"
# Copies in front of a step's products; IREE's own staging of several steps gains nothing here.
_OPTIONS = (
    ", {gpu_pipeline_options = #iree_gpu.pipeline_options<prefetch_num_stages = 0, "
    "no_reduce_shared_memory_bank_conflicts = false, use_igemm_convolution = false>}"
)
_HEIGHTS, _WIDTHS = (128, 64, 32, 16), (128, 64, 32, 16)
_DEPTHS = (32, 16, 8, 4)
# Of what rows, columns and depth are multiples where there is a tile.
LEAST_SIDE, LEAST_DEPTH = _HEIGHTS[-1], _DEPTHS[-1]
# Any number of rows up to `LOW` has tiles, which wait for memory: small ones, with as much of it on
# its way as there can be.
LOW, _LOW_HEIGHT, _DEEP = 64, 16, 128
# A thread's part of the result: at most so many rows, of columns that lie in a line.
_ROWS, _COLUMNS = 8, 4
_LEAST_THREADS, _MOST_THREADS = 32, 256
# Of fewer rows IREE has a subgroup for each number of the result.
_FEW = 5
# What a workgroup waits in a step, in products of a thread's full part.
_WAIT = 900


@dataclass(frozen=True)
class ThreadTile:
    """What a workgroup takes: `rows` times `columns` of the result, `depth` at a time; of these a
    thread takes `own`."""

    rows: int
    columns: int
    depth: int
    own: tuple[int, int]

    @property
    def threads(self) -> int:
        return self.rows * self.columns // math.prod(self.own)

    @property
    def reads(self) -> float:
        """What is read from shared memory and from memory for each product, relative."""
        return 1 / self.own[0] + 1 / self.own[1] + 8 / self.rows + 8 / self.columns


def find(function: ir.Operation) -> ContractionFacts | None:
    """The one contraction of f32 factors of a dispatch that has nothing else but elementwise ops
    behind it, and in front of its factors."""
    return find_contraction(function, ("f32",), computed=True)


def configuration(facts: ContractionFacts, target: Target) -> dict[str, str] | Refusal:
    """The attributes for this contraction, or why it keeps IREE's own configuration."""
    if own := configured_by(facts.op):
        return Refusal(f"it has a {own}")
    if not facts.m or not facts.n or not facts.k:
        return Refusal("it is no product of matrices")
    if any(are_few([facts.sizes[loop] for loop in side]) for side in (facts.m, facts.n)):
        return Refusal(f"fewer than {_FEW} rows or columns have kernels of IREE's")
    last = facts.kept[-1]
    depth = max(facts.k, key=lambda loop: max(_steps(facts.sizes[loop], _DEPTHS), default=0))
    lines, rows = (facts.n[-1], facts.m[-1]) if last in facts.n else (facts.m[-1], facts.n[-1])
    if lines != last:
        return Refusal("the result's last dim is a batch's")
    if not rows < lines < depth:
        return Refusal("IREE 3.13 computes wrong numbers where loops are not in the result's order")
    tiles = _tiles(*(facts.sizes[loop] for loop in (rows, lines, depth)))
    if not tiles:
        sizes = (facts.sizes[loop] for loop in (rows, lines, depth))
        words = " x ".join(str(size) if isinstance(size, int) else "?" for size in sizes)
        return Refusal(f"{words} are no multiples of {LEAST_SIDE} x {LEAST_SIDE} x {LEAST_DEPTH}")
    kept = [facts.sizes[loop] for loop in facts.kept]
    elements = math.prod(size if isinstance(size, int) else ASSUMED_TILES for size in kept)
    tile = min(tiles, key=lambda tile: _time(tile, elements, target))
    given = {rows: (tile.rows, tile.own[0]), lines: (tile.columns, tile.own[1])}
    loops = range(len(facts.sizes))
    lowering = printed.gpu_lowering(
        "promote_operands = [0, 1]",
        reduction=[tile.depth if at == depth else int(at in facts.k) for at in loops],
        thread=[given[at][1] if at in given else int(at not in facts.k) for at in loops],
        workgroup=[given[at][0] if at in given else int(at not in facts.k) for at in loops],
    )
    info = printed.compilation_info(lowering, _PIPELINE, tile.threads, 32, _OPTIONS)
    return {"compilation_info": info}


def are_few(sizes: Sequence[Size]) -> bool:
    """Whether so many rows, or columns, have kernels of IREE's own."""
    rows = product(sizes)
    return isinstance(rows, int) and rows < _FEW


def _tiles(rows: Size, columns: Size, depth: Size) -> list[ThreadTile]:
    """The tiles that divide a product of these sizes."""
    if isinstance(rows, int) and rows <= LOW:
        return _low_tiles(rows, columns, depth)
    tall, wide = _steps(rows, _HEIGHTS), _steps(columns, _WIDTHS)
    every = [
        ThreadTile(height, width, step, (own, _COLUMNS))
        for height, width, step in itertools.product(tall, wide, _steps(depth, _DEPTHS)[:1])
        for own in range(1, _ROWS + 1)
        if height % own == 0
    ]
    return [tile for tile in every if _LEAST_THREADS <= tile.threads <= _MOST_THREADS]


def _low_tiles(rows: int, columns: Size, depth: Size) -> list[ThreadTile]:
    """The tile that divides a product of few rows."""
    height = max(step for step in range(1, _LOW_HEIGHT + 1) if rows % step == 0)
    if height < _FEW:
        height = rows
    ways = [(16, (2, 2))] if rows <= 2 * _LOW_HEIGHT else [(32, (4, 2)), (16, (2, 2))]
    width, own = next((way for way in ways if _steps(columns, way[:1])), (0, (1, 1)))
    if not width:
        return []
    if height % own[0]:
        own = (1, own[1])
    steps = _steps(depth, (_DEEP, _DEEP // 2, *_DEPTHS))
    return [ThreadTile(height, width, step, own) for step in steps[:1]]


def _steps(size: Size, steps: tuple[int, ...]) -> list[int]:
    return [step for step in steps if isinstance(size, int) and size % step == 0]


def time_of(rows: int, columns: int, depth: int, elements: int, target: Target) -> float | None:
    """What a step of the depth takes, relative, of a product of so many elements of these sizes;
    None where no tile divides them."""
    tiles = _tiles(rows, columns, depth)
    return min((_time(tile, elements, target) for tile in tiles), default=None)


def _time(tile: ThreadTile, elements: int, target: Target) -> float:
    """What a product of so many elements takes, relative."""
    on_one = math.ceil(elements / (tile.rows * tile.columns) / target.compute_units)
    return on_one * tile.rows * tile.columns * tile.reads + _WAIT
