"""Tiles of attention for NVIDIA GPUs: a table, and the first of it that a shape can have.

Knows shapes only, no IR. All of it was measured on an H200.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ..targets import Target
from ..targets.nvidia import Nvidia

# Tensor-core instructions by the type of their factors, and how many products each adds up.
MMA = {
    "f16": ("NV_MMA_SYNC_F32_16x8x16_F16", 16),
    "bf16": ("NV_MMA_SYNC_F32_16x8x16_BF16", 16),
    "f8E4M3FN": ("NV_MMA_SYNC_F32_16x8x32_F8E4M3FN", 32),
}
_BYTES = {"f16": 2, "bf16": 2, "f8E4M3FN": 1}
# Bytes that a thread copies to shared memory at once.
_COPY_BYTES = 16


@dataclass(frozen=True)
class Tile:
    """What a workgroup takes: `rows` of Q, `columns` of V, `keys` at a time; its subgroups
    along rows and columns; whether Q goes through shared memory, as K and V do."""

    rows: int
    columns: int
    keys: int
    row_subgroups: int
    column_subgroups: int = 1
    query_shared: bool = True

    @property
    def threads(self) -> int:
        return 32 * self.row_subgroups * self.column_subgroups


@dataclass(frozen=True)
class Shape:
    """What a tile depends on: rows and keys of the dims that are tiled (None: known only at run
    time), head dims of Q and V, their element types, and whether V's keys are innermost."""

    rows: int | None
    keys: int | None
    head: int
    width: int
    query: str
    value: str
    keys_innermost: bool


# Tiles by V's head dim, up to which they hold, the best first: the first one is taken that the
# copies to shared memory divide among the threads of and that has room there. Head dims of 3,
# 5 or 7 times a power of two need as many subgroups. Measured: 64, 80, 96, 128, 160, 192, 256,
# 512 and 1024. Above 64, 64 keys at a time take more registers than a thread has.
_ROWS = ((128, 4), (192, 6), (80, 5), (112, 7))
TILES = (
    (64, tuple(Tile(rows, 64, 64, n) for rows, n in _ROWS)),
    (128, tuple(Tile(rows, 128, keys, n) for keys in (32, 64) for rows, n in _ROWS)),
    (256, tuple(Tile(16 * n, 256, 32, n) for n in (8, 12, 10, 6, 5, 14, 7))),
    (512, (Tile(64, 512, 16, 4, 2),)),
    (1024, (Tile(32, 256, 16, 2, 2),)),
)
# A number of keys that is a multiple of every tile's.
WHOLE_TILES = 1024


def find_tile(shape: Shape, target: Target) -> Tile | str:
    """The prefill tile for attention of this shape, or why there is none."""
    tiles = next((tiles for most, tiles in TILES if shape.width <= most), ())
    if not tiles:
        return f"head dim {shape.width} is wider than any that was measured"
    fitted = [fit(tile, shape, target) for tile in tiles]
    found = next((tile for tile in fitted if isinstance(tile, Tile)), None)
    return found or fitted[0]


def fit(tile: Tile, shape: Shape, target: Target) -> Tile | str:
    """The tile for fewer rows and narrower heads, its keys a divisor of the shape's; or what
    forbids it."""
    depth, value_depth = MMA[shape.query][1], MMA[shape.value][1]
    head, width, keys = shape.head, shape.width, shape.keys
    if head % depth or width % depth or width < 32:
        return f"head dims {head} and {width} are no multiples of {depth} from 32 on"
    if keys is None or keys % value_depth:
        # IREE 3.13 then "failed to distribute".
        number = "a number of keys known only at run time" if keys is None else f"{keys} keys"
        return f"{number} may leave a tensor-core tile of {value_depth} incomplete"
    per_subgroup, most = tile.rows // tile.row_subgroups, tile.row_subgroups
    fewest = most if shape.rows is None else min(most, -(-shape.rows // per_subgroup))
    narrow = replace(tile, columns=min(tile.columns, width), keys=math.gcd(tile.keys, keys))
    if narrow.keys % value_depth:
        return f"{narrow.keys} keys at a time do not fill a tensor-core tile of {value_depth}"
    counts = range(fewest, most + 1)
    sized = (replace(narrow, rows=n * per_subgroup, row_subgroups=n) for n in counts)
    fitted = next((new for new in sized if _copies_divide(new, shape)), None)
    if fitted is None or width % fitted.columns:
        return f"no tile's copies of head dims {head} and {width} divide among its threads"
    shared = shared_bytes(fitted, shape)
    limit = target.shared_bytes if isinstance(target, Nvidia) else 0
    if shared > limit:
        return f"{shared} bytes of shared memory are needed; {target.arch} has {limit}"
    return fitted


def shared_bytes(tile: Tile, shape: Shape) -> int:
    """Of the tiles of Q, K, V and of the weights that a workgroup keeps there."""
    q_and_k = (tile.rows * tile.query_shared + tile.keys) * shape.head * _BYTES[shape.query]
    return q_and_k + (tile.columns + tile.rows) * tile.keys * _BYTES[shape.value]


def _copies_divide(tile: Tile, shape: Shape) -> bool:
    """Whether Q, K and V divide among the tile's threads as IREE copies them."""
    rows, columns = tile.keys, tile.columns
    if shape.keys_innermost:
        rows, columns = columns, rows
    query_bytes, value_bytes = _BYTES[shape.query], _BYTES[shape.value]
    return (
        _divides(tile.rows, shape.head, query_bytes, tile.threads)
        and _divides(tile.keys, shape.head, query_bytes, tile.threads)
        and _divides(rows, columns, value_bytes, tile.threads)
    )


def _divides(rows: int, columns: int, size: int, threads: int) -> bool:
    """Whether IREE finds a layout for a copy to shared memory: 16 bytes a thread, threads
    along the columns and those left along the rows, each count a divisor of the other."""
    step = _COPY_BYTES // size
    if rows * columns % threads == 0:
        step = min(step, rows * columns // threads)
    if columns % step:
        return False
    steps = columns // step
    if threads % steps and steps % threads:
        return False
    left = threads // math.gcd(threads, steps)
    return rows % left == 0 or left % rows == 0
