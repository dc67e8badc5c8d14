"""An element of a tensor as an expression of the elements of others at the same axes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from iree.compiler import ir

from ..analysis.constants import constant
from ..ir import defining_op, is_ranked_tensor, known_attribute
from ..ir.bodies import ScalarReader, Scope, read_elementwise
from ..ir.limits import DIGITS, INFINITE
from ..layout.axes import Axes, Dims, source_of

# Programs deeper than this compute more than a score or a mask.
_DEEPEST = 80
_SCALAR_DIALECTS = ("arith.", "math.")
CASTS = ("arith.extf", "arith.truncf")


@dataclass(frozen=True)
class Leaf:
    """The element of a tensor whose dims have these axes; a scalar has no dims."""

    value: ir.Value
    dims: Dims


@dataclass(frozen=True)
class Number:
    """A constant, of the type of the value that it stands for."""

    number: float
    value: ir.Value = field(compare=False)


@dataclass(frozen=True)
class Index:
    """Where along these axes the element stands, as `linalg.index` counts."""

    axes: tuple[int, ...]


@dataclass(frozen=True)
class ScalarStep:
    """What the scalar op `op` makes of `inputs`; `whole` is the tensor that holds it, if any."""

    op: ir.Operation = field(compare=False)
    text: str
    inputs: tuple[Expression, ...]
    whole: Leaf | None = field(compare=False, default=None)

    @property
    def name(self) -> str:
        return self.op.name


Expression = Leaf | Number | Index | ScalarStep


class ExpressionReader(ScalarReader[tuple[int, ...], "Expression"]):
    """Reads tensors as expressions; the axes are those of `axes`, cut as views need it."""

    def __init__(self, axes: Axes):
        self.axes = axes
        self._depth = 0
        self._known: dict[tuple[ir.Value, Dims], Expression] = {}

    def element(self, value: ir.Value, dims: Dims) -> Expression:
        """The element of a tensor, below the views and repeats that make it."""
        key = (value, self.axes.dims(dims))
        if key not in self._known:
            self._depth += 1
            self._known[key] = self._element(*key)
            self._depth -= 1
        return self._known[key]

    def below_views(self, value: ir.Value, dims: Dims) -> Leaf:
        """The tensor that `value` is a view of, or repeats."""
        leaf = Leaf(value, dims)
        while (below := self.one_view(leaf)) is not None:
            leaf = below
        return Leaf(leaf.value, self.axes.dims(leaf.dims))

    def one_view(self, leaf: Leaf) -> Leaf | None:
        """The tensor that the last view on the way to `leaf` is one of."""
        op = defining_op(leaf.value)
        source = None if op is None else source_of(op, self.axes.dims(leaf.dims), self.axes)
        return None if source is None else Leaf(*source)

    def same(self, a: Expression, b: Expression) -> bool:
        """Whether two expressions are alike, casts between floats left out."""
        a, b = without_casts(a), without_casts(b)
        if isinstance(a, ScalarStep) and isinstance(b, ScalarStep):
            alike = a.text == b.text and len(a.inputs) == len(b.inputs)
            return alike and all(self.same(x, y) for x, y in zip(a.inputs, b.inputs, strict=True))
        if isinstance(a, Leaf) and isinstance(b, Leaf):
            return a.value == b.value and self.axes.dims(a.dims) == self.axes.dims(b.dims)
        if isinstance(a, Index) and isinstance(b, Index):
            return self.axes.now(a.axes) == self.axes.now(b.axes)
        return a == b

    def axes_of(self, expression: Expression) -> frozenset[int]:
        """The axes that an expression depends on."""
        if isinstance(expression, ScalarStep):
            return frozenset[int]().union(*map(self.axes_of, expression.inputs))
        if isinstance(expression, Leaf):
            return frozenset(axis for dim in self.axes.dims(expression.dims) for axis in dim)
        return frozenset(self.axes.now(expression.axes) if isinstance(expression, Index) else ())

    def tensor(self, expression: Expression) -> Leaf | None:
        """The tensor that holds an expression, where it is not repeated there."""
        leaf = expression.whole if isinstance(expression, ScalarStep) else expression
        if not isinstance(leaf, Leaf) or not is_ranked_tensor(leaf.value):
            return None
        return leaf if self.axes_of(leaf) == self.axes_of(expression) else None

    def _element(self, value: ir.Value, dims: Dims) -> Expression:
        below = self.below_views(value, dims)
        if below.value != value:
            return self.element(below.value, below.dims)
        op = defining_op(value)
        if op is None or self._depth > _DEEPEST:
            return below
        if op.name == "linalg.fill":
            return self.scalar(op.operands[0], Scope.outside()) or below
        given = _number(op)
        if given is not None:
            return Number(given, value)
        if op.name == "linalg.generic":
            return self._in_generic(op, below) or below
        return below

    def _in_generic(self, op: ir.Operation, result: Leaf) -> Expression | None:
        """The element of a result of an elementwise generic; None where it is no such."""
        made = read_elementwise(op, list(op.results).index(result.value))
        if made is None:
            return None
        found = self.scalar(made.scalar, Scope.at(made, result.dims, ()))
        if isinstance(found, ScalarStep):
            return ScalarStep(found.op, found.text, found.inputs, result)
        return found

    def argument(self, value: ir.Value) -> Expression:
        return Leaf(value, ())

    def constant(self, op: ir.Operation) -> Expression | None:
        given = _number(op)
        return None if given is None else Number(given, op.results[0])

    def index(self, place: tuple[int, ...] | None) -> Expression | None:
        return None if place is None else Index(place)

    def step(
        self, value: ir.Value, op: ir.Operation, scope: Scope[tuple[int, ...], Expression]
    ) -> Expression | None:
        if op.parent is None or op.parent.operation.name != "linalg.generic":
            return Leaf(value, ())
        if not op.name.startswith(_SCALAR_DIALECTS) or len(op.results) != 1:
            return None
        inputs = self.inputs(op, scope)
        if None in inputs:
            return None
        kind = str(op.results[0].type)
        # Constants that are no floats have no inputs.
        given = inputs[0] if inputs else None
        if op.name in CASTS and isinstance(given, Number) and kind in INFINITE:
            return Number(rounded(given.number, kind), op.results[0])
        attributes = ", ".join(f"{name} = {op.attributes[name]}" for name in op.attributes)
        text = f"{op.name} {attributes} {op.results[0].type}"
        return ScalarStep(op, text, tuple(inputs))  # type: ignore[arg-type]


def without_casts(expression: Expression) -> Expression:
    """The expression below casts between floats."""
    while isinstance(expression, ScalarStep) and expression.name in CASTS:
        expression = expression.inputs[0]
    return expression


def leaves_of(expression: Expression) -> Iterator[Leaf]:
    """The tensors and scalars that an expression is computed of."""
    if isinstance(expression, Leaf):
        yield expression
    elif isinstance(expression, ScalarStep):
        for given in expression.inputs:
            yield from leaves_of(given)


def _number(op: ir.Operation | None) -> float | None:
    """The float that a constant holds, one for all its elements. One that is rounded to fewer bits,
    as exporters leave a scale in front of 16-bit scores, counts as written."""
    if op is None:
        return None
    if op.name in CASTS:
        given = _number(defining_op(op.operands[0]))
        kind = str(op.results[0].type)
        return None if given is None or kind not in INFINITE else rounded(given, kind)
    if op.name != "arith.constant":
        return None
    attribute = known_attribute(op, "value")
    if isinstance(attribute, ir.DenseElementsAttr):
        attribute = attribute.get_splat_value() if attribute.is_splat else None
    value = constant(attribute)
    return value if isinstance(value, float) else None


def nearest(number: float, kind: str) -> float:
    """The number in floats of type `kind`, those of f32 and fewer bits; else as it is."""
    number = rounded(number, kind)
    if kind not in DIGITS or not math.isfinite(number):
        return number
    fraction, exponent = math.frexp(number)
    return math.ldexp(round(math.ldexp(fraction, DIGITS[kind])), exponent - DIGITS[kind])


def rounded(number: float, kind: str) -> float:
    """The number as written, infinite where it is in floats of type `kind`."""
    limit = INFINITE.get(kind, math.inf)
    return math.copysign(math.inf, number) if abs(number) >= limit else number
