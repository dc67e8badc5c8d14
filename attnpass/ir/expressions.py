"""What an element of a tensor is: read from IR through views, fills and elementwise ops.

`ElementReader` is the way there; what an element, an index or a step is to its reader subclasses
say, as those of `ScalarReader` do in bodies. `ExpressionReader` makes expressions, which others
compare, take apart and write again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Generic

from iree.compiler import ir

from .bodies import Made, Place, ScalarReader, Scope, is_arithmetic
from .queries import defining_op
from .views import View, view_of


@dataclass(frozen=True)
class Leaf(Generic[Place]):
    """The element of a tensor that stands at these places of its dims; a scalar has no dims."""

    value: ir.Value
    places: tuple[Place, ...]


@dataclass(frozen=True)
class Number:
    """A constant, of the type of the value that it stands for."""

    number: float
    value: ir.Value = field(compare=False)


@dataclass(frozen=True)
class Index(Generic[Place]):
    """The place of the element along a loop, as `linalg.index` counts."""

    place: Place


@dataclass(frozen=True)
class ScalarStep(Generic[Place]):
    """What the scalar op `op` makes of `inputs`; `whole` is the tensor that holds it, if any."""

    op: ir.Operation = field(compare=False)
    text: str
    inputs: tuple[Expression[Place], ...]
    whole: Leaf[Place] | None = field(compare=False, default=None)

    @property
    def name(self) -> str:
        return self.op.name


Expression = Leaf[Place] | Number | Index[Place] | ScalarStep[Place]


def leaves_of(expression: Expression[Place]) -> Iterator[Leaf[Place]]:
    """The tensors and scalars that an expression is computed of."""
    if isinstance(expression, Leaf):
        yield expression
    elif isinstance(expression, ScalarStep):
        for given in expression.inputs:
            yield from leaves_of(given)


class ElementReader(ScalarReader[Place, Made]):
    """Reads elements of tensors, each once, as what its subclass makes of them."""

    # Programs deeper than this are nothing that is looked for, and Python's stack ends.
    deepest = 150

    def __init__(self) -> None:
        self._depth = 0
        self._known: dict[tuple[ir.Value, tuple[Place, ...]], Made | None] = {}

    def element(self, value: ir.Value, places: tuple[Place, ...], /) -> Made | None:
        if (value, places) not in self._known:
            op, found = defining_op(value), None
            if op is not None and self._depth < self.deepest:
                self._depth += 1
                found = self.made(op, value, places)
                self._depth -= 1
            self._known[value, places] = self.leaf(value, places) if found is None else found
        return self._known[value, places]

    def scalar(self, value: ir.Value, scope: Scope[Place, Made]) -> Made | None:
        if self._depth >= self.deepest:
            return None
        self._depth += 1
        found = super().scalar(value, scope)
        self._depth -= 1
        return found

    def made(self, op: ir.Operation, value: ir.Value, places: tuple[Place, ...], /) -> Made | None:
        """The element of a result of `op` as one of what a view shows, as the scalar of a fill, or
        as what a body computes; None for none of these."""
        view = view_of(op)
        below = None if view is None else self.below(view, places)
        if view is not None and below is not None:
            return self.element(view.source, below)
        if op.name == "linalg.fill":
            return self.scalar(op.operands[0], Scope.outside())
        return self.computed(op, places, list(op.results).index(value))

    def below(self, view: View, places: tuple[Place, ...], /) -> tuple[Place, ...] | None:
        """Where an element of a view is in what it shows; None where that cannot be said."""
        return None

    def leaf(self, value: ir.Value, places: tuple[Place, ...]) -> Made | None:
        """The element of a tensor of which no op says more."""
        return None


class ExpressionReader(ElementReader[Place, Expression[Place]]):
    """Reads elements as expressions of those of other tensors."""

    def leaf(self, value: ir.Value, places: tuple[Place, ...]) -> Expression[Place] | None:
        return Leaf(value, places)

    def argument(self, value: ir.Value) -> Expression[Place] | None:
        return Leaf(value, ())

    def index(self, place: Place | None) -> Expression[Place] | None:
        return None if place is None else Index(place)

    def step(
        self, value: ir.Value, op: ir.Operation, scope: Scope[Place, Expression[Place]]
    ) -> Expression[Place] | None:
        if op.parent is None or op.parent.operation.name != "linalg.generic":
            return Leaf(value, ())
        if not is_arithmetic(op) or len(op.results) != 1:
            return None
        inputs = self.inputs(op, scope)
        if None in inputs:
            return None
        attributes = ", ".join(f"{name} = {op.attributes[name]}" for name in op.attributes)
        text = f"{op.name} {attributes} {value.type}"
        return ScalarStep(op, text, tuple(inputs))  # type: ignore[arg-type]
