"""attn-fuse-normalization: online attention and the division behind it as one attention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from . import Pass, PassContext

if TYPE_CHECKING:
    from iree.compiler import ir

    from ..attention import AttentionFacts


@dataclass(frozen=True)
class FuseNormalization(Pass):
    """Makes `attention` of an `online_attention` that starts from nothing and whose output is
    divided by its sum of weights, where nobody reads the largest score or the sum but for that.

    FlexAttention is imported so. Passes and kernels know more of attention than of its parts,
    and IREE takes it apart again when it has formed dispatches. Where it cannot be one op, what
    divides by the sum gives 0 in rows that see no key, as attention is there.
    """

    name: ClassVar[str] = "attn-fuse-normalization"
    summary: ClassVar[str] = "online attention and the division by its sum as attention"

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        from ..attention import find_ops
        from ..hidden_rows import guard_divisions
        from ..normalization import find_normalization, normalized

        divisions: list[ir.Operation] = []

        def replace(facts: AttentionFacts) -> str | None:
            division = find_normalization(facts)
            if division is None:
                return None
            division.results[0].replace_all_uses_with(normalized(facts, division))
            divisions.append(division)
            return "the division by its sum of weights is part of it now"

        def erase() -> None:
            from ..ir import erase_dead

            with module.context:
                erase_dead(divisions)

        def guard() -> bool:
            with module.context:
                return any([guard_divisions(op) for op in find_ops(module) if len(op.results) > 1])

        changed = context.replace_attention(module, replace)
        erase()
        return guard() or changed
