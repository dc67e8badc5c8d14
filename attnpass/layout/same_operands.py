"""Attention that reads one value twice: its operands as values of their own.

IREE 3.13 moves a view of an operand into attention, the dims of that operand changed. Where another
operand is the same value, that one gets the changed dims as well, with the map for the old ones:
"Rank Mismatch". Equal views become one value before that, and transposes part of attention's maps,
so that operands which differ in their last transposes alone are one value, too.
"""

from __future__ import annotations

import itertools

from iree.compiler import ir

from ..attention.barrier import VIEWS, compute_barrier
from ..attention.facts import AttentionFacts
from ..ir import Builder, defining_op, maps, ranked_shape
from .rules.broadcast import repeated_value

_OPERANDS = ("query", "key", "value")
# The source below views, and the views, the last one first.
Made = tuple[ir.Value, list[ir.Operation]]


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
                behind = build.copy(view, [behind, *list(view.operands)[1:]]).results[0]
            facts.op.operands[facts.index(operand)] = behind
            changed.append(operand)
        else:
            seen[key] = source
    return changed


def _made(value: ir.Value) -> Made:
    views: list[ir.Operation] = []
    while (op := defining_op(value)) is not None:
        if op.name not in VIEWS and repeated_value(op) is None:
            break
        views.append(op)
        value = op.operands[0]
    return value, views


def _below_transposes(views: list[ir.Operation]) -> list[ir.Operation]:
    return list(itertools.dropwhile(_is_transpose, views))


def _is_transpose(view: ir.Operation) -> bool:
    if view.name == "linalg.transpose":
        return True
    repeated = repeated_value(view)
    return repeated is not None and {*repeated[1]} == {*range(len(ranked_shape(view.results[0])))}


def _what(view: ir.Operation) -> tuple[object, ...]:
    """What makes two views of one value equal; a transpose may be written as a generic."""
    if view.name == "linalg.transpose":
        order = list(ir.DenseI64ArrayAttr(view.attributes["permutation"]))
        return view.results[0].type, maps.inverse(order)
    if (repeated := repeated_value(view)) is not None:
        return view.results[0].type, repeated[1]
    attributes = tuple((name, view.attributes[name]) for name in sorted(view.attributes))
    return view.name, view.results[0].type, attributes
