"""attn-share-masks: heads, sequences and rows read the mask that they share, not copies of it.

PyTorch's masks are broadcast to every head, those that say which keys are padding to every row,
too, and IREE's importer makes the mask of `is_causal` with a copy a head. IREE 3.13 folds a
broadcast into attention only where nothing else stands between: mostly the copies are written to
memory and read once a head, 2 GB of f32 for 32 heads of 4096 rows and keys.
"""

from __future__ import annotations

from iree.compiler import ir

from ..analysis.invariant_dims import InvariantDims
from ..attention.edit import edit
from ..attention.facts import AttentionFacts, find
from ..attention.visible_keys import hides_nothing
from ..ir import Builder, defining_op, element_type, erase_dead, sizes_of
from ..layout.attention_rewrite import DeadOps
from ..layout.layout import permuted
from ..layout.sources import Source, find_source, fold_through_reshapes, sources
from ..machines import backends
from ..passes import Pass, PassContext


def share_mask(facts: AttentionFacts, invariant: InvariantDims, dead_ops: DeadOps) -> bool:
    """Lets an attention read its mask without copies along dims of its batch and rows; returns
    whether there were some. Dims of keys stay as they are."""
    if not facts.has_mask or facts.own_configuration:
        return False
    while _make_once(facts, invariant, dead_ops):
        pass
    source = find_source(facts, "mask")
    if source is None or not source.is_repeated or not _keeps_scores(facts, source):
        return False
    return fold_through_reshapes(facts, "mask", dead_ops) is not None


def drop_mask(facts: AttentionFacts, dead_ops: DeadOps) -> bool:
    """Takes from an attention a mask that hides nothing; returns whether it had one."""
    if not facts.has_mask or facts.own_configuration or not hides_nothing(facts):
        return False
    edit(facts).without_mask().replace()
    dead_ops.append(facts.op)
    return True


def _keeps_scores(facts: AttentionFacts, source: Source) -> bool:
    """Whether rows, where it has some, and keys are one dim each, in this order, in what the mask
    is made of."""
    positions = facts.map_of("mask")
    scores = [
        axes
        for axes, p in zip(source.parts, positions, strict=True)
        if p not in facts.batch and any(axis is not None for axis in axes)
    ]
    flat = [axis for axes in scores for axis in axes]
    return (
        all(len(axes) == 1 for axes in scores)
        and source.order[len(source.order) - len(flat) :] == flat
    )


def _make_once(facts: AttentionFacts, invariant: InvariantDims, dead_ops: DeadOps) -> bool:
    """Where what makes the mask, below reshapes and repeats, makes copies along dims of the batch
    or of rows: makes one of them, and a repeat of it for who reads them."""
    value = facts.value("mask")
    sizes = sizes_of(value)
    layout = permuted(sizes, range(len(sizes)))
    bottom = Source(value, layout, layout.dims, ())
    for _, bottom in sources(facts, "mask"):  # noqa: B007
        pass
    op = defining_op(bottom.value)
    if op is None:
        return False
    droppable = {
        axis
        for axes, p in zip(bottom.parts, facts.map_of("mask"), strict=True)
        if p in facts.batch or p in facts.m
        for axis in axes
    }
    copied = invariant.of(bottom.value)
    lost = frozenset(
        dim
        for dim, axes in enumerate(bottom.layout.dims)
        if axes and {*axes} <= droppable and dim in copied
    )
    if not lost:
        return False
    one = invariant.without(bottom.value, lost)
    everywhere = tuple(range(len(bottom.layout.dims)))
    kept = tuple(None if dim in lost else dim for dim in everywhere)
    build = Builder(op)
    sizes, kind = sizes_of(bottom.value), element_type(bottom.value)
    repeat = build.computed(sizes, kind, lambda _, x: x[0], (one, kept))
    bottom.value.replace_all_uses_with(repeat)
    dead_ops.append(op)
    return True


class ShareMasks(Pass):
    """Leaves broadcasts of a mask along dims of the batch and of rows to attention's indexing map.

    A mask that is computed, not just broadcast, is computed once: what its elements do not
    depend on is no dim of it any more. The batch dim of attention is split where sequences
    have masks of their own that their heads share. A mask that hides nothing (of an encoder whose
    batch is unknown, from transformers 5 on) is dropped, but for GPUs.
    """

    name = "attn-share-masks"
    summary = "heads, sequences and rows read one mask where theirs are copies of it"
    why = "a mask is read once, not once a head"

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        dead_ops: DeadOps = []
        invariant = InvariantDims()
        # On GPUs kernels of ours see it themselves, and IREE's were not run without.
        drops = not {"cuda", "rocm"} & backends(module)
        for facts in find(module):
            if drops and drop_mask(facts, dead_ops):
                context.report.record(facts.op, "fitted", "its mask hides nothing, and is gone")
            elif share_mask(facts, invariant, dead_ops):
                why = "its heads, sequences or rows read one mask"
                context.report.record(facts.op, "fitted", why)
        erase_dead(dead_ops)
        return bool(dead_ops)
