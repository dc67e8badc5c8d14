"""What numbers masks can hold, and whether they leave each row a key, as far as the IR shows it."""

from __future__ import annotations

import math
from collections.abc import Callable

from iree.compiler import ir

from ..analysis.constants import array_of
from ..ir import defining_op, element_type, is_float, summand, yielded
from ..ir.contractions import is_contraction
from .barrier import BARRIER
from .facts import AttentionFacts
from .visible_keys import Mask, find_mask

# Types with finite numbers below the limits that are asked for.
_WIDE = ("f32", "bf16", "f64")
# Results of these are numbers that no mask is made of, or small ones.
_NO_MASKS = (
    "arith.sitofp",
    "arith.uitofp",
    "tensor.empty",
)
_MAXIMA = ("arith.maximumf", "arith.maxnumf")
# Large finite numbers become infinite by these.
_OVERFLOWING = ("arith.addf", "arith.divf", "arith.mulf", "arith.subf", "arith.truncf")
# What makes a mask stands nearer than this to attention.
_DEEPEST = 200
# Of constants with more elements not each is looked at.
_MOST_ELEMENTS = 1 << 20


def may_hold_below(mask: ir.Value, limit: float) -> bool:
    """Whether a float tensor could hold finite numbers below `limit`, which no f16 is."""
    return _NumberSearch(lambda number: -math.inf < number < limit, limit).finds(mask)


def may_hide(mask: ir.Value) -> bool:
    """Whether an element of a mask could hide its key for good: be false, or -infinity."""
    if not is_float(element_type(mask)):
        return True
    return _NumberSearch(lambda number: number == -math.inf, -math.inf).finds(mask)


def shows_each_row_a_key(facts: AttentionFacts) -> bool:
    """Whether mask and score function are known, and leave each row a key that it sees."""
    rows = [dim for dim in facts.map_of("mask") if dim in facts.m] if facts.has_mask else []
    # Those before the last are heads that share K and V.
    rows = [dim for dim in rows or facts.m if facts.sizes[dim] != 1]
    if not rows or len(facts.k2) != 1:
        return False
    found = find_mask(facts, rows[-1])
    if not isinstance(found, Mask) or found.kind == "operand":
        return False
    return found.kind != "window" or _window_shows_all(facts, found, rows[-1])


def _window_shows_all(facts: AttentionFacts, mask: Mask, row: int) -> bool:
    """Whether each row has a key that is there in its window."""
    rows, keys = facts.sizes[row], facts.sizes[facts.k2[0]]
    if mask.diagonal + mask.behind < 0 or rows is None or keys is None:
        return False
    return rows - 1 - mask.behind <= keys - 1


class _NumberSearch:
    """Looks in what a mask is made of for numbers that are `wanted`, none of which is above
    `limit`. What is not known could be any number."""

    def __init__(self, wanted: Callable[[float], bool], limit: float):
        self._wanted, self._limit = wanted, limit
        self._infinite = wanted(-math.inf)
        self._known: dict[ir.Value, bool] = {}

    def finds(self, value: ir.Value, depth: int = _DEEPEST) -> bool:
        if not self._infinite and str(element_type(value)) not in _WIDE:
            return False
        if value not in self._known:
            self._known[value] = depth == 0 or self._finds(value, depth - 1)
        return self._known[value]

    def _finds(self, value: ir.Value, depth: int) -> bool:
        op = defining_op(value)
        if op is None:
            given = _input_of(value)
            return given is None or self.finds(given, depth)
        if op.name == "arith.constant":
            return _constant_holds(op, self._wanted)
        if op.name.startswith("math."):
            return self._infinite and op.name.startswith("math.log")
        if op.name in _NO_MASKS or is_contraction(op) or summand(op) is not None:
            return False
        if op.name in _OVERFLOWING and self._infinite:
            return True
        sources = _sources(op, value)
        if op.name in _MAXIMA and not self._infinite:
            # One that is always above the limit keeps the others from mattering.
            low = [_NumberSearch(lambda number: number < self._limit, self._limit) for _ in sources]
            if not all(one.finds(given, depth) for one, given in zip(low, sources, strict=True)):
                return False
        return not sources or any(self.finds(given, depth) for given in sources)


def _sources(op: ir.Operation, value: ir.Value) -> list[ir.Value]:
    """The floats whose elements, or what is computed of them, `op` makes `value` of; nothing
    where that is not known."""
    if op.name == "linalg.generic":
        return [yielded(op, list(op.results).index(value))]
    if op.name == BARRIER:
        return [op.operands[0]]
    if not op.name.startswith(("arith.", "linalg.", "tensor.")):
        return []
    operands = list(op.operands)[1 if op.name == "arith.select" else 0 :]
    floats = [one for one in operands if is_float(element_type(one))]
    return [*floats, yielded(op, 0)] if op.name == "tensor.pad" else floats


def _input_of(argument: ir.Value) -> ir.Value | None:
    """The operand of a `linalg.generic` whose elements its body gets as `argument`."""
    block = ir.BlockArgument(argument)
    op = block.owner.owner.operation
    return op.operands[block.arg_number] if op.name == "linalg.generic" else None


def _constant_holds(op: ir.Operation, wanted: Callable[[float], bool]) -> bool:
    """Whether a constant may hold a number that is wanted."""
    attribute = op.attributes["value"]
    if isinstance(attribute, ir.FloatAttr):
        return wanted(attribute.value)
    if not isinstance(attribute, ir.DenseFPElementsAttr):
        return True
    if attribute.is_splat:
        return wanted(ir.FloatAttr(attribute.get_splat_value()).value)
    numbers = array_of(op) if len(attribute) <= _MOST_ELEMENTS else None
    return numbers is None or any(map(wanted, numbers.flat))
