"""What becomes of the product of Q and K before its exponentials are taken."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from .elements import CASTS, Elements, Expression, Leaf, Number, Step

# A key that is given this score has no weight beside one that is seen.
_HIDDEN = -1e4
# Added to a score, these and what lies between are themselves in f32, and so they are behind
# IREE's product with log2(e): rows of nothing else stay even.
_ABSORBING, _LOWEST = -1e30, -1e38
_FUNCTIONS = ("arith.maximumf", "arith.minimumf", "arith.maxnumf", "arith.minnumf", "math.tanh")


class NotRaised(Exception):
    """Why a softmax is not made attention."""


@dataclass(frozen=True)
class Given:
    """An expression of the program that does not depend on the product."""

    what: Expression


@dataclass(frozen=True)
class Sum:
    """What is added, each times a factor."""

    terms: tuple[tuple[float, MaskTerm], ...]


@dataclass(frozen=True)
class Shown:
    """`mask` where `where` holds (or, if not `holds`, where it does not), `hidden` elsewhere."""

    where: Expression
    holds: bool
    mask: MaskTerm | None
    hidden: float


MaskTerm = Given | Sum | Shown


@dataclass(frozen=True)
class Function:
    """A step of the score function: what `name` makes of a score times `factor`, and of a
    number, if it takes one."""

    name: str
    factor: float
    number: float | None = None


@dataclass(frozen=True)
class Scores:
    """factor * f(product) + mask, where f is `functions`, the first one first; the product times
    `row_factors`, which are the same for all keys."""

    factor: float = 1.0
    row_factors: tuple[Expression, ...] = ()
    functions: tuple[Function, ...] = ()
    mask: MaskTerm | None = None


def read_scores(
    expression: Expression, product: Leaf, elements: Elements, keys: frozenset[int]
) -> Scores:
    """The scores as made of `product`; NotRaised where attention has no words for it."""
    return _Reader(product, elements, keys).read(expression)


class _Reader:
    def __init__(self, product: Leaf, elements: Elements, keys: frozenset[int]):
        self.product = product
        self.elements = elements
        self.keys = keys

    def depends(self, expression: Expression) -> bool:
        if isinstance(expression, Step):
            return any(map(self.depends, expression.inputs))
        return self.elements.same(expression, self.product)

    def read(self, expression: Expression) -> Scores:
        if not isinstance(expression, Step):
            return Scores()
        mine = [self.depends(given) for given in expression.inputs]
        rule = getattr(self, f"_{expression.name.replace('.', '_')}", None)
        if expression.name in CASTS:
            return self.read(expression.inputs[0])
        if expression.name in _FUNCTIONS and mine[0]:
            return self._function(expression, mine)
        if rule is None or (sum(mine) != 1 and expression.name != "arith.select"):
            raise NotRaised(f"{expression.name} makes of the scores what attention cannot say")
        return rule(expression.inputs, mine)

    def _arith_negf(self, inputs: Sequence[Expression], mine: Sequence[bool]) -> Scores:
        return times(self.read(inputs[0]), -1.0)

    def _arith_mulf(self, inputs: Sequence[Expression], mine: Sequence[bool]) -> Scores:
        scores, other = self._both(inputs, mine)
        if isinstance(other, Number):
            return times(scores, other.number)
        if self.elements.axes_of(other) & frozenset(self.elements.axes.now(sorted(self.keys))):
            raise NotRaised("the scores are multiplied by a tensor that has a dim of keys")
        if scores.mask is not None or scores.functions:
            raise NotRaised("what is added to the scores is multiplied by a tensor")
        return replace(scores, row_factors=(*scores.row_factors, other))

    def _arith_divf(self, inputs: Sequence[Expression], mine: Sequence[bool]) -> Scores:
        scores, other = self._both(inputs, mine)
        if not mine[0] or not isinstance(other, Number) or other.number == 0:
            raise NotRaised("the scores are divided by a tensor, or something by them")
        return times(scores, 1 / other.number)

    def _arith_addf(self, inputs: Sequence[Expression], mine: Sequence[bool]) -> Scores:
        scores, other = self._both(inputs, mine)
        return _plus(scores, 1.0, other)

    def _arith_subf(self, inputs: Sequence[Expression], mine: Sequence[bool]) -> Scores:
        scores, other = self._both(inputs, mine)
        return _plus(scores, -1.0, other) if mine[0] else _plus(times(scores, -1.0), 1.0, other)

    def _arith_select(self, inputs: Sequence[Expression], mine: Sequence[bool]) -> Scores:
        where, then, other = inputs
        if mine[0] or mine[1] == mine[2]:
            raise NotRaised("a condition chooses between scores")
        holds = mine[1]
        hidden = other if holds else then
        if not isinstance(hidden, Number) or not hidden.number <= _HIDDEN:
            what = hidden.number if isinstance(hidden, Number) else "a tensor"
            raise NotRaised(f"a condition puts {what} in the place of scores, which hides no key")
        scores = self.read(then if holds else other)
        return replace(scores, mask=Shown(where, holds, scores.mask, _low_enough(hidden.number)))

    def _function(self, step: Step, mine: Sequence[bool]) -> Scores:
        numbers = [given for given in step.inputs[1:] if isinstance(given, Number)]
        scores = self.read(step.inputs[0])
        if len(numbers) != len(step.inputs) - 1 or scores.mask is not None:
            raise NotRaised(f"{step.name} is taken of scores and tensors together")
        number = numbers[0].number if numbers else None
        function = Function(step.name, scores.factor, number)
        return replace(scores, factor=1.0, functions=(*scores.functions, function))

    def _both(
        self, inputs: Sequence[Expression], mine: Sequence[bool]
    ) -> tuple[Scores, Expression]:
        here = list(mine).index(True)
        return self.read(inputs[here]), inputs[1 - here]


def _low_enough(hidden: float) -> float:
    """What to add to a score instead of putting `hidden` in its place: numbers keep their order,
    for rows of which all keys are hidden, some by one number and some by another."""
    if math.isinf(hidden):
        return hidden
    if hidden <= _ABSORBING:
        return max(hidden, _LOWEST)
    return _ABSORBING * math.log(-hidden) / math.log(-_ABSORBING)


def times(scores: Scores, factor: float) -> Scores:
    """The scores times a number."""
    mask = scores.mask
    return replace(scores, factor=scores.factor * factor, mask=_scaled(mask, factor))


def _scaled(mask: MaskTerm | None, factor: float) -> MaskTerm | None:
    """A mask times a number, where what hides keys still does."""
    if mask is None or factor == 1:
        return mask
    if isinstance(mask, Shown):
        if factor <= 0:
            raise NotRaised("scores with hidden keys are multiplied by a number below zero")
        hidden = max(mask.hidden * factor, _LOWEST) if mask.hidden > -math.inf else mask.hidden
        return replace(mask, mask=_scaled(mask.mask, factor), hidden=hidden)
    if isinstance(mask, Sum):
        return Sum(tuple((factor * old, term) for old, term in mask.terms))
    return Sum(((factor, mask),))


def _plus(scores: Scores, factor: float, other: Expression) -> Scores:
    term = (factor, Given(other))
    mask = scores.mask
    if mask is None:
        return replace(scores, mask=Sum((term,)))
    if isinstance(mask, Sum):
        return replace(scores, mask=Sum((*mask.terms, term)))
    return replace(scores, mask=Sum(((1.0, mask), term)))
