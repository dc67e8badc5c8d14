"""attn-read-repeats: elements taken by index of what is repeated are taken of what repeats."""

from __future__ import annotations

from iree.compiler import ir

from ..ir import Builder, defining_op, ranked_shape
from ..ir.views import repeat_of
from ..passes import OpPass


class ReadRepeats(OpPass):
    """Has the body of a loop that takes an element of a repeated tensor (`torch.gather` of
    `x[:, None].expand(-1, n, -1, -1)`: the nearest neighbours of points) take it of the tensor that
    repeats, without the index along which it does.

    IREE 3.13 writes all repeats, and what makes the tensor is computed for each of them where both
    are one kernel: 1024 points of 64 numbers in 4 clouds were a product of 4 million rows (H200:
    2.2 of 2.8 ms).
    """

    name = "attn-read-repeats"
    summary = "what is taken by index of repeats is taken of what repeats"
    why = "IREE writes all repeats of what is taken by index, and computes it for each"
    what = "fitted"
    kind = "repeat"
    ops = ("tensor.extract",)
    in_bodies = True

    def change(self, op: ir.Operation) -> str:
        repeat = repeat_of(defining_op(op.operands[0]))
        places = None if repeat is None else repeat.projection
        if repeat is None or places is None:
            return ""
        ranks = {len(ranked_shape(value)) for value in (repeat.source, repeat.result)}
        if len(ranks) == 1 and None not in places:
            return ""  # In another order, or a copy: stored as it is wanted.
        build, indices = Builder(op), list(op.operands)[1:]
        own = [build.constant_index(0) if place is None else indices[place] for place in places]
        op.results[0].replace_all_uses_with(build.extract(repeat.source, own))
        return "is read where it is, not in its repeats"
