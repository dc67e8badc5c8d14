"""attn-fold-transpose: transposes around attention become part of its indexing maps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from . import Pass, PassContext, option

if TYPE_CHECKING:
    from iree.compiler import ir


@dataclass(frozen=True)
class FoldTranspose(Pass):
    """Folds the transposes that directly make Q, K, V or the mask, and one that directly
    takes the result, into attention's maps: the inverse of bubbling.

    With `through-reshapes`, also those behind reshapes and broadcasts: heads that were
    collapsed into one batch dim are split again, so the op's rank can change.
    """

    name: ClassVar[str] = "attn-fold-transpose"
    summary: ClassVar[str] = "fold transposes before and behind attention into its maps"

    through_reshapes: bool = option(False, "also fold behind reshapes and broadcasts")

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        from ..attention import find
        from ..layout.fold import fold_and_record

        with module.context:
            return any(
                [
                    fold_and_record(facts, self.through_reshapes, context.report, self.name)
                    for facts in find(module)
                ]
            )
