"""attn-natural-scores: score functions see the scores that they were written for."""

from __future__ import annotations

from iree.compiler import ir

from ..attention.facts import OP_NAMES
from ..attention.scores import NATURAL_SCORES, is_homogeneous, rescale
from ..ir import set_attribute
from ..passes import OpPass


class NaturalScores(OpPass):
    """Makes up, in attention's region, for how IREE 3.13 scales the scores that it hands over.

    IREE computes softmax with exp2. It multiplies the scale by log2(e) before the region
    instead of the scores behind it, so that a soft-cap caps at cap / log2(e) (on every target:
    all lower attention by the same pass, which overrules `use_exp2`). With 8-bit queries the
    scale itself comes behind the region. A region f becomes log2(e) f(x / log2(e)), and with 8
    bits f(scale x), the op's scale 1. One that does not mind (the identity, products) stays.
    """

    name = "attn-natural-scores"
    summary = "right numbers for soft-caps and other functions of the score"
    ops = OP_NAMES
    phase = "flow"
    mends = "score functions get scores in other units than they were written for"

    def change(self, op: ir.Operation) -> str:
        if NATURAL_SCORES in op.attributes or is_homogeneous(op):
            return ""
        with op.location:
            rescale(op)
        set_attribute(op, NATURAL_SCORES, "unit")
        return "its score function is given scores in the units that it was written for"
