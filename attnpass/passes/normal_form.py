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
    truth values, by one elementwise op. Iteration dims get the order b, m, n, k1, k2 and, within a
    kind, that of the result; in f32 on NVIDIA GPUs the order of the result throughout, since IREE
    3.13 computes wrong numbers of other orders there. Maps are relabelled, nothing is moved.
    """

    name: ClassVar[str] = "attn-normal-form"
    summary: ClassVar[str] = "masks of truth values; iteration dims in one order, by relabelling"
    mends: ClassVar[str] = (
        "masks of i8, and dims in another order than those of the result, are wrong on GPUs"
    )

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        from ..attention import find
        from ..normal_form import order_dims, truth_mask

        changed = False
        target = context.target_for(module)
        with module.context:
            for facts in find(module):
                had = truth_mask(facts)
                if had:
                    context.report.note(
                        f"{facts.kind} at {facts.place}: its mask is of truth values now; it was "
                        f"of {had}"
                    )
                changed |= bool(had) | order_dims(facts, target)
        return changed
