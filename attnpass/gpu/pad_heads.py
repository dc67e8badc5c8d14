"""attn-pad-heads: head dims that have a kernel, the added elements zero."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ..passes import Pass, PassContext, option

if TYPE_CHECKING:
    from iree.compiler import ir

    from ..attention.facts import AttentionFacts


@dataclass(frozen=True)
class PadHeads(Pass):
    """Pads the head dims of Q, K and V where attn-configure has a kernel for wider ones only.

    IREE 3.13 has scalar code for head dims that fill no tensor-core tile (40, 72, ...). Zeros
    add nothing to the scores; the columns that they make in the result are cut off.
    """

    name: ClassVar[str] = "attn-pad-heads"
    summary: ClassVar[str] = "GPUs: head dims without a kernel get zeros added"
    backends: ClassVar[tuple[str, ...]] = ("cuda", "rocm")

    target: str = option("", "target to decide for, instead of the module's own")

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        from .padding import pad_dims

        target = context.target_for(module, self.target)
        if target is None:
            return False

        def replace(facts: AttentionFacts) -> str | None:
            heads = None if facts.own_configuration else target.padded_heads(facts)
            if heads is None:
                return None
            pad_dims(facts, {facts.k1[0]: heads[0], facts.n[0]: heads[1]})
            old = [facts.sizes[dim] for dim in (*facts.k1, *facts.n)]
            return (
                f"head dims {old[0]} and {old[1]} are padded with zeros to {heads[0]} and "
                f"{heads[1]}, which have a kernel"
            )

        return context.replace_attention(module, replace)
