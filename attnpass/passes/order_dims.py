"""attn-order-dims: attention's iteration dims in one order, when its result's order is final."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from . import Pass, PassContext

if TYPE_CHECKING:
    from iree.compiler import ir


@dataclass(frozen=True)
class OrderDims(Pass):
    """Puts iteration dims in the order of the result's, then Q's and K's head, then the keys.

    `attn-normal-form` does so before the other passes; those, and IREE's folding of transposes
    and reshapes, may give the result another order. Maps are relabelled, nothing is moved.
    """

    name: ClassVar[str] = "attn-order-dims"
    summary: ClassVar[str] = "iteration dims in the order of the result, whatever folding made it"
    phase: ClassVar[str] = "flow"

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        from ..attention import find
        from ..normal_form import order_dims

        with module.context:
            return any([order_dims(facts) for facts in find(module)])
