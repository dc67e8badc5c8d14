"""attn-mask-positions: score functions of positions as masks, whose numbers IREE gets right."""

from __future__ import annotations

from iree.compiler import ir

from ..attention.edit import edit
from ..attention.facts import AttentionFacts, find_ops
from ..attention.scores import holds_regions, keep_only, make_scalar, position_mask, split_region
from ..attention.wide_scores import compute_in_f32
from ..forms.decomposition import decomposed, describe_any, refusal
from ..ir import Refusal, replace_reads
from ..passes import Pass, PassContext


class MaskPositions(Pass):
    """Takes what positions do to scores out of attention's region: a bias (ALiBi) becomes a mask
    that is added, hidden keys (causal, windows, documents) one of truth values; a mask that the
    op has is part of the new one. A soft-cap and other functions of the score alone stay.

    Where a region reads positions (`iree_linalg_ext.index`, as FlexAttention is imported),
    IREE 3.13 counts them from the start of a tile instead of the tensor, and takes the numbers
    of iteration dims for those of the scores' dims: it computes wrong numbers without a word,
    or does not compile. Regions on tensors of rank 0, as importers leave them, become regions
    of scalars, which other passes read, and those on f16 or bf16, which IREE cannot lower, regions
    on f32.
    """

    name = "attn-mask-positions"
    summary = "right numbers for score functions of positions: they become masks"
    why = "IREE numbers positions wrong where it joins or cuts dims"
    mends = "scores by position are those of other positions"

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        simpler = [op for op in find_ops(module) if make_scalar(op) | compute_in_f32(op)]
        for op in simpler:
            why = "its score function is one of scalars in f32 now"
            context.report.record(op, "repaired", why)

        def replace(facts: AttentionFacts) -> str | None:
            return _replace(facts, context) if facts.score_index_dims else None

        return context.replace_attention(module, replace) or bool(simpler)


def _replace(facts: AttentionFacts, context: PassContext) -> str | None:
    """Gives the users of an attention one that reads no positions; what became of it."""
    loose = describe_any(facts.op)
    why = refusal(loose)
    found = why or holds_regions(facts.op) or split_region(facts.op)
    if not isinstance(found, Refusal):
        rest, steps = found
        mask, dims = position_mask(facts, steps)
        edit(facts).score(keep_only(facts.op, rest)).mask(mask, dims).replace()
        return "what positions do to its scores is a mask now"
    if not why:
        for old, new in zip(facts.op.results, decomposed(loose), strict=True):
            replace_reads(old, new)
        return f"two products and a softmax now, which get positions right: {found}"
    context.report.known_wrong(
        "IREE 3.13 takes positions in a tile for those that its scores depend on, and it cannot "
        f"be written out: {why}",
        facts.op,
    )
    return None
