"""attn-decompose: attention as two products and a softmax, where a CPU is faster so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from . import Pass, PassContext, option

if TYPE_CHECKING:
    from iree.compiler import ir


@dataclass(frozen=True)
class Decompose(Pass):
    """Writes out the scores of attention with many rows, on llvm-cpu.

    IREE's plain products are faster there than any tile of its fused attention, as long as
    the scores of all heads stay in the cache: they have to fit into `megabytes` (of 2^20
    bytes). The rest stays fused, with the reason in the report.
    """

    name: ClassVar[str] = "attn-decompose"
    summary: ClassVar[str] = "CPUs: attention with many rows as two products and a softmax"

    megabytes: int = option(8, "most memory that the scores of an attention may take")
    target: str = option("", "target to decide for, instead of the module's own")

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        from ..decompose import decompose_all

        target = context.target_for(module, self.target)
        with module.context:
            return decompose_all(module, target, self.megabytes << 20, context.report)
