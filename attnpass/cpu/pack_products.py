"""attn-pack-products: CPUs: constant weights of products of many rows lie as their loops read them.

IREE 3.13 multiplies matrices as they lie: a step of its loops reads columns of the weights from as
many pages as it takes elements of the depth. Here weights are copied into tiles of as many columns
as registers hold sums of, one element of the depth behind the other, once, when the module is
loaded. (Loops of `attn-vectorize-products` pack others, in the cache, for each tile of rows.) Rows
stay as they are, and so does the result, whose columns are cut in tiles by a view; elementwise ops
behind the product are, too, so that IREE fuses them into its kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from iree.compiler import ir

from ..analysis.boundary import is_made_once
from ..attention.barrier import compute_barrier
from ..ir import (
    Builder,
    collect,
    defining_op,
    element_type,
    element_type_name,
    erase_dead,
    maps,
    set_attribute,
)
from ..ir.contractions import is_contraction, read_contraction, starts_at_zero
from ..ir.views import view_before
from ..layout.rules.loop_nest import peel_broadcasts
from ..machines.cpu.machine import Cpu
from ..machines.cpu.products import configuration, product_tile
from ..passes import PassContext, TargetPass
from .column_tiles import (
    as_matrix,
    elementwise_behind,
    hand_out,
    on_tiles,
    readers,
    static_sizes,
    tile_sizes,
)
from .product_loops import is_of_pairs


@dataclass(frozen=True)
class RowsTimesWeights:
    """A product of a factor with rows, which end in the depth, with a matrix of weights that all
    rows share: `columns_first` if that lies as (columns, depth)."""

    op: ir.Operation
    rows: ir.Value
    weights: ir.Value
    columns_first: bool

    @property
    def count(self) -> int:
        """The number of rows, of all sequences."""
        return prod(static_sizes(self.rows)[:-1])

    @property
    def depth(self) -> int:
        return static_sizes(self.rows)[-1]

    @property
    def columns(self) -> int:
        return static_sizes(self.op.results[0])[-1]


def describe(op: ir.Operation) -> RowsTimesWeights | None:
    """The product that `op` is; None for another op, for factors that are not both of f32, f16 or
    bf16, sums of other types than f32, that do not start at zero, single numbers, and sizes that
    are known only at run time."""
    facts = read_contraction(op)
    if facts is None or not _has_types(op):
        return None
    if not all(isinstance(size, int) for size in facts.sizes):
        return None
    positions = (facts.left, facts.right, facts.result)
    if any(None in dims for dims in positions) or len(facts.k) != 1 or not facts.result:
        return None
    if not starts_at_zero(op):
        return None
    reads = peel_broadcasts([(op.operands[i], positions[i]) for i in (0, 1)], facts.result)
    rows, (weights, dims) = reads[0], _below_transposes(*reads[1])
    *leading, last = facts.result
    if rows[1] != (*leading, *facts.k) or dims not in ((last, *facts.k), (*facts.k, last)):
        return None
    return RowsTimesWeights(op, rows[0], weights, dims[0] == last)


def _has_types(op: ir.Operation) -> bool:
    left, right, result = (element_type_name(value) for value in op.operands)
    return left == right and left in ("f32", "f16", "bf16") and result == "f32"


def _below_transposes(value: ir.Value, dims: maps.Positions) -> tuple[ir.Value, maps.Positions]:
    """What a value is below transposes, with the map that reads it."""
    while (view := view_before(value)) is not None and view.op.name == "linalg.transpose":
        projection = view.projection
        assert projection is not None and None not in projection
        value, dims = view.source, tuple(dims[dim] for dim in projection if dim is not None)
    return value, dims


def pack(product: RowsTimesWeights, tile: tuple[int, int]) -> list[ir.Operation]:
    """Gives the users of a product, and of the elementwise ops behind it, the same values, made of
    packed weights; returns the ops that stay behind without use."""
    build, width = Builder(product.op), tile[1]
    kind = element_type(product.op.results[0])
    zero = build.constant(ir.FloatAttr.get(kind, 0.0, loc=build.location), kind)
    rows = _widened(build, as_matrix(build, product.rows), kind)
    init = build.fill(zero, build.empty(tile_sizes(product.op.results[0], width), kind))
    # Loops: row, tile of columns, column, depth.
    positions = ((0, 3), (1, 3, 2), (0, 1, 2))
    weights = _packed(build, product, width)
    (value,) = build.generic([rows, weights], [init], positions, _multiply_and_add)
    made = defining_op(value)
    assert made is not None
    set_attribute(
        made, "compilation_info", configuration(tile, product.count, product.columns, product.depth)
    )
    found = {product.op.results[0]: value}
    behind = elementwise_behind(product.op.results[0])
    for op in behind:
        found[op.results[0]] = on_tiles(op, found, width)
    for op in (product.op, *behind):
        if any(reader not in behind for reader in readers(op.results[0])):
            hand_out(op, found[op.results[0]])
    return [*reversed(behind), product.op]


def _widened(build: Builder, rows: ir.Value, kind: ir.Type) -> ir.Value:
    """Rows in a wider type, in memory: a product would cast each element once a tile of columns."""
    if element_type(rows) == kind:
        return rows
    wide = build.computed(static_sizes(rows), kind, lambda b, x: _cast(b, x[0], kind), rows)
    return compute_barrier(build, wide)


def _cast(build: Builder, scalar: ir.Value, kind: ir.Type) -> ir.Value:
    if scalar.type == kind:
        return scalar
    return build.create("arith.extf", [kind], [scalar]).results[0]


def _multiply_and_add(build: Builder, scalars: Sequence[ir.Value]) -> list[ir.Value]:
    left, right, total = scalars
    product = build.apply("arith.mulf", left, _cast(build, right, total.type))
    return [build.apply("arith.addf", total, product)]


def _packed(build: Builder, product: RowsTimesWeights, width: int) -> ir.Value:
    """The weights as (tiles, depth, columns of a tile)."""
    order = [0, 1] if product.columns_first else [1, 0]
    shape = [product.columns // width, product.depth, width, 1]
    init = build.empty(shape, element_type(product.weights))
    # Tiles of one in the depth: IREE takes twice as long for packs of one dim.
    lists = {"inner_dims_pos": order, "outer_dims_perm": order, "static_inner_tiles": [width, 1]}
    attributes = {name: build.integers(*given) for name, given in lists.items()}
    attributes["operandSegmentSizes"] = build.segments(1, 1, 0, 0)
    operands = [product.weights, init]
    packed = build.create("linalg.pack", [init.type], operands, attributes).results[0]
    return build.collapse(packed, [[0], [1], [2, 3]])


@dataclass(frozen=True)
class PackProducts(TargetPass):
    """Copies constant weights of products in f32, f16 and bf16 (projections, MLPs) into tiles on
    CPUs, where their rows are known and many: 1024 x 3072 x 768 takes a thread of a
    Zen 4 45 ms for 58, in f16, half the rows, 45 for 112. Sums are in f32.
    """

    name = "attn-pack-products"
    summary = "CPUs: constant weights of products of many rows lie as loops read them"
    why = "constant weights are packed once"
    backends = ("llvm-cpu",)

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        target = self.target_for(module, context)
        if not isinstance(target, Cpu):
            return False
        changed = False
        # The last first: a sum of two results joins the later product, which it has to wait for.
        for op in reversed(collect(module, is_contraction, bodies=False)):
            product = describe(op)
            if product is None or not is_made_once(product.weights):
                continue
            if target.multiplies_pairs and is_of_pairs(op, product.depth):
                # Loops of ours, which are faster, pack them as they lie.
                continue
            sizes = (product.count, product.columns, product.depth)
            tile = product_tile(*sizes, target.vector_bytes)
            if isinstance(tile, tuple):
                why = f"its weights are copied into tiles of {tile[1]} columns"
                context.report.record(op, "fitted", why, kind="contraction", tile=tile[1])
                erase_dead(pack(product, tile))
                changed = True
        return changed
