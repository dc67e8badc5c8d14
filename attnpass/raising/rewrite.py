"""All attention of a module that is written out, as ops."""

from __future__ import annotations

from iree.compiler import ir

from ..ir import defining_op, erase_dead, location_text
from ..report.records import Report
from ..written_out import products_behind, written_out
from .build import build_attention
from .find import read_attention
from .scores import NotRaised


def raise_all(module: ir.Operation, report: Report) -> bool:
    """Makes attention ops of all that is written out and can be said so, with a note for each;
    returns whether IR changed. Needs a current context."""
    old: list[ir.Operation] = []
    for total in written_out(module):
        for product in products_behind(total):
            place = f"products and a softmax at {location_text(product.location)}"
            try:
                written = read_attention(product)
            except NotRaised as reason:
                report.note(f"{place} stay as they are: {reason}")
                continue
            build_attention(written)
            last = defining_op(written.result.value)
            assert last is not None
            old.append(last)
            report.note(f"{place} are an attention op now")
    erase_dead(old)
    return bool(old)
