"""What `arith` and `math` ops on scalars make of symbolic values.

Integers are taken as exact: index arithmetic that wraps round is not looked for.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from iree.compiler import ir

from ..ir.bodies import predicate
from . import values as symbolic
from .values import ALWAYS, NEVER, Condition, Linear, Scalar, Score, Value

Sizes = Mapping[int, "int | None"]

_SAME = {
    "arith.index_cast",
    "arith.index_castui",
    "arith.sitofp",
    "arith.uitofp",
    "arith.extf",
    "arith.truncf",
    "arith.extsi",
    "arith.extui",
    "arith.trunci",
}
_BINARY: dict[str, Callable[[Scalar, Scalar], Value | None]] = {
    "arith.addi": symbolic.add,
    "arith.addf": symbolic.add,
    "arith.subi": symbolic.subtract,
    "arith.subf": symbolic.subtract,
    "arith.muli": symbolic.multiply,
    "arith.mulf": symbolic.multiply,
    "arith.divf": symbolic.divide,
}
# Of integers that are known and not negative: there all of them round the same way.
_DIVISIONS: dict[str, Callable[[int, int], int]] = {
    "arith.divsi": operator.floordiv,
    "arith.divui": operator.floordiv,
    "arith.floordivsi": operator.floordiv,
    "arith.remsi": operator.mod,
    "arith.remui": operator.mod,
}
_LOGIC = {
    "arith.andi": symbolic.both,
    "arith.ori": symbolic.either,
}
# How predicates end that compare, and do not ask for NaN alone.
_COMPARES = ("eq", "ne", "lt", "le", "gt", "ge")


def compute(op: ir.Operation, given: Sequence[Value | None], sizes: Sizes) -> Value | None:
    """The result of a scalar op on values; variables have these sizes (None: known at run
    time)."""
    if op.name in _SAME:
        return _cast(op, given[0])
    if op.name == "arith.select":
        return symbolic.choose(*given)
    if op.name == "arith.negf":
        return symbolic.apply(symbolic.multiply, -1.0, given[0])
    if op.name == "math.tanh":
        return symbolic.apply(lambda a, _: symbolic.tanh(a), given[0], 0.0)
    if op.name in _LOGIC and str(op.results[0].type) == "i1":
        return _logic(_LOGIC[op.name], given)
    if op.name == "arith.xori" and str(op.results[0].type) == "i1":
        return _exclusive(given)
    if op.name in _BINARY:
        return symbolic.apply(_BINARY[op.name], *given)
    if op.name in _DIVISIONS:
        return symbolic.apply(functools.partial(_divide, _DIVISIONS[op.name]), *given)
    if op.name in ("arith.maxsi", "arith.minsi"):
        return symbolic.apply(functools.partial(_extreme, op.name == "arith.maxsi", sizes), *given)
    if op.name in ("arith.cmpi", "arith.cmpf"):
        return _compare(op, given, sizes)
    return None


def _extreme(larger: bool, sizes: Sizes, a: Scalar, b: Scalar) -> Value | None:
    if not isinstance(a, Linear) or not isinstance(b, Linear):
        return None
    first = symbolic.at_least_zero(a.plus(b, -1), sizes)
    return symbolic.choose(first, a, b) if larger else symbolic.choose(first, b, a)


def _compare(op: ir.Operation, given: Sequence[Value | None], sizes: Sizes) -> Value | None:
    asked = predicate(op)
    name = asked[-2:] if asked.endswith(_COMPARES) else ""
    unsigned = op.name == "arith.cmpi" and asked.startswith("u")

    def compare(a: Scalar, b: Scalar) -> Condition | None:
        if isinstance(a, Condition) and isinstance(b, Condition):
            equal = _exclusive([a, b.inverse()])
            opposite = None if equal is None else equal.inverse()
            return {"eq": equal, "ne": opposite}.get(name)
        if isinstance(a, Linear) and isinstance(b, Linear):
            return _compare_linear(name, unsigned, a, b, sizes)
        x, y = _number(a), _number(b)
        if x is None or y is None:
            return None
        truth = {"eq": x == y, "ne": x != y, "lt": x < y, "le": x <= y, "gt": x > y}
        return (ALWAYS if truth.get(name, x >= y) else NEVER) if name else None

    return symbolic.apply(compare, *given)


def _compare_linear(
    name: str, unsigned: bool, a: Linear, b: Linear, sizes: Sizes
) -> Condition | None:
    if unsigned and min(a.range(sizes)[0], b.range(sizes)[0]) < 0:
        return None
    greater = symbolic.at_least_zero(a.plus(b, -1), sizes)
    less = symbolic.at_least_zero(b.plus(a, -1), sizes)
    if name in ("eq", "ne"):
        equal = symbolic.both(greater, less)
        return equal if equal is None or name == "eq" else equal.inverse()
    return {"ge": greater, "le": less, "lt": greater.inverse(), "gt": less.inverse()}.get(name)


def _cast(op: ir.Operation, value: Value | None) -> Value | None:
    to, source = str(op.results[0].type), str(op.operands[0].type)
    if isinstance(value, Condition):
        one: Scalar = -1.0 if op.name == "arith.sitofp" else 1.0
        if not to.startswith(("f", "bf")):
            one = Linear(-1 if op.name == "arith.extsi" else 1)
        zero = 0.0 if isinstance(one, float) else Linear(0)
        return symbolic.choose(value, one, zero)
    if to.startswith(("f", "bf")) and not source.startswith(("f", "bf")):
        return symbolic.apply(lambda a, _: _to_float(a), value, 0.0)
    return None if to == "i1" else value


def _to_float(value: Scalar) -> Value | None:
    """An integer as a float; one that varies stays what it is."""
    exact = symbolic.number(value)
    return value if exact is None else exact


def _divide(function: Callable[[int, int], int], a: Scalar, b: Scalar) -> Value | None:
    if not isinstance(a, Linear) or not isinstance(b, Linear) or a.terms or b.terms:
        return None
    if a.constant < 0 or b.constant <= 0:
        return None
    return Linear(function(a.constant, b.constant))


def _number(value: Scalar) -> float | None:
    return None if isinstance(value, Score | Condition) else symbolic.number(value)


def _logic(function: Any, given: Sequence[Value | None]) -> Condition | None:
    conditions = [value for value in given if isinstance(value, Condition)]
    if len(conditions) == 2:
        return function(*conditions)
    # What is not known does not matter beside a constant that decides.
    for condition in conditions:
        alone = function(condition, condition.inverse())
        if (condition.always or condition.never) and alone == condition:
            return condition
    return None


def _exclusive(given: Sequence[Value | None]) -> Condition | None:
    """Exclusive or, where one of the two is always the same."""
    for a, b in (given, tuple(reversed(given))):
        if isinstance(a, Condition) and isinstance(b, Condition) and (b.always or b.never):
            return a.inverse() if b.always else a
    return None
