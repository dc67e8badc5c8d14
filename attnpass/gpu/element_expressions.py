"""Elements of tensors as expressions of elements of others: read from IR, written in a loop.

`PieceReader` asks what stands at a place, which is linear in the loops of a new op, and goes up
through views, concats and elementwise ops. `PieceWriter` writes what it found in the op's body.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from iree.compiler import ir

from ..analysis.trace import pieces_at, places_below
from ..analysis.values import Indices, Linear
from ..ir import (
    Builder,
    Size,
    body_names,
    concat_dim,
    defining_op,
    index_ops,
    is_ranked_tensor,
    sizes_of,
)
from ..ir.bodies import ScalarReader, Scope, read_elementwise
from ..ir.views import WHOLE, below_views, view_of

# Elements are read through so many ops at the most.
_DEEPEST = 40


@dataclass(frozen=True)
class PlacedElement:
    """The element of a tensor at these places, linear in the loops of the new op."""

    tensor: ir.Value
    places: tuple[Linear, ...]


@dataclass(frozen=True)
class AppliedOp:
    """What an op on scalars makes of these."""

    op: ir.Operation
    inputs: tuple[Expression, ...]


@dataclass(frozen=True)
class Known:
    """A scalar that is there already: equal to no element and no op, which values are not asked."""

    value: ir.Value


Expression = PlacedElement | AppliedOp | Known


def reads_of(made: Expression) -> Iterator[PlacedElement]:
    """The elements of tensors that an expression is made of."""
    if isinstance(made, PlacedElement):
        yield made
    elif isinstance(made, AppliedOp):
        for one in made.inputs:
            yield from reads_of(one)


class PieceReader(ScalarReader["Linear", "Expression"]):
    """Reads an element of a tensor as scalars made of elements of other tensors."""

    def __init__(self, sizes: Sequence[int | None]):
        self.loops = dict(enumerate(sizes))
        self._depth = 0

    def element(self, value: ir.Value, places: Indices, /) -> Expression | None:
        op = defining_op(value)
        self._depth += 1
        try:
            found = None if op is None or self._depth > _DEEPEST else self._made(op, places)
        finally:
            self._depth -= 1
        known = tuple(place for place in places if place is not None)
        if found is not None or len(known) < len(places):
            return found
        return PlacedElement(value, known)

    def _made(self, op: ir.Operation, places: Indices) -> Expression | None:
        if op.name == "tensor.concat":
            return self._piece(op, places)
        view = view_of(op)
        if view is not None:
            below = places_below(view, places)
            return None if None in below else self.element(view.source, below)
        made = read_elementwise(op)
        if made is None or not _is_cheap(op):
            return None
        return self.scalar(made.scalar, Scope.at(made, places, Linear(0)))

    def _piece(self, op: ir.Operation, places: Indices) -> Expression | None:
        dim = concat_dim(op)
        place = places[dim]
        assert place is not None
        found = pieces_at(op, place, self.loops)
        if found is None or len(found) != 1:
            return None
        ((start, _, piece),) = found
        at = place.plus(Linear(-start))
        return self.element(piece, (*places[:dim], at, *places[dim + 1 :]))

    def argument(self, value: ir.Value) -> Expression | None:
        return Known(value)

    def constant(self, op: ir.Operation) -> Expression | None:
        return Known(op.results[0]) if op.name == "arith.constant" else None

    def index(self, place: Linear | None) -> Expression | None:
        return None

    def step(self, value: ir.Value, op: ir.Operation, scope: Scope) -> Expression | None:
        inputs = self.inputs(op, scope)
        known = tuple(one for one in inputs if one is not None)
        return AppliedOp(op, known) if len(known) == len(inputs) else None


class ViewReader(PieceReader):
    """Reads an element of a concat of pieces where it is stored: below views, and nothing else."""

    def _made(self, op: ir.Operation, places: Indices) -> Expression | None:
        if self._depth == 1 or view_of(op) is not None:
            return super()._made(op, places)
        return None


def _is_cheap(op: ir.Operation) -> bool:
    """Whether an elementwise op may be computed again: it does little, and nothing that it reads
    is a sum, behind which it is computed in the same kernel."""
    names = body_names(op)
    if any(not name.startswith(("arith.", "linalg.yield")) for name in names) or index_ops(op):
        return False
    return not any(_is_sum(operand) for operand in op.operands if is_ranked_tensor(operand))


def _is_sum(value: ir.Value) -> bool:
    op = defining_op(below_views(value, WHOLE))
    if op is None or not op.name.startswith(("linalg.", "iree_linalg_ext.")):
        return False
    return op.name != "linalg.fill" and read_elementwise(op) is None


class PieceWriter:
    """Writes expressions in a body; each once, with tensors cut so that loops are their indices."""

    def __init__(self, build: Builder, made: Sequence[Expression], loops: Mapping[int, int | None]):
        self._cut = {read: _cut(read, loops, build) for one in made for read in reads_of(one)}
        self._known: dict[Expression, ir.Value] = {}

    def value(self, made: Expression, inner: Builder) -> ir.Value:
        """What `made` stands for, where `inner` writes."""
        if isinstance(made, Known):
            return made.value
        if made not in self._known:
            if isinstance(made, PlacedElement):
                self._known[made] = self._read(made, inner)
            else:
                self._known[made] = self._step(made, inner)
        return self._known[made]

    def _read(self, made: PlacedElement, inner: Builder) -> ir.Value:
        cut = self._cut[made]
        return inner.extract(cut.tensor, [_index(place, inner) for place in cut.places])

    def _step(self, made: AppliedOp, inner: Builder) -> ir.Value:
        return inner.copy(made.op, [self.value(one, inner) for one in made.inputs]).results[0]


def _index(place: Linear, inner: Builder) -> ir.Value:
    """A place as an index: no more than a loop's and a number where that is all it is."""
    if not place.terms:
        return inner.constant_index(place.constant)
    total = None
    for number, (loop, factor) in enumerate(place.terms):
        addend = place.constant if number == 0 else total
        total = inner.multiply_add(inner.loop_index(loop), factor, addend)
    return total


def _cut(read: PlacedElement, loops: Mapping[int, int | None], build: Builder) -> PlacedElement:
    """The same element of the tensor with each dim cut so that each loop is an index, where its
    places are digits of a number."""
    found = [
        _digits(place, size, loops) or [(size, place)]
        for place, size in zip(read.places, sizes_of(read.tensor), strict=True)
    ]
    dims = itertools.count()
    groups = [[next(dims) for _ in digits] for digits in found]
    flat = [digit for digits in found for digit in digits]
    tensor = build.expand(read.tensor, groups, [size for size, _ in flat])
    return PlacedElement(tensor, tuple(place for _, place in flat))


def _digits(
    place: Linear, size: Size, loops: Mapping[int, int | None]
) -> list[tuple[Size, Linear]]:
    """The sizes of dims that a dim is cut into and the place in each; none where it is not cut."""
    terms = sorted(place.terms, key=lambda term: -term[1])
    factors = [factor for _, factor in terms]
    if max(factors, default=1) == 1 or min(factors) < 1 or not isinstance(size, int):
        return []
    steps = [*terms, *([] if factors[-1] == 1 else [(None, 1)])]
    found: list[tuple[Size, Linear]] = []
    rest = place.constant
    for loop, factor in steps:
        digit = Linear(rest // factor, () if loop is None else ((loop, 1),))
        part, left = divmod(size, factor)
        if left or digit.range(loops)[1] >= part:
            return []
        found.append((part, digit))
        size, rest = factor, rest % factor
    return found
