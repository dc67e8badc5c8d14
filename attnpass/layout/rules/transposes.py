"""Values that are transposed, which IREE may have done behind what reads them."""

from __future__ import annotations

from iree.compiler import ir

from ...ir import defining_op, maps, reduces
from ...ir.views import IN_PLACE, SLICE, WHOLE, below_views


def slice_before(value: ir.Value) -> ir.Operation | None:
    """The slice that a value is, through reshapes and transposes, or None."""
    return defining_op(below_views(value, WHOLE), SLICE)


def is_transposed(value: ir.Value) -> bool:
    """Whether a transpose stands before a value, through views and elementwise ops: IREE moves it
    behind them."""
    op = defining_op(below_views(value, (*IN_PLACE, SLICE)), "linalg.generic", "linalg.transpose")
    if op is None or op.name == "linalg.transpose":
        return op is not None
    positions = maps.positions(op)
    if positions is None or reduces(op):
        return False
    *factors, result = positions
    places = [[result.index(dim) for dim in dims if dim in result] for dims in factors]
    if any(place != sorted(place) for place in places):
        return True
    return any(is_transposed(operand) for operand in list(op.operands)[: len(factors)])
