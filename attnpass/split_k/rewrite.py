"""Replaces attention by partial attention over chunks, one over a tail, and a combine."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from iree.compiler import ir

from ..attention.edit import RESULTS, Dims, edit, iteration_size, no_key_seen
from ..attention.facts import AttentionFacts
from ..ir import Builder, DynamicSize, Size, ranked_shape, sizes_of
from .combine import finish_attention, finish_online, merge
from .parts import Operands, Triple, triple
from .plan import SplitPlan
from .space import normal_space


def split(facts: AttentionFacts, plan: SplitPlan) -> None:
    """Gives the users of one attention its split form; the old op is left without uses."""
    build = Builder(facts.op)
    operands = _operands(facts, plan, build)
    partial = _chunks(operands, build)
    state = _state(operands, build)
    if facts.kind == "attention":
        results = [finish_attention(operands, partial, state, build)]
    else:
        assert state is not None
        results = finish_online(operands, partial, state, build)
    for old, name, new in zip(facts.op.results, facts.result_names, results, strict=True):
        old.replace_all_uses_with(operands.space.restore(name, new, build))


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
    length = DynamicSize(build.size(iteration_size(facts, plan.dim)))
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
        ranked_shape(value)[operands.space.positions(name).index(operands.key)] == plan.length
        for name, value in operands.values.items()
        if name != "scale" and operands.key in operands.space.positions(name)
    )
    results = [operands.result_sizes(name, build, chunked=True) for name in RESULTS]

    def body(inner: Builder) -> Triple:
        fresh = _fresh(results, inner)
        return _attend(operands, 0 if not whole else None, operands.covered, fresh, inner)

    if whole:
        return body(build)
    return triple(_region(results, body, build))


def _state(operands: Operands, build: Builder) -> Triple | None:
    """What the chunks are combined with: the tail's triple, what online_attention was
    given, or both; None where there is neither.

    The tail does not go on from what was given: IREE 3.13 tiles n and adds to the given sum
    once for each tile (wrong on llvm-cpu), unless it is a constant.
    """
    given = _given(operands, build)
    if operands.tail == 0:
        return given
    results = [operands.result_sizes(name, build) for name in RESULTS]

    def body(inner: Builder) -> Triple:
        return _attend(operands, operands.covered, operands.tail, _fresh(results, inner), inner)

    tail = triple(_region(results, body, build))
    return tail if given is None else merge(operands, tail, given, build)


def _given(operands: Operands, build: Builder) -> Triple | None:
    if operands.facts.kind == "attention":
        return None
    names = operands.facts.result_names
    return triple([operands.space.normal(name, build) for name in names])


def _region(
    results: Sequence[Sequence[Size]], body: Callable[[Builder], Triple], build: Builder
) -> list[ir.Value]:
    """One dispatch: IREE would otherwise copy the slices of K and V that it reads."""
    f32 = ir.F32Type.get(build.anchor.context)
    return build.dispatch_region([(sizes, f32) for sizes in results], body)


def _fresh(results: Sequence[Sequence[Size]], build: Builder) -> Triple:
    """Output 0, max lowest, sum 0: a triple that has seen no key."""
    return triple(no_key_seen(build, results))


def _attend(
    operands: Operands, offset: Size | None, length: Size, start: Triple, build: Builder
) -> Triple:
    """online_attention over `length` keys from `offset` (None: all, unsliced) on.

    Offset 0 or None is the chunked part, whose keys are viewed as (splits, chunk).
    """
    chunked = offset is None or offset == 0
    made = edit(operands.facts, build).over(_dims(operands, chunked)).without_configuration()
    # Says to later passes, this one too, what the op is.
    made = made.attribute("split_k", ir.UnitAttr.get(build.anchor.context))
    for name, value in operands.values.items():
        dims: list[int | None] = [] if name == "scale" else list(operands.space.positions(name))
        if operands.key in dims:
            place = dims.index(operands.key)
            if offset is not None:
                value = _slice(value, place, offset, length, build)
            if chunked:
                value = _view(value, place, operands, build)
                dims.insert(place, None)
        made = made.operand(name, value, operands.numbers(dims, chunked))
    if "mask" not in operands.values and _needs_mask(operands, chunked):
        mask = build.all_true([operands.chunk if chunked else length])
        made = made.mask(mask, operands.numbers([operands.key], chunked))
    results = [operands.result_dims(name) for name in RESULTS]
    written = [operands.with_split(dims) if chunked else dims for dims in results]
    made = made.starts(start, [operands.numbers(dims, chunked) for dims in written])
    return triple(list(made.build().results))


def _dims(operands: Operands, chunked: bool) -> Dims:
    """What becomes of the iteration dims: rows lie in one, keys in chunks are two."""
    dims = operands.space.dims
    if not chunked:
        return dims
    of = {old: operands.numbers(new, chunked) for old, new in dims.of.items()}
    of[operands.plan.dim] = operands.numbers([None, operands.key], chunked)
    return Dims(of, dims.count + 1, {operands.plan.dim: (operands.splits, operands.chunk)})


def _needs_mask(operands: Operands, chunked: bool) -> bool:
    """Whether the number of keys is dynamic: IREE pads them on GPUs only under a mask."""
    return not isinstance(operands.chunk if chunked else operands.tail, int)


def _slice(value: ir.Value, dim: int, offset: Size, length: Size, build: Builder) -> ir.Value:
    sizes = list(sizes_of(value))
    offsets: list[Size] = [0] * len(sizes)
    sizes[dim], offsets[dim] = length, offset
    return build.extract_slice(value, offsets, sizes)


def _view(value: ir.Value, dim: int, operands: Operands, build: Builder) -> ir.Value:
    """Dim `dim`, which holds the covered keys, as (splits, chunk)."""
    parts: list[list[Size]] = [[size] for size in sizes_of(value)]
    parts[dim] = [operands.splits, operands.chunk]
    return build.split_dims(value, parts)
