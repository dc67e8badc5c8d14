"""attn-hidden-rows: zeros, as in PyTorch, where a mask hides every key of a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from . import Pass, PassContext

if TYPE_CHECKING:
    from iree.compiler import ir


@dataclass(frozen=True)
class HiddenRows(Pass):
    """Makes rows of attention that see no key 0, where the mask could have such rows.

    IREE 3.13 gives NaN there, PyTorch 0. Batches that are padded on the left have such rows:
    in a model of two layers their NaN reaches every row of the sequence. Masks that show each
    row a key (causal, windows, finite biases) and those that all rows share are left alone.
    The mask is read once more, and the zeros are put in by what IREE fuses behind attention.

    Where keys are hidden by the lowest finite number, PyTorch gives such rows the mean of V, and
    IREE NaN. So masks that could hold it, the caller's or of such a constant, get a number
    that is not quite as low.
    """

    name: ClassVar[str] = "attn-hidden-rows"
    summary: ClassVar[str] = "rows whose mask hides every key are 0, as in PyTorch, not NaN"

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        from ..attention import find
        from ..hidden_rows import may_be_too_low, may_hide_rows, raise_mask, zero_hidden_rows

        changed = False
        with module.context:
            for facts in find(module):
                too_low, hides = may_be_too_low(facts), may_hide_rows(facts)
                if too_low:
                    raise_mask(facts)
                    context.report.note(
                        f"{facts.kind} at {facts.place}: rows whose keys are all hidden by the "
                        "lowest finite number are the mean of V, as in PyTorch; IREE gives NaN"
                    )
                if hides:
                    zero_hidden_rows(facts)
                    context.report.note(
                        f"{facts.kind} at {facts.place}: rows whose mask hides every key are 0, "
                        "as in PyTorch; IREE gives NaN"
                    )
                changed |= too_low or hides
        return changed
