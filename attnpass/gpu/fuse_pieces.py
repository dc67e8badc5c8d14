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

from ..analysis.values import Indices, Linear
from ..ir import Builder, concat_dim, defining_op, element_type, ranked_shape, sizes_of
from ..ir.bodies import read_elementwise
from ..ir.views import view_of
from ..passes import OpPass
from .element_expressions import (
    Expression,
    PieceReader,
    PieceWriter,
    PlacedElement,
    ViewReader,
    reads_of,
)

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
    K of DeepSeek, a part of each head beside one that all share, it joins transposed.
    """

    name = "attn-fuse-pieces"
    summary = "NVIDIA GPUs: parts of a tensor are put together where they are made"
    ops = ("tensor.concat",)
    backends = ("cuda",)

    what = "fitted"
    # Of nested ones the last reads what the others put together.
    backwards = True

    def change(self, op: ir.Operation) -> str:
        return "its pieces are computed where they stand, in one loop" if _fuse(op) else ""


def _fuse(op: ir.Operation) -> bool:
    """Gives the users of a concat a loop that makes the same; whether it is one of two forms:

    1. Its pieces are computed from parts of one tensor, concats of such parts among them.
    2. They are stored, and put side by side in rows.
    """
    blocks = _equal_blocks(op, _inner_widths(op), _MOST_BLOCKS)
    if blocks is not None and _make_loop(op, blocks, PieceReader, _are_parts):
        return True
    blocks = _equal_blocks(op, (), _MOST_TENSORS)
    return blocks is not None and _make_loop(op, blocks, ViewReader, _are_side_by_side)


def _make_loop(
    op: ir.Operation,
    blocks: _EqualBlocks,
    reader_of: type[PieceReader],
    fits: Callable[[Sequence[Expression], ir.Operation], bool],
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
        return _chosen([writer.value(one, inner) for one in made], blocks.dim, inner)

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


def _are_parts(made: Sequence[Expression], op: ir.Operation) -> bool:
    """Whether all blocks read one tensor that is no smaller than half the result."""
    least = _elements(op.results[0]) // 2
    large = [
        {read.tensor for read in reads_of(one) if _elements(read.tensor) >= least} for one in made
    ]
    return bool(set.intersection(*large))


def _are_side_by_side(made: Sequence[Expression], op: ir.Operation) -> bool:
    """Whether a concat makes rows of what is read from several tensors, as K of DeepSeek has a
    part of each head and one that all heads share: IREE transposes all, joins and turns back."""
    *outer, _ = ranked_shape(op.results[0])
    is_last = concat_dim(op) == len(outer)
    stored = all(isinstance(one, PlacedElement) for one in made)
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

    def split(self, sizes: Sequence[Any]) -> list[Any]:
        """How long the loops run, by the sizes of the dims."""
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
        """The loops of each dim."""
        loops = itertools.count()
        wide = self.width > 1
        return [[next(loops) for _ in range(1 + (wide and d == self.dim))] for d in range(rank)]


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
