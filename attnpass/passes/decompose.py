"""attn-decompose: attention as products and a softmax in f32, made for right numbers alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from . import Pass, PassContext, option

if TYPE_CHECKING:
    from iree.compiler import ir

    from ..attention import AttentionFacts
    from ..targets import Target


@dataclass(frozen=True)
class Decompose(Pass):
    """Writes attention out as plain `linalg.generic` ops: a product, the score function, the mask,
    a softmax and a product, in f32 (f64 where an operand has it), the results cast back.

    Any attention or online_attention on tensors: whatever the order, number and sizes of its dims,
    its types and its mask (packed, too), and where operands lack a dim or share one that IREE
    sorts as no other pass of ours knows. The scores go to memory, of all heads at once. What
    cannot be written out stays, with the reason in the report.

    `only=wrong` takes the attention for which neither a configuration of ours (with `configured`)
    nor IREE's own code computes right numbers on the target, such as wide heads in types that no
    configuration is for. Scores of more than `megabytes` (of 2^20 bytes), with 1024 for each size
    that is known only at run time, are computed in loops over batches and rows then, so much of
    them at a time.
    """

    name: ClassVar[str] = "attn-decompose"
    summary: ClassVar[str] = "attention as products and a softmax in f32: right, not fast"
    mends: ClassVar[str] = "some attention is computed wrong by IREE's own code"

    only: str = option("all", "which attention: all, or what is computed wrong", ("all", "wrong"))
    configured: bool = option(False, "whether attn-configure comes behind")
    megabytes: int = option(4096, "most memory for scores at a time, with only=wrong")
    target: str = option("", "target to decide for, instead of the module's own")

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        from ..decompose import decompose_all
        from ..score_blocks import decomposed_within

        target = context.target_for(module, self.target)
        with module.context:
            if self.only == "all":
                return decompose_all(module, lambda _: "as asked for", context.report)
            return decompose_all(
                module,
                lambda facts: self._wrong(facts, target, context),
                context.report,
                lambda facts: decomposed_within(facts, self.megabytes << 20),
            )

    def _wrong(self, facts: AttentionFacts, target: Target | None, context: PassContext) -> str:
        """Why an attention is to be written out; '' also where that cannot be."""
        from ..configs import nothing_is_right
        from ..decompose import refusal, score_bytes

        why = nothing_is_right(facts, target, self.configured)
        kept = refusal(facts) if why else ""
        if why and not kept and score_bytes(facts) > self.megabytes << 20:
            return f"{why}; {self.megabytes} MB of scores at a time"
        if not kept:
            return why
        place = f"{facts.kind} at {facts.place}"
        context.report.known_wrong(
            f"{place}: {why}, and it is not written out: {kept}", facts.location
        )
        return ""
