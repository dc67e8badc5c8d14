"""Masks that keep what lies beyond the last row at zero, which nobody needs.

Where tiles of rows do not divide the rows, IREE 3.13 masks Q and, in each step of the loop over
the keys, the weights and the sums. But rows beyond the end are never stored, and no other row
depends on them: copies from and to memory have masks of their own, which stay.
"""

from __future__ import annotations

from iree.compiler import ir

from ...ir import below_ops, collect, defining_op, printed, splat_number
from ...ir.bodies import predicate

_PLACED = ("vector.broadcast", "vector.transpose", "vector.shape_cast")


def drop_edge_masks(function: ir.Operation) -> int:
    """Takes what an attention kernel masks as it is; returns how many masks that were. They stay
    behind, without use."""
    masks = collect(function, lambda op: op.name == "arith.select" and _is_edge_mask(op))
    for op in masks:
        op.results[0].replace_all_uses_with(op.operands[1])
    return len(masks)


def _is_edge_mask(op: ir.Operation) -> bool:
    """Whether a vector is zero where an index reaches the bound of a dim that workgroups share:
    each of its places is a result of its own."""
    condition, _, otherwise = op.operands
    if splat_number(otherwise) != 0.0:
        return False
    compare = _placed(condition)
    if compare is None or compare.name != "arith.cmpi":
        return False
    bound = _placed(compare.operands[1])
    return predicate(compare) == "slt" and bound is not None and _is_rest_of_dim(bound)


def _placed(value: ir.Value) -> ir.Operation | None:
    """The op whose elements a vector is made of, each at one place or several."""
    return defining_op(below_ops(value, *_PLACED))


def _is_rest_of_dim(op: ir.Operation) -> bool:
    """Whether a bound is what is left of a dim behind where a workgroup begins, at most a tile
    (or that in parts of one): `min(size - begin, tile)`. An index of a row is none."""
    inner = defining_op(op.operands[0]) if op.name == "affine.apply" else None
    if inner is not None and len(op.operands) == 1:
        return printed.is_part(op.attributes["map"]) and _is_rest_of_dim(inner)
    if op.name != "affine.min":
        return False
    dims = list(op.operands)[: ir.AffineMapAttr(op.attributes["map"]).value.n_dims]
    begins = [
        number
        for number, dim in enumerate(dims)
        if defining_op(dim) is None and dim.owner.owner.operation.name == "scf.forall"
    ]
    return any(printed.subtracts(op.attributes["map"], number) for number in begins)
