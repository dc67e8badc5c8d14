"""Combines (output, max, sum) triples of partial attention.

The conventions are those of IREE's online_attention: scores are scaled by log2(e) so that
`exp2` is the exponential; a row's max is its largest scaled score; output and sum are
relative to that max. A chunk whose keys are all masked ends with the lowest max, output 0
and sum 0, and adds nothing to rows that see a key elsewhere. A row that sees no key at all
is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from iree.compiler import ir

from ..ir import Builder, element_type, maps, sizes_of
from ..ir.limits import LOWEST
from ..repair.fully_masked_rows import quotient_or_zero
from .parts import Operands, Triple

# The scalars of an elementwise op to the scalar that it yields.
Body = Callable[[Builder, Sequence[ir.Value]], ir.Value]


def finish_attention(
    operands: Operands, partial: Triple, state: Triple | None, build: Builder
) -> ir.Value:
    """sum of outputs / sum of sums, each relative to the max of all, in the op's type."""
    largest = _largest(operands, partial, state, build)
    output, total = _weighted_sums(operands, partial, largest, build)
    dims, rows = operands.result_dims("output"), operands.result_dims("max")
    kind = element_type(operands.facts.value("output"))
    init = build.empty(sizes_of(output), kind)
    if state is None:
        return _elementwise(
            dims,
            [(dims, output), (dims, total)],
            init,
            lambda inner, x: quotient_or_zero(inner, *x[:2]),
            build,
        )

    def body(inner: Builder, x: Sequence[ir.Value]) -> ir.Value:
        weight = _weight(inner, x[4], x[5])
        above = _multiply_add(inner, x[2], weight, x[0])
        below = _multiply_add(inner, x[3], weight, x[1])
        return quotient_or_zero(inner, above, below)

    inputs = [(dims, output), (dims, total), (dims, state[0])]
    inputs += [(rows, state[2]), (rows, state[1]), (rows, largest)]
    return _elementwise(dims, inputs, init, body, build)


def finish_online(
    operands: Operands, partial: Triple, state: Triple, build: Builder
) -> list[ir.Value]:
    """The (output, max, sum) that online_attention would have, relative to the new max."""
    largest = _largest(operands, partial, state, build)
    output = _weighted_sum(operands, "output", partial, largest, build)
    total = _weighted_sum(operands, "sum", partial, largest, build)
    rows = operands.result_dims("max")

    def body(inner: Builder, x: Sequence[ir.Value]) -> ir.Value:
        return _multiply_add(inner, x[1], _weight(inner, x[2], x[3]), x[0])

    results = []
    for name, new, old in (("output", output, state[0]), ("sum", total, state[2])):
        dims = operands.result_dims(name)
        inputs = [(dims, new), (dims, old), (rows, state[1]), (rows, largest)]
        init = build.empty(sizes_of(new), element_type(new))
        results.append(_elementwise(dims, inputs, init, body, build))
    return [results[0], largest, results[1]]


def merge(operands: Operands, tail: Triple, given: Triple, build: Builder) -> Triple:
    """Two triples of the same shape as one."""
    rows = operands.result_dims("max")

    def weighted(inner: Builder, x: Sequence[ir.Value]) -> ir.Value:
        first = inner.mulf(x[0], _weight(inner, x[1], x[4]))
        return _multiply_add(inner, x[2], _weight(inner, x[3], x[4]), first)

    like = build.empty(sizes_of(tail[1]), element_type(tail[1]))
    largest = _elementwise(rows, [(rows, tail[1]), (rows, given[1])], like, _larger, build)
    both = []
    for number, name in ((0, "output"), (2, "sum")):
        dims = operands.result_dims(name)
        inputs = [(dims, tail[number]), (rows, tail[1])]
        inputs += [(dims, given[number]), (rows, given[1]), (rows, largest)]
        init = build.empty(sizes_of(tail[number]), element_type(tail[number]))
        both.append(_elementwise(dims, inputs, init, weighted, build))
    return both[0], largest, both[1]


def _largest(operands: Operands, partial: Triple, state: Triple | None, build: Builder) -> ir.Value:
    """The max of each row over all chunks and the state."""
    rows = operands.result_dims("max")
    f32 = element_type(partial[1])
    sizes = operands.result_sizes("max", build)
    start = build.fill(build.constant_float(LOWEST, f32), build.empty(sizes, f32))
    loops = _loops(rows)
    positions = [_loops_of(loops, operands.with_split(rows)), _loops_of(loops, rows)]
    largest = build.generic([partial[1]], [start], positions, lambda b, x: [_larger(b, x)])[0]
    if state is None:
        return largest
    inputs = [(rows, largest), (rows, state[1])]
    return _elementwise(rows, inputs, build.empty(sizes, f32), _larger, build)


def _weighted_sums(
    operands: Operands, partial: Triple, largest: ir.Value, build: Builder
) -> tuple[ir.Value, ir.Value]:
    """Outputs and sums of all chunks in one reduction; the sum is repeated along n, which
    costs less than a dispatch of its own."""
    dims, rows = operands.result_dims("output"), operands.result_dims("max")
    zeros = _zeros(operands, "output", build)

    def body(inner: Builder, x: Sequence[ir.Value]) -> list[ir.Value]:
        weight = _weight(inner, x[1], x[3])
        return [_multiply_add(inner, x[0], weight, x[4]), _multiply_add(inner, x[2], weight, x[5])]

    loops = _loops(dims)
    split_rows = _loops_of(loops, operands.with_split(rows))
    positions = [
        _loops_of(loops, operands.with_split(dims)),
        split_rows,
        split_rows,
        _loops_of(loops, rows),
        _loops_of(loops, dims),
        _loops_of(loops, dims),
    ]
    output, total = build.generic([*partial, largest], [zeros, zeros], positions, body)
    return output, total


def _weighted_sum(
    operands: Operands, name: str, partial: Triple, largest: ir.Value, build: Builder
) -> ir.Value:
    """Outputs, or sums, of all chunks relative to the largest max, added up."""
    dims, rows = operands.result_dims(name), operands.result_dims("max")
    max_dims = rows

    def body(inner: Builder, x: Sequence[ir.Value]) -> list[ir.Value]:
        return [_multiply_add(inner, x[0], _weight(inner, x[1], x[2]), x[3])]

    loops = _loops(dims)
    positions = [
        _loops_of(loops, operands.with_split(dims)),
        _loops_of(loops, operands.with_split(max_dims)),
        _loops_of(loops, max_dims),
        _loops_of(loops, dims),
    ]
    value = partial[0] if name == "output" else partial[2]
    zeros = _zeros(operands, name, build)
    return build.generic([value, partial[1], largest], [zeros], positions, body)[0]


def _zeros(operands: Operands, name: str, build: Builder) -> ir.Value:
    f32 = ir.F32Type.get(build.anchor.context)
    empty = build.empty(operands.result_sizes(name, build), f32)
    return build.fill(build.constant_float(0.0, f32), empty)


def _loops(dims: Sequence[int]) -> dict[int | None, int]:
    """Loop numbers of a combine over `dims`; the split is the innermost loop."""
    loops: dict[int | None, int] = {dim: loop for loop, dim in enumerate(dims)}
    return {**loops, None: len(dims)}


def _loops_of(loops: dict[int | None, int], dims: Sequence[int | None]) -> maps.Positions:
    return tuple(loops[dim] for dim in dims)


def _elementwise(
    dims: Sequence[int],
    inputs: Sequence[tuple[Sequence[int], ir.Value]],
    init: ir.Value,
    body: Body,
    build: Builder,
) -> ir.Value:
    """An elementwise op over `dims`; inputs are (their dims, value); casts to init's type."""
    loops = _loops(dims)
    positions = [_loops_of(loops, of) for of, _ in inputs]
    kind = element_type(init)

    def scalar(inner: Builder, x: Sequence[ir.Value]) -> list[ir.Value]:
        return [inner.cast_float(body(inner, x), kind)]

    values = [value for _, value in inputs]
    return build.generic(values, [init], [*positions, _loops_of(loops, dims)], scalar)[0]


def _larger(build: Builder, x: Sequence[ir.Value]) -> ir.Value:
    return build.create("arith.maximumf", [x[0].type], x[:2]).results[0]


def _weight(build: Builder, maximum: ir.Value, largest: ir.Value) -> ir.Value:
    """exp2(max - largest): what a partial result counts relative to the largest max."""
    difference = build.subf(maximum, largest)
    return build.apply("math.exp2", difference)


def _multiply_add(build: Builder, value: ir.Value, weight: ir.Value, total: ir.Value) -> ir.Value:
    product = build.mulf(value, weight)
    return build.addf(product, total)
