"""attn-fuse-pieces: what is put together from parts of one tensor is made in one loop.

    concat(-x[.., 64:], x[.., :64]) * sin        a result of 128 is two blocks of 64, and
    out[.., block, i] = block == 0 ? -x[.., 1, i] * .. : x[.., 0, i] * ..

A concat's dim becomes (block, place in it). What stands in each block is read as an expression of
elements of other tensors (gpu/element_expressions.py); the loop computes all of them, and chooses
by the block's number.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from iree.compiler import ir

from ..analysis.values import Linear
from ..ir import (
    Builder,
    concat_dim,
    defining_op,
    element_type,
    has_one_use,
    is_elementwise,
    is_ranked_tensor,
    ranked_shape,
    sizes_of,
    users,
)
from ..ir.bodies import read_elementwise
from ..ir.expressions import Leaf
from ..ir.views import view_of
from ..passes import OpPass
from .element_expressions import PieceReader, PieceWriter, ViewReader, Written, reads_of

# As many values are made for each element, of which one is kept.
_MOST_BLOCKS = 8
# Of what stands side by side each is a read of memory.
_MOST_TENSORS = 4
# Pieces are looked for in what so many ops make.
_DEEPEST = 12


class FusePieces(OpPass):
    """Makes a `tensor.concat` of pieces that are computed from one tensor, or that several hold
    for its rows, a loop that computes each element where it stands, for CUDA.

    Rotary embedding cuts heads into halves or pairs and puts what it makes of them together. IREE
    3.13 does that in one kernel where the pieces are the negated second half and the first one;
    each other form takes it up to eight: pieces are copied out, computed, written one by one.
    K of DeepSeek, a part of each head beside one that all share, it joins transposed. Weights of 4
    bits, two in a byte, it takes out in one kernel, a byte at a time, and scales in another.
    """

    name = "attn-fuse-pieces"
    summary = "NVIDIA GPUs: parts of a tensor are put together where they are made"
    why = "IREE copies parts of heads out and back in"
    backends = ("cuda",)

    what = "fitted"
    # Of nested ones the last reads what the others put together.
    backwards = True

    def wanted(self, op: ir.Operation) -> bool:
        return op.name == "tensor.concat" or is_elementwise(op)

    def change(self, op: ir.Operation) -> str:
        return "its pieces are computed where they stand, in one loop" if _fuse(op) else ""


def _fuse(op: ir.Operation) -> bool:
    """Gives the users of a concat a loop that makes the same; whether it is one of three forms:

    1. Its pieces are computed from parts of one tensor, concats of such parts among them.
    2. They are stored, and put side by side in rows.
    3. They are single elements in turn of what lies side by side, and op is the last of the
       elementwise ops behind it.
    """
    if op.name != "tensor.concat":
        blocks = _turns(op)
        return blocks is not None and _make_loop(op, blocks, PieceReader, _are_neighbours)
    blocks = _equal_blocks(op, _inner_widths(op), _MOST_BLOCKS)
    if blocks is not None and _make_loop(op, blocks, PieceReader, _are_parts):
        return True
    blocks = _equal_blocks(op, (), _MOST_TENSORS)
    return blocks is not None and _make_loop(op, blocks, ViewReader, _are_side_by_side)


def _make_loop(
    op: ir.Operation,
    blocks: _EqualBlocks | _Turns,
    reader_of: type[PieceReader],
    fits: Callable[[Sequence[Written], ir.Operation], bool],
) -> bool:
    """Makes the loop if a reader sees what stands in each block, and that fits."""
    value = op.results[0]
    rank = len(ranked_shape(value))
    reader = reader_of(blocks.split(ranked_shape(value)))
    found = [reader.element(value, blocks.places(block, rank)) for block in range(blocks.count)]
    made = [one for one in found if one is not None]
    if len(made) < len(found) or not fits(made, op):
        return False
    build = Builder(op)
    writer = PieceWriter(build, made, reader.loops)

    def body(inner: Builder, _: Sequence[ir.Value]) -> ir.Value:
        return _chosen([writer.value(one, inner) for one in made], blocks.loop, inner)

    whole = build.computed(blocks.split(sizes_of(value)), element_type(value), body)
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


def _are_parts(made: Sequence[Written], op: ir.Operation) -> bool:
    """Whether all blocks read one tensor that is no smaller than half the result."""
    least = _elements(op.results[0]) // 2
    large = [
        {read.value for read in reads_of(one) if _elements(read.value) >= least} for one in made
    ]
    return bool(set.intersection(*large))


def _are_neighbours(made: Sequence[Written], op: ir.Operation) -> bool:
    """Whether what is read for pieces in turn lies side by side: of pairs, as those of a rotary
    embedding, it would be read one by one."""
    loop = len(ranked_shape(op.results[0])) - 1
    reads = [read for one in made for read in reads_of(one)]
    return all(place.factor_of(loop) in (0, 1) for read in reads for place in read.places)


def _are_side_by_side(made: Sequence[Written], op: ir.Operation) -> bool:
    """Whether a concat makes rows of what is read from several tensors, as K of DeepSeek has a
    part of each head and one that all heads share: IREE transposes all, joins and turns back."""
    *outer, _ = ranked_shape(op.results[0])
    is_last = concat_dim(op) == len(outer)
    stored = all(isinstance(one, Leaf) for one in made)
    return is_last and stored and any(size != 1 for size in outer)


def _elements(value: ir.Value) -> int:
    """How many elements a tensor has along dims of known size."""
    return math.prod(size or 1 for size in ranked_shape(value))


@dataclass(frozen=True)
class _EqualBlocks:
    """The result of a concat with its dim `dim` as `count` blocks of `width`.

    Loops over that run along all dims, the block's number in front of the place in it, which is no
    loop where the width is one.
    """

    dim: int
    count: int
    width: int

    @property
    def loop(self) -> int:
        """The loop over blocks."""
        return self.dim

    def split(self, sizes: Sequence[Any]) -> list[Any]:
        """How long the loops run, by the sizes of the dims."""
        inner = [self.width] if self.width > 1 else []
        return [*sizes[: self.dim], self.count, *inner, *sizes[self.dim + 1 :]]

    def places(self, block: int, rank: int) -> tuple[Linear, ...]:
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
        """The loops of each dim."""
        loops = itertools.count()
        wide = self.width > 1
        return [[next(loops) for _ in range(1 + (wide and d == self.dim))] for d in range(rank)]


@dataclass(frozen=True)
class _Turns:
    """The last dim, `dim`, of a tensor as elements of `count` pieces in turn: loops over that run
    along all dims, the piece's number behind the place in it."""

    dim: int
    count: int

    @property
    def loop(self) -> int:
        return self.dim + 1

    def split(self, sizes: Sequence[Any]) -> list[Any]:
        return [*sizes[: self.dim], sizes[self.dim] // self.count, self.count]

    def places(self, block: int, rank: int) -> tuple[Linear, ...]:
        outer = [Linear(0, ((loop, 1),)) for loop in range(rank - 1)]
        return (*outer, Linear(block, ((self.dim, self.count),)))

    def groups(self, rank: int) -> list[list[int]]:
        return [*([loop] for loop in range(rank - 1)), [rank - 1, rank]]


def _turns(op: ir.Operation) -> _Turns | None:
    """The pieces, single elements, of a concat of which elementwise ops and views make what an
    elementwise op does, the last of them; None for any other op."""
    value = op.results[0]
    concat, size = _concat_above(op), (ranked_shape(value) or (None,))[-1]
    if concat is None or size is None or any(map(_is_behind, users(value))):
        return None
    count = len(concat.operands)
    shapes = {ranked_shape(piece)[-1] for piece in concat.operands}
    if concat_dim(concat) != len(ranked_shape(concat.results[0])) - 1 or shapes != {1}:
        return None
    fits = count <= _MOST_BLOCKS and size % count == 0
    return _Turns(len(ranked_shape(value)) - 1, count) if fits else None


def _concat_above(op: ir.Operation, depth: int = _DEEPEST) -> ir.Operation | None:
    """The concat that an elementwise op or view computes of, each op on the way for the next
    alone."""
    for value in op.operands:
        above = defining_op(value) if is_ranked_tensor(value) else None
        if above is None or not depth or not has_one_use(value):
            continue
        if above.name == "tensor.concat":
            return above
        found = _concat_above(above, depth - 1) if view_of(above) or is_elementwise(above) else None
        if found is not None:
            return found
    return None


def _is_behind(op: ir.Operation) -> bool:
    """Whether an op, or those behind views of it, is elementwise."""
    if is_elementwise(op):
        return True
    return view_of(op) is not None and any(map(_is_behind, users(op.results[0])))


def _equal_blocks(op: ir.Operation, inner: Iterable[int], most: int) -> _EqualBlocks | None:
    """The largest blocks of equal size that no piece ends within, nor one of the `inner` widths;
    None for more than `most` of them, and for pieces of no or of unknown width."""
    dim = concat_dim(op)
    widths = [ranked_shape(piece)[dim] or 0 for piece in op.operands]
    if not all(widths):
        return None
    width = math.gcd(*widths, *inner)
    count = sum(widths) // width
    return _EqualBlocks(dim, count, width) if 1 < count <= most else None


def _inner_widths(op: ir.Operation, depth: int = _DEEPEST) -> Iterator[int]:
    """The sizes of the pieces of what the pieces of a concat are computed from."""
    for value in op.operands:
        inner = defining_op(value)
        if inner is None or not depth:
            continue
        if inner.name == "tensor.concat":
            dim = concat_dim(inner)
            yield from (ranked_shape(piece)[dim] or 1 for piece in inner.operands)
        if inner.name == "tensor.concat" or view_of(inner) or read_elementwise(inner):
            yield from _inner_widths(inner, depth - 1)
