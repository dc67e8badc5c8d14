"""Configurations for NVIDIA GPUs, sm_80 and later, measured on an H200.

IREE's default takes 32 columns of V at a time and computes Q K^T again for each; here the
head dim is taken whole (to 512) and Q, K and V go through shared memory. Prefill runs on the
tensor cores. Decode with one query row spreads the dot products over the lanes; a handful of
grouped rows are one tensor-core tile of one warp.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..attention import AttentionFacts
from ..targets import Target
from ..targets.nvidia import Nvidia

Attributes = dict[str, str]

_D = "#iree_gpu.derived_thread_config"
# Rows of a tensor-core tile, and those that one subgroup takes with full use of what it reads.
_TILE_ROWS, _SUBGROUP_ROWS = 16, 32
_MMA = {
    "f16": ("NV_MMA_SYNC_F32_16x8x16_F16", 16),
    "bf16": ("NV_MMA_SYNC_F32_16x8x16_BF16", 16),
    "f8E4M3FN": ("NV_MMA_SYNC_F32_16x8x32_F8E4M3FN", 32),
}
_BYTES = {"f16": 2, "bf16": 2, "f8E4M3FN": 1}
# With fewer workgroups than one for so many compute units, IREE's smaller tiles are faster:
# one head of 4096 rows on an H200 takes 0.23 ms with them and 0.28 with these.
_FEWEST = 3
# More lanes along a head dim, times subgroups, give wrong decode numbers in IREE 3.13.
MOST_DECODE_LANES = 32


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
class Lanes:
    """Decode with one row: lanes along the head dims, elements of those that each takes at
    once, lanes and subgroups along the keys, and keys at a time."""

    head: int = 8
    elements: int = 8
    keys: int = 4
    key_subgroups: int = 4
    step: int = 64


_LANES = Lanes()
assert _LANES.head * _LANES.key_subgroups <= MOST_DECODE_LANES


# The best tile by V's head dim, up to which it holds.
_TILES = (
    (128, Tile(128, 128, 64, 4)),
    (256, Tile(128, 256, 32, 8)),
    (512, Tile(64, 512, 16, 4, 2)),
    (1024, Tile(32, 256, 16, 2, 2)),
)


def configuration(facts: AttentionFacts, target: Target) -> Attributes | str:
    """The attributes for this attention, or why it keeps IREE's own configuration."""
    why = _refusal(facts, target)
    if why:
        return why
    if 1 in facts.sizes:
        return "it has unit dims, which IREE folds: its rank is not final before phase 'flow'"
    rows = _rows(facts)
    if rows is not None and rows < _TILE_ROWS:
        return _decode(facts, rows)
    return _idle(facts, target, rows) or _prefill(facts, target, rows, facts.sizes[facts.k2[0]])


def padded_keys(facts: AttentionFacts, target: Target) -> int | None:
    """The next whole number of prefill tiles of keys, where these leave one incomplete."""
    rows = _rows(facts)
    if _refusal(facts, target) or (rows is not None and rows < _TILE_ROWS):
        return None
    keys, depth = facts.sizes[facts.k2[0]], _MMA[facts.element_types["value"]][1]
    if keys is None or keys % depth == 0 or facts.k2[0] in facts.score_index_dims:
        return None
    tile = next((tile for most, tile in _TILES if (facts.sizes[facts.n[0]] or 0) <= most), None)
    step = tile.keys if tile is not None else depth
    padded = -(-keys // step) * step
    return None if isinstance(_prefill(facts, target, rows, padded), str) else padded


def decodes(facts: AttentionFacts, target: Target) -> str:
    """Why there would be no decode configuration for chunks of this attention's keys, or ''."""
    rows = facts.extent(facts.m)
    if rows is None or rows > _TILE_ROWS:
        return f"{rows or 'an unknown number of'} query rows are no decode step"
    return _refusal(facts, target) or _decode_refusal(facts, _LANES)


def _refusal(facts: AttentionFacts, target: Target) -> str:
    if facts.score_index_dims:
        return "its scores depend on positions, which was not measured"
    if len(facts.n) != 1 or len(facts.k2) != 1 or len(facts.k1) != 1:
        return "it has several head or key dims"
    kinds = facts.element_types
    query, key, value = (kinds[name] for name in ("query", "key", "value"))
    if query != key or {query, value} - set(_MMA):
        return f"there is no tensor-core tile for {query} Q, {key} K and {value} V"
    arch = int("".join(c for c in target.arch if c.isdigit()) or 0)
    if arch < 89 and "f8E4M3FN" in (query, value):
        return f"{target.arch} has no fp8 tensor cores"
    if facts.sizes[facts.n[0]] is None or facts.sizes[facts.k1[0]] is None:
        return "a head dim is known only at run time"
    return ""


def _rows(facts: AttentionFacts) -> int | None:
    """Rows of the innermost dim of m, the one that is tiled; None where that is dynamic."""
    return facts.sizes[facts.m[-1]] if facts.m else 1


def _idle(facts: AttentionFacts, target: Target, rows: int | None) -> str:
    """Why the prefill tiles would leave too much of the GPU idle, or ''. From head dim 256 on
    IREE's own tiles are slower by more than that."""
    _, tile = _TILES[0]
    if rows is None or (facts.sizes[facts.n[0]] or 0) > tile.columns:
        return ""
    groups = facts.assumed_extent((*facts.batch, *facts.m[:-1]))
    workgroups = groups * -(-rows // tile.rows)
    if _FEWEST * workgroups >= target.compute_units:
        return ""
    return f"{workgroups} workgroups leave most of {target.compute_units} compute units idle"


def _prefill(
    facts: AttentionFacts, target: Target, rows: int | None, keys: int | None
) -> Attributes | str:
    width = facts.sizes[facts.n[0]] or 0
    found = next((tile for most, tile in _TILES if width <= most), None)
    if found is None:
        return f"head dim {width} is wider than any that was measured"
    return prefill_with(found, facts, target, rows, keys)


def prefill_with(
    tile: Tile, facts: AttentionFacts, target: Target, rows: int | None, keys: int | None
) -> Attributes | str:
    """The attributes for a tile, made smaller where the attention is, or what forbids it."""
    n, k1, k2 = facts.n[0], facts.k1[0], facts.k2[0]
    head, width = facts.sizes[k1] or 0, facts.sizes[n] or 0
    query, value = facts.element_types["query"], facts.element_types["value"]
    qk, qk_depth = _MMA[query]
    pv, pv_depth = _MMA[value]
    if head < qk_depth or width < 32 or {head.bit_count(), width.bit_count()} != {1}:
        return f"head dims {head} and {width} are no powers of two from 32 on"
    if keys is None or keys % pv_depth:
        # IREE 3.13 then "failed to distribute".
        number = "a number of keys known only at run time" if keys is None else f"{keys} keys"
        return f"{number} may leave a tensor-core tile of {pv_depth} incomplete"
    tile = _fitted(tile, rows, width, keys)
    shared = _shared_bytes(tile, head, query, value)
    limit = target.shared_bytes if isinstance(target, Nvidia) else 0
    if shared > limit:
        return f"{shared} bytes of shared memory are needed; {target.arch} has {limit}"
    workgroup = [1] * facts.num_dims
    subgroups = [1] * facts.num_dims
    workgroup[k1] = workgroup[k2] = 0
    workgroup[n], subgroups[n] = tile.columns, tile.column_subgroups
    workgroup[facts.m[-1]], subgroups[facts.m[-1]] = tile.rows, tile.row_subgroups
    reduction = [0] * facts.num_dims
    reduction[k2] = tile.keys
    query_shared = (0,) if tile.query_shared else ()
    tiles = f"{_promote(*query_shared, 1, 2)}, reduction = {reduction}, workgroup = {workgroup}"
    return _attributes(
        tiles,
        f"{_mma(qk)}, {_promote(*query_shared, 1)}, subgroup_basis = {_basis(subgroups, n)}",
        f"{_mma(pv)}, {_promote(1)}, subgroup_basis = {_basis(subgroups, k1)}",
        tile.threads,
    )


def _fitted(tile: Tile, rows: int | None, width: int, keys: int) -> Tile:
    """The tile for fewer rows and narrower heads, its keys a divisor of `keys`. The subgroups
    stay a power of two: IREE spreads the copies to shared memory over all threads."""
    columns = min(tile.columns, width)
    keys = math.gcd(tile.keys, keys)
    if rows is None or rows >= tile.rows:
        return replace(tile, columns=columns, keys=keys)
    per_subgroup = tile.rows // tile.row_subgroups
    fewer = 1 << (-(-rows // per_subgroup) - 1).bit_length()
    return replace(tile, rows=fewer * per_subgroup, columns=columns, keys=keys, row_subgroups=fewer)


def _shared_bytes(tile: Tile, head: int, query: str, value: str) -> int:
    """Of the tiles of Q, K, V and of the weights that a workgroup keeps there."""
    q_and_k = (tile.rows * tile.query_shared + tile.keys) * head * _BYTES[query]
    return q_and_k + (tile.columns + tile.rows) * tile.keys * _BYTES[value]


def _decode(facts: AttentionFacts, rows: int) -> Attributes | str:
    if rows > 1:
        return grouped_with(32, facts)
    return decode_with(_LANES, facts)


def decode_with(lanes: Lanes, facts: AttentionFacts) -> Attributes | str:
    """The attributes for one row of queries whose dot products go over these lanes."""
    why = _decode_refusal(facts, lanes) or _keys_refusal(facts, lanes.step)
    if why:
        return why
    n, k1, k2 = facts.n[0], facts.k1[0], facts.k2[0]
    partial, thread = [0] * facts.num_dims, [0] * (facts.num_dims - 1)
    partial[k2], thread[k1 - 1] = lanes.step, lanes.elements
    spread, subgroups = ([1] * facts.num_dims for _ in range(2))
    spread[k1], spread[k2], subgroups[k2] = lanes.head, lanes.keys, lanes.key_subgroups
    # Both products name their lanes by k1's place: the form that was measured and is right.
    both = f"lane_basis = {_basis(spread, n)}, thread = {thread}, subgroup_basis = "
    return _attributes(
        f"partial_reduction = {partial}, workgroup = {_decode_workgroup(facts)}",
        both + _basis(subgroups, k1),
        both + _basis(subgroups, n),
        32 * lanes.key_subgroups,
    )


def grouped_with(keys: int, facts: AttentionFacts) -> Attributes | str:
    """A few rows that share K and V: one warp, one tensor-core tile of rows, `keys` at once."""
    why = _decode_refusal(facts, _LANES) or _keys_refusal(facts, _LANES.step)
    if why:
        return why
    n, k1, k2 = facts.n[0], facts.k1[0], facts.k2[0]
    workgroup = _decode_workgroup(facts)
    workgroup[facts.m[-1]] = _TILE_ROWS
    reduction = [0] * facts.num_dims
    reduction[k2] = keys
    one = [1] * facts.num_dims
    return _attributes(
        f"{_promote(0, 1, 2)}, reduction = {reduction}, workgroup = {workgroup}",
        f"{_mma(_MMA[facts.element_types['query']][0])}, {_promote(0, 1)}, "
        f"subgroup_basis = {_basis(one, n)}",
        f"{_mma(_MMA[facts.element_types['value']][0])}, {_promote(1)}, "
        f"subgroup_basis = {_basis(one, k1)}",
        32,
    )


def _decode_workgroup(facts: AttentionFacts) -> list[int]:
    workgroup = [1] * facts.num_dims
    workgroup[facts.k1[0]] = workgroup[facts.k2[0]] = 0
    workgroup[facts.n[0]] = facts.sizes[facts.n[0]] or 0
    return workgroup


def _decode_refusal(facts: AttentionFacts, lanes: Lanes) -> str:
    """Why the head dims or types are none that decode was measured for, or ''."""
    head, width = facts.sizes[facts.k1[0]] or 0, facts.sizes[facts.n[0]] or 0
    lane_width = lanes.head * lanes.elements
    if head % lane_width or width % lane_width or max(head, width) > 2 * lane_width:
        return f"head dims {head} and {width} are not {lane_width} or {2 * lane_width}"
    if any(facts.element_types[name] not in ("f16", "bf16") for name in ("query", "value")):
        return "decode was measured in f16 and bf16 only"
    return ""


def _keys_refusal(facts: AttentionFacts, step: int) -> str:
    keys = facts.sizes[facts.k2[0]]
    return f"the keys are no multiple of {step}" if keys is None or keys % step else ""


def _basis(counts: Sequence[int], without: int) -> str:
    return str([list(counts), [dim for dim in range(len(counts)) if dim != without]])


def _mma(name: str) -> str:
    return f"mma_kind = #iree_gpu.mma_layout<{name}>"


def _promote(*operands: int) -> str:
    types = ", ".join([_D] * len(operands))
    return f"promote_operands = {list(operands)}, promotion_types = [{types}]"


def _attributes(tiles: str, qk: str, pv: str, threads: int) -> Attributes:
    lowering = "#iree_gpu.lowering_config<{%s}>"
    return {
        "decomposition_config": (
            f"{{qk_attrs = {{lowering_config = {lowering % qk}}}, "
            f"pv_attrs = {{lowering_config = {lowering % pv}}}}}"
        ),
        "compilation_info": (
            f"#iree_codegen.compilation_info<lowering_config = {lowering % tiles}, "
            "translation_info = #iree_codegen.translation_info<pipeline = "
            f"#iree_gpu.pipeline<VectorDistribute> workgroup_size = [{threads}, 1, 1] "
            "subgroup_size = 32, {iree_codegen.denormal_fp_math_f32 = "
            '#iree_codegen.denormal_fp_math<"preserve-sign">}>>'
        ),
    }
