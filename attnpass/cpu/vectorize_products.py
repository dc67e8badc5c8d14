"""attn-vectorize-products: CPUs: products with weights as vector loops of our own.

As `attn-vectorize` does of attention: tiling, fusion, vectors and buffers of what surrounds the
product are IREE's, and a kernel that does not come out as it should is put back.
"""

from __future__ import annotations

from iree.compiler import ir

from ..ir import Refusal, collect, detached_copy
from ..ir.contractions import is_contraction
from ..machines.cpu.configurations import WIDE_REGISTER_BYTES
from ..machines.cpu.machine import Cpu
from ..machines.cpu.product_tiles import LEAST_WEIGHTS, RowTiles, TallTiles, row_tiles, tall_tiles
from ..report.ops import op_of
from ..report.records import Report
from .apart_loops import lower_apart, read_apart
from .copied_lines import copies_lines, lower_copies
from .indexed_lines import lower_lines, sum_line_by_line, takes_lines
from .lowering import LoopPass, in_pieces, lower_kernel, lower_tiles, put_loops, refuse_others
from .open_sums import has_open_sums, lower_open_sums
from .product_loops import (
    RowLoops,
    RowProduct,
    is_of_pairs,
    known,
    read_row_product,
    read_tall_product,
    unfit,
)
from .square_steps import square_steps
from .sum_steps import widen_column_sums, widen_row_sums
from .tall_loops import TallLoops
from .vectors import PAIR_LANES
from .wide_ops import OPEN_ROWS
from .widened_weights import split_widening


def _rewrite_other(function: ir.Operation, target: str, lanes: int, report: Report) -> bool:
    """Configures or lowers a kernel without products."""
    attempts = [
        ("lines", lambda function: lower_lines(function, target, lanes)),
        ("the last dim", lambda function: lower_open_sums(function, target)),
    ]
    if copies_lines(function):
        attempt = ("lines", lambda function: lower_copies(function, target, lanes))
        return lower_kernel(function, [attempt], report)
    if why := _other_steps(function, lanes):
        report.record(op_of(function), "lowered", why)
    if takes_lines(function):
        sum_line_by_line(function)
        return lower_kernel(function, attempts, report)
    if has_open_sums(function):
        return lower_kernel(function, attempts[1:], report)
    return bool(why)


def _lanes(product: RowProduct) -> str:
    """What stands in the lanes of a product's vectors."""
    return "the depth" if product.is_few and product.is_deep else "columns"


def _lanes_of_widened(function: ir.Operation, machine: Cpu) -> str:
    """What stands in the lanes of the product that a kernel holds once what widens its weights is
    taken out of its body; '' where there is none that gets loops."""
    copy = detached_copy(function)
    products = _products(copy) if split_widening(copy) else []
    fit = [
        product
        for product in products
        if product.codes is not None
        and not _refusal(copy, product)
        and not isinstance(tiles_of(product, machine), Refusal)
    ]
    return _lanes(*fit) if len(fit) == len(products) == 1 else ""


def _other_steps(function: ir.Operation, lanes: int) -> str:
    """Configures a kernel without products for other steps; what these are, '' for none."""
    if step := widen_row_sums(function, lanes):
        return f"sums up its rows by {step} elements at a time"
    if step := widen_column_sums(function, lanes):
        return f"sums up {step} columns at a time"
    return "turns squares of a vector's rows and columns" if square_steps(function, lanes) else ""


def _products(function: ir.Operation) -> list[RowProduct]:
    found = [
        read_row_product(op) or read_tall_product(op) for op in collect(function, is_contraction)
    ]
    return [product for product in found if product is not None]


def _refusal(function: ir.Operation, product: RowProduct) -> Refusal | None:
    return refuse_others(_structured(function), product.op) or unfit(product)


def _structured(function: ir.Operation) -> list[ir.Operation]:
    return collect(
        function,
        lambda op: (
            op.name.startswith(("linalg.", "iree_linalg_ext."))
            and op.name not in ("linalg.yield", "linalg.index", "iree_linalg_ext.yield")
        ),
    )


def _lower(
    function: ir.Operation, product: RowProduct, target: str, machine: Cpu
) -> Refusal | None:
    """Lowers a kernel for a target; why it cannot be, with the kernel in any state, or None."""
    tiles = tiles_of(product, machine)
    if isinstance(tiles, Refusal):
        return tiles
    return lower_tiles(
        function,
        product.op,
        _configuration(product, tiles),
        lambda function: _put(function, tiles),
        tiles.lanes,
        target,
        tiles.tall if isinstance(tiles, TallTiles) else OPEN_ROWS,
        _structured(function),
    )


def tiles_of(product: RowProduct, machine: Cpu) -> RowTiles | TallTiles | Refusal:
    """How a product is cut, or why it is not."""
    columns = known(product.facts.sizes[product.column])
    if columns is None:
        return Refusal("its columns are of unknown number")
    if product.is_few:
        return row_tiles(
            product.count, columns, product.is_deep, product.weight_bytes, machine.vector_bytes
        )
    tiles = tall_tiles(known(product.facts.sizes[product.row]), columns, machine.vector_bytes)
    if isinstance(tiles, TallTiles) and columns % tiles.columns:
        if product.codes is not None:
            return Refusal(f"{columns} columns are cut into no whole vectors of codes")
        depth = known(product.facts.sizes[product.depth]) or 0
        is_narrow = machine.vector_bytes < WIDE_REGISTER_BYTES
        # Of one line: those of several IREE masks, or adds up number by number.
        is_line = all(product.facts.sizes[loop] == 1 for loop in product.outer)
        if is_narrow and is_line and columns * depth < LEAST_WEIGHTS:
            return Refusal(f"{columns} columns are cut into no whole vectors, and weights are few")
    if isinstance(tiles, Refusal) or not machine.multiplies_pairs or tiles.lanes != PAIR_LANES:
        return tiles
    has_pairs = is_of_pairs(product.op, known(product.facts.sizes[product.depth]))
    return tiles.in_pairs() if has_pairs and product.codes is None else tiles


def _configuration(product: RowProduct, tiles: RowTiles | TallTiles) -> str:
    """Workgroups of some columns, and of all rows where they are few, else of some of one dim."""
    sizes = product.facts.sizes
    cut = [0 if loop == product.depth else 1 for loop in range(len(sizes))]
    cut[product.column] = tiles.columns
    if not isinstance(tiles, TallTiles):
        for loop in product.row_loops:
            cut[loop] = known(sizes[loop]) or 0
        return in_pieces(cut, cut)
    cut[product.row] = tiles.tall
    workgroup = [tiles.across if loop == product.column else size for loop, size in enumerate(cut)]
    return in_pieces(workgroup, cut)


def _put(function: ir.Operation, tiles: RowTiles | TallTiles) -> Refusal | None:
    read = read_tall_product if isinstance(tiles, TallTiles) else read_row_product
    found = (read(op, least_weights=0) for op in collect(function, is_contraction))
    products = [product for product in found if product is not None]
    if len(products) != 1:
        return Refusal("IREE made several products of one, or none")
    (product,) = products
    sizes, whole = product.facts.sizes, list(product.outer)
    if isinstance(tiles, TallTiles):
        whole += [loop for loop in product.row_loops if loop != product.row]
        if known(sizes[product.column]) not in (tiles.columns, None):
            return Refusal(f"its tiles do not have {tiles.columns} columns")
    if any(sizes[loop] != 1 for loop in whole):
        return Refusal("its tiles hold rows or columns of several heads")
    if why := unfit(product):
        return why

    def emit() -> ir.Value:
        if isinstance(tiles, TallTiles):
            return TallLoops(product, tiles).emit()
        return RowLoops(product, tiles).emit()

    put_loops(product.op, emit)
    return None


class VectorizeProducts(LoopPass):
    """Lowers products with a matrix of weights, on llvm-cpu, to loops in f32, f16
    and bf16, with sums in f32. With up to 16 rows each weight is read once, as it lies; with more,
    or any number, weights are packed in the cache for up to 128 rows. Memory is fetched ahead. What
    is computed behind a product, element by element, stays in its kernel. Matrices whose numbers
    lie side by side stand in the lanes (AlphaFold's triangles, 128 x 128 x 128 of 128, one thread
    of a Zen 4: 173 -> 8.3 ms; IREE's default level 18). Kernels that sum up rows
    or columns, as norms do, go by several vectors of these; where steps leave a rest, each sum is
    made once (softmax of 1001 x 1001, one thread of a Zen 3: 87.7 -> 2.2 ms). Elementwise kernels
    that turn a matrix go by squares (3136 x 192 in f32, there: 0.30 -> 0.12 ms). Lines that are
    taken by index are read as they lie (512 of 768, one thread of a Zen 4: 150 -> 38 us; 256 sums
    of 20 of 64: 148 -> 18), and those that are copied into another order go by vectors (8 x 128 x
    12 x 64, heads in front: 447 -> 72 us).
    """

    name = "attn-vectorize-products"
    summary = "CPUs: products with weights as vector loops of our own"
    why = (
        "IREE reads weights at a fraction of the memory's speed, and masks rows that its tiles do "
        "not divide; before attention, beside which they stand, is loops itself"
    )

    def rewrite(self, function: ir.Operation, target: str, machine: Cpu, report: Report) -> bool:
        vectors = machine.vector_bytes // 4
        if read_apart(function) is not None:
            attempt = ("matrices", lambda function: lower_apart(function, target, vectors))
            return lower_kernel(function, [attempt], report)
        products = _products(function)
        lanes = "" if products else _lanes_of_widened(function, machine)
        if not products and not lanes:
            return _rewrite_other(function, target, vectors, report)
        if len(products) == 1:
            lanes = _lanes(*products)
        if not lanes:
            return False

        def lower(function: ir.Operation) -> Refusal | None:
            if not products:
                split_widening(function)
            (product,) = _products(function)
            return _refusal(function, product) or _lower(function, product, target, machine)

        return lower_kernel(function, [(lanes, lower)], report)
