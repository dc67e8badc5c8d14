"""Configurations for AMD GPUs, from what IREE's compiler makes of them: no GPU was at hand.

IREE 3.13's own configuration multiplies without matrix instructions where the rows or the keys
are no multiple of 16, or a head dim is no power of two; it computes Q K^T once for every 64
columns of V, from head dim 256 on for every 16 of most chips. The tiles here have matrix
instructions for all of these, take more columns at once, and spill no registers. Where IREE's
own tile is as good, it is kept; so it is in decode, and in f32 on RDNA, which has no f32 matrix
instructions. Counts: docs/notes/amd.md.
"""

from __future__ import annotations

from ...attention.facts import AttentionFacts
from ...ir import Refusal
from .. import Target
from ..gpu.configurations import (
    TILE_ROWS,
    Attributes,
    Lanes,
    decode_with,
    dynamic_refusal,
    is_decode,
    is_f32,
    keys_of,
    lane_attributes,
    loops_refusal,
    other_rows,
    outgrows_lanes,
    rows_of,
    shape_of,
    unit_refusal,
    unknown_as_tiles,
    wider_heads,
    with_tile,
)
from ..gpu.lanes import LaneTile, find_lane_tile
from ..gpu.tiles import WHOLE_TILES, AttentionTile
from .tiles import COLUMNS, MatrixFamily, family_of, find_tile, products_of

# IREE's own tile: rows, keys and, at most, columns at once, of head dims that are powers of two.
_OWN = 64
# The widest head dims for which IREE's own configuration has matrix instructions.
_WIDEST, _WIDEST_F32 = 512, 128


def configuration(facts: AttentionFacts, target: Target) -> Attributes | Refusal:
    """The attributes for this attention, or why it keeps IREE's own configuration."""
    why = _refusal(facts, target) or loops_refusal(facts) or unit_refusal(facts)
    if not why and not own_loses_lanes(facts, target):
        why = _own_is_good(facts, target)
    if why:
        return why
    if rows_of(facts) == 1:
        return decode_with(_decode_lanes(target), facts)
    tile = _find_tile(facts, target, keys_of(facts))
    if isinstance(tile, LaneTile):
        return lane_attributes(tile, facts)
    if isinstance(tile, Refusal):
        return tile
    if not _whole(rows_of(facts), tile.rows) and not _whole(keys_of(facts), tile.keys):
        # IREE 3.13 then "failed to distribute".
        return Refusal(f"{tile.rows} rows and {tile.keys} keys at a time both leave some over")
    return with_tile(tile, facts, _products(facts, target))


def subgroup(target: Target) -> int | None:
    """Threads of a subgroup; None for a chip that is not known."""
    family = family_of(target)
    return family.lanes if family else None


def own_loses_lanes(facts: AttentionFacts, target: Target) -> bool:
    """Whether IREE's own configuration computes wrong numbers."""
    family = family_of(target)
    if family is None or not outgrows_lanes(facts, family.lanes):
        return False
    kind, sizes = facts.element_types["query"], _head_dims(facts)
    widest = _WIDEST_F32 if kind == "f32" else _WIDEST
    tiles = kind in family.query and all(_is_power(x) and x <= widest for x in sizes)
    counts = (rows_of(facts), keys_of(facts))
    return not tiles or not all(_whole(count, TILE_ROWS) for count in counts)


def padded_keys(facts: AttentionFacts, target: Target) -> int | None:
    """The next whole number of tiles of keys, where these and the rows leave some over."""
    keys = keys_of(facts)
    if facts.kind != "attention" or len(facts.k2) != 1 or _refusal(facts, target):
        return None
    if keys is None or facts.k2[0] in facts.score_index_dims:
        return None
    step = _step(facts, target)
    return None if keys % step == 0 else -(-keys // step) * step


def _step(facts: AttentionFacts, target: Target) -> int:
    """What the number of keys must be a multiple of."""
    if rows_of(facts) == 1:
        return _decode_lanes(target).step if own_loses_lanes(facts, target) else 1
    tile = _find_tile(facts, target, keys_of(facts))
    if isinstance(tile, Refusal):
        # Lanes take whole steps of keys only.
        tile = _find_tile(facts, target, WHOLE_TILES)
        return 1 if isinstance(tile, Refusal) else tile.keys
    return 1 if isinstance(tile, LaneTile) or _whole(rows_of(facts), tile.rows) else tile.keys


def _whole(size: int | None, tile: int) -> bool:
    """Whether tiles leave nothing over."""
    return size is not None and size % tile == 0


def padded_heads(facts: AttentionFacts, target: Target) -> tuple[int, int] | None:
    """The head dims of Q and V, larger than this attention's by as little as can be, that have
    a tile where its own have none."""
    if facts.kind != "attention" or _refusal(facts, target):
        return None
    family, shape = family_of(target), shape_of(facts, WHOLE_TILES)
    if family is None or not isinstance(_find_tile(facts, target, WHOLE_TILES), Refusal):
        return None
    return wider_heads(
        shape, COLUMNS, lambda wider: not isinstance(find_tile(wider, family, target), Refusal)
    )


def dynamic_tiles(facts: AttentionFacts, target: Target) -> dict[int, int] | Refusal:
    """The tiles that an unknown number of keys, and of rows, is to be viewed as, by iteration
    dim; or why there are none."""
    why = dynamic_refusal(facts) or _refusal(facts, target)
    if why:
        return why
    tile = _find_tile(facts, target, WHOLE_TILES)
    return tile if isinstance(tile, Refusal) else unknown_as_tiles(facts, tile)


def _refusal(facts: AttentionFacts, target: Target) -> Refusal | None:
    """Why there is no configuration for this kind of attention on this chip, or None."""
    family = family_of(target)
    if family is None:
        return Refusal(f"there is no table for {target.name}")
    if facts.score_index_dims:
        return Refusal("its scores depend on positions, which was not looked at")
    if len(facts.n) != 1 or len(facts.k1) != 1:
        return Refusal("it has several head dims")
    if 0 in _head_dims(facts):
        return Refusal("a head dim is known only at run time")
    if is_decode(facts) and not own_loses_lanes(facts, target):
        return Refusal(f"{rows_of(facts)} query row(s) fill no matrix instruction")
    return _types_refusal(facts, family, target)


def _types_refusal(facts: AttentionFacts, family: MatrixFamily, target: Target) -> Refusal | None:
    kinds = facts.element_types
    query, key, value = (kinds[name] for name in ("query", "key", "value"))
    if is_f32(facts):
        # Without instructions: tiles of lanes, which repair wrong numbers.
        wrong = own_loses_lanes(facts, target)
        has_tiles = "f32" in family.query or wrong
        return None if has_tiles else Refusal(f"{target.arch} multiplies f32 by lanes")
    products = query in family.query and value in family.value and "f32" not in (query, value)
    if query != key or not products:
        return Refusal(
            f"{target.arch} has no matrix instructions for {query} Q, {key} K and {value} V"
        )
    return None


def _own_is_good(facts: AttentionFacts, target: Target) -> Refusal | None:
    """Why IREE's own tile is as good as those of the table, or None."""
    head, width = _head_dims(facts)
    family = family_of(target)
    if family and max(head, width) > family.widest:
        return Refusal(
            f"on {target.arch} all tiles for head dims above {family.widest} spill registers"
        )
    if family and facts.element_types["query"] in family.spilled:
        return None
    whole = _whole(rows_of(facts), _OWN) and _whole(keys_of(facts), _OWN)
    powers = all(_is_power(size) and size > COLUMNS for size in (head, width))
    if not whole or not powers or len(facts.k2) != 1 or width > _OWN or head > 2 * _OWN:
        return None
    return Refusal(
        "its own tile has the same columns, and matrix instructions for all rows and keys"
    )


def _head_dims(facts: AttentionFacts) -> tuple[int, int]:
    """Of Q and V, 0 where known only at run time."""
    return facts.sizes[facts.k1[0]] or 0, facts.sizes[facts.n[0]] or 0


def _is_power(size: int) -> bool:
    return size.bit_count() == 1


def _find_tile(
    facts: AttentionFacts, target: Target, keys: int | None
) -> AttentionTile | LaneTile | Refusal:
    """The tile for this attention over so many keys, or why there is none."""
    family, shape = family_of(target), shape_of(facts, keys)
    assert family is not None, "_refusal looks for it"
    if shape.query in family.query:
        return find_tile(shape, family, target)
    workgroups = facts.assumed_extent((*facts.batch, *other_rows(facts)))
    return find_lane_tile(shape, workgroups, target.compute_units)


def _products(facts: AttentionFacts, target: Target) -> tuple[str, str]:
    family = family_of(target)
    assert family is not None, "_refusal looks for it"
    found = products_of(shape_of(facts, None), family)
    assert not isinstance(found, Refusal), "there is a tile"
    return found[0].words, found[1].words


def _decode_lanes(target: Target) -> Lanes:
    """Those of a subgroup along the keys and, so few that the numbers are right, the head dim."""
    family = family_of(target)
    assert family is not None, "_refusal looks for it"
    lanes = Lanes(keys=family.lanes // Lanes.head)
    assert lanes.head * lanes.key_subgroups <= family.lanes
    return lanes
