"""Attention sinks that are written out: a score beside those of the keys, which has no value.

It takes its share of the softmax and gives nothing. As gpt-oss writes it, it is one more column of
the scores, whose weights are dropped again; others add its exponential to the sum of the keys', as
does a softmax with 1 beside its sum, whose sink is 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from iree.compiler import ir

from ..ir import defining_op, sizes_of
from .elements import Elements, Expression, Leaf, Number, Step, without_casts
from .scores import NotRaised


@dataclass(frozen=True)
class Sink:
    """A sink's score: `score` times `factor`, as the keys' are scaled and masked; it has axes of
    rows and of the batch only."""

    score: Expression
    factor: float


@dataclass(frozen=True)
class Part:
    """Weights that are those from number `first` on of `whole`, along axes `wide` instead of
    `keys`."""

    whole: Expression
    keys: tuple[int, ...]
    wide: tuple[int, ...]
    first: int


def find_part(elements: Elements, weights: Expression) -> Part | None:
    """What weights are a slice of, along one dim; None where they are none."""
    below = without_casts(weights)
    op = defining_op(below.value) if isinstance(below, Leaf) else None
    if op is None or not isinstance(below, Leaf) or op.name != "tensor.extract_slice":
        return None
    full, small = sizes_of(op.operands[0]), sizes_of(below.value)
    if len(full) != len(small) or any(stride != 1 for stride in op.attributes["static_strides"]):
        return None
    offsets = list(op.attributes["static_offsets"])
    cut = [dim for dim, size in enumerate(full) if size != small[dim]]
    if len(cut) != 1 or any(offset != 0 for dim, offset in enumerate(offsets) if dim != cut[0]):
        return None
    (dim,) = cut
    wide = elements.axes.new(full[dim])
    dims = tuple(wide if d == dim else axes for d, axes in enumerate(below.dims))
    whole = elements.element(op.operands[0], dims)
    return Part(whole, below.dims[dim], wide, offsets[dim])


def scores_beside(
    elements: Elements, exponent: Expression, part: Part
) -> tuple[Expression, Expression]:
    """(scores, sink) where an exponent is both side by side, shifted alike, and the weights that
    are kept are those of the scores."""
    wide = elements.axes.now(part.wide)
    inner, _ = unshifted(elements, exponent, frozenset(wide))
    joined = _pieces(inner.value) if isinstance(inner, Leaf) else None
    if joined is None or not isinstance(inner, Leaf):
        raise NotRaised("the product reads a part of a softmax that is not scores beside a sink")
    dim, pieces = joined
    if elements.axes.now(inner.dims[dim]) != wide:
        raise NotRaised("the scores and their sink do not stand side by side along the keys")
    found = [value for offset, value in pieces if offset == part.first]
    others = [value for offset, value in pieces if offset != part.first]
    if len(found) != 1 or len(others) != 1 or sizes_of(others[0])[dim] != 1:
        raise NotRaised("the softmax has more than one sink beside the keys")
    kept = elements.axes.cut(part.keys, [sizes_of(found[0])[dim]])
    if kept is None:
        raise NotRaised("the weights that are kept are not those of the scores")

    def along(axes: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
        return tuple(axes if d == dim else own for d, own in enumerate(inner.dims))

    return elements.element(found[0], along(kept[0])), elements.element(others[0], along(()))


def _pieces(whole: ir.Value) -> tuple[int, list[tuple[int | None, ir.Value]]] | None:
    """(dim, pieces) where a tensor is pieces side by side along a dim; each is its offset there,
    None where that is computed at run time, and its value."""
    op = defining_op(whole)
    if op is not None and op.name == "tensor.concat":
        dim, offset = ir.IntegerAttr(op.attributes["dim"]).value, 0
        pieces: list[tuple[int | None, ir.Value]] = []
        for operand in op.operands:
            pieces.append((offset, operand))
            size = sizes_of(operand)[dim]
            offset = offset + size if isinstance(size, int) and offset is not None else None
        return dim, pieces
    return None if op is None or op.name != "tensor.insert_slice" else _inserted(op)


def _inserted(op: ir.Operation) -> tuple[int, list[tuple[int | None, ir.Value]]] | None:
    """`_pieces` of two pieces that are inserted into nothing."""
    full, pieces, dims = sizes_of(op.results[0]), list[tuple[int | None, ir.Value]](), set[int]()
    last: ir.Operation | None = op
    while last is not None and last.name == "tensor.insert_slice":
        sizes, offsets = sizes_of(last.operands[0]), list(last.attributes["static_offsets"])
        cut = [d for d, size in enumerate(sizes) if size != full[d]]
        if len(sizes) != len(full) or len(cut) != 1 or last.attributes["static_strides"][0] != 1:
            return None
        if any(offset != 0 for d, offset in enumerate(offsets) if d != cut[0]):
            return None
        dims.add(cut[0])
        pieces.append((offsets[cut[0]], last.operands[0]))
        last = defining_op(last.operands[1])
    if last is None or last.name != "tensor.empty" or len(dims) != 1 or len(pieces) != 2:
        return None
    (dim,) = dims
    pieces.sort(key=lambda piece: piece[0] or 0)
    first, second = (sizes_of(value)[dim] for _, value in pieces)
    if not isinstance(first, int) or not isinstance(second, int) or first + second != full[dim]:
        return None
    return (dim, pieces) if [offset for offset, _ in pieces] == [0, first] else None


def sink_in_sum(
    elements: Elements, exponent: Expression, beside: Expression, name: str, keys: frozenset[int]
) -> tuple[Expression, Expression]:
    """(scores, sink) where the sum of the powers `name` of an exponent has `beside` added, which
    is the power of a sink that is shifted as the scores are."""
    beside = without_casts(beside)
    scores, shifts = unshifted(elements, exponent, keys)
    if isinstance(beside, Number) and beside.number > 0 and not shifts:
        logarithm = math.log if name == "math.exp" else math.log2
        return scores, Number(logarithm(beside.number), beside.value)
    if not isinstance(beside, Step) or beside.name != name:
        raise NotRaised("what is added to the sum of the exponentials is no sink's, shifted alike")
    sink = without_casts(beside.inputs[0])
    if isinstance(sink, Step) and sink.name == "arith.negf":
        sunk = sink.inputs[0]
        zero: Expression = Number(0.0, sink.op.results[0])
        if len(shifts) == 1 and elements.same(sunk, shifts[0]):
            return scores, zero
    while shifts and isinstance(sink, Step) and sink.name == "arith.subf":
        alike = [shift for shift in shifts if elements.same(shift, sink.inputs[1])]
        if not alike:
            break
        shifts.remove(alike[0])
        sink = without_casts(sink.inputs[0])
    if shifts:
        raise NotRaised("what is added to the sum of the exponentials is no sink's, shifted alike")
    return scores, sink


def unshifted(
    elements: Elements, exponent: Expression, keys: frozenset[int]
) -> tuple[Expression, list[Expression]]:
    """(x, shifts) where an exponent is x minus the shifts, which are the same for all keys."""
    shifts: list[Expression] = []
    keys = frozenset(elements.axes.now(sorted(keys)))
    while isinstance(inner := without_casts(exponent), Step) and inner.name == "arith.subf":
        if elements.axes_of(inner.inputs[1]) & keys:
            break
        shifts.append(inner.inputs[1])
        exponent = inner.inputs[0]
    return without_casts(exponent), shifts
