"""Values that are transposed, which IREE may have done behind what reads them."""

from __future__ import annotations

from iree.compiler import ir

from ...ir import defining_op, maps

SLICE = "tensor.extract_slice"
VIEWS = ("tensor.expand_shape", "tensor.collapse_shape", "tensor.cast")


def slice_before(value: ir.Value) -> ir.Operation | None:
    """The slice that a value is, through reshapes and transposes, or None."""
    op = defining_op(value)
    while op is not None and op.name in (*VIEWS, "linalg.transpose"):
        op = defining_op(op.operands[0])
    return op if op is not None and op.name == SLICE else None


def is_transposed(value: ir.Value) -> bool:
    """Whether a transpose stands before a value, through views and elementwise ops: IREE moves it
    behind them."""
    op = defining_op(value)
    if op is None:
        return False
    if op.name in (*VIEWS, SLICE):
        return is_transposed(op.operands[0])
    if op.name != "linalg.generic":
        return op.name == "linalg.transpose"
    positions = maps.positions_of(op.attributes["indexing_maps"])
    kinds = ir.ArrayAttr(op.attributes["iterator_types"])
    if positions is None or any("parallel" not in str(kind) for kind in kinds):
        return False
    *factors, result = positions
    places = [[result.index(dim) for dim in dims if dim in result] for dims in factors]
    if any(place != sorted(place) for place in places):
        return True
    return any(is_transposed(operand) for operand in list(op.operands)[: len(factors)])
