"""What a kernel does behind a product: epilogues, and the terms of scalars that come to one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from iree.compiler import ir

from ..attention.widening import below_widening
from ..ir import Size, element_type_name

# How near constants are to those of GELU: they may be rounded to bf16.
_NEAR = 4e-3
# Activations, in words.
ACTIVATIONS = {
    "gelu": "GELU",
    "gelu_tanh": "GELU by tanh",
    "silu": "SiLU",
    "quick_gelu": "GELU by a sigmoid",
    "relu": "ReLU",
}
# A scalar behind a product: a number, or an op's name and what it takes.
Term = tuple[Any, ...]
PRODUCT: Term = ("product",)


@dataclass(frozen=True)
class Epilogue:
    """What is done to a product: it is multiplied with `scale` and `scales`, tensors of one element
    (`one`) or of one for each of the `rows` or `columns`, a `bias` of each column is added, an
    `activation` (`none` or a key of `ACTIVATIONS`) follows, the result is multiplied with `rescale`
    and a `factor` of each column, and `operand`, a tensor like the result, is added or multiplied
    as `other` says (`none`, `add`, `multiply`). The factor may be another one for every `share`
    rows, the bias for every `bias_share`. `result` is what it makes. Of a product whose columns are
    two of a gate `halves` are both, the one with the activation first; `start` is the first column
    of such a half."""

    result: ir.Value
    scale: float = 1.0
    scales: tuple[tuple[str, ir.Value], ...] = ()
    bias: ir.Value | None = None
    activation: str = "none"
    rescale: float = 1.0
    factor: ir.Value | None = None
    share: Size | None = None
    bias_share: Size | None = None
    other: str = "none"
    operand: ir.Value | None = None
    start: int = 0
    halves: tuple[Epilogue, Epilogue] | None = None

    @property
    def kind(self) -> tuple[bool, str, str]:
        return self.bias is not None, self.activation, self.other

    @property
    def is_scaled(self) -> bool:
        numbers = (self.scale, self.rescale) != (1.0, 1.0)
        return numbers or bool(self.scales) or self.factor is not None

    @property
    def is_linear(self) -> bool:
        """Whether nothing but scales and a bias was applied so far."""
        applied = self.activation != "none" or self.factor is not None or self.other != "none"
        return not applied and self.rescale == 1.0

    @property
    def words(self) -> str:
        done = ["a scale"] if (self.scale, self.rescale) != (1.0, 1.0) else []
        done += [{"one": "a scale"}.get(kind, f"a scale of {kind}") for kind, _ in self.scales]
        if self.bias is not None:
            done.append("a bias" + (" of each batch" if self.bias_share else ""))
        done += [ACTIVATIONS[self.activation]] if self.activation in ACTIVATIONS else []
        if self.factor is not None:
            done.append("a factor of each column" + (" and batch" if self.share else ""))
        if self.halves:
            return f"{self.halves[0].words} of one half of the columns times the other"
        others = {"add": "a residual", "multiply": "another product's result"}
        return " and ".join([*done, *([others[self.other]] if self.other in others else [])])


def epilogue_of(term: Term, result: ir.Value) -> Epilogue | None:
    """What a kernel does to make the term of a product, or of both halves of one; None if none
    does."""
    return _of_all(term, result) or _of_halves(term, result)


def _of_all(term: Term, result: ir.Value) -> Epilogue | None:
    """What a kernel does to make the term of a product; None if none does."""
    if term == PRODUCT:
        return Epilogue(result)
    activated = _activation(term)
    if activated is not None:
        name, inner = activated
        found = _of_all(inner, result)
        return None if found is None or not found.is_linear else replace(found, activation=name)
    number, rest = factors_of(term)
    if len(rest) == 1 and rest != [term]:
        found = _of_all(rest[0], result)
        return None if found is None else _scaled(found, number)
    if term[0] not in ("arith.addf", "arith.mulf"):
        return None
    for given, read in (term[1:], term[:0:-1]):
        found = _of_all(given, result) if read[0] in _READS else None
        if found is not None and found.other == "none":
            return _with_read(found, term[0], read)
    return None


def _of_halves(term: Term, result: ir.Value) -> Epilogue | None:
    """What a kernel does that multiplies an activation of one half of a product's columns with the
    other half."""
    if term[0] != "arith.mulf":
        return None
    for one, other in (term[1:], term[:0:-1]):
        name, inner = _activation(one) or ("", one)
        gate, factor = _half(inner, result), _half(other, result)
        if name and gate is not None and factor is not None and gate.start != factor.start:
            gate = replace(gate, activation=name)
            return Epilogue(result, activation=name, halves=(gate, factor))
    return None


def _half(term: Term, result: ir.Value) -> Epilogue | None:
    """What is done to one half of a product's columns: a bias of these may be added."""
    starts = _starts(term)
    found = _of_all(_whole_columns(term), result) if len(starts) == 1 else None
    if found is None or not found.is_linear or found.is_scaled:
        return None
    return replace(found, start=starts.pop())


def _starts(term: Term) -> set[int]:
    """The first columns that a term's parts are read from."""
    if term[0] in ("product", "columns"):
        return {term[-1]} if isinstance(term[-1], int) else {-1}
    return {start for part in term[1:] if isinstance(part, tuple) for start in _starts(part)}


def _whole_columns(term: Term) -> Term:
    """A term of some columns as if it were one of all."""
    if term[0] in ("product", "columns"):
        return term[:-1] if isinstance(term[-1], int) else term
    return tuple(_whole_columns(part) if isinstance(part, tuple) else part for part in term)


def from_column(term: Term, start: int) -> Term | None:
    """A term of a product's columns from `start` on; None if it is one of some already, or reads
    what has all of its columns."""
    if term[0] in ("product", "columns"):
        known = len(term) == (1 if term[0] == "product" else 2)
        return (*term, start) if known else None
    if term[0] in ("number", "one", "rows"):
        return term
    if term[0] in _READS:
        return None
    parts = [from_column(part, start) if isinstance(part, tuple) else part for part in term[1:]]
    return None if any(part is None for part in parts) else (term[0], *parts)


_READS = ("like", "columns", "shared", "one", "rows")


def _scaled(found: Epilogue, number: float) -> Epilogue | None:
    if found.other != "none" or not math.isfinite(number):
        return None
    if found.is_linear and found.bias is None:
        return replace(found, scale=found.scale * number)
    return replace(found, rescale=found.rescale * number)


def _with_read(found: Epilogue, op: str, read: Term) -> Epilogue | None:
    """What a kernel does that then adds or multiplies what is read."""
    kind, value = read[:2]
    written = element_type_name(found.result)
    if kind == "like":
        # As wide as the result, or widened from that.
        value = value if element_type_name(value) == written else below_widening(value)
        if element_type_name(value) != written:
            return None
        return replace(found, other="add" if op == "arith.addf" else "multiply", operand=value)
    if element_type_name(value) not in ("f16", "bf16", "f32"):
        return None
    if op == "arith.mulf" and found.is_linear and found.bias is None and kind != "shared":
        return replace(found, scales=(*found.scales, (kind, value)))
    if op == "arith.mulf" and found.factor is None and kind in ("columns", "shared"):
        return replace(found, factor=value, share=read[2] if kind == "shared" else None)
    if op == "arith.addf" and kind in ("columns", "shared") and found.bias is None:
        share = read[2] if kind == "shared" else None
        return replace(found, bias=value, bias_share=share) if found.is_linear else None
    return None


def _activation(term: Term) -> tuple[str, Term] | None:
    """The activation that a term is, and of what."""
    clamped = _above_zero(term)
    if clamped is not None:
        return "relu", clamped
    number, rest = factors_of(term)
    if len(rest) != 2:
        return None
    for inner, raised in (rest, rest[::-1]):
        name = _name_of(inner, _curve(number, raised))
        if name:
            return name, inner
    return None


# Comparisons by which NaN is kept.
_GREATER, _LESS = ("ugt", "uge"), ("olt", "ole")


def _above_zero(term: Term) -> Term | None:
    """What a term is the larger of, the other being zero; NaN stays NaN."""
    zero: Term = ("number", 0.0)
    if term[0] == "arith.maximumf" and zero in term[1:]:
        return term[1] if term[2] == zero else term[2]
    if term[0] != "arith.select" or term[1][0] != "arith.cmpf":
        return None
    (_, left, right, predicate), (chosen, other) = term[1], term[2:]
    greater = predicate in _GREATER and (left, right, other) == (chosen, zero, zero)
    less = predicate in _LESS and (left, right, chosen) == (other, zero, zero)
    return chosen if greater else other if less else None


def factors_of(term: Term) -> tuple[float, list[Term]]:
    """The number and the rest of a term's factors."""
    factors = list(_factors(term))
    rest = [factor for factor in factors if factor[0] != "number"]
    return math.prod(factor[1] for factor in factors if factor[0] == "number"), rest


def _factors(term: Term) -> Iterator[Term]:
    if term[0] == "arith.mulf":
        yield from _factors(term[1])
        yield from _factors(term[2])
    elif term[0] == "arith.divf":
        yield from _factors(term[1])
        number = term[2][1] if term[2][0] == "number" else 0.0
        yield ("number", 1 / number) if number else ("inverse", term[2])
    elif term[0] == "arith.negf":
        yield from _factors(term[1])
        yield ("number", -1.0)
    else:
        yield term


@dataclass(frozen=True)
class _Curve:
    """`low` plus `high` times a function of `argument`; `inverse` is 1 / (1 + exp(argument))."""

    function: str
    low: float
    high: float
    argument: Term


def _curve(number: float, term: Term) -> _Curve | None:
    """The curve that a number times a term is."""
    if term[0] == "math.erfc":
        return _Curve("math.erfc", 0.0, number, term[1])
    summed = term[1] if term[0] == "inverse" else term
    if summed[0] != "arith.addf":
        return None
    for one, other in (summed[1:], summed[:0:-1]):
        high, rest = factors_of(other)
        if one[0] == "number" and len(rest) == 1 and len(rest[0]) == 2:
            return _raised(number, term[0], one[1], high, rest[0])
    return None


def _raised(number: float, op: str, low: float, high: float, function: Term) -> _Curve | None:
    name, argument = function
    if op != "inverse":
        return _Curve(name, number * low, number * high, argument)
    is_sigmoid = (name, low, high) == ("math.exp", 1.0, 1.0)
    return _Curve(op, 0.0, number, argument) if is_sigmoid else None


# Activations as x times a curve of slope * (x + cube * x^3): the curve, its low and high, both.
_BENT, _CUBE = math.sqrt(2 / math.pi), 0.044715
_CURVES = (
    ("gelu", "math.erf", 0.5, 0.5, math.sqrt(0.5), 0.0),
    ("gelu", "math.erfc", 0.0, 0.5, -math.sqrt(0.5), 0.0),
    ("gelu_tanh", "math.tanh", 0.5, 0.5, _BENT, _CUBE),
    ("gelu_tanh", "inverse", 0.0, 1.0, -2 * _BENT, _CUBE),
    ("silu", "inverse", 0.0, 1.0, -1.0, 0.0),
    ("quick_gelu", "inverse", 0.0, 1.0, -1.702, 0.0),
)


def _name_of(inner: Term, curve: _Curve | None) -> str:
    """Which activation of `inner` it is that times a curve; '' for none."""
    powers = None if curve is None else _powers(curve.argument, inner)
    if curve is None or powers is None:
        return ""
    slope = powers.pop(1, 0.0)
    cube = powers.pop(3, 0.0) / slope if slope else 0.0
    if any(powers.values()):
        return ""
    found = (curve.low, curve.high, slope, cube)
    for name, function, *wanted in _CURVES:
        if function == curve.function and all(map(_is_near, found, wanted)):
            return name
    return ""


def _is_near(found: float, wanted: float) -> bool:
    """Whether a number is the one that is wanted, or that rounded."""
    rounded = abs(wanted) != 1 and math.isclose(found, wanted, rel_tol=_NEAR)
    return found == wanted or rounded


def _powers(term: Term, inner: Term) -> dict[int, float] | None:
    """A term as a polynomial of `inner`, up to its cube: each power's number."""
    if term == inner:
        return {1: 1.0}
    if term[0] == "number":
        return {0: term[1]}
    if term[0] in ("math.powf", "math.fpowi") and term[2][0] == "number":
        power = term[2][1]
        return _multiplied([term[1]] * int(power), inner) if power in (2.0, 3.0) else None
    if term[0] == "arith.addf":
        one, other = _powers(term[1], inner), _powers(term[2], inner)
        if one is None or other is None:
            return None
        return {each: one.get(each, 0.0) + other.get(each, 0.0) for each in {*one, *other}}
    factors = list(_factors(term))
    return _multiplied(factors, inner) if len(factors) > 1 else None


def _multiplied(factors: Sequence[Term], inner: Term) -> dict[int, float] | None:
    made = {0: 1.0}
    for factor in factors:
        found = _powers(factor, inner)
        if found is None or max(made) + max(found) > 3:
            return None
        pairs = [(each, other) for each in made for other in found]
        after = dict.fromkeys((each + other for each, other in pairs), 0.0)
        for each, other in pairs:
            after[each + other] += made[each] * found[other]
        made = after
    return made
