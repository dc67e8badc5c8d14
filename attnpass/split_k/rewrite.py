"""Writes a split attention: partial attention over chunks, a tail, and their combination.

The conventions are those of IREE's online_attention: the scores are scaled by log2(e) so
that `exp2` is the exponential; a row's max is the largest scaled score and starts at the
lowest finite f32; output and sum are relative to that max. A chunk whose keys are all
masked ends with the lowest max, output 0 and sum 0, and adds nothing to rows that see a
key elsewhere. A row that sees no key at all is 0/0 = NaN, as in the unsplit op.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iree.compiler import ir

from .. import maps
from ..attention import AttentionFacts
from ..ir import (
    Builder,
    DynamicSize,
    Size,
    copy_body,
    defining_op,
    element_type,
    erase,
    erase_dead,
    ranked_shape,
    sizes_of,
)
from .plan import SplitPlan
from .space import Space, normal_space

LOWEST = -3.4028234663852886e38

Triple = tuple[ir.Value, ir.Value, ir.Value]


@dataclass(frozen=True)
class Operands:
    """The attention's inputs in normal form, its result maps, and the chunking as sizes."""

    space: Space
    plan: SplitPlan
    values: dict[str, ir.Value]
    splits: Size
    chunk: Size
    covered: Size
    tail: Size

    @property
    def facts(self) -> AttentionFacts:
        return self.space.facts

    def result_dims(self, name: str) -> tuple[int, ...]:
        """Old dims of `output`, `max` or `sum`; `attention` itself has no max and sum."""
        if name in self.facts.result_names:
            return self.space.positions(name)
        rows = {*self.facts.batch, *self.facts.m}
        return tuple(dim for dim in self.space.kept if dim in rows)


def split(facts: AttentionFacts, plan: SplitPlan) -> None:
    """Replaces one attention by its split form; the old op is gone afterwards."""
    build = Builder(facts.op)
    operands = _operands(facts, plan, build)
    partial = _chunks(operands, build)
    state = _state(operands, build)
    if facts.kind == "attention":
        results = [_finish_attention(operands, partial, state, build)]
    else:
        assert state is not None
        results = _finish_online(operands, partial, state, build)
    for old, name, new in zip(facts.op.results, facts.result_names, results, strict=True):
        old.replace_all_uses_with(operands.space.restore(name, new, build))
    producers = [op for value in facts.op.operands if (op := defining_op(value)) is not None]
    erase(facts.op)
    erase_dead(producers)


def _operands(facts: AttentionFacts, plan: SplitPlan, build: Builder) -> Operands:
    space = normal_space(facts)
    inputs = [name for name in facts.operand_names if name not in facts.result_names]
    values = {
        name: facts.value(name) if name == "scale" else space.normal(name, build) for name in inputs
    }
    if plan.length is not None:
        assert plan.splits is not None and plan.chunk is not None
        covered = plan.splits * plan.chunk
        tail: Size = plan.length - covered
        return Operands(space, plan, values, plan.splits, plan.chunk, covered, tail)
    length = DynamicSize(build.size(space.size(plan.dim)))
    splits = build.size_op("divui", length, plan.chunk) if plan.chunk else plan.splits
    chunk = build.size_op("divui", length, plan.splits) if plan.splits else plan.chunk
    assert splits is not None and chunk is not None
    covered = build.size_op("muli", splits, chunk)
    tail = build.size_op("subi", length, covered)
    return Operands(space, plan, values, splits, chunk, covered, tail)


def _chunks(operands: Operands, build: Builder) -> Triple:
    """Partial attention: results have the split dim in front of their m and n dims."""
    plan = operands.plan
    whole = plan.is_exact and all(
        ranked_shape(value)[operands.space.positions(name).index(plan.dim)] == plan.length
        for name, value in operands.values.items()
        if name != "scale" and plan.dim in operands.space.positions(name)
    )
    results = [_result_sizes(operands, name, True, build) for name in ("output", "max", "sum")]

    def body(inner: Builder) -> Triple:
        fresh = _fresh(results, inner)
        return _attend(operands, 0 if not whole else None, operands.covered, fresh, inner)

    if whole:
        return body(build)
    return _triple(_region(results, body, build))


def _state(operands: Operands, build: Builder) -> Triple | None:
    """What the chunks are combined with: the tail's triple, what online_attention was
    given, or both; None where there is neither.

    The tail does not go on from what was given: IREE 3.13 tiles n and adds to the given sum
    once for each tile (wrong on llvm-cpu), unless it is a constant.
    """
    given = _given(operands, build)
    if operands.tail == 0:
        return given
    names = ("output", "max", "sum")
    results = [_result_sizes(operands, name, False, build) for name in names]

    def body(inner: Builder) -> Triple:
        return _attend(operands, operands.covered, operands.tail, _fresh(results, inner), inner)

    tail = _triple(_region(results, body, build))
    return tail if given is None else _merge(operands, tail, given, build)


def _merge(operands: Operands, tail: Triple, given: Triple, build: Builder) -> Triple:
    """Two triples of the same shape as one."""
    rows = operands.result_dims("max")

    def weighted(inner: Builder, x: Sequence[ir.Value]) -> ir.Value:
        first = inner.create("arith.mulf", [x[0].type], [x[0], _weight(inner, x[1], x[4])]).results[
            0
        ]
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


def _given(operands: Operands, build: Builder) -> Triple | None:
    if operands.facts.kind == "attention":
        return None
    names = operands.facts.result_names
    return _triple([operands.space.normal(name, build) for name in names])


def _region(results: Sequence[Sequence[Size]], body, build: Builder) -> list[ir.Value]:
    """One dispatch: IREE would otherwise copy the slices of K and V that it reads."""
    f32 = ir.F32Type.get(build.anchor.context)
    return build.dispatch_region([(sizes, f32) for sizes in results], body)


def _triple(values: Sequence[ir.Value]) -> Triple:
    output, maximum, total = values
    return output, maximum, total


def _result_sizes(operands: Operands, name: str, with_split: bool, build: Builder) -> list[Size]:
    """Sizes of a result, dynamic ones computed where `build` stands."""
    sizes: list[Size] = []
    for dim in _with_split(operands, operands.result_dims(name), with_split):
        size = operands.splits if dim is None else operands.space.size(dim)
        sizes.append(size if isinstance(size, int) else DynamicSize(build.size(size)))
    return sizes


def _with_split(
    operands: Operands, dims: Sequence[int], with_split: bool
) -> tuple[int | None, ...]:
    """`dims` with the split dim (None) before the first that is no batch dim."""
    if not with_split:
        return tuple(dims)
    batch = operands.facts.batch
    place = next((i for i, dim in enumerate(dims) if dim not in batch), len(dims))
    return (*dims[:place], None, *dims[place:])


def _fresh(results: Sequence[Sequence[Size]], build: Builder) -> Triple:
    """Output 0, max lowest, sum 0: a triple that has seen no key."""
    f32 = ir.F32Type.get(build.anchor.context)
    starts = (0.0, LOWEST, 0.0)
    return _triple(
        [
            build.fill(build.constant_float(start, f32), build.empty(sizes, f32))
            for start, sizes in zip(starts, results, strict=True)
        ]
    )


def _attend(
    operands: Operands, offset: Size | None, length: Size, start: Triple, build: Builder
) -> Triple:
    """online_attention over `length` keys from `offset` (None: all, unsliced) on.

    Offset 0 or None is the chunked part, whose keys are viewed as (splits, chunk).
    """
    space, plan = operands.space, operands.plan
    chunked = offset is None or offset == 0
    numbers: dict[int | None, int] = {**space.new_dims(chunked), None: space.split_number}
    values: list[ir.Value] = []
    new_maps: list[maps.Positions] = []
    for name, value in operands.values.items():
        dims: list[int | None] = [] if name == "scale" else list(space.positions(name))
        if plan.dim in dims:
            place = dims.index(plan.dim)
            if offset is not None:
                value = _slice(value, place, offset, length, build)
            if chunked:
                value = _view(value, place, operands, build)
                dims.insert(place, None)
        values.append(value)
        new_maps.append(tuple(numbers[dim] for dim in dims))
    if "mask" not in operands.values and _needs_mask(operands, chunked):
        values.append(_no_mask(operands.chunk if chunked else length, build))
        new_maps.append((numbers[plan.dim],))
    for name in ("output", "max", "sum"):
        dims = list(_with_split(operands, operands.result_dims(name), chunked))
        new_maps.append(tuple(numbers[dim] for dim in dims))
    return _online_attention(operands, values, start, new_maps, numbers, build)


def _needs_mask(operands: Operands, chunked: bool) -> bool:
    """Whether the number of keys is dynamic: IREE pads them on GPUs only under a mask."""
    return not isinstance(operands.chunk if chunked else operands.tail, int)


def _no_mask(length: Size, build: Builder) -> ir.Value:
    i1 = ir.IntegerType.get_signless(1, build.anchor.context)
    true = build.constant(ir.IntegerAttr.get(i1, 1), i1)
    return build.fill(true, build.empty([length], i1))


def _slice(value: ir.Value, dim: int, offset: Size, length: Size, build: Builder) -> ir.Value:
    sizes = list(sizes_of(value))
    offsets: list[Size] = [0] * len(sizes)
    sizes[dim], offsets[dim] = length, offset
    return build.extract_slice(value, offsets, sizes)


def _view(value: ir.Value, dim: int, operands: Operands, build: Builder) -> ir.Value:
    """Dim `dim`, which holds the covered keys, as (splits, chunk)."""
    pieces: list[list[Size]] = [[size] for size in sizes_of(value)]
    pieces[dim] = [operands.splits, operands.chunk]
    return build.split_dims(value, pieces)


def _online_attention(
    operands: Operands,
    values: Sequence[ir.Value],
    start: Triple,
    new_maps: Sequence[maps.Positions],
    numbers: dict[int | None, int],
    build: Builder,
) -> Triple:
    facts = operands.facts
    dims = 1 + max(numbers[dim] for dim in operands.space.kept)
    attributes: dict[str, ir.Attribute] = {
        "indexing_maps": maps.maps_attribute(dims, new_maps),
        # Says to later passes, this one too, what the op is.
        "split_k": ir.UnitAttr.get(build.anchor.context),
    }
    types = [value.type for value in start]
    op = build.create(
        "iree_linalg_ext.online_attention", types, [*values, *start], attributes, regions=1
    )
    source = facts.op.regions[0].blocks[0]
    block = op.regions[0].blocks.append(source.arguments[0].type, arg_locs=[build.location])
    index_dims = {dim: new for dim, new in numbers.items() if dim is not None}
    copy_body(source, block, [0], index_dims)
    return _triple(list(op.results))


def _finish_attention(
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
            lambda inner, x: inner.create("arith.divf", [x[0].type], x[:2]).results[0],
            build,
        )

    def body(inner: Builder, x: Sequence[ir.Value]) -> ir.Value:
        weight = _weight(inner, x[4], x[5])
        above = _multiply_add(inner, x[2], weight, x[0])
        below = _multiply_add(inner, x[3], weight, x[1])
        return inner.create("arith.divf", [above.type], [above, below]).results[0]

    inputs = [(dims, output), (dims, total), (dims, state[0])]
    inputs += [(rows, state[2]), (rows, state[1]), (rows, largest)]
    return _elementwise(dims, inputs, init, body, build)


def _finish_online(
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


def _largest(operands: Operands, partial: Triple, state: Triple | None, build: Builder) -> ir.Value:
    """The max of each row over all chunks and the state."""
    rows = operands.result_dims("max")
    f32 = element_type(partial[1])
    sizes = _result_sizes(operands, "max", False, build)
    start = build.fill(build.constant_float(LOWEST, f32), build.empty(sizes, f32))
    loops = _loops(rows)
    positions = [_through(loops, _with_split(operands, rows, True)), _through(loops, rows)]
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
    split_rows = _through(loops, _with_split(operands, rows, True))
    positions = [
        _through(loops, _with_split(operands, dims, True)),
        split_rows,
        split_rows,
        _through(loops, rows),
        _through(loops, dims),
        _through(loops, dims),
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
        _through(loops, _with_split(operands, dims, True)),
        _through(loops, _with_split(operands, max_dims, True)),
        _through(loops, max_dims),
        _through(loops, dims),
    ]
    value = partial[0] if name == "output" else partial[2]
    zeros = _zeros(operands, name, build)
    return build.generic([value, partial[1], largest], [zeros], positions, body)[0]


def _zeros(operands: Operands, name: str, build: Builder) -> ir.Value:
    f32 = ir.F32Type.get(build.anchor.context)
    empty = build.empty(_result_sizes(operands, name, False, build), f32)
    return build.fill(build.constant_float(0.0, f32), empty)


def _loops(dims: Sequence[int]) -> dict[int | None, int]:
    """Loop numbers of a combine over `dims`; the split is the innermost loop."""
    loops: dict[int | None, int] = {dim: loop for loop, dim in enumerate(dims)}
    return {**loops, None: len(dims)}


def _through(loops: dict[int | None, int], dims: Sequence[int | None]) -> maps.Positions:
    return tuple(loops[dim] for dim in dims)


def _elementwise(dims, inputs, init: ir.Value, body, build: Builder) -> ir.Value:
    """An elementwise op over `dims`; inputs are (their dims, value); casts to init's type."""
    loops = {dim: loop for loop, dim in enumerate(dims)}
    positions = [_through(loops, of) for of, _ in inputs]
    kind = element_type(init)

    def scalar(inner: Builder, x: Sequence[ir.Value]) -> list[ir.Value]:
        return [_narrow(inner, body(inner, x), kind)]

    values = [value for _, value in inputs]
    return build.generic(values, [init], [*positions, _through(loops, dims)], scalar)[0]


def _narrow(build: Builder, value: ir.Value, kind: ir.Type) -> ir.Value:
    if value.type == kind:
        return value
    wider = ir.FloatType(kind).width > ir.FloatType(value.type).width
    return build.create("arith.extf" if wider else "arith.truncf", [kind], [value]).results[0]


def _larger(build: Builder, x: Sequence[ir.Value]) -> ir.Value:
    return build.create("arith.maximumf", [x[0].type], x[:2]).results[0]


def _weight(build: Builder, maximum: ir.Value, largest: ir.Value) -> ir.Value:
    """exp2(max - largest): what a partial result counts relative to the largest max."""
    difference = build.create("arith.subf", [maximum.type], [maximum, largest]).results[0]
    return build.create("math.exp2", [maximum.type], [difference]).results[0]


def _multiply_add(build: Builder, value: ir.Value, weight: ir.Value, total: ir.Value) -> ir.Value:
    product = build.create("arith.mulf", [value.type], [value, weight]).results[0]
    return build.create("arith.addf", [value.type], [product, total]).results[0]
