"""All attention of a module that is written out, as ops."""

from __future__ import annotations

from collections.abc import Callable

from iree.compiler import ir

from ..attention import AttentionFacts, describe, tell_apart
from ..ir import defining_op, erase_dead, location_text
from ..report.records import Report
from ..written_out import products_behind, written_out
from .build import build_attention, keep_mask_in_memory
from .find import Written, read_attention
from .scores import NotRaised


def raise_all(
    module: ir.Operation,
    report: Report,
    slower: Callable[[AttentionFacts], str],
    store_masks: bool,
) -> bool:
    """Makes attention ops of all that is written out and can be said so, unless `slower` says why
    the op would be slower, with a note for each; returns whether IR changed. `store_masks` that
    are computed of positions alone, too. Needs a current context."""
    changed = False
    old: list[ir.Operation] = []
    raised: set[ir.Operation] = set()
    for total in written_out(module):
        for product in products_behind(total):
            place = f"products and a softmax at {location_text(product.location)}"
            try:
                written = read_attention(product)
                _refuse_beside(written, raised)
            except NotRaised as reason:
                report.note(f"{place} stay as they are: {reason}")
                continue
            op, result = build_attention(written)
            why = slower(describe(op))
            dead = defining_op(result if why else written.result.value)
            assert dead is not None
            old.append(dead)
            if why:
                report.note(f"{place} stay as they are: {why}")
                continue
            changed = True
            raised.add(product)
            keep_mask_in_memory(op, store_masks)
            written.result.value.replace_all_uses_with(result)
            divided = ", divided by its weights and its sink's" if written.sink else ""
            report.note(f"{place} are an attention op now{divided}")
    erase_dead(old)
    tell_apart(module)
    return changed


def _refuse_beside(written: Written, raised: set[ir.Operation]) -> None:
    """NotRaised where another product that reads the scores is no attention: they are in memory."""
    for other in written.beside:
        if other in raised:
            continue
        try:
            read_attention(other)
        except NotRaised as reason:
            raise NotRaised(
                f"the product at {location_text(other.location)} reads what is made of the scores, "
                f"too, and needs them in memory: {reason}"
            ) from reason
