"""attn-generic-products: named matrix products as generics, for CUDA."""

from __future__ import annotations

from iree.compiler import ir

from ..attention.widening import widened_from
from ..ir import Builder, element_type, element_type_name, maps, printed, put_in_place
from ..ir.contractions import NAMED
from ..passes import OpPass

# Of these named products are right, and fast by configurations of ours.
_LEFT = ("f16", "bf16")


class GenericProducts(OpPass):
    """Writes each `linalg.contract`, `linalg.matmul` and `linalg.batch_matmul` of f32 (of anything
    but 16 bits) as a `linalg.generic` with the same maps and body.

    IREE 3.13 does so from `--iree-opt-level=O2` on. Below, its CUDA kernels of some
    `linalg.contract` ops (f32, several batch dims or one of unknown size) compute wrong numbers:
    relative errors of 0.8 to 1 on an H200, right with `--iree-opt-generalize-matmul` alone.

    Where a model widens both factors from 16 bits, as torch's addmm does, the generic widens them:
    IREE does that for named products alone, and has no tensor cores for those of f32.
    """

    name = "attn-generic-products"
    summary = "CUDA: named matrix products as generics, which IREE compiles right"
    mends = "f32 products of several batch dims are wrong on CUDA below O2"
    backends = ("cuda",)

    kind = "contraction"

    def wanted(self, op: ir.Operation) -> bool:
        return op.name in NAMED and element_type_name(op.operands[0]) not in _LEFT

    def change(self, op: ir.Operation) -> str:
        _widen_inside(generalize(op))
        return "is a generic, which IREE compiles right at each level"


def _widen_inside(product: ir.Operation) -> None:
    """Has a product read both factors as they were before they were widened from 16 bits."""
    found = [widened_from(factor, 2) for factor in list(product.operands)[:2]]
    narrow = [factor for factor in found if factor is not None]
    if len(narrow) < len(found) or len({*map(element_type_name, narrow)}) != 1:
        return
    block = product.regions[0].blocks[0]
    build = Builder(block.operations[0].operation)
    for number, factor in enumerate(narrow):
        scalar = block.arguments[number]
        wide = scalar.type
        product.operands[number] = factor
        scalar.set_type(element_type(factor))
        cast = build.create("arith.extf", [wide], [scalar])
        scalar.replace_all_uses_except(cast.results[0], cast)


def generalize(op: ir.Operation) -> ir.Operation:
    """Gives the users of a named product a generic with the same maps and body."""
    result = maps.positions(op)
    assert result is not None, "the maps of a contraction are projected permutations"
    loops = range(maps.loop_count(op))
    kinds = ["parallel" if loop in result[-1] else "reduction" for loop in loops]
    attributes = {
        "indexing_maps": op.attributes["indexing_maps"],
        "iterator_types": printed.iterators(kinds),
        "operandSegmentSizes": op.attributes["operandSegmentSizes"],
    }
    return put_in_place(op, "linalg.generic", attributes)
