"""Loads and stores instead of vector transfers that stay inside their buffer.

IREE's vector lowering asks of every pair of transfers whether they may touch. Where a tile has
rows whose number is known only at run time, that took longer than the rest of the compile.
"""

from __future__ import annotations

from typing import Any

from iree.compiler import ir

from ..ir import Builder, collect, erase, replace_op

_READ, _WRITE = "vector.transfer_read", "vector.transfer_write"


def use_plain_accesses(function: ir.Operation) -> None:
    """Replaces the transfers of a kernel in buffers that are plain accesses."""
    for op in collect(function, lambda op: op.name in (_READ, _WRITE)):
        if op.name == _READ and _is_plain(op, op.operands[0], op.results[0]):
            buffer, place = op.operands[0], list(op.operands)[1:-1]
            build, kind = Builder(op, op.location), op.results[0].type
            loaded = build.create("vector.load", [kind], [buffer, *place]).results[0]
            replace_op(op, loaded)
        elif op.name == _WRITE and _is_plain(op, op.operands[1], op.operands[0]):
            Builder(op, op.location).create("vector.store", [], list(op.operands))
            erase(op)


def _is_plain(op: ir.Operation, buffer: ir.Value, vector: ir.Value) -> bool:
    """Whether a transfer without a mask moves elements that lie side by side, all inside."""
    kind: Any = buffer.type
    if not isinstance(kind, ir.MemRefType) or len(ir.VectorType(vector.type).shape) != 1:
        return False
    if ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"])[3]:
        return False
    if not all(ir.BoolAttr(inside).value for inside in ir.ArrayAttr(op.attributes["in_bounds"])):
        return False
    order = ir.AffineMapAttr(op.attributes["permutation_map"]).value
    last = ir.AffineDimExpr.get(kind.rank - 1, op.context)
    return list(order.results) == [last] and kind.get_strides_and_offset()[0][-1] == 1
