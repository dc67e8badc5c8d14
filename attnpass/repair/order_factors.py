"""attn-order-factors: factors of products in the order of their dims in the result, for CUDA."""

from __future__ import annotations

from iree.compiler import ir

from ..attention.facts import configured_by
from ..ir import Builder, copy_generic, element_bytes, erase, has_ancestor, iterator_kinds, maps
from ..ir.contractions import NAMED, is_contraction
from ..passes import OpPass
from .generic_products import generalize

# Others IREE multiplies without matrix instructions.
_NARROW = 2


class OrderFactors(OpPass):
    """Swaps the factors of a contraction of 8 or 16 bits whose result has the dims of the second
    factor first, as where a transpose behind it was fused, and puts its loops in the order of the
    result. Contractions with a configuration stay; named ones become generics.

    IREE 3.13 fills up tiles of matrix instructions where sizes are no multiples of theirs, and
    writes such a result with rows and columns of each tile swapped.
    """

    name = "attn-order-factors"
    summary = "CUDA: factors of products in the order of the result's dims"
    phase = "flow"
    mends = "products whose result is transposed have numbers swapped, on CUDA"
    backends = ("cuda",)

    kind = "contraction"

    def wanted(self, op: ir.Operation) -> bool:
        if not has_ancestor(op, "flow.executable") or not is_contraction(op):
            return False
        if "indexing_maps" not in op.attributes:
            return False
        if configured_by(op):
            return False
        return all(element_bytes(factor) <= _NARROW for factor in list(op.operands)[:2])

    def change(self, op: ir.Operation) -> str:
        positions = maps.positions(op)
        if positions is None or not _is_unordered(*positions):
            return ""
        product = generalize(op) if op.name in NAMED else op
        _order_product(product)
        if product != op:
            erase(product)
        return "its factors and loops stand in the order of its result's dims now"


def _is_unordered(left: maps.Positions, right: maps.Positions, result: maps.Positions) -> bool:
    kept = [dim for dim in result if dim is not None]
    if len(kept) < len(result) or not {*left, *right} - {*kept}:
        return False
    return kept != sorted(kept) or _comes_last(left, right, result)


def _comes_last(left: maps.Positions, right: maps.Positions, result: maps.Positions) -> bool:
    """Whether the first factor's own dims stand in the result behind those of the second one."""
    rows = [result.index(dim) for dim in result if dim in left and dim not in right]
    columns = [result.index(dim) for dim in result if dim in right and dim not in left]
    return bool(rows and columns) and columns[-1] < rows[-1]


def _order_product(op: ir.Operation) -> None:
    positions = maps.positions(op)
    assert positions is not None, "only such products are taken"
    kinds = iterator_kinds(op)
    loops = list(dict.fromkeys([dim for dim in positions[-1] if dim is not None]))
    loops += [loop for loop in range(len(kinds)) if loop not in loops]
    factors = (1, 0, 2) if _comes_last(*positions) else (0, 1, 2)
    indexing = [tuple(None if d is None else loops.index(d) for d in positions[i]) for i in factors]
    reads = list(zip([op.operands[i] for i in factors], indexing, strict=True))
    index_dims = {dim: loops.index(dim) for dim in loops}
    kinds = [kinds[loop] for loop in loops]
    build = Builder(op, op.location)
    new = copy_generic(op, reads, kinds, build, order=factors, index_dims=index_dims)
    op.results[0].replace_all_uses_with(new.results[0])
