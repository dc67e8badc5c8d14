"""attn-lowest-masks: keys hidden by the lowest finite number weigh what PyTorch gives them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from . import Pass, PassContext

if TYPE_CHECKING:
    from iree.compiler import ir


@dataclass(frozen=True)
class LowestMasks(Pass):
    """Raises numbers of masks that log2(e) would make infinite to the lowest that it does not.

    Models hide keys by the lowest finite number (`torch.finfo(...).min`). A row of nothing else
    is the mean of V in PyTorch, since adding scores does not change that number. IREE 3.13
    multiplies it by log2(e), and so makes it infinite: NaN. Masks that cannot hold such numbers,
    or whose rows see a key each whatever they hold (causal ones), stay. Where a mask is computed
    in the module that is part of its computation; one of the caller's is copied.
    """

    name: ClassVar[str] = "attn-lowest-masks"
    summary: ClassVar[str] = "rows hidden by the lowest finite number are the mean of V, not NaN"
    mends: ClassVar[str] = "rows whose keys all have the lowest number as their mask are NaN"

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        from ..attention import find_ops
        from ..lowest_masks import raise_masks

        with module.context:
            return raise_masks(find_ops(module), context.report)
