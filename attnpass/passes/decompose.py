"""attn-decompose: attention as products and a softmax in f32, made for right numbers alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from . import Pass, PassContext

if TYPE_CHECKING:
    from iree.compiler import ir


@dataclass(frozen=True)
class Decompose(Pass):
    """Writes attention out as plain `linalg.generic` ops: a product, the score function, the mask,
    a softmax and a product, in f32 (f64 where an operand has it), the results cast back.

    Any attention or online_attention on tensors: whatever the order, number and sizes of its dims,
    its types and its mask (packed, too), and where operands lack a dim or share one that IREE
    sorts as no other pass of ours knows. The scores go to memory, of all heads at once. What
    cannot be written out stays, with the reason in the report.
    """

    name: ClassVar[str] = "attn-decompose"
    summary: ClassVar[str] = "attention as products and a softmax in f32: right, not fast"

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        from ..decompose import decompose_all

        with module.context:
            return decompose_all(module, lambda facts: "as asked for", context.report)
