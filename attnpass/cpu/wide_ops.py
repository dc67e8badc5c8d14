"""Cuts the elementwise ops of a kernel with loops into steps of some vectors.

IREE 3.13 makes one vector of all that such an op writes in a tile, rows by the head dim. LLVM's
time for its shuffles grows with its square (10 rows of 512 in f32: 18 seconds, 2 in steps), and
IREE refuses it for registers of 16 bytes.
"""

from __future__ import annotations

from math import prod

from iree.compiler import ir

from ..ir import DYNAMIC, collect, iterator_kinds, reduces, set_attribute

# Elements of a vector that LLVM compiles in no time: rows by a head dim of up to 100.
MOST_ELEMENTS = 1024
# What a number of rows that a tile's end leaves open may come to, in tiles of attention.
OPEN_ROWS = 32
# Vectors of a step.
VECTORS = 4
TILE_INNER = "iree-llvmcpu-tile{tiling-level=vector_inner_parallel},canonicalize,cse"


def cut_wide_ops(function: ir.Operation, lanes: int, most_rows: int) -> bool:
    """Marks the ops that TILE_INNER cuts, with up to `most_rows` where a tile's end leaves their
    number open; whether there are any."""
    wide = collect(function, lambda op: _is_wide(op, most_rows))
    for op in wide:
        shape = op.results[0].type.shape
        sizes = [1] * (len(shape) - 1) + [lanes * VECTORS]
        config = f"#iree_cpu.lowering_config<vector_inner_parallel = {sizes}>"
        set_attribute(op, "lowering_config", config)
    return bool(wide)


def _is_wide(op: ir.Operation, most_rows: int) -> bool:
    """Whether an op writes a tile too large for one vector, element by element."""
    if op.name not in ("linalg.fill", "linalg.generic") or len(op.results) != 1:
        return False
    shape = ir.RankedTensorType(op.results[0].type).shape
    if not shape:
        return False
    if prod(most_rows if size == DYNAMIC else size for size in shape) <= MOST_ELEMENTS:
        return False
    return op.name == "linalg.fill" or _writes_in_order(op)


def _writes_in_order(op: ir.Operation) -> bool:
    orders = ir.ArrayAttr(op.attributes["indexing_maps"])
    written = ir.AffineMapAttr(orders[len(orders) - 1]).value
    loops = len(iterator_kinds(op))
    return written == ir.AffineMap.get_identity(loops) and not reduces(op)
