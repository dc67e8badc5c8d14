"""attn-store-operands: CPUs: K, V and masks that are computed stand in memory before attention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir

from ..attention.barrier import store_operand, without_views
from ..attention.facts import AttentionFacts, find
from ..ir import defining_op, reduces
from ..passes import Pass, PassContext, option

_READ_OFTEN = ("key", "value", "mask")


@dataclass(frozen=True)
class StoreOperands(Pass):
    """Puts a compute barrier behind the elementwise op that makes K, V or the mask of an
    attention, below the views and repeats between them, on llvm-cpu.

    IREE fuses such an op into attention's kernel, all of them from `--iree-opt-level=O2` on, and
    computes it anew for each tile of rows; a CPU's vector loops read memory alone.
    """

    name: ClassVar[str] = "attn-store-operands"
    summary: ClassVar[str] = "CPUs: K, V and masks that are computed stand in memory"
    backends: ClassVar[tuple[str, ...]] = ("llvm-cpu",)

    target: str = option("", "target to decide for, instead of the module's own")

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        target = context.target_for(module, self.target)
        if target is None or target.backend != "llvm-cpu":
            return False
        changed = False
        for facts in find(module):
            if facts.own_configuration:
                continue
            for name in _READ_OFTEN:
                if name in facts.operand_names and _store(facts, name):
                    why = f"its {name} is computed, and put in memory before it"
                    context.report.record(facts.op, "stored", why)
                    changed = True
        return changed


def _store(facts: AttentionFacts, name: str) -> bool:
    """Puts what makes an operand behind a barrier, if an elementwise op does."""
    reader, number = without_views(facts.op, facts.index(name))
    made = defining_op(reader.operands[number])
    if made is None or made.name not in ("linalg.generic", "linalg.fill") or reduces(made):
        return False
    store_operand(reader, number)
    return True
