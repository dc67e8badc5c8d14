"""attn-share-masks: heads, sequences and rows read the mask that they share, not copies of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from . import Pass, PassContext

if TYPE_CHECKING:
    from iree.compiler import ir


@dataclass(frozen=True)
class ShareMasks(Pass):
    """Leaves broadcasts of a mask along dims of the batch and of rows to attention's indexing map.

    A mask that is computed, not just broadcast, is computed once: what its elements do not
    depend on is no dim of it any more. The batch dim of attention is split where sequences
    have masks of their own that their heads share.
    """

    name: ClassVar[str] = "attn-share-masks"
    summary: ClassVar[str] = "heads, sequences and rows read one mask where theirs are copies of it"

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        from ..attention import find
        from ..ir import erase_dead
        from ..layout.attention_rewrite import Swept
        from ..shared_masks import share_mask
        from ..spare_dims import SpareDims

        swept: Swept = []
        spare = SpareDims()
        with module.context:
            for facts in find(module):
                if share_mask(facts, spare, swept):
                    context.report.note(
                        f"{facts.kind} at {facts.place}: its heads, sequences or rows read one mask"
                    )
            erase_dead(swept)
        return bool(swept)
