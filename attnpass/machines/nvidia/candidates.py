"""What attn-tune may try on an NVIDIA GPU: tiles of matrix instructions, or of lanes."""

from __future__ import annotations

import itertools
import math

from ...attention.facts import AttentionFacts
from ...ir import Refusal
from .. import Offers, Target
from ..gpu.lanes import LANES, LaneTile
from . import configurations as nvidia

_ROWS, _SUBGROUP_ROWS, _KEYS = (32, 64, 128, 256), (16, 32, 64), (16, 32, 64, 128)
_NUMBERS = ("rows", "columns", "keys", "row_subgroups", "column_subgroups")
# A thread has 255 registers: what it sums up (results and scores, f32) has to fit.
_REGISTERS = 255
_MOST_THREADS = 512
# Where the fastest tiles of lanes are.
_LANE_REGISTERS = 150
_GROUPED_KEYS = (32, 16, 64)


def candidates(facts: AttentionFacts, target: Target) -> Offers:
    """The built-in kind of kernel, with other numbers."""
    rows = nvidia.rows_of(facts)
    if rows != 1 and nvidia.is_f32(facts):
        yield from _lane_tiles(facts)
    elif not nvidia.is_decode(facts):
        yield from _tiles(facts, target)
    elif rows == 1:
        for lanes in _decode_lanes():
            choice = (
                f"{lanes.head} x {lanes.elements} of the head dim, {lanes.keys} x "
                f"{lanes.key_subgroups} of {lanes.step} keys"
            )
            if lanes.head * lanes.key_subgroups > nvidia.MOST_DECODE_LANES:
                yield choice, Refusal("lanes that give wrong numbers in IREE 3.13")
            else:
                yield choice, nvidia.decode_with(lanes, facts)
    else:
        for keys in _GROUPED_KEYS:
            yield f"{keys} keys", nvidia.grouped_with(keys, facts)


def _tiles(facts: AttentionFacts, target: Target) -> Offers:
    rows, keys = nvidia.rows_of(facts), nvidia.keys_of(facts)
    width = facts.sizes[facts.n[0]] or 0
    columns = (width, width // 2) if width >= 512 else (width,)
    known = nvidia.tile_for(width)

    def distance(tile: nvidia.AttentionTile) -> float:
        if known is None:
            return 0
        pairs = ((getattr(tile, name), getattr(known, name)) for name in _NUMBERS)
        far = sum(abs(math.log2(number / other)) for number, other in pairs)
        return far + (tile.query_shared != known.query_shared)

    tiles = [
        nvidia.AttentionTile(tile_rows, tile_columns, step, tile_rows // sub_rows, split, shared)
        for tile_rows, sub_rows, tile_columns, step, split, shared in itertools.product(
            _ROWS, _SUBGROUP_ROWS, columns, _KEYS, (1, 2), (True, False)
        )
        if tile_rows >= sub_rows
    ]
    for tile in sorted(tiles, key=distance):
        choice = (
            f"{tile.rows} rows, {tile.columns} columns, {tile.keys} keys, {tile.row_subgroups} x "
            f"{tile.column_subgroups} subgroups" + ("" if tile.query_shared else ", Q from memory")
        )
        sums = tile.rows * (tile.columns + tile.keys) / tile.threads
        if tile.column_subgroups > 1 and width < 128:
            yield choice, Refusal("a head dim too narrow for several subgroups")
        elif tile.threads > _MOST_THREADS:
            yield choice, Refusal(f"more than {_MOST_THREADS} threads")
        elif sums > _REGISTERS:
            yield choice, Refusal(f"sums of more than {_REGISTERS} registers a thread")
        else:
            yield choice, nvidia.prefill_with(tile, facts, target, rows, keys)


def _decode_lanes() -> list[nvidia.Lanes]:
    numbers = itertools.product((8, 4, 16), (8, 4), (4, 2, 1, 8), (64, 32, 128))
    return [
        nvidia.Lanes(head, elements, 32 // head, subgroups, step)
        for head, elements, subgroups, step in numbers
    ]


def _lane_tiles(facts: AttentionFacts) -> Offers:
    """The tiles by how near their registers are to what a thread has: fewer read K and V more
    often, more are spilled."""
    head, width = (facts.sizes[dims[0]] or 0 for dims in (facts.k1, facts.n))

    def registers(tile: LaneTile) -> int:
        query, sums = head // tile.head_lanes, width // tile.column_lanes
        return tile.rows_each * (query + sums + tile.keys // tile.key_lanes)

    numbers = itertools.product(
        (4, 2, 1), (1, 2, 4, 8), (2, 4, 8, 16, 32), (4, 2, 8), (2, 4), (32, 16, 64)
    )
    tiles = [
        LaneTile(row_lanes, head_lanes, rows, keys, step, subgroups)
        for subgroups, row_lanes, head_lanes, rows, keys, step in numbers
        if row_lanes * head_lanes <= LANES
    ]
    for tile in sorted(tiles, key=lambda tile: abs(registers(tile) - _LANE_REGISTERS)):
        choice = (
            f"lanes: {tile.row_lanes} x {tile.rows_each} rows, {tile.key_lanes} x "
            f"{tile.keys_each} of {tile.keys} keys, {tile.subgroups} subgroups"
        )
        if registers(tile) > _REGISTERS:
            yield choice, Refusal(f"sums of more than {_REGISTERS} registers a thread")
        else:
            yield choice, nvidia.lanes_with(tile, facts)
