"""Configurations for f16 and bf16 contractions on NVIDIA GPUs: the projections of a layer.

IREE's default is a tile of 128 x 64 in a kernel that waits for its loads. Kernels lowered by the
pipeline that attention takes are rewritten by attn-shared-memory, which is two to three times as
fast; larger tiles read less for the same product, smaller ones fill the GPU where it has few rows
or columns. Only dispatches of one contraction and elementwise ops behind it are
configured, and only orders of factors that IREE 3.13 compiles to right numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from iree.compiler import ir

from ...attention.facts import CONFIGURATION_ATTRIBUTES
from ...ir import defining_op, element_type_name, location_text, maps, ranked_shape
from ...ir.limits import ASSUMED_TILES
from .. import Target
from ..gpu.configurations import basis, mma, promote
from .machine import Nvidia
from .tiles import MMA

_NAMED = ("linalg.matmul", "linalg.batch_matmul", "linalg.contract")
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
class Tile:
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
# from an H200, in f16, both orders of the second factor (tools/results/product_tiles_h200.json).
TILES = (
    Tile(128, 256, 64, 2, 4, 1320, 1400),
    Tile(128, 128, 64, 2, 2, 1120, 830),
    # Fastest where a multiprocessor has one workgroup. It needs little shared memory, too, and
    # divides depths that are odd multiples of 32.
    Tile(128, 128, 32, 2, 2, 980, 950),
    Tile(64, 128, 64, 2, 2, 640, 610),
    Tile(64, 64, 64, 2, 2, 460, 500),
)
# A workgroup loads its first tiles and stores its result in the time of so many steps.
_ENDS = 3


@dataclass(frozen=True)
class ContractionFacts:
    """A product summed over `k`. Loops `batch` are in both factors, `m` in the first and `n`
    in the second one only, each in the order of the result."""

    op: ir.Operation
    sizes: tuple[int | None, ...]
    kind: str
    result: tuple[int, ...]
    batch: tuple[int, ...]
    m: tuple[int, ...]
    n: tuple[int, ...]
    k: tuple[int, ...]

    @property
    def location(self) -> str:
        return location_text(self.op.location)


def find(function: ir.Operation) -> ContractionFacts | None:
    """The one contraction of a dispatch that has nothing else but elementwise ops behind it; f16
    or bf16 factors and f32 sums. Factors that are computed on the way (from 8 bits, say) cannot be
    copied ahead: such a product is left to IREE."""
    found: list[ContractionFacts] = []
    generics: list[ir.Operation] = []
    for op in (child.operation for child in function.regions[0].blocks[0].operations):
        if op.name in _HARMLESS:
            continue
        facts = _describe(op)
        if facts is not None:
            found.append(facts)
        elif op.name == "linalg.generic" and found:
            generics.append(op)
        else:
            return None
    if len(found) != 1 or not all(_is_elementwise(op, found[0]) for op in generics):
        return None
    return found[0]


def configuration(facts: ContractionFacts, target: Target) -> dict[str, str] | str:
    """The attributes for this contraction, or why it keeps IREE's own configuration."""
    tile = _find_tile(facts, target)
    if isinstance(tile, str):
        return tile
    workgroup, subgroups = ([1] * len(facts.sizes) for _ in range(2))
    m, n, (k,) = facts.m[-1], facts.n[-1], facts.k
    workgroup[m], subgroups[m] = tile.rows, tile.row_subgroups
    workgroup[n], subgroups[n] = tile.columns, tile.column_subgroups
    workgroup[k] = 0
    reduction = [0] * len(facts.sizes)
    reduction[k] = tile.depth
    return {
        "compilation_info": (
            "#iree_codegen.compilation_info<lowering_config = #iree_gpu.lowering_config<{"
            f"{mma(MMA[facts.kind][0])}, {promote(0, 1)}, reduction = {reduction}, "
            f"subgroup_basis = {basis(subgroups)}, workgroup = {workgroup}}}>, "
            "translation_info = #iree_codegen.translation_info<pipeline = "
            f"#iree_gpu.pipeline<VectorDistribute> workgroup_size = [{tile.threads}, 1, 1] "
            "subgroup_size = 32>>"
        )
    }


def _find_tile(facts: ContractionFacts, target: Target) -> Tile | str:
    """The tile for this contraction, or why there is none."""
    own = next((name for name in CONFIGURATION_ATTRIBUTES if name in facts.op.attributes), "")
    if own:
        return f"it has a {own}"
    if not facts.m or not facts.n or len(facts.k) != 1:
        return "it is no product of matrices"
    single = [dim for dim in facts.result if dim not in facts.batch]
    if single[-1] not in facts.n:
        return "IREE 3.13 computes wrong numbers where the first factor has the last dim"
    if not facts.m[-1] < facts.n[-1] < facts.k[0]:
        return "IREE 3.13 computes wrong numbers where loops are not over rows, columns and depth"
    refusals = {tile: _tile_refusal(tile, facts, target) for tile in TILES}
    able = [tile for tile, why in refusals.items() if not why]
    if not able:
        return refusals[TILES[-1]]
    return min(able, key=lambda tile: _nanoseconds(tile, facts, target))


def _tile_refusal(tile: Tile, facts: ContractionFacts, target: Target) -> str:
    sizes = [facts.sizes[dim] for dim in (facts.m[-1], facts.n[-1], *facts.k)]
    steps = (tile.rows, tile.columns, tile.depth)
    if any(size is None or size % step for size, step in zip(sizes, steps, strict=True)):
        words = " x ".join("?" if size is None else str(size) for size in sizes)
        return f"{words} are no multiples of {tile.rows} x {tile.columns} x {tile.depth}"
    if isinstance(target, Nvidia) and tile.shared_bytes > target.shared_bytes:
        return f"two buffers of its tiles do not fit into {target.shared_bytes} bytes"
    return ""


def _nanoseconds(tile: Tile, facts: ContractionFacts, target: Target) -> float:
    """What the product takes on an H200 with so many multiprocessors as the target has."""
    workgroups = math.prod(facts.sizes[dim] or ASSUMED_TILES for dim in facts.result)
    workgroups /= tile.rows * tile.columns
    on_one = math.ceil(workgroups / target.compute_units)
    depth = math.prod(facts.sizes[dim] or 1 for dim in facts.k)
    return _ENDS * tile.alone + depth / 64 * max(tile.alone, tile.each * on_one)


def _describe(op: ir.Operation) -> ContractionFacts | None:
    if op.name not in _NAMED and not (op.name == "linalg.generic" and _multiplies(op)):
        return None
    positions = maps.positions_of(op.attributes["indexing_maps"])
    kinds = [element_type_name(value) for value in op.operands]
    filled = defining_op(op.operands[2])
    if positions is None or kinds[0] not in ("f16", "bf16") or kinds[1:] != [kinds[0], "f32"]:
        return None
    if filled is None or filled.name != "linalg.fill":
        return None
    loops = maps.num_dims(op.attributes["indexing_maps"])
    sizes: list[int | None] = [None] * loops
    for value, dims in zip(op.operands, positions, strict=True):
        for dim, size in zip(dims, ranked_shape(value), strict=True):
            if dim is None:
                return None
            sizes[dim] = size
    left, right, result = (tuple(dim for dim in dims if dim is not None) for dims in positions)
    return ContractionFacts(
        op,
        tuple(sizes),
        kinds[0],
        result,
        batch=tuple(dim for dim in result if dim in left and dim in right),
        m=tuple(dim for dim in result if dim in left and dim not in right),
        n=tuple(dim for dim in result if dim in right and dim not in left),
        k=tuple(dim for dim in range(loops) if dim not in result),
    )


def _multiplies(op: ir.Operation) -> bool:
    """Whether a generic adds up the products of its two inputs."""
    block = op.regions[0].blocks[0]
    names = [inner.operation.name for inner in block.operations]
    core = [name for name in names if name != "arith.extf"]
    if len(op.operands) != 3 or core != ["arith.mulf", "arith.addf", "linalg.yield"]:
        return False
    total = next(op.operation for op in block.operations if op.operation.name == "arith.addf")
    return block.arguments[2] in list(total.operands)


def _is_elementwise(op: ir.Operation, facts: ContractionFacts) -> bool:
    """Whether a generic goes over the contraction's result, or what came of it, in its order."""
    positions = maps.positions_of(op.attributes["indexing_maps"])
    if positions is None or len(op.results) != 1:
        return False
    identity = tuple(range(len(facts.result)))
    if maps.num_dims(op.attributes["indexing_maps"]) != len(identity) or positions[-1] != identity:
        return False
    made = [defining_op(value) for value in op.operands[: len(op.operands) - 1]]
    return all(
        dims == identity
        for source, dims in zip(made, positions, strict=False)
        if source is not None and source.name.startswith("linalg.")
    )
