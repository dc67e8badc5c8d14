"""Keeps IREE from splitting the dims of attention on GPUs that has its configuration already.

IREE 3.13 splits an unknown dim of Q and K where it knows a divisor of its size: a batch of
unknown size times 8 heads is a multiple of 8. It does so while it makes kernels, behind the
configuration that was attached, whose ranks then are others ("failed to distribute"). Behind a
barrier on the host the kernel knows no divisor.

IREE cuts a program's command buffer at a barrier, and allocates anew behind it. So there is one
for each size, where it is defined, and none for sizes of which no divisor is known.
"""

from __future__ import annotations

from iree.compiler import ir

from ..attention.facts import find_ops
from ..ir import (
    Builder,
    collect,
    defining_op,
    descendants,
    next_op,
    ranked_shape,
    symbol_name,
    whole_number,
)
from ..ir.builder import OPTIMIZATION_BARRIER

# Of these IREE knows no divisor.
_DIMS = ("hal.buffer_view.dim", "tensor.dim")
# A divisor of their first operand may be one of theirs, but no others.
_QUOTIENTS = ("arith.ceildivui", "arith.ceildivsi", "arith.divui", "arith.divsi")
_CASTS = ("arith.index_cast", "arith.index_castui")
# What divides all operands divides the result.
_SUMS = ("arith.addi", "arith.subi", "arith.minui", "arith.minsi", "arith.maxui", "arith.maxsi")


def block_divisor_inference(module: ir.Operation) -> bool:
    """Puts barriers between the host and the sizes that it hands to configured attention with
    unknown dims in Q or K, for a module at IREE's phase flow; returns whether IR changed."""
    names = {
        symbol_name(executable)
        for executable in descendants(module, "flow.executable")
        if any(map(_is_split, find_ops(executable)))
    }
    hidden: dict[ir.Value, ir.Value] = {}
    for dispatch in collect(module, lambda op: _runs(op, names)):
        for number in _sizes(dispatch):
            size = dispatch.operands[number]
            if size not in hidden:
                hidden[size] = _behind_barrier(size)
            dispatch.operands[number] = hidden[size]
    return bool(hidden)


def _is_split(op: ir.Operation) -> bool:
    """Whether IREE might split a dim of configured attention."""
    factors = op.operands[0], op.operands[1]
    unknown = any(None in ranked_shape(factor) for factor in factors)
    return unknown and "compilation_info" in op.attributes


def _runs(op: ir.Operation, names: set[str]) -> bool:
    """Whether an op dispatches one of these executables."""
    if op.name != "flow.dispatch":
        return False
    entries = ir.ArrayAttr(op.attributes["entry_points"])
    return any(ir.SymbolRefAttr(entry).value[0] in names for entry in entries)


def _sizes(dispatch: ir.Operation) -> list[int]:
    """The numbers of the operands, of its workload and arguments, that are sizes with a divisor;
    sizes of the tensors, which stand behind those, stay as they are."""
    workload, arguments, *_ = ir.DenseI32ArrayAttr(dispatch.attributes["operandSegmentSizes"])
    return [n for n in range(workload + arguments) if _has_divisor(dispatch.operands[n])]


def _has_divisor(value: ir.Value) -> bool:
    """Whether IREE may know a divisor of an index that is no constant."""
    if not isinstance(value.type, ir.IndexType):
        return False
    producer = defining_op(value)
    if producer is None:
        return True
    if whole_number(value) is not None or producer.name in (OPTIMIZATION_BARRIER, *_DIMS):
        return False
    if producer.name in _QUOTIENTS + _CASTS:
        return _has_divisor(producer.operands[0])
    if producer.name in _SUMS:
        unknown = [operand for operand in producer.operands if whole_number(operand) is None]
        return all(map(_has_divisor, unknown))
    return True


def _behind_barrier(size: ir.Value) -> ir.Value:
    producer = defining_op(size)
    anchor = size.owner.operations[0] if producer is None else next_op(producer)
    return Builder(anchor).barred(size)
