"""attn-vectorize-products: CPUs: products of few rows as vector loops of our own.

As `attn-vectorize` does of attention: tiling, fusion, vectors and buffers of what surrounds the
product are IREE's, and a kernel that does not come out as it should is put back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir

from ..attention.facts import find_ops
from ..codegen.kernel import kernels_for, mark_lowered
from ..ir import (
    collect,
    detached_copy,
    erase,
    reduces,
    remove_attributes,
    restore,
    set_attribute,
)
from ..ir.contractions import is_contraction
from ..machines import parse_target
from ..machines.cpu.few_rows import RowTiles, row_tiles
from ..machines.cpu.machine import Cpu
from ..passes import Pass, PassContext
from ..report.ops import op_of
from ..report.records import Report
from .lowering import lower_vectors, tile, vectorize
from .product_loops import RowLoops, RowProduct, read_row_product, unfit


def use_loops(module: ir.Operation, report: Report) -> bool:
    """Rewrites the llvm-cpu kernels of `module` (a builtin.module at IREE's phase
    executable-configurations) that multiply few rows by weights; returns whether IR changed."""
    changed = False
    for function, target in kernels_for(module, "llvm-cpu"):
        changed |= _rewrite_kernel(function, target, report)
    return changed


def _rewrite_kernel(function: ir.Operation, target: str, report: Report) -> bool:
    products = _products(function)
    machine = parse_target(target)
    if len(products) != 1 or not isinstance(machine, Cpu):
        return False
    (product,) = products
    kernel, copy = op_of(function), detached_copy(function)
    lanes = "the depth" if product.is_deep else "columns"
    why = _refusal(function, product) or _lower(function, product, target, machine)
    if not why:
        mark_lowered(function)
        report.record(kernel, "loops", lanes=lanes)
        return True
    restore(function, copy)
    report.record(kernel, "no-loops", why)
    return False


def _products(function: ir.Operation, **least: int) -> list[RowProduct]:
    found = (read_row_product(op, **least) for op in collect(function, is_contraction))
    return [product for product in found if product is not None]


def _refusal(function: ir.Operation, product: RowProduct) -> str:
    others = [op for op in _structured(function) if op != product.op]
    if any(op.name != "linalg.fill" and reduces(op) for op in others):
        return "its kernel sums up something else, too"
    strange = [op.name for op in others if op.name not in ("linalg.fill", "linalg.generic")]
    return f"its kernel holds a {strange[0]}" if strange else unfit(product)


def _structured(function: ir.Operation) -> list[ir.Operation]:
    return collect(
        function,
        lambda op: (
            op.name.startswith(("linalg.", "iree_linalg_ext."))
            and op.name not in ("linalg.yield", "linalg.index", "iree_linalg_ext.yield")
        ),
    )


def _lower(function: ir.Operation, product: RowProduct, target: str, machine: Cpu) -> str:
    """Lowers a kernel for a target; why it cannot be, with the kernel in any state, or nothing."""
    columns = product.facts.sizes[product.column]
    if not isinstance(columns, int):
        return "its columns are of unknown number"
    tiles = row_tiles(
        product.count, columns, product.is_deep, product.weight_bytes, machine.vector_bytes
    )
    if isinstance(tiles, str):
        return tiles
    for op in _structured(function):
        if "lowering_config" in op.attributes:
            remove_attributes(op, "lowering_config")
    set_attribute(product.op, "lowering_config", _configuration(product, tiles))
    why = tile(function)
    # Before vectors are made, which the product would become, too.
    why = why or _put(function, tiles) or vectorize(function, tiles.lanes)
    return why or lower_vectors(function, target)


def _configuration(product: RowProduct, tiles: RowTiles) -> str:
    """Workgroups of all rows and some columns."""
    sizes = product.facts.sizes
    rows = product.row_loops
    cut = [size if loop in rows and isinstance(size, int) else 0 for loop, size in enumerate(sizes)]
    for loop in product.outer:
        cut[loop] = 1
    cut[product.column] = tiles.columns
    return f"#iree_cpu.lowering_config<distribution = {cut}, vector_common_parallel = {cut}>"


def _put(function: ir.Operation, tiles: RowTiles) -> str:
    products = _products(function, least_weights=0)
    if len(products) != 1:
        return "IREE made several products of one, or none"
    (product,) = products
    if any(product.facts.sizes[loop] != 1 for loop in product.outer):
        return "its tiles hold columns of several heads"
    why = unfit(product)
    if why:
        return why
    with product.op.location:
        result = RowLoops(product, tiles).emit()
    product.op.results[0].replace_all_uses_with(result)
    erase(product.op)
    return ""


@dataclass(frozen=True)
class VectorizeProducts(Pass):
    """Lowers products of up to 16 rows with a matrix of weights beside attention, on llvm-cpu, to
    loops that read each weight once, as it lies, with memory fetched ahead: in f32, f16 and bf16,
    with sums in f32. What is computed behind a product, element by element, stays in its kernel.
    """

    name: ClassVar[str] = "attn-vectorize-products"
    summary: ClassVar[str] = "CPUs: products of few rows as vector loops of our own"
    phase: ClassVar[str] = "executable-configurations"
    backends: ClassVar[tuple[str, ...]] = ("llvm-cpu",)

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        return bool(find_ops(module)) and use_loops(module, context.report)
