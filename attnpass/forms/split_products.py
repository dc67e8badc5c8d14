"""attn-split-products: products with weights of several experts read them as they lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iree.compiler import ir

from ..ir import (
    Builder,
    Size,
    copy_generic,
    defining_op,
    element_type,
    erase_unused,
    filled_with,
    has_one_use,
    index_ops,
    is_float,
    maps,
    ranked_shape,
    sizes_of,
    users,
)
from ..ir.bodies import read_elementwise, takes_by_index
from ..ir.contractions import ContractionFacts, read_contraction
from ..ir.views import REORDERS, RESHAPES
from ..layout.axes import Axes, Dims, source_below
from ..passes import OpPass


class SplitProducts(OpPass):
    """Gives a product whose columns are several dims, joined behind a transpose of its weights, a
    loop for each of these, so that it reads the weights in front of the transpose.

    `einsum("td,edh->teh", tokens, weights)` multiplies with the weights of all experts. Importers
    make one product of it, with weights of (d, e * h): IREE 3.13 transposes them at each call. Of
    weights that are taken by index, `einsum("td,tkdh->tkh", tokens, weights[experts])`, it makes
    a copy where dims are joined behind; so these are split, too, in whatever order they are.
    """

    name = "attn-split-products"
    summary = "experts' weights are read as they lie"
    why = "IREE transposes the weights of experts at each call"
    what = "fitted"
    kind = "product"

    def wanted(self, op: ir.Operation) -> bool:
        return op.name.startswith("linalg.") and len(op.operands) == 3 and len(op.results) == 1

    def change(self, op: ir.Operation) -> str:
        facts = read_contraction(op)
        if facts is None or not all(is_float(element_type(value)) for value in op.operands):
            return ""
        for number in (1, 0):
            split = _split(facts, number)
            if split is not None:
                _rewrite(facts, number, split)
                return "reads its weights in front of their transpose, one loop a joined dim"
        joined = [number for number in (1, 0) if _join_below(op, number)]
        return "joins dims in front of a transpose, where they lie side by side" if joined else ""


def _join_below(op: ir.Operation, number: int) -> bool:
    """Has a product read operand `number`, which joins dims behind a transpose, as a transpose of
    joined dims; returns whether these lie side by side in front of it."""
    operand = op.operands[number]
    if not _joins_transposed(operand):
        return False
    axes, sizes = Axes(), sizes_of(operand)
    own = [axes.new(size) for size in sizes]
    value, dims = source_below(operand, tuple(own), axes, REORDERS)
    now = [axes.now(axis) for axis in own]
    places = [axis for dim in dims for axis in dim]
    if not all(maps.are_neighbours(places, axis) for axis in now if axis):
        return False
    order = sorted(range(len(own)), key=lambda dim: places.index(now[dim][0]) if now[dim] else -1)
    build = Builder(op)
    flat = build.split_dims(value, [[axes.size(axis) for axis in dim] for dim in dims])
    whole = build.join_dims(flat, [len(now[dim]) for dim in order], [sizes[dim] for dim in order])
    op.operands[number] = build.transpose(whole, maps.inverse(order))
    return True


def _joins_transposed(value: ir.Value) -> bool:
    """Whether dims are joined behind a transpose."""
    joins = False
    while (below := defining_op(value)) is not None and below.name in REORDERS:
        if joins and below.name == "linalg.transpose":
            return True
        joins = joins or below.name == "tensor.collapse_shape"
        value = below.operands[0]
    return False


@dataclass(frozen=True)
class _Split:
    """The weights below a transpose; the axes of their dims, and of each loop of the product."""

    weights: ir.Value
    dims: Dims
    loops: tuple[tuple[int, ...], ...]
    axes: Axes


def _split(facts: ContractionFacts, number: int) -> _Split | None:
    """What operand `number` is a transpose of, dims of which are joined to columns in another
    order than they lie, or any, if they are taken by index."""
    axes = Axes()
    own, others = (facts.left, facts.right)[:: 1 if number == 0 else -1]
    if None in own or None in facts.result:
        return None
    columns = [loop for loop in facts.kept if loop not in others]
    loops = [axes.new(size) for size in facts.sizes]
    dims = tuple(loops[loop or 0] for loop in own)
    value, dims = source_below(facts.op.operands[number], dims, axes)
    now = tuple(map(axes.now, loops))
    cut = [loop for loop, parts in enumerate(now) if len(parts) > 1]
    places = [axis for dim in axes.dims(dims) for axis in dim]
    by_index = takes_by_index(defining_op(value))
    may_be_cut = facts.kept if by_index else columns
    if not cut or any(loop not in may_be_cut for loop in cut) or len(places) != len({*places}):
        return None
    if not by_index and all(maps.are_neighbours(places, now[loop]) for loop in cut):
        return None
    return _Split(value, axes.dims(dims), now, axes)


def _rewrite(facts: ContractionFacts, number: int, split: _Split) -> None:
    op, build, axes = facts.op, Builder(facts.op), split.axes
    order = [axis for loop in (*facts.kept, *facts.k) for axis in split.loops[loop]]
    numbers = {axis: place for place, axis in enumerate(order)}

    def read(value: ir.Value, dims: Dims) -> tuple[ir.Value, maps.Positions]:
        """An operand with a dim for each axis, and the loops of these."""
        sizes = [[axes.size(axis) for axis in dim] for dim in dims]
        flat = tuple(numbers[axis] for dim in dims for axis in dim)
        return build.split_dims(value, sizes), flat

    def of(loops: maps.Positions) -> Dims:
        return tuple(() if loop is None else split.loops[loop] for loop in loops)

    other = read(op.operands[1 - number], of((facts.left, facts.right)[1 - number]))
    weights = read(split.weights, split.dims)
    factors = [other, weights] if number == 1 else [weights, other]
    shape = [axes.size(axis) for dim in of(facts.result) for axis in dim]
    kind = element_type(op.results[0])
    scalar = filled_with(op.operands[2])
    if scalar is None:
        init, _ = read(op.operands[2], of(facts.result))
    else:
        init = build.fill(scalar, build.empty(shape, kind))

    def body(inner: Builder, scalars: Sequence[ir.Value]) -> Sequence[ir.Value]:
        one, two = (inner.cast_float(factor, kind) for factor in scalars[:2])
        return [inner.addf(scalars[2], inner.mulf(one, two))]

    values, reads = zip(*factors, strict=True)
    (made,) = build.generic(values, [init], [*reads, tuple(range(len(shape)))], body)
    behind = _steps_to(op.results[0], tuple(shape))
    if behind is None:
        counts = [len(dim) for dim in of(facts.result)]
        joined = build.join_dims(made, counts, sizes_of(op.results[0]))
        op.results[0].replace_all_uses_with(joined)
        return
    for step in behind:
        if step.name not in RESHAPES:
            made = _repeated_on(step, made)
    behind[-1].results[0].replace_all_uses_with(made)
    erase_unused(behind[::-1])


def _steps_to(value: ir.Value, sizes: tuple[Size, ...]) -> list[ir.Operation] | None:
    """The ops on each element, and reshapes, that alone read one another behind a value, up to a
    reshape to these sizes; None where there is none."""
    found: list[ir.Operation] = []
    while has_one_use(value):
        (reader,) = users(value)
        if reader.name not in RESHAPES and not _is_unary(reader):
            return None
        found.append(reader)
        value = reader.results[0]
        if reader.name in RESHAPES and sizes_of(value) == sizes:
            return found
    return None


def _is_unary(op: ir.Operation) -> bool:
    """Whether an op makes each element of its result of that of its only input."""
    made = read_elementwise(op)
    if made is None or len(op.operands) != 2 or index_ops(op):
        return False
    return all(read.dims == tuple(range(len(read.dims))) for read in made.reads)


def _repeated_on(step: ir.Operation, value: ir.Value) -> ir.Value:
    """What a unary op makes of a tensor of another shape."""
    build, rank = Builder(step), len(ranked_shape(value))
    init = build.empty(sizes_of(value), element_type(step.results[0]))
    reads = [(value, tuple(range(rank))), (init, tuple(range(rank)))]
    return copy_generic(step, reads, ["parallel"] * rank, build).results[0]
