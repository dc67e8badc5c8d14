"""Attention that reads one value twice: its operands as values of their own.

IREE 3.13 moves a view of an operand into attention, the dims of that operand changed. Where another
operand is the same value, that one gets the changed dims as well, with the map for the old ones:
"Rank Mismatch". Equal views become one value before that, and transposes part of attention's maps,
so that operands which differ in their last transposes alone are one value, too.
"""

from __future__ import annotations

import itertools

from iree.compiler import ir

from ..attention.barrier import compute_barrier
from ..attention.edit import edit
from ..attention.facts import AttentionFacts
from ..ir import Builder, ranked_shape
from ..ir.views import RESHAPES, View, view_before

_OPERANDS = ("query", "key", "value")
# The source below views, and the views, the last one first.
Made = tuple[ir.Value, list[View]]


def tell_operands_apart(facts: AttentionFacts) -> list[str]:
    """Makes Q, K and V values of their own where they are equal views of one value, whatever
    transposes come last: each but the first reads it behind one barrier more, at which nothing is
    moved or copied. Returns the operands that were changed."""
    changed: list[str] = []
    seen: dict[object, ir.Value] = {}
    for operand in _OPERANDS:
        source, views = _made(facts.value(operand))
        key = source, tuple(_what(view) for view in _below_transposes(views))
        # IREE makes views of its own of dims of size one.
        if key in seen and (views or 1 in ranked_shape(source)):
            build = Builder(facts.op)
            behind = seen[key] = compute_barrier(build, seen[key])
            for view in reversed(views):
                behind = build.copy(view.op, [behind, *list(view.op.operands)[1:]]).results[0]
            edit(facts).operand(operand, behind).in_place()
            changed.append(operand)
        else:
            seen[key] = source
    return changed


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
