"""Configurations for NVIDIA GPUs, sm_80 and later, measured on an H200.

IREE's default takes 32 columns of V at a time and computes Q K^T again for each; here the
head dim is taken whole (to 512) and Q, K and V go through shared memory. Prefill runs on the
tensor cores, or, in f32, over lanes and registers. Decode with one query row spreads the dot
products over the lanes; a handful of grouped rows are one tensor-core tile of one warp.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..attention import AttentionFacts
from ..ir import element_bytes
from ..targets import Target
from .nvidia_lanes import HEAD_ELEMENTS, LaneTile, find_lane_tile, fit_lanes
from .nvidia_tiles import MMA, TILES, WHOLE_TILES, Shape, Tile, find_tile, fit

Attributes = dict[str, str]

_D = "#iree_gpu.derived_thread_config"
# Rows of a tensor-core tile, and those that one subgroup takes with full use of what it reads.
_TILE_ROWS, _SUBGROUP_ROWS = 16, 32
# The widest head dim at which IREE's own tiles may win where there are few workgroups.
_NARROW = 128
# With fewer workgroups than one for so many compute units, IREE's smaller tiles are faster:
# one head of 4096 rows on an H200 takes 0.23 ms with them and 0.28 with these.
_FEWEST = 3
# More lanes along a head dim, times subgroups, give wrong decode numbers in IREE 3.13. Its own
# configuration without tensor cores has that many where a head dim has more bytes.
MOST_DECODE_LANES = 32
_MOST_OWN_BYTES = 512


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


def configuration(facts: AttentionFacts, target: Target) -> Attributes | str:
    """The attributes for this attention, or why it keeps IREE's own configuration."""
    why = refusal(facts, target)
    if why:
        return why
    rows = rows_of(facts)
    if rows == 1:
        return decode_with(_LANES, facts)
    if is_decode(facts) and not is_f32(facts):
        return grouped_with(32, facts)
    return _idle(facts, target) or _prefill(facts, target, keys_of(facts))


def refusal(facts: AttentionFacts, target: Target) -> str:
    """Why no configuration is known to be right for this attention, or ''."""
    why = _refusal(facts, target)
    if not why and facts.may_lose_dims:
        why = "it has unit dims, which IREE folds: its rank is not final before phase 'flow'"
    if not why and any(facts.sizes[dim] == 1 for dim in (*facts.m, *facts.k1, *facts.k2, *facts.n)):
        why = "it has unit dims among those of its tiles"
    return why


def own_is_wrong(facts: AttentionFacts) -> bool:
    """Whether IREE's own configuration computes wrong numbers: measured in f32 at head dims 256,
    512 and 1024."""
    heads = {"query": facts.extent(facts.k1) or 0, "value": facts.extent(facts.n) or 0}
    most = max(size * element_bytes(facts.value(name)) for name, size in heads.items())
    return most > _MOST_OWN_BYTES and (is_f32(facts) or is_decode(facts))


def is_decode(facts: AttentionFacts) -> bool:
    """Whether there are fewer query rows than a tensor-core tile has."""
    rows = rows_of(facts)
    return rows is not None and rows < _TILE_ROWS


def tile_for(width: int) -> Tile | None:
    """The best tile for V's head dim; None where that is wider than any that was measured."""
    return next((tiles[0] for most, tiles in TILES if width <= most), None)


def padded_keys(facts: AttentionFacts, target: Target) -> int | None:
    """The next whole number of prefill tiles of keys, where these leave one incomplete."""
    if len(facts.k2) != 1 or _refusal(facts, target) or is_decode(facts):
        return None
    keys = facts.sizes[facts.k2[0]]
    if keys is None or facts.k2[0] in facts.score_index_dims:
        return None
    if not isinstance(_find_tile(_shape(facts, keys), facts, target), str):
        return None
    tile = _find_tile(_shape(facts, WHOLE_TILES), facts, target)
    return None if isinstance(tile, str) else -(-keys // tile.keys) * tile.keys


def padded_heads(facts: AttentionFacts, target: Target) -> tuple[int, int] | None:
    """The head dims of Q and V, larger than this attention's by as little as can be, that have
    a prefill tile where its own have none."""
    if facts.kind != "attention" or is_decode(facts):
        return None
    if _refusal(facts, target) or _idle(facts, target):
        return None
    shape = _shape(facts, WHOLE_TILES)
    if not isinstance(_find_tile(shape, facts, target), str):
        return None
    depth = MMA[shape.query][1] if shape.query in MMA else HEAD_ELEMENTS
    heads, widths = (
        range(-(-size // depth) * depth, max(32, 1 << (size - 1).bit_length()) + 1, depth)
        for size in (shape.head, shape.width)
    )
    for head, width in sorted(itertools.product(heads, widths), key=sum):
        wider = replace(shape, head=head, width=width)
        if not isinstance(_find_tile(wider, facts, target), str):
            return head, width
    return None


def dynamic_tiles(facts: AttentionFacts, target: Target) -> dict[int, int] | str:
    """The tiles that an unknown number of keys, and of rows, is to be viewed as, by iteration
    dim; or why there are none."""
    # IREE joins a group with its rows to one dim; of an unknown size, it fails to distribute it.
    grouped = rows_of(facts) is None and any(facts.sizes[d] != 1 for d in _other_rows(facts))
    if len(facts.k2) != 1 or (facts.sizes[facts.k2[0]] is not None and not grouped):
        return "its number of keys is known"
    if facts.kind != "attention" or (facts.has_mask and facts.k2[0] not in facts.map_of("mask")):
        return "it is partial, or masked by row only"
    rows = rows_of(facts)
    if rows is not None and rows < _TILE_ROWS:
        return f"{rows} query rows are no prefill"
    why = _refusal(facts, target) or _idle(facts, target)
    if why:
        return why
    tile = _find_tile(_shape(facts, WHOLE_TILES), facts, target)
    if isinstance(tile, str):
        return tile
    found = {dim: tile.keys for dim in facts.k2 if facts.sizes[dim] is None}
    return found if rows is not None else {**found, _tiled(facts, "output", facts.m): tile.rows}


def decodes(facts: AttentionFacts, target: Target) -> str:
    """Why there would be no decode configuration for chunks of this attention's keys, or ''."""
    rows = facts.extent(facts.m)
    if rows is None or rows > _TILE_ROWS:
        return f"{rows or 'an unknown number of'} query rows are no decode step"
    why = _refusal(facts, target)
    if why or rows == 1 or not is_f32(facts):
        return why or _decode_refusal(facts, _LANES)
    tile = _find_tile(_shape(facts, WHOLE_TILES), facts, target)
    return tile if isinstance(tile, str) else ""


def _refusal(facts: AttentionFacts, target: Target) -> str:
    if facts.score_index_dims:
        return "its scores depend on positions, which was not measured"
    if len(facts.n) != 1 or len(facts.k1) != 1:
        return "it has several head dims"
    kinds = facts.element_types
    query, key, value = (kinds[name] for name in ("query", "key", "value"))
    if not is_f32(facts) and (query != key or {query, value} - set(MMA)):
        return f"there is no tile for {query} Q, {key} K and {value} V"
    arch = int("".join(c for c in target.arch if c.isdigit()) or 0)
    if arch < 89 and "f8E4M3FN" in (query, value):
        return f"{target.arch} has no fp8 tensor cores"
    if facts.sizes[facts.n[0]] is None or facts.sizes[facts.k1[0]] is None:
        return "a head dim is known only at run time"
    return ""


def is_f32(facts: AttentionFacts) -> bool:
    """Whether Q, K and V are f32: without tensor cores."""
    return all(facts.element_types[name] == "f32" for name in ("query", "key", "value"))


def _tiled(facts: AttentionFacts, operand: str, dims: Sequence[int]) -> int:
    """The dim of m or k2 that is tiled: the innermost one in the result or in K."""
    return next(dim for dim in reversed(facts.map_of(operand)) if dim is not None and dim in dims)


def _other_rows(facts: AttentionFacts) -> list[int]:
    """The dims of m that are not tiled: groups of query heads."""
    return [dim for dim in facts.m if dim != _tiled(facts, "output", facts.m)]


def rows_of(facts: AttentionFacts) -> int | None:
    """Rows of the dim of m that is tiled; None where that is dynamic."""
    return facts.sizes[_tiled(facts, "output", facts.m)] if facts.m else 1


def keys_of(facts: AttentionFacts) -> int | None:
    """Keys of the dim of k2 that is tiled; None where that is dynamic."""
    return facts.sizes[_tiled(facts, "key", facts.k2)]


def _idle(facts: AttentionFacts, target: Target) -> str:
    """Why the prefill tiles would leave too much of the GPU idle, or ''. IREE's own tiles are
    slower by more than that from head dim 256 on, and by 30 times and more where they take no
    tensor cores: in f32, for head dims that are no powers of two, for an unknown number of keys."""
    tile = tile_for(_NARROW)
    rows = rows_of(facts)
    heads = [facts.sizes[dim] or 0 for dim in (*facts.k1, *facts.n)]
    if (
        tile is None
        or rows is None
        or heads[-1] > _NARROW
        or any(size.bit_count() != 1 for size in heads)
    ):
        return ""
    if is_f32(facts) or any(facts.sizes[dim] is None for dim in facts.k2):
        return ""
    workgroups = facts.assumed_extent((*facts.batch, *_other_rows(facts))) * -(-rows // tile.rows)
    if _FEWEST * workgroups >= target.compute_units:
        return ""
    return f"{workgroups} workgroups leave most of {target.compute_units} compute units idle"


def _shape(facts: AttentionFacts, keys: int | None) -> Shape:
    """The shape of this attention, over so many keys."""
    head, width = facts.sizes[facts.k1[0]] or 0, facts.sizes[facts.n[0]] or 0
    query, value = facts.element_types["query"], facts.element_types["value"]
    transposed = facts.is_innermost("value", facts.k2)
    return Shape(rows_of(facts), keys, head, width, query, value, transposed)


def _prefill(facts: AttentionFacts, target: Target, keys: int | None) -> Attributes | str:
    why = _loops_refusal(facts)
    if why:
        return why
    tile = _find_tile(_shape(facts, keys), facts, target)
    if isinstance(tile, str):
        return tile
    return _with_lanes(tile, facts) if isinstance(tile, LaneTile) else _with_tile(tile, facts)


def _find_tile(shape: Shape, facts: AttentionFacts, target: Target) -> Tile | LaneTile | str:
    """The prefill tile for attention of this shape, or why there is none."""
    if shape.query in MMA:
        return find_tile(shape, target)
    others = [dim for dim in facts.m if dim != _tiled(facts, "output", facts.m)]
    workgroups = facts.assumed_extent((*facts.batch, *others))
    return find_lane_tile(shape, workgroups, target.compute_units)


def prefill_with(
    tile: Tile, facts: AttentionFacts, target: Target, rows: int | None, keys: int | None
) -> Attributes | str:
    """The attributes for a tile, made smaller where the attention is, or what forbids it."""
    why = _loops_refusal(facts)
    if why:
        return why
    fitted = fit(tile, replace(_shape(facts, keys), rows=rows), target)
    return fitted if isinstance(fitted, str) else _with_tile(fitted, facts)


def lanes_with(tile: LaneTile, facts: AttentionFacts) -> Attributes | str:
    """The attributes for a tile of lanes, made smaller where the attention is, or what forbids
    it."""
    fitted = _loops_refusal(facts) or fit_lanes(tile, _shape(facts, keys_of(facts)))
    return fitted if isinstance(fitted, str) else _with_lanes(fitted, facts)


def _loops_refusal(facts: AttentionFacts) -> str:
    if rows_of(facts) is None and any(facts.sizes[dim] is None for dim in facts.k2):
        # IREE 3.13 then "failed to distribute", as in the case below.
        return "the numbers of rows and of keys are both known only at run time"
    for name in ("query", "key", "value"):
        innermost = facts.map_of(name)[-1]
        if innermost is not None and innermost in facts.batch and facts.sizes[innermost] is None:
            return f"the {name}'s innermost dim is a batch of a size known only at run time"
    return ""


def _with_tile(tile: Tile, facts: AttentionFacts) -> Attributes:
    n, k1, k2 = facts.n[0], facts.k1[0], _tiled(facts, "key", facts.k2)
    m = _tiled(facts, "output", facts.m)
    (qk, _), (pv, _) = (MMA[facts.element_types[name]] for name in ("query", "value"))
    workgroup = [1] * facts.num_dims
    subgroups = [1] * facts.num_dims
    for dim in (k1, *facts.k2):
        workgroup[dim] = 0
    workgroup[n], subgroups[n] = tile.columns, tile.column_subgroups
    workgroup[m], subgroups[m] = tile.rows, tile.row_subgroups
    reduction = [0] * facts.num_dims
    for dim in facts.k2:
        reduction[dim] = tile.keys if dim == k2 else 1
    query_shared = (0,) if tile.query_shared else ()
    tiles = f"{promote(*query_shared, 1, 2)}, reduction = {reduction}, workgroup = {workgroup}"
    return _attributes(
        tiles,
        f"{mma(qk)}, {promote(*query_shared, 1)}, subgroup_basis = {basis(subgroups, n)}",
        f"{mma(pv)}, {promote(1)}, subgroup_basis = {basis(subgroups, k1)}",
        tile.threads,
    )


def _with_lanes(tile: LaneTile, facts: AttentionFacts) -> Attributes:
    n, k1, k2 = facts.n[0], facts.k1[0], _tiled(facts, "key", facts.k2)
    m, width = _tiled(facts, "output", facts.m), facts.sizes[n] or 0
    workgroup, reduction = [1] * facts.num_dims, [0] * facts.num_dims
    for dim in (k1, *facts.k2):
        workgroup[dim] = 0
    for dim in facts.k2:
        reduction[dim] = tile.keys if dim == k2 else 1
    workgroup[m], workgroup[n] = tile.rows, width
    subgroups, qk_lanes, pv_lanes = ([1] * facts.num_dims for _ in range(3))
    qk_thread, pv_thread = ([0] * facts.num_dims for _ in range(2))
    subgroups[m] = tile.subgroups
    qk_lanes[m], qk_lanes[k1], qk_lanes[k2] = tile.row_lanes, tile.head_lanes, tile.key_lanes
    pv_lanes[m], pv_lanes[n] = tile.row_lanes, tile.column_lanes
    qk_thread[m], qk_thread[k1], qk_thread[k2] = tile.rows_each, HEAD_ELEMENTS, tile.keys_each
    pv_thread[m], pv_thread[n], pv_thread[k2] = tile.rows_each, tile.columns_each(width), 4

    def product(lanes: list[int], thread: list[int], without: int) -> str:
        each = [size for dim, size in enumerate(thread) if dim != without]
        return (
            f"subgroup_basis = {basis(subgroups, without)}, "
            f"lane_basis = {basis(lanes, without)}, thread = {each}"
        )

    return _attributes(
        f"reduction = {reduction}, workgroup = {workgroup}",
        product(qk_lanes, qk_thread, n),
        product(pv_lanes, pv_thread, k1),
        tile.threads,
    )


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
    both = f"lane_basis = {basis(spread, n)}, thread = {thread}, subgroup_basis = "
    return _attributes(
        f"partial_reduction = {partial}, workgroup = {_decode_workgroup(facts)}",
        both + basis(subgroups, k1),
        both + basis(subgroups, n),
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
        f"{promote(0, 1, 2)}, reduction = {reduction}, workgroup = {workgroup}",
        f"{mma(MMA[facts.element_types['query']][0])}, {promote(0, 1)}, "
        f"subgroup_basis = {basis(one, n)}",
        f"{mma(MMA[facts.element_types['value']][0])}, {promote(1)}, "
        f"subgroup_basis = {basis(one, k1)}",
        32,
    )


def _decode_workgroup(facts: AttentionFacts) -> list[int]:
    workgroup = [1] * facts.num_dims
    workgroup[facts.k1[0]] = workgroup[facts.k2[0]] = 0
    workgroup[facts.n[0]] = facts.sizes[facts.n[0]] or 0
    return workgroup


def _decode_refusal(facts: AttentionFacts, lanes: Lanes) -> str:
    """Why the dims or types are none that decode was measured for, or ''."""
    if len(facts.k2) != 1:
        return "it has several key dims"
    head, width = facts.sizes[facts.k1[0]] or 0, facts.sizes[facts.n[0]] or 0
    lane_width = lanes.head * lanes.elements
    divides = head % lane_width == 0 and width % lane_width == 0
    if not divides or (max(head, width) > 2 * lane_width and not own_is_wrong(facts)):
        return f"head dims {head} and {width} are not {lane_width} or {2 * lane_width}"
    kinds = {facts.element_types[name] for name in ("query", "value")}
    if not kinds <= {"f16", "bf16", "f32"}:
        return "decode was measured in f16, bf16 and f32 only"
    return ""


def _keys_refusal(facts: AttentionFacts, step: int) -> str:
    keys = facts.sizes[facts.k2[0]]
    return f"the keys are no multiple of {step}" if keys is None or keys % step else ""


def basis(counts: Sequence[int], without: int | None = None) -> str:
    """How many subgroups, or lanes, there are along each dim, and the dims that an op has: all
    but one of attention."""
    return str([list(counts), [dim for dim in range(len(counts)) if dim != without]])


def mma(name: str) -> str:
    """A tensor-core instruction as an entry of a lowering configuration."""
    return f"mma_kind = #iree_gpu.mma_layout<{name}>"


def promote(*operands: int) -> str:
    """Which operands go through shared memory, as an entry of a lowering configuration."""
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
