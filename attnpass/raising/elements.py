"""An element of a tensor as an expression of the elements of others at the same axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from iree.compiler import ir

from ..analysis.constants import constant
from ..ir import defining_op, expressions, is_ranked_tensor, known_attribute
from ..ir.bodies import Scope
from ..ir.expressions import ExpressionReader, Index, Leaf, Number, ScalarStep
from ..ir.limits import DIGITS, INFINITE
from ..ir.views import View
from ..layout.axes import Axes, Dims, source_below, source_of

# The axes along a dim.
Along = tuple[int, ...]
Expression = expressions.Expression[Along]
CASTS = ("arith.extf", "arith.truncf")


class AxisReader(ExpressionReader[Along]):
    """Reads tensors as expressions; the axes are those of `axes`, cut as views need it."""

    single = ()

    def __init__(self, axes: Axes):
        super().__init__()
        self.axes = axes

    def element(self, value: ir.Value, dims: Dims, /) -> Expression:
        found = super().element(value, self.axes.dims(dims))
        assert found is not None, "each tensor is a leaf"
        return found

    def made(self, op: ir.Operation, value: ir.Value, dims: Dims, /) -> Expression | None:
        given = _number(op)
        if given is not None:
            return Number(given, value)
        return super().made(op, value, dims)

    def computed(
        self, op: ir.Operation | None, places: Sequence[Along], number: int = 0
    ) -> Expression | None:
        found = super().computed(op, places, number)
        if op is None or not isinstance(found, ScalarStep):
            return found
        return replace(found, whole=Leaf(op.results[number], tuple(places)))

    def below(self, view: View, dims: Dims, /) -> Dims | None:
        source = source_of(view.op, dims, self.axes)
        return None if source is None else source[1]

    def below_views(self, value: ir.Value, dims: Dims) -> Leaf:
        """The tensor that `value` is a view of, or repeats."""
        return Leaf(*source_below(value, self.axes.dims(dims), self.axes))

    def one_view(self, leaf: Leaf) -> Leaf | None:
        """The tensor that the last view on the way to `leaf` is one of."""
        op = defining_op(leaf.value)
        source = None if op is None else source_of(op, self.axes.dims(leaf.places), self.axes)
        return None if source is None else Leaf(*source)

    def same(self, a: Expression, b: Expression) -> bool:
        """Whether two expressions are alike, casts between floats left out."""
        a, b = without_casts(a), without_casts(b)
        if isinstance(a, ScalarStep) and isinstance(b, ScalarStep):
            alike = a.text == b.text and len(a.inputs) == len(b.inputs)
            return alike and all(self.same(x, y) for x, y in zip(a.inputs, b.inputs, strict=True))
        if isinstance(a, Leaf) and isinstance(b, Leaf):
            return a.value == b.value and self.axes.dims(a.places) == self.axes.dims(b.places)
        if isinstance(a, Index) and isinstance(b, Index):
            return self.axes.now(a.place) == self.axes.now(b.place)
        return a == b

    def axes_of(self, expression: Expression) -> frozenset[int]:
        """The axes that an expression depends on."""
        if isinstance(expression, ScalarStep):
            return frozenset[int]().union(*map(self.axes_of, expression.inputs))
        if isinstance(expression, Leaf):
            return frozenset(axis for dim in self.axes.dims(expression.places) for axis in dim)
        return frozenset(self.axes.now(expression.place) if isinstance(expression, Index) else ())

    def tensor(self, expression: Expression) -> Leaf | None:
        """The tensor that holds an expression, where it is not repeated there."""
        leaf = expression.whole if isinstance(expression, ScalarStep) else expression
        if not isinstance(leaf, Leaf) or not is_ranked_tensor(leaf.value):
            return None
        return leaf if self.axes_of(leaf) == self.axes_of(expression) else None

    def constant(self, op: ir.Operation) -> Expression | None:
        given = _number(op)
        return None if given is None else Number(given, op.results[0])

    def step(
        self, value: ir.Value, op: ir.Operation, scope: Scope[Along, Expression]
    ) -> Expression | None:
        found, kind = super().step(value, op, scope), str(value.type)
        if not isinstance(found, ScalarStep) or found.name not in CASTS or kind not in INFINITE:
            return found
        given = found.inputs[0]
        return Number(rounded(given.number, kind), value) if isinstance(given, Number) else found


def without_casts(expression: Expression) -> Expression:
    """The expression below casts between floats."""
    while isinstance(expression, ScalarStep) and expression.name in CASTS:
        expression = expression.inputs[0]
    return expression


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
