"""attn-order-dims: attention's iteration dims in one order, when its result's order is final."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from . import Pass, PassContext

if TYPE_CHECKING:
    from iree.compiler import ir


@dataclass(frozen=True)
class OrderDims(Pass):
    """Puts iteration dims in the order that `attn-normal-form` gives them, once more.

    The passes between, and IREE's folding of transposes and reshapes, may have given the result
    another order, or the iteration space other dims. Maps are relabelled, nothing is moved.
    """

    name: ClassVar[str] = "attn-order-dims"
    summary: ClassVar[str] = "iteration dims in one order again, after IREE's folding"
    phase: ClassVar[str] = "flow"
    mends: ClassVar[str] = (
        "attention whose dims stand in another order than its result's is wrong on GPUs"
    )

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        from ..attention import find
        from ..normal_form import order_dims

        target = context.target_for(module)
        with module.context:
            return any([order_dims(facts, target) for facts in find(module)])
