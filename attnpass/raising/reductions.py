"""Sums and maxima over the keys: what they are of."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence

from iree.compiler import ir

from ..analysis.constants import constant
from ..analysis.values import ALWAYS, NEVER
from ..ir import (
    Size,
    body_of,
    defining_op,
    known_attribute,
    maps,
    ranked_shape,
    sizes_of,
    summand,
)
from ..ir.bodies import combined, predicate
from ..ir.expressions import Leaf, Number, ScalarStep, leaves_of
from ..layout.axes import Axes, Dims
from .elements import AxisReader, Expression, without_casts

IS_EQUAL = ("oeq", "ueq")
_MAXIMA = ("arith.maximumf", "arith.maxnumf")


def is_sum(op: ir.Operation | None) -> bool:
    """Whether op adds up elements of one tensor."""
    if op is None or len(op.operands) != 2:
        return False
    added = summand(op)
    return added is not None and added == body_of(op).arguments[0]


def summed(
    elements: AxisReader,
    total: Expression,
    keys: frozenset[int],
    wanted: Callable[[Expression], bool],
) -> Expression | None:
    """What `total` is the sum of, over all of `keys`, where that is as `wanted`."""
    op = defining_op(total.value) if isinstance(total, Leaf) else None
    if op is None or not isinstance(total, Leaf) or not is_sum(op):
        return None
    start = elements.element(op.operands[1], tuple(() for _ in ranked_shape(op.operands[1])))
    if not isinstance(start, Number) or start.number != 0:
        return None
    return _reduced(elements, op, total, keys, wanted)


def is_maximum(
    elements: AxisReader,
    shift: Expression,
    scores: Expression,
    keys: frozenset[int],
    beside: Sequence[Leaf] = (),
) -> bool:
    """Whether a shift is the maximum of `scores` over the keys, or made of it, of numbers and of
    what stands `beside`. Scores that a condition hides may count in it or not."""
    if elements.axes_of(shift) & frozenset(elements.axes.now(sorted(keys))):
        # Made of places alone, as the distance of a row and a key is.
        return False
    below = _unhidden(scores)

    def alike(given: Expression) -> bool:
        return elements.same(_unhidden(given), below)

    return all(
        any(elements.same(leaf, other) for other in beside)
        or is_largest(elements, leaf, keys, alike)
        for leaf in leaves_of(shift)
    )


def all_hidden(elements: AxisReader, test: Expression, keys: frozenset[int]) -> Expression | None:
    """The scores that a test says are minus infinity for all of the keys: all are, or it is not
    that any is not."""
    denied = _denied(test)
    leaf = test if denied is None else denied
    op = defining_op(leaf.value) if isinstance(leaf, Leaf) else None
    if op is None or not isinstance(leaf, Leaf) or len(op.operands) != 2:
        return None
    found: list[Expression] = []

    def is_hidden(given: Expression) -> bool:
        test = given if denied is None else _denied(given)
        if not isinstance(test, ScalarStep) or test.name != "arith.cmpf":
            return False
        scores, least = test.inputs
        equal = predicate(test.op) in IS_EQUAL
        found[:] = [without_casts(scores)]
        return equal and isinstance(least, Number) and least.number == -math.inf

    every = combined(op, ("arith.andi",) if denied is None else ("arith.ori",), 0)
    if every is None or every != body_of(op).arguments[0]:
        return None
    return found[0] if _reduced(elements, op, leaf, keys, is_hidden) is not None else None


def _denied(test: Expression) -> Expression | None:
    """What a test says is not so; None where it is no such test."""
    if not isinstance(test, ScalarStep) or len(test.inputs) != 2:
        return None
    given, other = test.inputs
    op = defining_op(other.value) if isinstance(other, Leaf) else None
    value = None if op is None else constant(known_attribute(op, "value"))
    if test.name == "arith.cmpi":
        wanted = {"eq": NEVER, "ne": ALWAYS}.get(predicate(test.op))
        return given if value is not None and wanted == value else None
    return given if test.name == "arith.xori" and value == ALWAYS else None


def unshifted(
    elements: AxisReader,
    exponent: Expression,
    keys: frozenset[int],
    beside: Sequence[Leaf] = (),
) -> tuple[Expression, list[Expression]]:
    """(x, shifts) where an exponent is x minus the shifts, each a maximum of what it is subtracted
    from, as `is_maximum` has it."""
    shifts: list[Expression] = []
    keys = frozenset(elements.axes.now(sorted(keys)))
    while isinstance(inner := without_casts(exponent), ScalarStep) and inner.name == "arith.subf":
        scores, shift = inner.inputs
        if not is_maximum(elements, shift, scores, keys, beside):
            break
        shifts.append(shift)
        exponent = scores
    return without_casts(exponent), shifts


def _unhidden(scores: Expression) -> Expression:
    """Scores below casts and conditions that put numbers in their place."""
    while isinstance(step := without_casts(scores), ScalarStep) and step.name == "arith.select":
        rest = [given for given in step.inputs[1:] if not isinstance(without_casts(given), Number)]
        if len(rest) != 1:
            break
        scores = rest[0]
    return without_casts(scores)


def is_largest(
    elements: AxisReader,
    leaf: Leaf,
    keys: frozenset[int],
    wanted: Callable[[Expression], bool],
) -> bool:
    """Whether `leaf` is the maximum, over all of `keys`, of what is as `wanted`."""
    op = defining_op(leaf.value)
    if op is None or len(op.operands) - len(op.results) != 1:
        return False
    largest = combined(op, _MAXIMA, list(op.results).index(leaf.value))
    if largest is None or largest != body_of(op).arguments[0]:
        return False
    return _reduced(elements, op, leaf, keys, wanted) is not None


def _reduced(
    elements: AxisReader,
    op: ir.Operation,
    result: Leaf,
    keys: frozenset[int],
    wanted: Callable[[Expression], bool],
) -> Expression | None:
    """What `op` reduces over all of `keys`, where that is as `wanted`; `result` is one of its
    results."""
    keys = frozenset(elements.axes.now(sorted(keys)))
    if elements.axes_of(result) & keys:
        return None
    positions = maps.positions(op)
    if positions is None:
        return None
    out = positions[1 + list(op.results).index(result.value)]
    loops = {loop: axes for loop, axes in zip(out, result.places, strict=True) if loop is not None}
    free = [loop for loop in positions[0] if loop is not None and loop not in loops]
    shape = dict(zip(positions[0], sizes_of(op.operands[0]), strict=True))
    for along in _orders(elements.axes, keys, [shape[loop] for loop in free]):
        loops.update(zip(free, along, strict=True))
        dims = tuple(() if loop is None else loops[loop] for loop in positions[0])
        given = elements.element(op.operands[0], dims)
        if wanted(given):
            return given
    return None


def _orders(axes: Axes, keys: frozenset[int], sizes: Sequence[Size]) -> Iterator[Dims]:
    """Ways in which dims of these sizes can be all of `keys`: a sum may have them in any order."""
    now = axes.now(sorted(keys))
    if len(now) == len(sizes):
        for order in itertools.permutations(now):
            if [axes.size(axis) for axis in order] == list(sizes):
                yield tuple((axis,) for axis in order)
    cut = axes.cut(now, sizes)
    if cut is not None:
        yield cut
