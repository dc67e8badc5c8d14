"""Tiles of attention for NVIDIA GPUs in f32, which has no tensor cores there.

IREE's own configuration takes one row at a time and 16 columns of V, and reads K anew for each.
Here each lane of a subgroup multiplies several rows by several keys in registers; lanes along
the head dim share the registers that Q takes, and fold their sums by shuffles. Knows shapes
only, no IR. All of it was measured on an H200.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ...ir import Refusal
from .tiles import Shape

LANES = 32
# Elements of the head dim that a lane reads at once: 16 bytes.
HEAD_ELEMENTS = 4


@dataclass(frozen=True)
class LaneTile:
    """What a workgroup takes: `keys` at a time, and as many rows as its subgroups have. Lanes of
    a subgroup lie along rows, along the head dim and, the rest, along keys; each takes
    `rows_each` x `keys_each` scores at once."""

    row_lanes: int
    head_lanes: int
    rows_each: int
    keys_each: int
    keys: int = 32
    subgroups: int = 4

    @property
    def key_lanes(self) -> int:
        return LANES // (self.row_lanes * self.head_lanes)

    @property
    def column_lanes(self) -> int:
        """Lanes along V's head dim, where there is no other to fold."""
        return LANES // self.row_lanes

    @property
    def subgroup_rows(self) -> int:
        return self.row_lanes * self.rows_each

    @property
    def rows(self) -> int:
        return self.subgroups * self.subgroup_rows

    @property
    def threads(self) -> int:
        return LANES * self.subgroups

    def columns_each(self, width: int) -> int:
        """Columns of V that a lane takes at once, or 0 where lanes do not divide `width`."""
        return next((each for each in (4, 2, 1) if width % (self.column_lanes * each) == 0), 0)


# Tiles by the wider head dim, up to which they hold, the best first.
LANE_TILES = (
    (32, (LaneTile(8, 2, 4, 2),)),
    (96, (LaneTile(4, 4, 4, 2),)),
    (128, (LaneTile(2, 4, 4, 2),)),
    (256, (LaneTile(1, 16, 4, 2), LaneTile(1, 8, 4, 2))),
    (512, (LaneTile(1, 16, 4, 2, 16),)),
    (1024, (LaneTile(1, 32, 2, 2, 16),)),
)


def find_lane_tile(shape: Shape, others: int, units: int) -> LaneTile | Refusal:
    """The tile for attention of this shape, or why there is none. It has fewer subgroups where
    else less than one workgroup came to each of the GPU's `units`; `others` counts what else
    has workgroups: batch and heads."""
    wider = max(shape.head, shape.width)
    tiles = next((tiles for most, tiles in LANE_TILES if wider <= most), ())
    if not tiles:
        return Refusal(f"head dim {wider} is wider than any that was measured")
    fitted = [fit_lanes(tile, shape) for tile in tiles]
    tile = next((tile for tile in fitted if isinstance(tile, LaneTile)), fitted[0])
    if isinstance(tile, Refusal) or shape.rows is None:
        return tile
    while tile.subgroups > 1 and others * -(-shape.rows // tile.rows) < units:
        tile = replace(tile, subgroups=tile.subgroups // 2)
    return tile


def fit_lanes(tile: LaneTile, shape: Shape) -> LaneTile | Refusal:
    """The tile for fewer rows, its keys a divisor of the shape's; or what forbids it."""
    if shape.head % (tile.head_lanes * HEAD_ELEMENTS) or not tile.columns_each(shape.width):
        return Refusal(f"the lanes of no tile divide head dims {shape.head} and {shape.width}")
    step = tile.key_lanes * tile.keys_each
    if shape.keys is None or shape.keys % step:
        known = shape.keys is not None
        number = f"{shape.keys} keys" if known else "a number of keys known only at run time"
        return Refusal(f"{number} may leave a step of {step} keys incomplete")
    subgroups = tile.subgroups
    if shape.rows is not None:
        subgroups = min(subgroups, -(-shape.rows // tile.subgroup_rows))
    return replace(tile, keys=math.gcd(tile.keys, shape.keys), subgroups=subgroups)
