"""Elements of tensors as expressions of elements of others: read from IR, written in a loop.

`PieceReader` asks what stands at a place, which is linear in the loops of a new op, and goes up
through views, concats and elementwise ops. `PieceWriter` writes what it found in the op's body.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from iree.compiler import ir

from ..analysis.trace import pieces_at, places_below
from ..analysis.values import Linear
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
from ..ir.bodies import read_elementwise
from ..ir.expressions import Expression, ExpressionReader, Leaf, ScalarStep, leaves_of
from ..ir.views import WHOLE, View, below_views, view_of

Written = Expression[Linear]

# What a body may have that is computed again for each block: an angle's sine has a hundred.
_MOST_OPS = 24


def reads_of(made: Written) -> Iterator[Leaf[Linear]]:
    """The elements of tensors that an expression is made of."""
    return (leaf for leaf in leaves_of(made) if is_ranked_tensor(leaf.value))


class PieceReader(ExpressionReader[Linear]):
    """Reads an element of a tensor as scalars made of elements of other tensors."""

    single = Linear(0)

    def __init__(self, sizes: Sequence[int | None]):
        super().__init__()
        self.loops = dict(enumerate(sizes))

    def made(self, op: ir.Operation, value: ir.Value, places: tuple[Linear, ...]) -> Written | None:
        if op.name == "tensor.concat":
            return self._piece(op, places)
        return super().made(op, value, places) if view_of(op) or _is_cheap(op) else None

    def below(self, view: View, places: tuple[Linear, ...]) -> tuple[Linear, ...] | None:
        found = places_below(view, places)
        return None if None in found else found  # type: ignore[return-value]

    def _piece(self, op: ir.Operation, places: tuple[Linear, ...]) -> Written | None:
        dim = concat_dim(op)
        found = pieces_at(op, places[dim], self.loops)
        if found is None or len(found) != 1:
            return None
        ((start, _, piece),) = found
        at = places[dim].plus(Linear(-start))
        return self.element(piece, (*places[:dim], at, *places[dim + 1 :]))

    def constant(self, op: ir.Operation) -> Written | None:
        return Leaf(op.results[0], ()) if op.name == "arith.constant" else None


class ViewReader(PieceReader):
    """Reads an element of a concat of pieces where it is stored: below views, and nothing else."""

    def made(self, op: ir.Operation, value: ir.Value, places: tuple[Linear, ...]) -> Written | None:
        # The concat comes first.
        return super().made(op, value, places) if self._depth == 1 or view_of(op) else None


def _is_cheap(op: ir.Operation) -> bool:
    """Whether an elementwise op may be computed again: it does little, and nothing that it reads
    is a sum, behind which it is computed in the same kernel."""
    has_body = op.name == "linalg.generic"
    names = body_names(op) if has_body else [op.name]
    if any(not name.startswith(("arith.", "linalg.yield")) for name in names):
        return False
    if len(names) > _MOST_OPS or (has_body and index_ops(op)):
        return False
    return not any(_is_sum(operand) for operand in op.operands if is_ranked_tensor(operand))


def _is_sum(value: ir.Value) -> bool:
    op = defining_op(below_views(value, WHOLE))
    if op is None or not op.name.startswith(("linalg.", "iree_linalg_ext.")):
        return False
    return op.name != "linalg.fill" and read_elementwise(op) is None


class PieceWriter:
    """Writes expressions in a body; each once, with tensors cut so that loops are their indices."""

    def __init__(self, build: Builder, made: Sequence[Written], loops: Mapping[int, int | None]):
        self._cut = {read: _cut(read, loops, build) for one in made for read in reads_of(one)}
        self._known: dict[Written, ir.Value] = {}

    def value(self, made: Written, inner: Builder) -> ir.Value:
        """What `made` stands for, where `inner` writes."""
        if made not in self._known:
            self._known[made] = self._written(made, inner)
        return self._known[made]

    def _written(self, made: Written, inner: Builder) -> ir.Value:
        if isinstance(made, ScalarStep):
            return inner.copy(made.op, [self.value(one, inner) for one in made.inputs]).results[0]
        assert isinstance(made, Leaf), "of constants the reader makes leaves, and it reads no index"
        if not is_ranked_tensor(made.value):
            # It may stand in the body of an op that goes away.
            constant = defining_op(made.value, "arith.constant")
            return made.value if constant is None else inner.copy(constant).results[0]
        cut = self._cut[made]
        return inner.extract(cut.value, [_index(place, inner) for place in cut.places])


def _index(place: Linear, inner: Builder) -> ir.Value:
    """A place as an index: no more than a loop's and a number where that is all it is."""
    if not place.terms:
        return inner.constant_index(place.constant)
    total = None
    for number, (loop, factor) in enumerate(place.terms):
        addend = place.constant if number == 0 else total
        total = inner.multiply_add(inner.loop_index(loop), factor, addend)
    return total


def _cut(read: Leaf[Linear], loops: Mapping[int, int | None], build: Builder) -> Leaf[Linear]:
    """The same element of the tensor with each dim cut so that each loop is an index, where its
    places are digits of a number."""
    found = [
        _digits(place, size, loops) or [(size, place)]
        for place, size in zip(read.places, sizes_of(read.value), strict=True)
    ]
    dims = itertools.count()
    groups = [[next(dims) for _ in digits] for digits in found]
    flat = [digit for digits in found for digit in digits]
    tensor = build.expand(read.value, groups, [size for size, _ in flat])
    return Leaf(tensor, tuple(place for _, place in flat))


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
