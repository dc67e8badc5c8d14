"""Keeps IREE from splitting the dims of attention on GPUs that has its configuration already.

IREE 3.13 splits an unknown dim of Q and K where it knows a divisor of its size: a batch of
unknown size times 8 heads is a multiple of 8. It does so while it makes kernels, behind the
configuration that was attached, whose ranks then are others ("failed to distribute"). Behind a
barrier on the host the kernel knows no divisor.
"""

from __future__ import annotations

from collections.abc import Iterable

from iree.compiler import ir

from ..attention import find_ops
from ..ir import Builder, collect, defining_op, descendants, ranked_shape

_BARRIER = "util.optimization_barrier"


def hide_divisors(module: ir.Operation) -> bool:
    """Puts a barrier between the host and the sizes that it hands to configured attention with
    unknown dims in Q or K, for a module at IREE's phase flow; returns whether IR changed."""
    names = {
        ir.StringAttr(executable.attributes["sym_name"]).value
        for executable in descendants(module, "flow.executable")
        if any(map(_is_split, find_ops(executable)))
    }
    return any([_hide(dispatch) for dispatch in collect(module, lambda op: _runs(op, names))])


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


def _hide(dispatch: ir.Operation) -> bool:
    """Hides what is known of the dispatch's workload and arguments; sizes of the tensors, which
    stand behind those, stay."""
    workload, arguments, *_ = ir.DenseI32ArrayAttr(dispatch.attributes["operandSegmentSizes"])
    hidden: dict[ir.Value, ir.Value] = {}
    for number in _indices(dispatch, range(workload + arguments)):
        value = dispatch.operands[number]
        producer = defining_op(value)
        if producer is not None and producer.name in (_BARRIER, "arith.constant"):
            continue
        if value not in hidden:
            barrier = Builder(dispatch).create(_BARRIER, [value.type], [value])
            hidden[value] = barrier.results[0]
        dispatch.operands[number] = hidden[value]
    return bool(hidden)


def _indices(dispatch: ir.Operation, numbers: Iterable[int]) -> list[int]:
    return [n for n in numbers if isinstance(dispatch.operands[n].type, ir.IndexType)]
