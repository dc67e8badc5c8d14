"""attn-pad-keys: whole kernel tiles of keys, the added ones masked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ..passes import Pass, PassContext, option

if TYPE_CHECKING:
    from iree.compiler import ir

    from ..attention.facts import AttentionFacts


@dataclass(frozen=True)
class PadKeys(Pass):
    """Pads K, V and the mask where attn-configure has a kernel for a few more keys only.

    IREE 3.13 has no tensor-core kernel for a number of keys that fills no tile: on an H200
    1333 keys take 69 ms where 1344 take under one. K and V get zeros and the mask hides
    them. Only a known number of keys is padded.
    """

    name: ClassVar[str] = "attn-pad-keys"
    summary: ClassVar[str] = "GPUs: keys that fill no kernel tile get masked ones added"
    backends: ClassVar[tuple[str, ...]] = ("cuda", "rocm")

    target: str = option("", "target to decide for, instead of the module's own")

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        from .padding import pad_dims

        target = context.target_for(module, self.target)
        if target is None:
            return False

        def replace(facts: AttentionFacts) -> str | None:
            keys = None if facts.own_configuration else target.padded_keys(facts)
            if keys is None:
                return None
            pad_dims(facts, {facts.k2[0]: keys})
            return (
                f"{facts.sizes[facts.k2[0]]} keys are padded to {keys}, whole kernel tiles, "
                "the added ones masked"
            )

        return context.replace_attention(module, replace)
