"""attn-keep-apart: each op that computes has a kernel of its own."""

from __future__ import annotations

from iree.compiler import ir

from ..attention.barrier import barrier_behind
from ..ir import walk
from ..passes import OpPass

_DIALECTS = ("linalg.", "iree_linalg_ext.", "arith.", "math.")
_MOVES = ("tensor.concat", "tensor.extract_slice", "tensor.insert_slice", "tensor.pad")
# What IREE makes where it is read.
_NUMBERS = ("linalg.fill", "arith.constant")


class KeepApart(OpPass):
    """Puts a compute barrier behind each op that computes a tensor, or moves elements of one, so
    that IREE fuses no two of them.

    What IREE 3.13 fails on is most often a kernel of several ops: a reduction and what reads it, or
    products in one another's tiles. Slow, since all that is computed goes through memory: a last
    resort for a module that nothing else compiles.
    """

    name = "attn-keep-apart"
    summary = "each op in a kernel of its own: slow, for what IREE fails to compile"

    def wanted(self, op: ir.Operation) -> bool:
        return computes(op)

    def change(self, op: ir.Operation) -> str:
        return "has a kernel of its own" if barrier_behind(op) else ""


def computes(op: ir.Operation) -> bool:
    """Whether an op computes tensors that IREE may compute with others."""
    if op.name in _NUMBERS or not (op.name in _MOVES or op.name.startswith(_DIALECTS)):
        return False
    return any(isinstance(result.type, ir.RankedTensorType) for result in op.results)


def any_computes(module: ir.Operation) -> bool:
    """Whether there is anything to keep apart."""
    found = False

    def visit(op: ir.Operation) -> ir.WalkResult:
        nonlocal found
        found = computes(op)
        return ir.WalkResult.INTERRUPT if found else ir.WalkResult.ADVANCE

    walk(module, visit)
    return found
