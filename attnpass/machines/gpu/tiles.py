"""Tiles of attention on the matrix units of GPUs, and which shapes they fit.

Knows shapes only, no IR. Which tiles are good is said in a table a family.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ...ir import Refusal
from .. import Target

_BYTES = {"f32": 4, "f16": 2, "bf16": 2}
# Bytes that a thread copies to shared memory at once.
_COPY_BYTES = 16
# A number of keys that is a multiple of every tile's.
WHOLE_TILES = 1024


@dataclass(frozen=True)
class AttentionTile:
    """What a workgroup takes: `rows` of Q, `columns` of V, `keys` at a time; its subgroups
    along rows and columns; whether Q goes through shared memory, as K and V do; a subgroup's
    threads; whether the weights go through shared memory to become V's factor."""

    rows: int
    columns: int
    keys: int
    row_subgroups: int
    column_subgroups: int = 1
    query_shared: bool = True
    lanes: int = 32
    weights_shared: bool = True

    @property
    def threads(self) -> int:
        return self.lanes * self.row_subgroups * self.column_subgroups


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


def bytes_of(kind: str) -> int:
    """The size of an element type that a tile may have: those that are not listed are fp8."""
    return _BYTES.get(kind, 1)


def fit(
    tile: AttentionTile, shape: Shape, depths: tuple[int, int, int], target: Target
) -> AttentionTile | Refusal:
    """The tile for fewer rows and narrower heads, its keys a divisor of the shape's; or what
    forbids it. `depths` is how many products a matrix instruction adds up, of Q K and of V, and
    what V's head dim must be a multiple of."""
    depth, value_depth, step = depths
    head, width, keys = shape.head, shape.width, shape.keys
    if head % depth or width % step or width < 32:
        multiples = f"{depth}" if depth == step else f"{depth} and {step}"
        return Refusal(f"head dims {head} and {width} are no multiples of {multiples} from 32 on")
    if keys is None or keys % value_depth:
        # IREE 3.13 then "failed to distribute".
        number = "a number of keys known only at run time" if keys is None else f"{keys} keys"
        return Refusal(f"{number} may leave a matrix instruction of {value_depth} incomplete")
    per_subgroup, most = tile.rows // tile.row_subgroups, tile.row_subgroups
    fewest = most if shape.rows is None else min(most, -(-shape.rows // per_subgroup))
    narrow = replace(tile, columns=min(tile.columns, width), keys=math.gcd(tile.keys, keys))
    if narrow.keys % value_depth:
        return Refusal(
            f"{narrow.keys} keys at a time do not fill a matrix instruction of {value_depth}"
        )
    counts = range(fewest, most + 1)
    sized = (replace(narrow, rows=n * per_subgroup, row_subgroups=n) for n in counts)
    fitted = next((new for new in sized if copies_divide(new, shape)), None)
    if fitted is None or width % fitted.columns:
        return Refusal(f"no tile's copies of head dims {head} and {width} divide among its threads")
    shared = shared_bytes(fitted, shape)
    if shared > target.shared_bytes:
        return Refusal(
            f"{shared} bytes of shared memory are needed; {target.arch} has {target.shared_bytes}"
        )
    return fitted


def shared_bytes(tile: AttentionTile, shape: Shape) -> int:
    """Of the tiles of Q, K, V and of the weights that a workgroup keeps there."""
    q_and_k = (tile.rows * tile.query_shared + tile.keys) * shape.head * bytes_of(shape.query)
    columns = tile.columns + tile.rows * tile.weights_shared
    return q_and_k + columns * tile.keys * bytes_of(shape.value)


def copies_divide(tile: AttentionTile, shape: Shape) -> bool:
    """Whether Q, K and V divide among the tile's threads as IREE copies them."""
    rows, columns = tile.keys, tile.columns
    if shape.keys_innermost:
        rows, columns = columns, rows
    query_bytes, value_bytes = bytes_of(shape.query), bytes_of(shape.value)
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
