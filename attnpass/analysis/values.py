"""What an element of a tensor is, as an expression of its indices: values and their arithmetic.

A value is one of

- `Linear`: an integer, a sum of variables (iteration dims of attention) times factors;
- a float;
- `Score`: the score that attention's region is given, perhaps scaled, perhaps soft-capped;
- `Condition`: a truth value, where linear expressions are not negative;
- `Select`: one of two of the above.

Whatever else a program computes is None, "not known", and so is every result made of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..ir.limits import HIDES


@dataclass(frozen=True)
class Linear:
    """`constant` + the sum of factor * variable over `terms`, sorted by variable."""

    constant: int
    terms: tuple[tuple[int, int], ...] = ()

    def plus(self, other: Linear, factor: int = 1) -> Linear:
        factors = dict(self.terms)
        for variable, number in other.terms:
            factors[variable] = factors.get(variable, 0) + factor * number
        terms = tuple(sorted((v, f) for v, f in factors.items() if f))
        return Linear(self.constant + factor * other.constant, terms)

    def times(self, factor: int) -> Linear:
        return Linear(0).plus(self, factor)

    def factor_of(self, variable: int) -> int:
        return dict(self.terms).get(variable, 0)

    def range(self, sizes: Mapping[int, int | None]) -> tuple[float, float]:
        """The least and the largest value; variables go from 0 to their size less one."""
        low = high = float(self.constant)
        for variable, factor in self.terms:
            size = sizes.get(variable)
            last = factor * (math.inf if size is None else size - 1)
            low, high = low + min(0, last), high + max(0, last)
        return low, high


@dataclass(frozen=True)
class Condition:
    """Whether all `bounds` are at least 0; the opposite if not `holds`."""

    bounds: frozenset[Linear]
    holds: bool = True

    def inverse(self) -> Condition:
        if len(self.bounds) == 1:
            (bound,) = self.bounds
            return Condition(frozenset({Linear(-1).plus(bound, -1)}), self.holds)
        return Condition(self.bounds, not self.holds)

    @property
    def always(self) -> bool:
        return not self.bounds and self.holds

    @property
    def never(self) -> bool:
        return not self.bounds and not self.holds


ALWAYS = Condition(frozenset())
NEVER = Condition(frozenset(), False)


@dataclass(frozen=True)
class Score:
    """factor * s, or factor * tanh(inner * s) where `inner` is not 0, of the score s of a query
    row and a key, before the mask."""

    factor: float = 1.0
    inner: float = 0.0

    @property
    def cap(self) -> float | None:
        """c where this is c * tanh(s / c); 0 where it is the score itself; None otherwise."""
        if not self.inner:
            return 0.0 if self.factor == 1 else None
        # 1 / c may have been rounded to f16 before.
        return abs(self.factor) if abs(self.inner * self.factor - 1) < 1e-6 else None


SCORE = Score()
Scalar = Linear | float | Score | Condition


@dataclass(frozen=True)
class Select:
    """`then` where the condition holds, `other` elsewhere."""

    where: Condition
    then: Scalar
    other: Scalar


Value = Scalar | Select
# Where in a tensor, None for a dim along which it is not known.
Indices = tuple["Linear | None", ...]


def at_least_zero(linear: Linear, sizes: Mapping[int, int | None]) -> Condition:
    """The condition that `linear` is not negative, decided where the sizes decide it."""
    low, high = linear.range(sizes)
    if low >= 0:
        return ALWAYS
    return NEVER if high < 0 else Condition(frozenset({linear}))


def both(a: Condition, b: Condition) -> Condition | None:
    if a.never or b.never:
        return NEVER
    if a.always or b.always:
        return b if a.always else a
    if a.holds and b.holds:
        return Condition(a.bounds | b.bounds)
    return a if a == b else None


def either(a: Condition, b: Condition) -> Condition | None:
    neither = both(a.inverse(), b.inverse())
    return None if neither is None else neither.inverse()


def choose(where: Value | None, then: Value | None, other: Value | None) -> Value | None:
    """`then` where `where` holds, else `other`."""
    if not isinstance(where, Condition):
        return None
    if where.always or then == other:
        return then
    if where.never:
        return other
    if isinstance(then, Condition) and isinstance(other, Condition):
        return _choose_condition(where, then, other)
    if isinstance(then, Select) and _same(then.other, other):
        return _choose_both(where, then)
    if isinstance(other, Select) and _same(other.other, then):
        return _choose_both(where.inverse(), other)
    if then is None or other is None or isinstance(then, Select) or isinstance(other, Select):
        return None
    return Select(where, then, other)


def _choose_both(where: Condition, choice: Select) -> Value | None:
    together = both(where, choice.where)
    return None if together is None else Select(together, choice.then, choice.other)


def _choose_condition(where: Condition, then: Condition, other: Condition) -> Condition | None:
    taken, left = both(where, then), both(where.inverse(), other)
    return None if taken is None or left is None else either(taken, left)


def apply(
    function: Callable[[Scalar, Scalar], Value | None], a: Value | None, b: Value | None
) -> Value | None:
    """`function` of two values, inside of choices too."""
    if a is None or b is None:
        return None
    if not isinstance(a, Select) and not isinstance(b, Select):
        return function(a, b)
    if isinstance(a, Select) and not isinstance(b, Select):
        return choose(a.where, function(a.then, b), function(a.other, b))
    if isinstance(b, Select) and not isinstance(a, Select):
        return choose(b.where, function(a, b.then), function(a, b.other))
    assert isinstance(a, Select) and isinstance(b, Select)
    if a.where == b.where:
        return choose(a.where, function(a.then, b.then), function(a.other, b.other))
    rest = [function(a.then, b.other), function(a.other, b.then), function(a.other, b.other)]
    if not all(_same(rest[0], value) for value in rest):
        return None
    return choose(both(a.where, b.where), function(a.then, b.then), rest[0])


def is_hidden(value: Value | None) -> bool:
    """Whether a number added to a score leaves the key no weight."""
    return isinstance(value, float) and value <= HIDES


def _same(a: Value | None, b: Value | None) -> bool:
    return a is not None and (a == b or (is_hidden(a) and is_hidden(b)))


def number(value: Scalar) -> float | None:
    """The number that a scalar always is."""
    if isinstance(value, Linear):
        return None if value.terms else float(value.constant)
    return value if isinstance(value, float) else None


def add(a: Scalar, b: Scalar) -> Value | None:
    if isinstance(a, Linear) and isinstance(b, Linear):
        return a.plus(b)
    if isinstance(a, Score) or isinstance(b, Score):
        own, given = (a, b) if isinstance(a, Score) else (b, a)
        if number(given) == 0:
            return own
        return given if is_hidden(given) else None
    return _floats(a, b, lambda x, y: x + y)


def subtract(a: Scalar, b: Scalar) -> Value | None:
    if isinstance(a, Linear) and isinstance(b, Linear):
        return a.plus(b, -1)
    return _floats(a, b, lambda x, y: x - y)


def multiply(a: Scalar, b: Scalar) -> Value | None:
    for x, y in ((a, b), (b, a)):
        if isinstance(x, Linear) and isinstance(y, Linear) and not y.terms:
            return x.times(y.constant)
        factor = number(y)
        if isinstance(x, Score) and factor is not None:
            return Score(x.factor * factor, x.inner)
    return _floats(a, b, lambda x, y: x * y)


def divide(a: Scalar, b: Scalar) -> Value | None:
    divisor = number(b)
    return multiply(a, 1 / divisor) if divisor else None


def tanh(a: Scalar) -> Value | None:
    if isinstance(a, Score):
        return Score(1.0, a.factor) if not a.inner else None
    value = number(a)
    return None if value is None else math.tanh(value)


def _floats(a: Scalar, b: Scalar, function: Callable[[float, float], float]) -> float | None:
    x, y = number(a), number(b)
    if x is None or y is None:
        return None
    result = function(x, y)
    return None if math.isnan(result) else result
