"""attn-store-operands: CPUs: K, V and masks that are computed stand in memory before attention,
unless few rows read them from codes.
"""

from __future__ import annotations

from dataclasses import dataclass

from iree.compiler import ir

from ..attention.barrier import store_operand, without_views
from ..attention.facts import AttentionFacts, find
from ..ir import Refusal, defining_op, ranked_shape, reduces, users
from ..ir.views import view_before
from ..machines import Target
from ..machines.cpu.loops import row_size, tiles
from ..machines.cpu.machine import Cpu
from ..passes import PassContext, TargetPass
from .computed_lines import sources_of, widened_from

_READ_OFTEN = ("key", "value", "mask")
_FUSED = ("linalg.generic", "linalg.fill", "tensor.reshape")


@dataclass(frozen=True)
class StoreOperands(TargetPass):
    """Puts a compute barrier behind the elementwise op that makes K, V or the mask of an
    attention, below the views and repeats between them, on llvm-cpu; of a mask that is transposed
    (T5's bias has its heads last) behind that.

    IREE fuses such an op into attention's kernel, all of them from `--iree-opt-level=O2` on, and
    computes it anew for each tile of rows; a CPU's vector loops read memory, of a mask the keys of
    a row side by side. Loops of few rows read each element once: codes of a quantised cache stay
    as they lie for them. A reshape to computed sizes, which no kernel of IREE's can be cut
    across, stays outside in the same way.
    """

    name = "attn-store-operands"
    summary = "CPUs: K, V and masks that are computed stand in memory"
    backends = ("llvm-cpu",)

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        target = self.target_for(module, context)
        if target is None or not self.concerns({target.backend}):
            return False
        changed = False
        for facts in find(module):
            if facts.own_configuration:
                continue
            for name in _READ_OFTEN:
                if name not in facts.operand_names:
                    continue
                if _is_read_once(facts, name, target):
                    why = f"its {name} is widened in registers, from codes as they lie"
                    context.report.record(facts.op, "note", why)
                    continue
                why = _store(facts, name)
                if why:
                    context.report.record(facts.op, "stored", f"its {name} {why}")
                    changed = True
        return changed


def _store(facts: AttentionFacts, name: str) -> str:
    """Puts an operand, or what makes it, behind a barrier, and says why; '' where none is needed.

    1. A mask that transposes bring to attention's order: its keys are to lie side by side, and
       IREE would read it as it lay before.
    2. What one of `_FUSED` makes, below views and repeats of it.
    """
    number = facts.index(name)
    if name == "mask" and _is_turned(facts):
        store_operand(facts.op, number)
        return "is transposed, and put in memory as loops read it"
    reader, number = without_views(facts.op, number)
    made = defining_op(reader.operands[number])
    if made is None or made.name not in _FUSED or reduces(made):
        return ""
    store_operand(reader, number)
    return "is computed, and put in memory before it"


def _is_read_once(facts: AttentionFacts, name: str, target: Target) -> bool:
    """Whether loops of few rows read K or V in attention's kernel from what is narrower in memory
    (codes of a quantised cache and their scales), each element once."""
    if name == "mask" or not isinstance(target, Cpu) or facts.is_innermost(name, facts.k2):
        return False
    loops, value = tiles(facts, target.vector_bytes), _below_views_of_lines(facts.value(name))
    if isinstance(loops, Refusal) or loops.row_vectors or row_size(facts) > loops.lanes:
        return False
    if value is None or widened_from(value) is None:
        return False
    made = [defining_op(source.operand) for source in sources_of(value) or []]
    return not any(op is not None and op.name in _FUSED for op in made)


def _below_views_of_lines(value: ir.Value) -> ir.Value | None:
    """What a value shows below views that leave the last dim as it is, which IREE folds into what
    makes it; None where something else reads it on the way, too."""
    while len(users(value)) == 1 and (view := view_before(value)) is not None:
        last = len(ranked_shape(view.source)) - 1, len(ranked_shape(value)) - 1
        if not any(run.source == last[:1] and run.result == last[1:] for run in view.runs):
            return None
        value = view.source
    return value if len(users(value)) == 1 else None


def _is_turned(facts: AttentionFacts) -> bool:
    """Whether a transpose brings the keys of a mask to its last dim."""
    value = facts.value("mask")
    while (view := view_before(value)) is not None:
        if view.op.name == "linalg.transpose":
            last = len(ranked_shape(view.source)) - 1
            runs = [run for run in view.runs if run.source == (last,)]
            return facts.is_innermost("mask", facts.k2) and runs[0].result != (last,)
        value = view.source
    return False
