"""Configurations of attention for GPUs in IREE's words: what the families' tables share."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ...attention.facts import AttentionFacts, begins_with_numbers
from ...ir import Refusal, element_bytes, printed
from .lanes import HEAD_ELEMENTS, LANES, LaneTile
from .tiles import AttentionTile, Shape

Attributes = dict[str, str]

# Rows of a matrix instruction's tile.
TILE_ROWS = 16
# Rows that are tiled though heads of one group stand inside of them.
_MANY_ROWS = 128
_D = "#iree_gpu.derived_thread_config"
# What a lane reads of a head dim at once, where there are no matrix instructions.
_LANE_BYTES = 16


@dataclass(frozen=True)
class Lanes:
    """Decode with one row: lanes along the head dims, elements of those that each takes at
    once, lanes and subgroups along the keys, and keys at a time."""

    head: int = 8
    elements: int = 8
    keys: int = 4
    key_subgroups: int = 4
    step: int = 64

    @property
    def subgroup(self) -> int:
        """Threads of a subgroup."""
        return self.head * self.keys


def is_f32(facts: AttentionFacts) -> bool:
    """Whether Q, K and V are f32, which has matrix instructions on few GPUs."""
    return all(facts.element_types[name] == "f32" for name in ("query", "key", "value"))


def is_decode(facts: AttentionFacts) -> bool:
    """Whether there are fewer query rows than a matrix instruction's tile has."""
    rows = rows_of(facts)
    return rows is not None and rows < TILE_ROWS


def tiled(facts: AttentionFacts, operand: str, dims: Sequence[int]) -> int:
    """The dim of m or k2 that is tiled: the innermost one in the result or in K, unless that is a
    group of a few heads inside of many rows."""
    found = [dim for dim in reversed(facts.map_of(operand)) if dim is not None and dim in dims]
    few = (facts.sizes[found[0]] or TILE_ROWS) < TILE_ROWS
    many = [dim for dim in found if few and (facts.sizes[dim] or 0) >= _MANY_ROWS]
    return (many or found)[0]


def other_rows(facts: AttentionFacts) -> list[int]:
    """The dims of m that are not tiled: groups of query heads."""
    return [dim for dim in facts.m if dim != tiled(facts, "output", facts.m)]


def rows_of(facts: AttentionFacts) -> int | None:
    """Rows of the dim of m that is tiled; None where that is dynamic."""
    return facts.sizes[tiled(facts, "output", facts.m)] if facts.m else 1


def keys_of(facts: AttentionFacts) -> int | None:
    """Keys of the dim of k2 that is tiled; None where that is dynamic."""
    return facts.sizes[tiled(facts, "key", facts.k2)]


def shape_of(facts: AttentionFacts, keys: int | None) -> Shape:
    """The shape of this attention, over so many keys."""
    head, width = facts.sizes[facts.k1[0]] or 0, facts.sizes[facts.n[0]] or 0
    query, value = facts.element_types["query"], facts.element_types["value"]
    transposed = facts.is_innermost("value", facts.k2)
    return Shape(rows_of(facts), keys, head, width, query, value, transposed)


def wider_heads(
    shape: Shape, step: int, has_tile: Callable[[Shape], bool]
) -> tuple[int, int] | None:
    """The head dims of Q and V, multiples of `step` and larger than those of `shape` by as little
    as can be, that have a tile; up to the next power of two."""
    heads, widths = (
        range(-(-size // step) * step, max(32, 1 << (size - 1).bit_length()) + 1, step)
        for size in (shape.head, shape.width)
    )
    pairs = sorted(itertools.product(heads, widths), key=sum)
    fitting = (pair for pair in pairs if has_tile(replace(shape, head=pair[0], width=pair[1])))
    return next(fitting, None)


def dynamic_refusal(facts: AttentionFacts) -> Refusal | None:
    """Why keys and rows of this attention are not to be viewed as whole tiles, or None."""
    # IREE joins a group with its rows to one dim; of an unknown size, it fails to distribute it.
    grouped = rows_of(facts) is None and any(facts.sizes[d] != 1 for d in other_rows(facts))
    if len(facts.k2) != 1 or (facts.sizes[facts.k2[0]] is not None and not grouped):
        return Refusal("its number of keys is known")
    if not begins_with_numbers(facts):
        return Refusal("it goes on from what other keys gave")
    if facts.has_mask and facts.k2[0] not in facts.map_of("mask"):
        return Refusal("it is masked by row only")
    return None


def unknown_as_tiles(facts: AttentionFacts, tile: AttentionTile | LaneTile) -> dict[int, int]:
    """The sizes of tiles by iteration dim whose size is known only at run time; of rows, too, that
    IREE would not distribute with such keys."""
    found = {dim: tile.keys for dim in facts.k2 if facts.sizes[dim] is None}
    if rows_of(facts) is not None and not rows_refusal(facts, tile):
        return found
    return {**found, tiled(facts, "output", facts.m): tile.rows}


def rows_refusal(facts: AttentionFacts, tile: AttentionTile | LaneTile) -> Refusal | None:
    """What rows keep IREE from distributing a tile in a loop over an unknown number of keys, or
    None. IREE 3.13 has sums in memory there where the number of a tile's rows is no constant."""
    rows = rows_of(facts)
    if rows is None or rows % tile.rows == 0 or None not in (facts.sizes[d] for d in facts.k2):
        return None
    # One tile has all rows; lanes exchange which of these there are for V's columns before them.
    output = facts.map_of("output")
    is_columns_first = output.index(facts.n[0]) < output.index(tiled(facts, "output", facts.m))
    if rows < tile.rows and (not is_columns_first or isinstance(tile, LaneTile)):
        return None
    return Refusal(
        f"{rows} rows leave a tile of {tile.rows} incomplete, of an unknown number of keys"
    )


def loops_refusal(facts: AttentionFacts) -> Refusal | None:
    """What keeps IREE from distributing any tile of this attention, or None."""
    if rows_of(facts) is None and any(facts.sizes[dim] is None for dim in facts.k2):
        # IREE 3.13 then "failed to distribute", as in the case below.
        return Refusal("the numbers of rows and of keys are both known only at run time")
    for name in ("query", "key", "value"):
        innermost = facts.map_of(name)[-1]
        if innermost is not None and innermost in facts.batch and facts.sizes[innermost] is None:
            return Refusal(
                f"the {name}'s innermost dim is a batch of a size known only at run time"
            )
    return None


def unit_refusal(facts: AttentionFacts) -> Refusal | None:
    """What unit dims keep a configuration from being attached, or None."""
    if facts.may_lose_dims:
        return Refusal(
            "it has unit dims, which IREE folds: its rank is not final before phase 'flow'"
        )
    if any(facts.sizes[dim] == 1 for dim in (*facts.m, *facts.k1, *facts.k2, *facts.n)):
        return Refusal("it has unit dims among those of its tiles")
    return None


def with_tile(
    tile: AttentionTile, facts: AttentionFacts, products: tuple[str, str]
) -> Attributes | Refusal:
    """The attributes for a tile, or why IREE cannot take it; `products` are the matrix
    instructions of Q K and of V, as `mma` writes them."""
    why = rows_refusal(facts, tile)
    if why:
        return why
    n, k1, k2 = facts.n[0], facts.k1[0], tiled(facts, "key", facts.k2)
    m = tiled(facts, "output", facts.m)
    qk, pv = products
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
    return attributes(
        tiles,
        f"{qk}, {promote(*query_shared, 1)}, subgroup_basis = {basis(subgroups, n)}",
        f"{pv}, {promote(1)}, subgroup_basis = {basis(subgroups, k1)}",
        tile.threads,
        tile.lanes,
    )


def lane_attributes(tile: LaneTile, facts: AttentionFacts) -> Attributes | Refusal:
    """The attributes for a tile of lanes, or why IREE cannot take it."""
    rows = rows_of(facts)
    is_padded = rows is not None and rows < tile.rows and keys_of(facts) == tile.keys
    if is_padded and facts.value("query") in (facts.value("key"), facts.value("value")):
        return Refusal(
            "Q is K or V, too, and IREE gives a value that is read whole tiles of one size"
        )
    why = rows_refusal(facts, tile)
    return why if why else with_lanes(tile, facts)


def with_lanes(tile: LaneTile, facts: AttentionFacts) -> Attributes:
    """The attributes for a tile of lanes."""
    n, k1, k2 = facts.n[0], facts.k1[0], tiled(facts, "key", facts.k2)
    m, width = tiled(facts, "output", facts.m), facts.sizes[n] or 0
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

    return attributes(
        f"reduction = {reduction}, workgroup = {workgroup}",
        product(qk_lanes, qk_thread, n),
        product(pv_lanes, pv_thread, k1),
        tile.threads,
    )


def decode_with(lanes: Lanes, facts: AttentionFacts) -> Attributes | Refusal:
    """The attributes for one row of queries whose dot products go over these lanes."""
    why = decode_refusal(facts, lanes) or keys_refusal(facts, lanes.step)
    if why:
        return why
    n, k1, k2 = facts.n[0], facts.k1[0], facts.k2[0]
    partial = [0] * facts.num_dims
    spread, subgroups = ([1] * facts.num_dims for _ in range(2))
    partial[k2] = lanes.step
    spread[k1], spread[k2], subgroups[k2] = lanes.head, lanes.keys, lanes.key_subgroups

    def product(head: int, without: int) -> str:
        # Both products name their lanes by k1's place: the form that was measured and is right.
        dims = [dim for dim in range(facts.num_dims) if dim != without]
        places = [k1 if dim == head else dim for dim in dims]
        thread = [lanes.elements if dim == head else 0 for dim in dims]
        return f"lane_basis = {[spread, places]}, thread = {thread}, subgroup_basis = "

    return attributes(
        f"partial_reduction = {partial}, workgroup = {decode_workgroup(facts)}",
        product(k1, without=n) + basis(subgroups, k1),
        product(n, without=k1) + basis(subgroups, n),
        lanes.subgroup * lanes.key_subgroups,
        lanes.subgroup,
    )


def decode_workgroup(facts: AttentionFacts) -> list[int]:
    """A workgroup's tile: one row, and all of V's head dim."""
    workgroup = [1] * facts.num_dims
    workgroup[facts.k1[0]] = workgroup[facts.k2[0]] = 0
    workgroup[facts.n[0]] = facts.sizes[facts.n[0]] or 0
    return workgroup


def decode_refusal(facts: AttentionFacts, lanes: Lanes) -> Refusal | None:
    """Why the dims or types are none that decode was measured for, or None."""
    if len(facts.k2) != 1:
        return Refusal("it has several key dims")
    head, width = facts.sizes[facts.k1[0]] or 0, facts.sizes[facts.n[0]] or 0
    lane_width = lanes.head * lanes.elements
    divides = head % lane_width == 0 and width % lane_width == 0
    if not divides or (
        max(head, width) > 2 * lane_width and not outgrows_lanes(facts, lanes.subgroup)
    ):
        return Refusal(f"head dims {head} and {width} are not {lane_width} or {2 * lane_width}")
    kinds = {facts.element_types[name] for name in ("query", "value")}
    if not kinds <= {"f16", "bf16", "f32"}:
        return Refusal("decode was measured in f16, bf16 and f32 only")
    return None


def keys_refusal(facts: AttentionFacts, step: int) -> Refusal | None:
    """Why keys in steps of so many are not all of them, or None."""
    keys = facts.sizes[facts.k2[0]]
    return Refusal(f"the keys are no multiple of {step}") if keys is None or keys % step else None


def outgrows_lanes(facts: AttentionFacts, lanes: int = LANES) -> bool:
    """Whether a head dim has more bytes than a subgroup's lanes read at once. IREE 3.13's own
    configuration computes wrong numbers then where it has no matrix instructions: for f32 of
    head dim 256 with 32 lanes and 320 with 64, for f16 of 320 and 640, decode and prefill."""
    heads = {"query": facts.extent(facts.k1) or 0, "value": facts.extent(facts.n) or 0}
    most = max(size * element_bytes(facts.value(name)) for name, size in heads.items())
    return most > _LANE_BYTES * lanes


# The pipeline of products and attention, and what it is told of small numbers.
DISTRIBUTE = "#iree_gpu.pipeline<VectorDistribute>"
_DENORMALS = (
    ', {iree_codegen.denormal_fp_math_f32 = #iree_codegen.denormal_fp_math<"preserve-sign">}'
)


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


def attributes(tiles: str, qk: str, pv: str, threads: int, lanes: int = LANES) -> Attributes:
    tiles, qk, pv = map(printed.gpu_lowering, (tiles, qk, pv))
    products = (
        f"{name}_attrs = {{lowering_config = {text}}}" for name, text in (("qk", qk), ("pv", pv))
    )
    return {
        "decomposition_config": f"{{{', '.join(products)}}}",
        "compilation_info": printed.compilation_info(tiles, DISTRIBUTE, threads, lanes, _DENORMALS),
    }
