"""attn-scatter-indices: what makes the indices of a scatter stays out of its kernel, for CUDA."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir

from ..attention.barrier import BARRIER, compute_barrier
from ..ir import Builder, collect, defining_op
from ..passes import Pass, PassContext

_SCATTER = "iree_linalg_ext.scatter"


@dataclass(frozen=True)
class ScatterIndices(Pass):
    """Puts a compute barrier behind what makes the indices, the updates and the mask of a scatter.

    From `--iree-opt-level=O2` on IREE 3.13 fuses it into the scatter's kernel. On CUDA that
    kernel reads indices that nobody wrote, and writes where they point: a decode step with a
    static cache (`index_put`) ends in an illegal address.
    """

    name: ClassVar[str] = "attn-scatter-indices"
    summary: ClassVar[str] = "CUDA: a scatter's indices are made before its kernel runs"
    mends: ClassVar[str] = "scatters write where unwritten indices point, on CUDA"
    backends: ClassVar[tuple[str, ...]] = ("cuda",)

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        if not self.is_for(module):
            return False
        changed = False
        for scatter in collect(module, lambda op: op.name == _SCATTER, bodies=False):
            for number, value in enumerate(list(scatter.operands)[:-1]):
                producer = defining_op(value)
                if producer is not None and producer.name != BARRIER:
                    scatter.operands[number] = compute_barrier(Builder(scatter), value)
                    changed = True
        return changed
