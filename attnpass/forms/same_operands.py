"""Attention that reads one value twice: its operands as values of their own.

IREE 3.13 moves a view of an operand or of the result into attention, and what else has its dims
gets such views. Where two operands are one value, both get what one of them needs, with their own
maps: "Rank Mismatch". Equal views become one value before that, and transposes part of
attention's maps, so that operands which differ in their last transposes alone are one value, too.
"""

from __future__ import annotations

import itertools

from iree.compiler import ir

from ..attention.barrier import compute_barrier, copied
from ..attention.edit import edit
from ..attention.facts import AttentionFacts
from ..ir import Builder, defining_op, has_ancestor, ranked_shape
from ..ir.views import RESHAPES, View, view_before

_LOOPS = ("scf.for", "scf.while")
_OPERANDS = ("query", "key", "value")
# The source below views, and the views, the last one first.
Made = tuple[ir.Value, list[View]]


def tell_operands_apart(facts: AttentionFacts) -> list[str]:
    """Makes Q, K and V values of their own where they are one value or equal views of it, whatever
    transposes come last: each but the first reads it behind a barrier of its own, at which nothing
    is moved or copied. Returns the operands that were changed."""
    changed: list[str] = []
    seen: set[object] = set()
    for operand in _OPERANDS:
        source, views = _made(facts.value(operand))
        key = source, tuple(_what(view) for view in _below_transposes(views))
        if key in seen:
            build = Builder(facts.op)
            behind = _behind_barrier(build, source, bool(views), len(changed))
            for view in reversed(views):
                behind = build.copy(view.op, [behind, *list(view.op.operands)[1:]]).results[0]
            edit(facts).operand(operand, behind).in_place()
            changed.append(operand)
        seen.add(key)
    return changed


def _behind_barrier(build: Builder, value: ir.Value, is_viewed: bool, others: int) -> ir.Value:
    """`value` behind a barrier that is unlike those of `others`. Where a view may come from another
    operand or from the result alone, IREE does not look for sizes below the barrier.

    In a loop it is copied: IREE's runtime reads what is no buffer yet where a barrier hides part of
    what another turn of the loop made ("transient buffer has not been committed", now and then).
    """
    # IREE takes equal compute barriers for one, and a barrier of a barrier; those of `barred` are
    # never equal. It makes views of its own of dims of size one.
    is_open = not others and (is_viewed or 1 in ranked_shape(value))
    if has_ancestor(build.anchor, *_LOOPS):
        return copied(build, value)
    # Behind arguments IREE puts compute barriers of its own.
    if not is_open or defining_op(value, "hal.tensor.import") is not None:
        value = build.barred(value)
    return compute_barrier(build, value) if is_open else value


def _made(value: ir.Value) -> Made:
    views: list[View] = []
    while (view := view_before(value)) is not None:
        views.append(view)
        value = view.source
    return value, views


def _below_transposes(views: list[View]) -> list[View]:
    return list(itertools.dropwhile(_is_transpose, views))


def _is_transpose(view: View) -> bool:
    every = {*range(len(ranked_shape(view.result)))}
    return view.op.name not in RESHAPES and {*(view.projection or ())} == every


def _what(view: View) -> tuple[object, ...]:
    """What makes two views of one value equal; a transpose may be written as a generic."""
    if view.op.name not in RESHAPES:
        return view.result.type, view.projection
    attributes = view.op.attributes
    named = tuple((name, attributes[name]) for name in sorted(attributes))
    return view.op.name, view.result.type, named
