"""attn-bubble-transpose-v: an explicit transpose on V, and k2 innermost in V's map."""

from __future__ import annotations

from iree.compiler import ir

from ..attention.facts import find
from ..passes import Pass, PassContext
from .fold_transpose import bubble_value


class BubbleTransposeV(Pass):
    """Puts a `linalg.transpose` before V and permutes V's map, so that k2 is innermost.

    Nothing is absorbed yet: `attn-fuse-transpose` pushes the transpose into V's producers,
    and `attn-fold-transpose` takes it back.
    """

    name = "attn-bubble-transpose-v"
    summary = "expose a linalg.transpose on V and set k2 innermost in V's map"

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        return any([bubble_value(facts, context.report, self.name) for facts in find(module)])
