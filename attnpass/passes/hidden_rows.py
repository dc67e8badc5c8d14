"""attn-hidden-rows: zeros, as in PyTorch, in rows of attention that see no key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from . import Pass, PassContext

if TYPE_CHECKING:
    from iree.compiler import ir


@dataclass(frozen=True)
class HiddenRows(Pass):
    """Makes rows of attention that see no key 0, where there could be such rows.

    IREE 3.13 gives NaN there, PyTorch 0. Batches that are padded on the left have such rows:
    in a model of two layers their NaN reaches every row of the sequence. It guards the division
    by the sum of weights that IREE makes of each attention before it lowers kernels, so that no
    mask is read again; run on a module in which attention is whole, it takes that apart. Left
    alone is what sees all of a known number of keys.

    Where keys are hidden by the lowest finite number, such rows are the mean of V: see
    `attn-lowest-masks`, whose work is done here, too, where attention is whole.
    """

    name: ClassVar[str] = "attn-hidden-rows"
    summary: ClassVar[str] = "rows that see no key are 0, as in PyTorch, not NaN"
    phase: ClassVar[str] = "executable-configurations"
    mends: ClassVar[str] = "rows that see no key are NaN"

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        from ..attention import find_ops, whole_facts
        from ..hidden_rows import guard_divisions, may_see_nothing, taken_apart
        from ..ir import erase_dead, has_ancestor, location_text, replace_reads
        from ..lowest_masks import raise_masks

        guarded: list[ir.Operation] = []
        apart: list[ir.Operation] = []
        with module.context:
            open_ops = [op for op in find_ops(module) if not has_ancestor(op, "hal.executable")]
            changed = raise_masks(open_ops, context.report)
            for op in find_ops(module):
                facts = whole_facts(op)
                if facts is not None and not may_see_nothing(facts):
                    continue
                if facts is not None and facts.kind == "attention":
                    with op.location:
                        replace_reads(op.results[0], taken_apart(facts))
                    apart.append(op)
                elif len(op.results) < 3 or not guard_divisions(op):
                    continue
                guarded.append(op)
            for op in guarded:
                context.report.note(
                    f"{op.name.rpartition('.')[2]} at {location_text(op.location)}: rows that see "
                    "no key are 0, as in PyTorch; IREE gives NaN"
                )
            erase_dead(apart)
        return changed or bool(guarded)
