"""What becomes of the product of Q and K before its exponentials are taken.

A mask is what the program makes of a score of 0, in the types that it computes in. Beside a number
that hides a key the score itself vanishes: a condition drops it, a sum in floats absorbs it. An
attention op adds its mask in f32, and multiplies by log2(e). So numbers that absorb scores in the
program's types and not there are made lower (`hiding`), all by one rule that keeps their order, or
the softmax is left: rows that see no key give what the program gives.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from iree.compiler import ir

from ..analysis.constants import constant
from ..ir import (
    body_names,
    defining_op,
    element_type,
    is_elementwise,
    known_attribute,
    yielded,
)
from ..ir.contractions import is_contraction
from ..ir.expressions import Leaf, Number, ScalarStep, leaves_of
from ..ir.limits import (
    ABSORBS,
    ABSORBS_ANY,
    ABSORBS_BY_TYPE,
    HIDES_BESIDE_SEEN,
    HIDES_SCALED,
    LOG2E_OVERFLOWS_IN_SUMS,
    LOWEST,
)
from ..ir.views import SLICE, WHOLE, below_views
from .elements import CASTS, AxisReader, Expression, nearest, without_casts
from .readers import made_of
from .reductions import is_maximum

# A number that is added to all scores alike and is larger rounds them.
_LARGE = 1e3
_NOT_MAXIMUM = (
    "what is subtracted from the scores is made of them, and is not their maximum over the keys"
)
_ROUNDS = [[name] for name in CASTS]
_FUNCTIONS = ("arith.maximumf", "arith.minimumf", "arith.maxnumf", "arith.minnumf", "math.tanh")


class NotRaised(Exception):
    """Why a softmax is not made attention."""


@dataclass(frozen=True)
class Given:
    """An expression of the program that does not depend on the product."""

    what: Expression


@dataclass(frozen=True)
class Sum:
    """What is added, each times a factor, and rounded to floats of type `kind`."""

    terms: tuple[tuple[float, MaskTerm], ...]
    kind: str = "f32"


@dataclass(frozen=True)
class Shown:
    """`mask` where `where` holds (or, if not `holds`, where it does not), `hidden` elsewhere."""

    where: Expression
    holds: bool
    mask: MaskTerm | None
    hidden: float


@dataclass(frozen=True)
class Hiding:
    """`mask`, its numbers from `start` down such that scores vanish beside them."""

    mask: MaskTerm
    start: float


MaskTerm = Given | Sum | Shown | Hiding
# Where keys are seen: where something holds, or where it does not.
Condition = tuple[Expression, bool]


@dataclass(frozen=True)
class Function:
    """A step of the score function: what `name` makes of a score times `factor`, and of a
    number, if it takes one."""

    name: str
    factor: float
    number: float | None = None


@dataclass(frozen=True)
class RowFactor:
    """What multiplies, or `divides`, the scores of a row, the same for all keys."""

    what: Expression
    divides: bool = False


@dataclass(frozen=True)
class Scores:
    """factor * f(product) + mask, where f is `functions`, the first one first; the product times
    `row_factors`. The program rounds them to floats of type `rounded`, if to any of 16 bits. Where
    they are `shifted` something was left out that is added to all keys of a row alike."""

    factor: float = 1.0
    row_factors: tuple[RowFactor, ...] = ()
    functions: tuple[Function, ...] = ()
    mask: MaskTerm | None = None
    shifted: bool = False
    rounded: str = ""


def read_scores(
    expression: Expression, product: Leaf, elements: AxisReader, keys: frozenset[int]
) -> Scores:
    """The scores as made of `product`; NotRaised where attention has no words for it. Their mask
    is still the program's: see `addable`."""
    return _ScoreReader(product, elements, keys).read(expression)


class _ScoreReader:
    def __init__(self, product: Leaf, elements: AxisReader, keys: frozenset[int]):
        self.product = product
        self.elements = elements
        self.keys = keys
        self.made = made_of(product.value)

    def depends(self, expression: Expression) -> bool:
        if isinstance(expression, ScalarStep):
            return any(map(self.depends, expression.inputs))
        return self.elements.same(expression, self.product)

    def read(self, expression: Expression) -> Scores:
        if not isinstance(expression, ScalarStep):
            return _rounded(Scores(), str(element_type(self.product.value)))
        mine = [self.depends(given) for given in expression.inputs]
        rule = getattr(self, f"_{expression.name.replace('.', '_')}", None)
        if expression.name in CASTS:
            return _rounded(self.read(expression.inputs[0]), _kind(expression))
        if expression.name in _FUNCTIONS and mine[0]:
            return self._function(expression)
        if rule is None or (sum(mine) != 1 and expression.name != "arith.select"):
            raise NotRaised(f"{expression.name} makes of the scores what attention cannot say")
        return _rounded(rule(expression, mine), _kind(expression))

    def _arith_negf(self, step: ScalarStep, mine: Sequence[bool]) -> Scores:
        return times(self.read(step.inputs[0]), -1.0)

    def _arith_mulf(self, step: ScalarStep, mine: Sequence[bool]) -> Scores:
        scores, other = self._both(step, mine)
        if isinstance(other, Number):
            return times(scores, other.number)
        return self._by_rows(scores, RowFactor(other))

    def _arith_divf(self, step: ScalarStep, mine: Sequence[bool]) -> Scores:
        scores, other = self._both(step, mine)
        if not mine[0] or (isinstance(other, Number) and other.number == 0):
            raise NotRaised("the scores are divided by 0, or something by them")
        if isinstance(other, Number):
            return times(scores, 1 / other.number)
        return self._by_rows(scores, RowFactor(other, divides=True))

    def _by_rows(self, scores: Scores, factor: RowFactor) -> Scores:
        keys = frozenset(self.elements.axes.now(sorted(self.keys)))
        if self.elements.axes_of(factor.what) & keys:
            raise NotRaised("the scores are multiplied by a tensor that has a dim of keys")
        if scores.mask is not None or scores.functions:
            raise NotRaised("what is added to the scores is multiplied by a tensor")
        return replace(scores, row_factors=(*scores.row_factors, factor))

    def _arith_addf(self, step: ScalarStep, mine: Sequence[bool]) -> Scores:
        scores, other = self._both(step, mine, made="what is added to the scores is made of them")
        return _plus(scores, 1.0, other)

    def _arith_subf(self, step: ScalarStep, mine: Sequence[bool]) -> Scores:
        first, second = step.inputs
        if mine == [True, False] and is_maximum(self.elements, second, first, self.keys):
            return replace(self.read(first), shifted=True)
        scores, other = self._both(step, mine, made=_NOT_MAXIMUM)
        return _plus(scores, -1.0, other) if mine[0] else _plus(times(scores, -1.0), 1.0, other)

    def _arith_select(self, step: ScalarStep, mine: Sequence[bool]) -> Scores:
        where, then, other = step.inputs
        if mine[0] or mine[1] == mine[2]:
            raise NotRaised("a condition chooses between scores")
        self._refuse_made(where, "what hides keys is made of the scores")
        holds = mine[1]
        hidden = other if holds else then
        if not isinstance(hidden, Number) or not hidden.number <= HIDES_BESIDE_SEEN:
            what = hidden.number if isinstance(hidden, Number) else "a tensor"
            raise NotRaised(f"a condition puts {what} in the place of scores, which hides no key")
        scores = self.read(then if holds else other)
        return replace(scores, mask=Shown(where, holds, scores.mask, _in_f32(hidden.number)))

    def _function(self, step: ScalarStep) -> Scores:
        numbers = [given for given in step.inputs[1:] if isinstance(given, Number)]
        scores = self.read(step.inputs[0])
        if len(numbers) != len(step.inputs) - 1:
            raise NotRaised(f"{step.name} is taken of scores and a tensor together")
        if scores.mask is not None or scores.shifted:
            raise NotRaised(f"{step.name} is taken of scores to which something is added")
        number = numbers[0].number if numbers else None
        function = Function(step.name, scores.factor, number)
        return replace(scores, factor=1.0, functions=(*scores.functions, function))

    def _both(
        self,
        step: ScalarStep,
        mine: Sequence[bool],
        made: str = "the scores are multiplied by themselves",
    ) -> tuple[Scores, Expression]:
        here = list(mine).index(True)
        self._refuse_made(step.inputs[1 - here], made)
        return self.read(step.inputs[here]), step.inputs[1 - here]

    def _refuse_made(self, expression: Expression, reason: str) -> None:
        if any(leaf.value in self.made for leaf in leaves_of(expression)):
            raise NotRaised(reason)


def times(scores: Scores, factor: float) -> Scores:
    """The scores times a number."""
    mask = scores.mask
    return replace(scores, factor=scores.factor * factor, mask=_scaled(mask, factor))


def _scaled(mask: MaskTerm | None, factor: float) -> MaskTerm | None:
    if mask is None or factor == 1:
        return mask
    if factor <= 0:
        raise NotRaised("masked scores are multiplied by a number that is not above zero")
    if isinstance(mask, Shown) and not any(True for _ in given_of(mask)):
        hidden = _in_f32(mask.hidden * factor) if math.isfinite(mask.hidden) else mask.hidden
        return replace(mask, mask=_scaled(mask.mask, factor), hidden=hidden)
    if isinstance(mask, Sum) and len(mask.terms) == 1 and mask.kind == "f32":
        ((old, term),) = mask.terms
        return Sum(((factor * old, term),))
    return Sum(((factor, mask),))


def _plus(scores: Scores, factor: float, other: Expression) -> Scores:
    number = without_casts(other)
    if isinstance(number, Number):
        # Softmax does not see what is added alike to all keys.
        if not abs(number.number) <= _LARGE:
            raise NotRaised(f"{number.number} is added to all scores, which rounds them")
        return replace(scores, shifted=True)
    term = (factor, Given(other))
    mask = scores.mask
    if mask is None:
        return replace(scores, mask=Sum((term,)))
    if isinstance(mask, Sum) and mask.kind == "f32":
        return replace(scores, mask=Sum((*mask.terms, term)))
    return replace(scores, mask=Sum(((1.0, mask), term)))


def _kind(step: ScalarStep) -> str:
    return str(step.op.results[0].type)


def _rounded(scores: Scores, kind: str) -> Scores:
    """The scores and their mask in floats of type `kind`."""
    if kind not in ABSORBS_BY_TYPE or kind == "f32":
        return scores
    mask = None if scores.mask is None else _in_kind(scores.mask, kind)
    return replace(scores, mask=mask, rounded=kind)


def _in_kind(mask: MaskTerm, kind: str) -> MaskTerm:
    if isinstance(mask, Shown) and not any(True for _ in given_of(mask)):
        inner = None if mask.mask is None else _in_kind(mask.mask, kind)
        return replace(mask, mask=inner, hidden=nearest(mask.hidden, kind))
    if isinstance(mask, Sum) and mask.kind == "f32":
        return replace(mask, kind=kind)
    return mask if isinstance(mask, Sum) and mask.kind == kind else Sum(((1.0, mask),), kind)


def _in_f32(number: float) -> float:
    """A finite number of a wider type as one of f32: what hides keys still does."""
    return max(nearest(number, "f32"), LOWEST) if math.isfinite(number) else number


def without_term(scores: Scores, added: Leaf, elements: AxisReader) -> Scores | None:
    """The scores without `added`, a tensor, in their mask, if it is added to the product as it is
    and with its factor; None where it is not."""
    if scores.mask is None or scores.functions or scores.row_factors:
        return None
    found = _taken(scores.mask, added, elements)
    if found is None or not math.isclose(found[0], scores.factor, rel_tol=1e-6):
        return None
    return replace(scores, mask=found[1])


def _taken(
    mask: MaskTerm, added: Leaf, elements: AxisReader
) -> tuple[float, MaskTerm | None] | None:
    """The factor of a tensor in a mask, and the mask without it."""
    if isinstance(mask, Shown):
        found = None if mask.mask is None else _taken(mask.mask, added, elements)
        return None if found is None else (found[0], replace(mask, mask=found[1]))
    if not isinstance(mask, Sum):
        return None
    for at, (factor, term) in enumerate(mask.terms):
        rest = [*mask.terms[:at], *mask.terms[at + 1 :]]
        if isinstance(term, Given):
            if elements.same(term.what, added):
                return factor, replace(mask, terms=tuple(rest)) if rest else None
            continue
        found = _taken(term, added, elements)
        if found is not None:
            rest += [] if found[1] is None else [(factor, found[1])]
            return factor * found[0], replace(mask, terms=tuple(rest)) if rest else None
    return None


# What attention adds.


def zeroed(scores: Scores, conditions: Sequence[Condition], elements: AxisReader) -> Scores:
    """The scores of which keys that `conditions` hide have no weight in any row."""
    mask = scores.mask
    while (
        isinstance(mask, Sum) and len(mask.terms) == 1 and not isinstance(mask.terms[0][1], Given)
    ):
        mask = mask.terms[0][1]
    for where, holds in conditions:
        if isinstance(mask, Shown) and mask.holds == holds and elements.same(mask.where, where):
            return replace(scores, mask=replace(mask, hidden=-math.inf))
    return scores


def addable(scores: Scores) -> Scores:
    """The scores with a mask that attention can add; NotRaised where rows that see no key would
    be other than they are."""
    if scores.mask is None:
        return scores
    mask, factor = scores.mask, 1.0
    while (
        isinstance(mask, Sum) and len(mask.terms) == 1 and not isinstance(mask.terms[0][1], Given)
    ):
        ((scale, mask),) = mask.terms
        factor *= scale
    return replace(scores, mask=_scaled(_addable(mask), factor))


def _addable(mask: MaskTerm) -> MaskTerm:
    numbers = [shown.hidden for shown in _conditions(mask)]
    weak = [number for number in numbers if number > HIDES_SCALED]
    if weak:
        raise NotRaised(f"a condition puts {weak[0]:g} in the place of scores, which hides no key")
    if not any(True for _ in given_of(mask)):
        return _mapped(mask, _low_enough)
    if all(map(_is_of_products, given_of(mask))) and not _conditions_below(mask):
        # Scores of their own, as of relative positions, which hide no key.
        return _mapped(mask, _low_enough)
    start = max(ABSORBS_BY_TYPE[kind] for kind in _kinds(mask))
    if start == ABSORBS_BY_TYPE["f32"] and not any(number > ABSORBS for number in numbers):
        chosen = _as_choice(mask)
        wholly = chosen and all(one.hidden == -math.inf for one in _conditions(chosen))
        return chosen if chosen is not None and wholly else mask
    if _rounded_within(mask) or _scaled_within(mask):
        raise NotRaised(
            "something is added to scores that are masked in fewer bits, or scaled: rows that see "
            "no key would be other than they are"
        )
    weak = [number for number in numbers if number > start]
    if weak:
        raise NotRaised(
            f"a condition puts {weak[0]:g} in the place of scores, beside what is added to them: "
            "rows that see no key would be other than they are"
        )
    return _hiding(mask, start)


def given_of(mask: MaskTerm) -> Iterator[Expression]:
    """What of the program is added in a mask."""
    if isinstance(mask, Given):
        yield mask.what
    for inner in _inside(mask):
        yield from given_of(inner)


def _conditions_below(mask: MaskTerm) -> bool:
    """Whether something is added to scores that are hidden."""
    while isinstance(mask, Shown) and mask.mask is not None:
        mask = mask.mask
    return not isinstance(mask, Shown) and any(True for _ in _conditions(mask))


def _is_of_products(expression: Expression) -> bool:
    """Whether a number is computed of products' results and constants alone, without a choice."""
    if isinstance(expression, Leaf):
        return _holds_products(expression.value)
    if isinstance(expression, ScalarStep):
        return expression.name != "arith.select" and all(map(_is_of_products, expression.inputs))
    return isinstance(expression, Number)


def _holds_products(value: ir.Value) -> bool:
    """Whether a tensor has elements of a product's result alone, in any places, and zeros between
    them, as relative positions that are moved to their rows by a pad and reshapes."""
    op = defining_op(below_views(value, (*WHOLE, SLICE)))
    if op is None:
        return False
    if is_contraction(op):
        return True
    if op.name == "tensor.pad":
        filler = defining_op(yielded(op), "arith.constant")
        is_zero = filler is not None and constant(known_attribute(filler, "value")) == 0
        return is_zero and _holds_products(op.operands[0])
    rounds = is_elementwise(op) and len(op.operands) == 2 and body_names(op)[:-1] in _ROUNDS
    return rounds and _holds_products(op.operands[0])


def _conditions(mask: MaskTerm) -> Iterator[Shown]:
    if isinstance(mask, Shown):
        yield mask
    for inner in _inside(mask):
        yield from _conditions(inner)


def _kinds(mask: MaskTerm) -> Iterator[str]:
    """The types that sums in a mask are rounded to."""
    if isinstance(mask, Sum):
        yield mask.kind
    for inner in _inside(mask):
        yield from _kinds(inner)


def _rounded_within(mask: MaskTerm) -> bool:
    """Whether something is added behind a sum in floats that absorb more than those of its own."""
    if isinstance(mask, Sum) and any(isinstance(term, Given) for _, term in mask.terms):
        kinds = (kind for inner in _inside(mask) for kind in _kinds(inner))
        if any(ABSORBS_BY_TYPE[kind] > ABSORBS_BY_TYPE[mask.kind] for kind in kinds):
            return True
    return any(map(_rounded_within, _inside(mask)))


def _scaled_within(mask: MaskTerm) -> bool:
    """Whether a part of a mask, not only what is added in it, has a factor."""
    if isinstance(mask, Sum):
        parts = [(factor, term) for factor, term in mask.terms if not isinstance(term, Given)]
        return any(factor != 1 or _scaled_within(term) for factor, term in parts)
    return any(map(_scaled_within, _inside(mask)))


def _inside(mask: MaskTerm) -> Sequence[MaskTerm]:
    if isinstance(mask, Sum):
        return [term for _, term in mask.terms]
    if isinstance(mask, Given) or mask.mask is None:
        return []
    return [mask.mask]


def _hiding(mask: MaskTerm, start: float) -> MaskTerm:
    """The mask with numbers that hide keys in f32, too, constants at once."""
    chosen = _as_choice(mask)
    if chosen is not None and isinstance(mask, Sum):
        return _mapped(chosen, lambda number: lowered(nearest(number, mask.kind), start))
    return Hiding(mask, start)


def _as_choice(mask: MaskTerm) -> Shown | None:
    """A mask that is one sum with 0 or with numbers, as a condition chooses."""
    if not isinstance(mask, Sum) or len(mask.terms) != 1:
        return None
    ((factor, term),) = mask.terms
    return _choice(term.what) if isinstance(term, Given) and factor == 1 else None


def _choice(expression: Expression) -> Shown | None:
    """0, or numbers where conditions do not hold, as a mask."""
    step = without_casts(expression)
    if not isinstance(step, ScalarStep) or step.name != "arith.select":
        return None
    where, *sides = step.inputs
    for holds, (shown, hidden) in ((True, sides), (False, sides[::-1])):
        shown, hidden = without_casts(shown), without_casts(hidden)
        inner = _choice(shown)
        zero = isinstance(shown, Number) and shown.number == 0
        if isinstance(hidden, Number) and (zero or inner is not None):
            return Shown(where, holds, inner, hidden.number)
    return None


def _mapped(mask: MaskTerm, function: Callable[[float], float]) -> MaskTerm:
    """A mask of conditions with other numbers."""
    if not isinstance(mask, Shown):
        return mask
    inner = None if mask.mask is None else _mapped(mask.mask, function)
    return replace(mask, mask=inner, hidden=function(mask.hidden))


def _low_enough(hidden: float) -> float:
    """What to add to a score instead of putting `hidden` in its place, where nothing else is
    added: numbers keep their order, for rows of which all keys are hidden, some by one number and
    some by another."""
    if hidden <= ABSORBS:
        return lowered(hidden, LOG2E_OVERFLOWS_IN_SUMS)
    return ABSORBS * math.log(-hidden) / math.log(-ABSORBS)


def lowered(number: float, start: float) -> float:
    """A number of a mask as `Hiding` has it: times a power of two from `start` down, as far as
    f32 goes, log2(e) included. Numbers keep their order."""
    if number > start:
        return number
    return max(number * lowering(start), number / 2 + LOG2E_OVERFLOWS_IN_SUMS / 2)


def lowering(start: float) -> float:
    """What numbers of a mask from `start` down are multiplied by."""
    return max(ABSORBS_ANY / start, 1.0)
