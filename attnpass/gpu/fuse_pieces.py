"""attn-fuse-pieces: what is put together from parts of one tensor is made in one loop."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from iree.compiler import ir

from ..analysis.trace import pieces_at, places_below
from ..analysis.values import Indices, Linear
from ..ir import (
    Builder,
    Size,
    body_names,
    defining_op,
    element_type,
    index_ops,
    is_ranked_tensor,
    ranked_shape,
    sizes_of,
)
from ..ir.bodies import ScalarReader, Scope, read_elementwise
from ..ir.views import WHOLE, below_views, view_of
from ..passes import OpPass
from ..report.words import What

# As many values are made for each element, of which one is kept.
_MOST_BLOCKS = 8
# Of what stands side by side each is a read of memory.
_MOST_TENSORS = 4
_DEEPEST = 40


@dataclass(frozen=True)
class FusePieces(OpPass):
    """Makes a `tensor.concat` of pieces that are computed from one tensor, or that several hold
    for its rows, a loop that computes each element where it stands, for CUDA.

    Rotary embedding cuts heads into halves or pairs and puts what it makes of them together. IREE
    3.13 does that in one kernel where the pieces are the negated second half and the first one;
    each other form takes it up to eight: pieces are copied out, computed, written one by one.
    K of DeepSeek, a part of each head beside one that all share, it joins transposed.
    """

    name: ClassVar[str] = "attn-fuse-pieces"
    summary: ClassVar[str] = "NVIDIA GPUs: parts of a tensor are put together where they are made"
    backends: ClassVar[tuple[str, ...]] = ("cuda",)

    what: ClassVar[What] = "fitted"
    # Of nested ones the last reads what the others put together.
    backwards: ClassVar[bool] = True

    def wanted(self, op: ir.Operation) -> bool:
        return op.name == "tensor.concat"

    def change(self, op: ir.Operation) -> str:
        return "its pieces are computed where they stand, in one loop" if _fuse(op) else ""


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


class _PieceReader(ScalarReader["Linear", "Expression"]):
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
        dim = ir.IntegerAttr(op.attributes["dim"]).value
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


class _ViewReader(_PieceReader):
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


@dataclass(frozen=True)
class _EqualBlocks:
    """A result of a concat with its dim `dim` as `count` blocks of `width`; `shape` are the sizes
    of the loops over that: all dims, the block's number in front of the place in it, which is no
    loop where the width is one."""

    dim: int
    count: int
    width: int

    def split(self, sizes: Sequence[Any]) -> list[Any]:
        inner = [self.width] if self.width > 1 else []
        return [*sizes[: self.dim], self.count, *inner, *sizes[self.dim + 1 :]]

    def places(self, block: int, rank: int) -> Indices:
        """Where an element of this block is, by the loops."""
        loops = iter(range(rank + 1))
        found = []
        for dim in range(rank):
            loop = next(loops)
            if dim != self.dim:
                found.append(Linear(0, ((loop, 1),)))
            else:
                inner = ((next(loops), 1),) if self.width > 1 else ()
                found.append(Linear(block * self.width, inner))
        return tuple(found)

    def groups(self, rank: int) -> list[list[int]]:
        loops = itertools.count()
        wide = self.width > 1
        return [[next(loops) for _ in range(1 + (wide and d == self.dim))] for d in range(rank)]


def _blocks(op: ir.Operation, inner: Iterable[int], most: int) -> _EqualBlocks | None:
    """The largest blocks of equal size that no piece ends within, nor one of the `inner` widths;
    None for too many of them."""
    dim = ir.IntegerAttr(op.attributes["dim"]).value
    widths = [ranked_shape(piece)[dim] for piece in op.operands]
    if None in widths or not all(widths):
        return None
    width = math.gcd(*widths, *inner)
    count = sum(widths) // width
    return _EqualBlocks(dim, count, width) if 1 < count <= most else None


def _inner_widths(op: ir.Operation, depth: int = 12) -> Iterator[int]:
    """The sizes of the pieces of what the pieces of a concat are computed from."""
    for value in op.operands:
        inner = defining_op(value)
        if inner is None or not depth:
            continue
        if inner.name == "tensor.concat":
            dim = ir.IntegerAttr(inner.attributes["dim"]).value
            yield from (ranked_shape(piece)[dim] or 1 for piece in inner.operands)
        if inner.name == "tensor.concat" or view_of(inner) or read_elementwise(inner):
            yield from _inner_widths(inner, depth - 1)


def _fuse(op: ir.Operation) -> bool:
    """Gives the users of a concat a loop that makes the same, if its pieces are parts of one
    tensor, or are put side by side in rows."""
    blocks = _blocks(op, _inner_widths(op), _MOST_BLOCKS)
    if blocks is not None and _write(op, blocks, _PieceReader, _are_parts):
        return True
    blocks = _blocks(op, (), _MOST_TENSORS)
    return blocks is not None and _write(op, blocks, _ViewReader, _are_side_by_side)


def _write(
    op: ir.Operation,
    blocks: _EqualBlocks,
    reader_of: type[_PieceReader],
    fits: Callable[[Sequence[Expression], ir.Operation], bool],
) -> bool:
    value = op.results[0]
    rank = len(ranked_shape(value))
    reader = reader_of(blocks.split(ranked_shape(value)))
    found = [reader.element(value, blocks.places(block, rank)) for block in range(blocks.count)]
    made = [one for one in found if one is not None]
    if len(made) < len(found) or not fits(made, op):
        return False
    build = Builder(op)
    writer = _PieceWriter(build, made, reader.loops)
    init = build.empty(blocks.split(sizes_of(value)), element_type(value))

    def body(inner: Builder, _: Sequence[ir.Value]) -> list[ir.Value]:
        values = [writer.value(one, inner) for one in made]
        return [_chosen(values, blocks.dim, inner)]

    everywhere = tuple(range(len(ranked_shape(init))))
    (whole,) = build.generic([], [init], [everywhere], body)
    value.replace_all_uses_with(build.collapse(whole, blocks.groups(rank)))
    return True


def _chosen(values: Sequence[ir.Value], loop: int, inner: Builder) -> ir.Value:
    """The value whose number is the index of this loop."""
    index = inner.loop_index(loop)
    *others, chosen = values
    for number, value in reversed([*enumerate(others)]):
        here = inner.compare("eq", index, inner.constant_index(number))
        chosen = inner.select(here, value, chosen)
    return chosen


def _are_parts(made: Sequence[Expression], op: ir.Operation) -> bool:
    """Whether all blocks read one tensor that is no smaller than half the result."""
    least = _elements(op.results[0]) // 2
    large = [
        {read.tensor for read in _reads(one) if _elements(read.tensor) >= least} for one in made
    ]
    return bool(set.intersection(*large))


def _are_side_by_side(made: Sequence[Expression], op: ir.Operation) -> bool:
    """Whether a concat makes rows of what is read from several tensors, as K of DeepSeek has a
    part of each head and one that all heads share: IREE transposes all, joins and turns back."""
    *outer, _ = ranked_shape(op.results[0])
    is_last = ir.IntegerAttr(op.attributes["dim"]).value == len(outer)
    stored = all(isinstance(one, PlacedElement) for one in made)
    return is_last and stored and any(size != 1 for size in outer)


def _elements(value: ir.Value) -> int:
    """How many elements a tensor has along dims of known size."""
    return math.prod(size or 1 for size in ranked_shape(value))


def _reads(made: Expression) -> Iterator[PlacedElement]:
    if isinstance(made, PlacedElement):
        yield made
    elif isinstance(made, AppliedOp):
        for one in made.inputs:
            yield from _reads(one)


class _PieceWriter:
    """Writes expressions in a body; each once, with tensors cut so that loops are their indices."""

    def __init__(self, build: Builder, made: Sequence[Expression], loops: Mapping[int, int | None]):
        self._cut = {read: _cut(read, loops, build) for one in made for read in _reads(one)}
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
