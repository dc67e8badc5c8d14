"""attn-normal-form: masks of truth values, and iteration dims in one order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from . import Pass, PassContext

if TYPE_CHECKING:
    from iree.compiler import ir


@dataclass(frozen=True)
class NormalForm(Pass):
    """Brings attention into the form that all other passes and configurations know.

    Masks of integers (IREE reads their lowest bit) and of bits packed 8 to a byte become masks of
    truth values, by one elementwise op. Iteration dims get the order of the result's, then that
    of Q's and K's head, then the keys: IREE 3.13 computes wrong numbers on GPUs where the result
    of a product has its dims in another order. Maps are relabelled, nothing is moved.
    """

    name: ClassVar[str] = "attn-normal-form"
    summary: ClassVar[str] = "masks of truth values; iteration dims in the order of the result"

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        from ..attention import find
        from ..normal_form import order_dims, truth_mask

        changed = False
        with module.context:
            for facts in find(module):
                had = truth_mask(facts)
                if had:
                    context.report.note(
                        f"{facts.kind} at {facts.place}: its mask is of truth values now; it was "
                        f"of {had}"
                    )
                changed |= bool(had) | order_dims(facts)
        return changed
