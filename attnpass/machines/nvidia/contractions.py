"""Configurations for f16 and bf16 contractions on NVIDIA GPUs: the projections of a layer.

IREE's default is a tile of 128 x 64 in a kernel that waits for its loads. Kernels lowered by the
pipeline that attention takes are rewritten by attn-lower-cuda, which is two to three times as
fast; larger tiles read less for the same product, smaller ones fill the GPU where it has few rows
or columns. Only dispatches of one contraction and elementwise ops behind it are
configured, and only orders of factors that IREE 3.13 compiles to right numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from iree.compiler import ir

from ...attention.facts import configured_by
from ...ir import (
    Refusal,
    body_names,
    body_ops,
    defining_op,
    element_type_name,
    filled_with,
    is_elementwise,
    maps,
    printed,
    static_size,
    users,
)
from ...ir.contractions import ContractionFacts, read_contraction
from ...ir.limits import ASSUMED_TILES
from .. import Target
from ..gpu.configurations import DISTRIBUTE, basis, mma, promote
from .tiles import MMA

# What may stand in a dispatch beside the contraction and elementwise ops.
_HARMLESS = (
    "arith.constant",
    "func.return",
    "iree_tensor_ext.dispatch.tensor.load",
    "iree_tensor_ext.dispatch.tensor.store",
    "iree_tensor_ext.dispatch.workload.ordinal",
    "flow.dispatch.tie_shape",
    "linalg.fill",
    "tensor.empty",
)


@dataclass(frozen=True)
class ProductTile:
    """What a workgroup takes: `rows` of the first factor, `columns` of the second one, `depth`
    at a time; its subgroups along rows and columns. 64 of depth take `alone` nanoseconds where a
    multiprocessor has one workgroup, and `each` for each of them where it has more."""

    rows: int
    columns: int
    depth: int
    row_subgroups: int
    column_subgroups: int
    alone: float = 0.0
    each: float = 0.0

    @property
    def threads(self) -> int:
        return 32 * self.row_subgroups * self.column_subgroups

    @property
    def shared_bytes(self) -> int:
        """What a multiprocessor needs of shared memory if it holds two buffers for each of the
        workgroups that it has registers for; 16 bytes lie between rows."""
        together = max(1, _THREADS // self.threads)
        return 2 * together * (self.rows + self.columns) * (self.depth * 2 + 16)


# Registers of a multiprocessor, over the most that a thread has.
_THREADS = 65536 // 256
# A subgroup has at most 64 x 64: more would take more registers than a thread has. Nanoseconds are
# from an H200, in f16, both orders of the second factor (bench/results/product_tiles_h200.json).
TILES = (
    ProductTile(128, 256, 64, 2, 4, 1320, 1400),
    ProductTile(128, 128, 64, 2, 2, 1120, 830),
    # Fastest where a multiprocessor has one workgroup. It needs little shared memory, too, and
    # divides depths that are odd multiples of 32.
    ProductTile(128, 128, 32, 2, 2, 980, 950),
    ProductTile(64, 128, 64, 2, 2, 640, 610),
    ProductTile(64, 64, 64, 2, 2, 460, 500),
)
# A workgroup loads its first tiles and stores its result in the time of so many steps.
_ENDS = 3
_BODY = {"arith.extf", "arith.mulf", "arith.addf", "linalg.yield"}


def find(
    function: ir.Operation, kinds: Sequence[str] = ("f16", "bf16"), computed: bool = False
) -> ContractionFacts | None:
    """The one contraction of a dispatch that has nothing else but elementwise ops behind it; both
    factors of one of these `kinds`, and f32 sums. Factors that are computed on the way (from 8
    bits, say) cannot be copied ahead: such a product is left to IREE, unless factors may be
    `computed`, each by an elementwise op of its own; ops behind it may have several results then,
    as the states of a chunked scan are made in one."""
    found: list[ContractionFacts] = []
    generics: list[ir.Operation] = []
    factors: list[ir.Operation] = []
    for op in body_ops(function):
        if op.name in _HARMLESS:
            continue
        facts = _read(op, kinds)
        if facts is not None:
            found.append(facts)
        elif op.name == "linalg.generic" and found and (computed or len(op.results) == 1):
            generics.append(op)
        elif computed and is_elementwise(op):
            factors.append(op)
        else:
            return None
    if len(found) != 1 or not all(_is_elementwise(op, found[0]) for op in generics):
        return None
    if not all(_makes_a_factor(op, found[0]) or _is_beside(op, found[0]) for op in factors):
        return None
    return found[0]


def _makes_a_factor(op: ir.Operation, facts: ContractionFacts) -> bool:
    """Whether an op computes a factor, and nobody else reads it, of what lies in that one's
    order, or is repeated along some of its dims."""
    positions = maps.positions(op)
    if positions is None:
        return False
    *given, made = positions
    if any([dim for dim in made if dim in dims] != list(dims) for dims in given):
        return False
    return users(op.results[0]) == [facts.op] and op.results[0] in [*facts.op.operands][:2]


def _is_beside(op: ir.Operation, facts: ContractionFacts) -> bool:
    """Whether what an op computes is read behind the contraction alone."""
    return all(user != facts.op and user.name == "linalg.generic" for user in users(op.results[0]))


def configuration(facts: ContractionFacts, target: Target) -> dict[str, str] | Refusal:
    """The attributes for this contraction, or why it keeps IREE's own configuration."""
    tile = _find_tile(facts, target)
    if isinstance(tile, Refusal):
        return tile
    workgroup, subgroups = ([1] * len(facts.sizes) for _ in range(2))
    m, n, (k,) = facts.m[-1], facts.n[-1], facts.k
    workgroup[m], subgroups[m] = tile.rows, tile.row_subgroups
    workgroup[n], subgroups[n] = tile.columns, tile.column_subgroups
    workgroup[k] = 0
    reduction = [0] * len(facts.sizes)
    reduction[k] = tile.depth
    kind = element_type_name(facts.op.operands[0])
    lowering = printed.gpu_lowering(
        mma(MMA[kind][0]),
        promote(0, 1),
        reduction=reduction,
        subgroup_basis=basis(subgroups),
        workgroup=workgroup,
    )
    return {"compilation_info": printed.compilation_info(lowering, DISTRIBUTE, tile.threads, 32)}


def _find_tile(facts: ContractionFacts, target: Target) -> ProductTile | Refusal:
    """The tile for this contraction, or why there is none."""
    own = configured_by(facts.op)
    if own:
        return Refusal(f"it has a {own}")
    if not facts.m or not facts.n or len(facts.k) != 1:
        return Refusal("it is no product of matrices")
    single = [dim for dim in facts.kept if dim not in facts.batch]
    if single[-1] not in facts.n:
        return Refusal("IREE 3.13 computes wrong numbers where the first factor has the last dim")
    if not facts.m[-1] < facts.n[-1] < facts.k[0]:
        return Refusal(
            "IREE 3.13 computes wrong numbers where loops are not over rows, columns and depth"
        )
    refusals = {tile: _tile_refusal(tile, facts, target) for tile in TILES}
    able = [tile for tile, why in refusals.items() if why is None]
    if able:
        return min(able, key=lambda tile: _nanoseconds(tile, facts, target))
    *_, last = filter(None, refusals.values())
    return last


def _tile_refusal(tile: ProductTile, facts: ContractionFacts, target: Target) -> Refusal | None:
    sizes = [facts.sizes[dim] for dim in (facts.m[-1], facts.n[-1], *facts.k)]
    steps = (tile.rows, tile.columns, tile.depth)
    pairs = zip(sizes, steps, strict=True)
    if any(not isinstance(size, int) or size % step for size, step in pairs):
        words = " x ".join(str(size) if isinstance(size, int) else "?" for size in sizes)
        return Refusal(f"{words} are no multiples of {tile.rows} x {tile.columns} x {tile.depth}")
    if tile.shared_bytes > target.shared_bytes:
        return Refusal(f"two buffers of its tiles do not fit into {target.shared_bytes} bytes")
    return None


def _nanoseconds(tile: ProductTile, facts: ContractionFacts, target: Target) -> float:
    """What the product takes on an H200 with so many multiprocessors as the target has."""
    elements = [facts.sizes[dim] for dim in facts.kept]
    workgroups = math.prod(x if isinstance(x, int) else ASSUMED_TILES for x in elements)
    workgroups /= tile.rows * tile.columns
    on_one = math.ceil(workgroups / target.compute_units)
    depth = math.prod(static_size(facts.sizes[dim]) for dim in facts.k)
    return _ENDS * tile.alone + depth / 64 * max(tile.alone, tile.each * on_one)


def _read(op: ir.Operation, kinds: Sequence[str]) -> ContractionFacts | None:
    """The contraction that `op` is, of factors of one of `kinds` whose f32 sums start at a
    number."""
    facts = read_contraction(op)
    if facts is None or not {*body_names(op)} <= _BODY:
        return None
    types = [element_type_name(value) for value in op.operands]
    if types[0] not in kinds or types[1:] != [types[0], "f32"]:
        return None
    if None in (*facts.left, *facts.right, *facts.result) or not facts.shares_sums:
        return None
    return None if filled_with(op.operands[2]) is None else facts


def _is_elementwise(op: ir.Operation, facts: ContractionFacts) -> bool:
    """Whether a generic goes over the contraction's result, or what came of it, in its order, and
    has results in that order alone."""
    positions, count = maps.positions(op), len(op.results)
    if positions is None:
        return False
    identity = tuple(range(len(facts.result)))
    if maps.loop_count(op) != len(identity) or {*positions[-count:]} != {identity}:
        return False
    made = [defining_op(value) for value in list(op.operands)[:-count]]
    return all(
        dims == identity
        for source, dims in zip(made, positions, strict=False)
        if source is not None and source.name.startswith("linalg.")
    )
