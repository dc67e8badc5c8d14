"""Configurations for NVIDIA GPUs, sm_80 and later, measured on an H200.

IREE's default takes 32 columns of V at a time and computes Q K^T again for each; here the
head dim is taken whole (to 512) and Q, K and V go through shared memory. Prefill runs on the
tensor cores, or, in f32, over lanes and registers. Decode with one query row spreads the dot
products over the lanes; a handful of grouped rows are one tensor-core tile of one warp.
"""

from __future__ import annotations

from dataclasses import replace

from ...attention.facts import AttentionFacts
from ...ir import Refusal
from .. import Target
from ..gpu.configurations import (
    TILE_ROWS,
    Attributes,
    Lanes,
    attributes,
    basis,
    decode_refusal,
    decode_with,
    decode_workgroup,
    dynamic_refusal,
    is_decode,
    is_f32,
    keys_of,
    keys_refusal,
    lane_attributes,
    loops_refusal,
    mma,
    other_rows,
    outgrows_lanes,
    promote,
    rows_of,
    shape_of,
    tiled,
    unit_refusal,
    unknown_as_tiles,
    wider_heads,
    with_tile,
)
from ..gpu.lanes import HEAD_ELEMENTS, LaneTile, find_lane_tile, fit_lanes
from ..gpu.tiles import WHOLE_TILES, AttentionTile, Shape, bytes_of, copies_divide, fit
from .tiles import MMA, TILES, depths, find_tile

# The widest head dim at which IREE's own tiles may win where there are few workgroups.
_NARROW = 128
# With fewer workgroups than one for so many compute units, IREE's smaller tiles are faster:
# one head of 4096 rows on an H200 takes 0.23 ms with them and 0.28 with these.
_FEWEST = 3
# The widest V whose sums for a tile of rows fit the registers of one warp.
_ONE_WARP = 256
# Bytes of a score, and what the part of a head that a tile takes is a multiple of.
_SCORE_BYTES, _CUT = 4, 64
# More lanes along a head dim, times subgroups, give wrong decode numbers in IREE 3.13.
MOST_DECODE_LANES = 32
_LANES = Lanes()
assert _LANES.head * _LANES.key_subgroups <= MOST_DECODE_LANES


def configuration(facts: AttentionFacts, target: Target) -> Attributes | Refusal:
    """The attributes for this attention, or why it keeps IREE's own configuration."""
    why = refusal(facts, target)
    if why:
        return why
    rows = rows_of(facts)
    if rows == 1:
        return decode_with(_LANES, facts)
    if is_decode(facts) and not is_f32(facts) and (facts.sizes[facts.n[0]] or 0) <= _ONE_WARP:
        return grouped_with(32, facts)
    return _idle(facts, target) or _prefill(facts, target, keys_of(facts))


def refusal(facts: AttentionFacts, target: Target) -> Refusal | None:
    """Why no configuration is known to be right for this attention, or None."""
    why = _refusal(facts, target)
    return why or unit_refusal(facts)


def own_loses_lanes(facts: AttentionFacts) -> bool:
    """Whether IREE's own configuration computes wrong numbers: measured in f32 and in decode at
    head dims 256, 512 and 1024; others have the same lanes where it finds no matrix instructions.
    """
    return outgrows_lanes(facts) and not _own_has_tiles(facts)


def _own_has_tiles(facts: AttentionFacts) -> bool:
    """Whether IREE's own configuration surely has matrix instructions."""
    kinds = {facts.element_types[name] for name in ("query", "key", "value")}
    heads = [facts.sizes[dim] for dim in (*facts.k1, *facts.n)]
    powers = all(size and size >= TILE_ROWS and not size & (size - 1) for size in heads)
    counts = [facts.sizes[dim] for dim in (*facts.m[-1:], *facts.k2)]
    whole = bool(facts.m) and all(size and size % TILE_ROWS == 0 for size in counts)
    return powers and whole and kinds in ({"f16"}, {"bf16"})


def tile_for(width: int) -> AttentionTile | None:
    """The best tile for V's head dim; None where that is wider than any that was measured."""
    return next((tiles[0] for most, tiles in TILES if width <= most), None)


def padded_keys(facts: AttentionFacts, target: Target) -> int | None:
    """The next whole number of prefill tiles of keys, where these leave one incomplete."""
    if len(facts.k2) != 1 or _refusal(facts, target) or is_decode(facts):
        return None
    keys = facts.sizes[facts.k2[0]]
    if keys is None or facts.k2[0] in facts.score_index_dims:
        return None
    if not isinstance(_find_tile(shape_of(facts, keys), facts, target), Refusal):
        return None
    tile = _find_tile(shape_of(facts, WHOLE_TILES), facts, target)
    return None if isinstance(tile, Refusal) else -(-keys // tile.keys) * tile.keys


def padded_heads(facts: AttentionFacts, target: Target) -> tuple[int, int] | None:
    """The head dims of Q and V, larger than this attention's by as little as can be, that have
    a prefill tile where its own have none."""
    if facts.kind != "attention" or is_decode(facts):
        return None
    if _refusal(facts, target) or _idle(facts, target):
        return None
    shape = shape_of(facts, WHOLE_TILES)
    if not isinstance(_find_tile(shape, facts, target), Refusal):
        return None
    depth = MMA[shape.query][1] if shape.query in MMA else HEAD_ELEMENTS
    return wider_heads(
        shape, depth, lambda wider: not isinstance(_find_tile(wider, facts, target), Refusal)
    )


def cut_head(facts: AttentionFacts, target: Target) -> int | None:
    """The head dim of Q and K, below this attention's by as little as can be, that has a tile
    where its own has none, and what is left over costs less than padding: its scores, written and
    read once, against K."""
    rows = facts.extent(facts.m)
    if facts.kind != "attention" or facts.changes_scores or len(facts.k2) != 1:
        return None
    if rows is None or rows == 1 or is_f32(facts) or _refusal(facts, target):
        return None
    shape = replace(shape_of(facts, WHOLE_TILES), rows=rows)
    if isinstance(find_tile(shape, target), AttentionTile):
        return None
    padded = 1 << (shape.head - 1).bit_length()
    if rows * _SCORE_BYTES >= padded * bytes_of(shape.query):
        return None
    heads = range(shape.head - 1 - (shape.head - 1) % _CUT, 0, -_CUT)
    narrower = (replace(shape, head=head) for head in heads)
    fitting = (less.head for less in narrower if isinstance(find_tile(less, target), AttentionTile))
    return next(fitting, None)


def dynamic_tiles(facts: AttentionFacts, target: Target) -> dict[int, int] | Refusal:
    """The tiles that an unknown number of keys, and of rows, is to be viewed as, by iteration
    dim; or why there are none."""
    why = dynamic_refusal(facts)
    if why:
        return why
    rows = rows_of(facts)
    if rows is not None and rows < TILE_ROWS:
        return Refusal(f"{rows} query rows are no prefill")
    why = _refusal(facts, target) or _idle(facts, target)
    if why:
        return why
    tile = _find_tile(shape_of(facts, WHOLE_TILES), facts, target)
    return tile if isinstance(tile, Refusal) else unknown_as_tiles(facts, tile)


def chunks_refusal(facts: AttentionFacts, target: Target) -> Refusal | None:
    """Why there would be no decode configuration for chunks of this attention's keys, or None."""
    rows = facts.extent(facts.m)
    if rows is None or rows > TILE_ROWS:
        return Refusal(f"{rows or 'an unknown number of'} query rows are no decode step")
    why = _refusal(facts, target)
    if why or rows == 1 or not is_f32(facts):
        return why or decode_refusal(facts, _LANES)
    tile = _find_tile(shape_of(facts, WHOLE_TILES), facts, target)
    return tile if isinstance(tile, Refusal) else None


def _refusal(facts: AttentionFacts, target: Target) -> Refusal | None:
    if facts.score_index_dims:
        return Refusal("its scores depend on positions, which was not measured")
    if len(facts.n) != 1 or len(facts.k1) != 1:
        return Refusal("it has several head dims")
    kinds = facts.element_types
    query, key, value = (kinds[name] for name in ("query", "key", "value"))
    if not is_f32(facts) and (query != key or {query, value} - set(MMA)):
        return Refusal(f"there is no tile for {query} Q, {key} K and {value} V")
    arch = int("".join(c for c in target.arch if c.isdigit()) or 0)
    if arch < 89 and "f8E4M3FN" in (query, value):
        return Refusal(f"{target.arch} has no fp8 tensor cores")
    if facts.sizes[facts.n[0]] is None or facts.sizes[facts.k1[0]] is None:
        return Refusal("a head dim is known only at run time")
    return None


def _idle(facts: AttentionFacts, target: Target) -> Refusal | None:
    """Why the prefill tiles would leave too much of the GPU idle, or None. IREE's own tiles are
    slower by more than that from head dim 256 on, and by 30 times and more where they take no
    tensor cores: in f32, for head dims that are no powers of two, for an unknown number of keys,
    for rows or keys that fill no tile (32 heads of 100 rows and 1024 keys take an H200 197 us)."""
    tile = tile_for(_NARROW)
    rows = rows_of(facts)
    width = facts.sizes[facts.n[0]] or 0
    if tile is None or rows is None or width > _NARROW or not _own_has_tiles(facts):
        return None
    workgroups = facts.assumed_extent((*facts.batch, *other_rows(facts))) * -(-rows // tile.rows)
    if _FEWEST * workgroups >= target.compute_units:
        return None
    return Refusal(
        f"{workgroups} workgroups leave most of {target.compute_units} compute units idle"
    )


def _prefill(facts: AttentionFacts, target: Target, keys: int | None) -> Attributes | Refusal:
    why = loops_refusal(facts)
    if why:
        return why
    tile = _find_tile(shape_of(facts, keys), facts, target)
    if isinstance(tile, Refusal):
        return tile
    if isinstance(tile, LaneTile):
        return lane_attributes(tile, facts)
    return with_tile(tile, facts, _products(facts))


def _find_tile(
    shape: Shape, facts: AttentionFacts, target: Target
) -> AttentionTile | LaneTile | Refusal:
    """The prefill tile for attention of this shape, or why there is none."""
    if shape.query in MMA:
        return find_tile(shape, target)
    others = [dim for dim in facts.m if dim != tiled(facts, "output", facts.m)]
    workgroups = facts.assumed_extent((*facts.batch, *others))
    return find_lane_tile(shape, workgroups, target.compute_units)


def prefill_with(
    tile: AttentionTile, facts: AttentionFacts, target: Target, rows: int | None, keys: int | None
) -> Attributes | Refusal:
    """The attributes for a tile, made smaller where the attention is, or what forbids it."""
    why = loops_refusal(facts)
    if why:
        return why
    shape = replace(shape_of(facts, keys), rows=rows)
    fitted = fit(tile, shape, depths(shape), target)
    return fitted if isinstance(fitted, Refusal) else with_tile(fitted, facts, _products(facts))


def _products(facts: AttentionFacts) -> tuple[str, str]:
    """The tensor-core instructions of Q K and of V."""
    query, value = (mma(MMA[facts.element_types[name]][0]) for name in ("query", "value"))
    return query, value


def lanes_with(tile: LaneTile, facts: AttentionFacts) -> Attributes | Refusal:
    """The attributes for a tile of lanes, made smaller where the attention is, or what forbids
    it."""
    if why := loops_refusal(facts):
        return why
    fitted = fit_lanes(tile, shape_of(facts, keys_of(facts)))
    return fitted if isinstance(fitted, Refusal) else lane_attributes(fitted, facts)


def grouped_with(keys: int, facts: AttentionFacts) -> Attributes | Refusal:
    """A few rows that share K and V: one warp, one tensor-core tile of rows, `keys` at once."""
    why = decode_refusal(facts, _LANES) or keys_refusal(facts, _LANES.step)
    if why:
        return why
    n, k1, k2 = facts.n[0], facts.k1[0], facts.k2[0]
    shape = shape_of(facts, keys)
    if not copies_divide(AttentionTile(TILE_ROWS, shape.width, keys, 1), shape):
        return Refusal(
            f"copies of head dims {shape.head} and {shape.width} do not divide among a warp"
        )
    workgroup = decode_workgroup(facts)
    workgroup[facts.m[-1]] = TILE_ROWS
    reduction = [0] * facts.num_dims
    reduction[k2] = keys
    one = [1] * facts.num_dims
    return attributes(
        f"{promote(0, 1, 2)}, reduction = {reduction}, workgroup = {workgroup}",
        f"{mma(MMA[facts.element_types['query']][0])}, {promote(0, 1)}, "
        f"subgroup_basis = {basis(one, n)}",
        f"{mma(MMA[facts.element_types['value']][0])}, {promote(1)}, "
        f"subgroup_basis = {basis(one, k1)}",
        32,
    )
