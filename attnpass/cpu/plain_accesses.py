"""Loads and stores instead of vector transfers, masked where they may end outside their buffer.

IREE's vector lowering asks of every pair of transfers whether they may touch. Where a tile has
rows whose number is known only at run time, or columns, that took longer than the rest of the
compile. What it makes of a transfer in the end is such a load or store.
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
            buffer, *place, beyond = op.operands
            build, kind = Builder(op, op.location), op.results[0].type
            if _stays_inside(op):
                loaded = build.create("vector.load", [kind], [buffer, *place])
            else:
                mask = _inside(build, buffer, place[-1], kind)
                others = build.create("vector.broadcast", [kind], [beyond]).results[0]
                given = [buffer, *place, mask, others]
                loaded = build.create("vector.maskedload", [kind], given)
            replace_op(op, loaded.results[0])
        elif op.name == _WRITE and _is_plain(op, op.operands[1], op.operands[0]):
            vector, buffer, *place = op.operands
            build = Builder(op, op.location)
            if _stays_inside(op):
                build.create("vector.store", [], [vector, buffer, *place])
            else:
                mask = _inside(build, buffer, place[-1], vector.type)
                build.create("vector.maskedstore", [], [buffer, *place, mask, vector])
            erase(op)


def _is_plain(op: ir.Operation, buffer: ir.Value, vector: ir.Value) -> bool:
    """Whether a transfer without a mask moves elements that lie side by side."""
    kind: Any = buffer.type
    if not isinstance(kind, ir.MemRefType) or len(ir.VectorType(vector.type).shape) != 1:
        return False
    if ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"])[3]:
        return False
    order = ir.AffineMapAttr(op.attributes["permutation_map"]).value
    last = ir.AffineDimExpr.get(kind.rank - 1, op.context)
    return list(order.results) == [last] and kind.get_strides_and_offset()[0][-1] == 1


def _stays_inside(op: ir.Operation) -> bool:
    return all(ir.BoolAttr(inside).value for inside in ir.ArrayAttr(op.attributes["in_bounds"]))


def _inside(build: Builder, buffer: ir.Value, first: ir.Value, kind: ir.Type) -> ir.Value:
    """Which elements of a vector of this type, the first at `first` in a line, lie in the line."""
    index = ir.IndexType.get(build.anchor.context)
    last = build.constant(ir.IntegerAttr.get(index, ir.MemRefType(buffer.type).rank - 1), index)
    size = build.create("memref.dim", [index], [buffer, last]).results[0]
    left = build.create("arith.subi", [index], [size, first]).results[0]
    vector = ir.VectorType(kind)
    bits = ir.IntegerType.get_signless(1, build.anchor.context)
    mask = ir.VectorType.get(vector.shape, bits, loc=build.location)
    return build.create("vector.create_mask", [mask], [left]).results[0]
