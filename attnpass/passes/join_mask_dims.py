"""attn-join-mask-dims: rows and keys stay one dim each where a mask is made over several."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from . import Pass, PassContext

if TYPE_CHECKING:
    from iree.compiler import ir

    from ..attention import AttentionFacts

_VIEWS = ("tensor.collapse_shape", "tensor.expand_shape")


@dataclass(frozen=True)
class JoinMaskDims(Pass):
    """Keeps attention's rows and keys one dim each where its mask is computed over more.

    A bias by relative position in an image (SAM) is a sum over (row, column, key row, key
    column) that is viewed as rows by keys. IREE 3.13 pushes that view through attention, whose
    keys then are two dims: no configuration fits, and with its own such a model takes 20 times
    as long on a CPU. The mask goes behind a compute barrier, which views do not pass; it is in
    memory in any case. Repeats of a mask are left alone: IREE folds those into attention.
    """

    name: ClassVar[str] = "attn-join-mask-dims"
    summary: ClassVar[str] = "rows and keys stay one dim each where a mask is made over several"

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        from ..attention import find
        from ..ir import Builder
        from ..iree.barrier import compute_barrier

        changed = False
        with module.context:
            for facts in find(module):
                if not _is_made_over_more(facts):
                    continue
                barrier = compute_barrier(Builder(facts.op), facts.value("mask"))
                facts.op.operands[facts.index("mask")] = barrier
                changed = True
                context.report.note(
                    f"{facts.kind} at {facts.place}: its mask is made over several dims of rows "
                    "or keys, and put in memory before it, so that they stay one dim each"
                )
        return changed


def _is_made_over_more(facts: AttentionFacts) -> bool:
    """Whether what computes the mask has its rows or keys in several dims."""
    from ..ir import defining_op, ranked_shape
    from ..producers.broadcast import repeated_value

    if not facts.has_mask or not {*facts.map_of("mask")[-2:]} & {*facts.m, *facts.k2}:
        return False
    source = facts.value("mask")
    while (op := defining_op(source)) is not None and op.name in _VIEWS:
        source = op.operands[0]
    if op is None or op.name != "linalg.generic" or repeated_value(op) is not None:
        return False
    wanted = [facts.sizes[dim] for dim in facts.map_of("mask") if dim in (*facts.m, *facts.k2)]
    wanted = [size or 0 for size in wanted if size != 1]
    made = [size or 0 for size in ranked_shape(source) if size != 1]
    # The innermost dims that together are as large as rows by keys; a size of 0 is unknown.
    while made and math.prod(made[1:]) >= math.prod(wanted):
        made.pop(0)
    return 0 < math.prod(made) == math.prod(wanted) and made != wanted
