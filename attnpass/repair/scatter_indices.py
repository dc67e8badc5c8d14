"""attn-scatter-indices: what makes the indices of a scatter stays out of its kernel, for CUDA."""

from __future__ import annotations

from iree.compiler import ir

from ..attention.barrier import BARRIER, store_operand
from ..ir import defining_op
from ..passes import OpPass

_SCATTER = "iree_linalg_ext.scatter"


class ScatterIndices(OpPass):
    """Puts a compute barrier behind what makes the indices, the updates and the mask of a scatter.

    From `--iree-opt-level=O2` on IREE 3.13 fuses it into the scatter's kernel. On CUDA that
    kernel reads indices that nobody wrote, and writes where they point: a decode step with a
    static cache (`index_put`) ends in an illegal address.
    """

    name = "attn-scatter-indices"
    summary = "CUDA: a scatter's indices are made before its kernel runs"
    ops = (_SCATTER,)
    mends = "scatters write where unwritten indices point, on CUDA"
    backends = ("cuda",)

    def change(self, op: ir.Operation) -> str:
        said = ""
        for number, value in enumerate(list(op.operands)[:-1]):
            producer = defining_op(value)
            if producer is not None and producer.name != BARRIER:
                store_operand(op, number)
                said = "what it reads is put in memory before its kernel runs"
        return said
