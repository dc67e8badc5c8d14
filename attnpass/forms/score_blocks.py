"""Attention written out in loops over its batches and rows, where all scores together would take
too much memory.

A loop's step is found at run time where sizes are known only then: small attention is one step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from iree.compiler import ir

from ..attention.edit import edit, iteration_size
from ..attention.facts import AttentionFacts
from ..ir import Builder, DynamicSize, Size, element_type, erase_dead, maps, product, sizes_of
from .decomposition import decomposed, describe_any, score_bytes, score_dims
from .normal_form import truth_mask


@dataclass(frozen=True)
class _Block:
    """A part of an iteration dim: where it begins and how much it is."""

    start: DynamicSize
    size: Size


def looped_dims(facts: AttentionFacts, most: int) -> tuple[int, ...]:
    """The dims to loop over for a block's scores to have at most `most` bytes, outermost first:
    unknown sizes, taken as ASSUMED_EXTENT, before known ones. Sums go over no such dim."""
    every = score_dims(facts)
    kept = {*every}.intersection(*(facts.map_of(name) for name in facts.result_names))
    kept -= {*facts.k2}
    found: list[int] = []
    left = score_bytes(facts)
    for dim in sorted((dim for dim in every if dim in kept), key=lambda dim: facts.sizes[dim] or 0):
        if left > most and facts.sizes[dim] != 1:
            found.append(dim)
            left //= facts.assumed_extent((dim,))
    return tuple(found)


def decomposed_within(facts: AttentionFacts, most: int) -> list[ir.Value]:
    """The results of an attention that `refusal` allows, made of other ops in front of it, with
    scores of at most `most` bytes at a time, or of a single row. Needs a current context."""
    dims = looped_dims(facts, most)
    if not dims:
        return decomposed(facts)
    truth_mask(facts)
    build = Builder(facts.op, facts.op.location)
    count = most * facts.assumed_extent(score_dims(facts)) // max(score_bytes(facts), 1)
    steps = _steps(facts, dims, count, build)
    inits = [_zeros(facts.value(name), build) for name in facts.result_names]
    return _nest(facts, build, list(zip(dims, steps, strict=True)), {}, inits)


def _zeros(value: ir.Value, build: Builder) -> ir.Value:
    """A tensor like the value where an operation starts, to which IREE would write in place
    while each step reads it; of empty ones that a loop carries it makes invalid copies."""
    kind = element_type(value)
    return build.fill(build.constant_number(0, kind), build.empty(sizes_of(value), kind))


def _steps(facts: AttentionFacts, dims: Sequence[int], most: int, build: Builder) -> list[Size]:
    """How much of each dim a block has, for `most` scores in all."""
    sizes = {dim: iteration_size(facts, dim) for dim in score_dims(facts)}
    for dim in dims:
        others = build.size_op("maxui", product([s for d, s in sizes.items() if d != dim]), 1)
        fitting = build.size_op("maxui", build.size_op("divui", most, others), 1)
        sizes[dim] = _step(sizes[dim], fitting, build)
    return [sizes[dim] for dim in dims]


def _step(size: Size, fitting: Size, build: Builder) -> Size:
    """At most `fitting` of a dim: of a known size a divisor, so that all blocks are equal."""
    if isinstance(size, int) and isinstance(fitting, int):
        return next(step for step in range(min(size, fitting), 0, -1) if size % step == 0)
    return build.size_op("maxui", build.size_op("minui", size, fitting), 1)


def _nest(
    facts: AttentionFacts,
    build: Builder,
    loops: Sequence[tuple[int, Size]],
    blocks: Mapping[int, _Block],
    made: Sequence[ir.Value],
) -> list[ir.Value]:
    """`made`, the results so far, with those of `blocks` in place, in a loop for each of `loops`:
    a dim and its step."""
    if not loops:
        return _insert(facts, build, blocks, made)
    (dim, step), *inner_loops = loops
    size = iteration_size(facts, dim)
    bounds = [build.size(bound) for bound in (0, size, step)]

    def body(inner: Builder, at: ir.Value, carried: Sequence[ir.Value]) -> list[ir.Value]:
        start, here = DynamicSize(at), step
        if not isinstance(step, int) or not isinstance(size, int):
            here = inner.size_op("minui", step, inner.size_op("subi", size, start))
        blocks_here = {**blocks, dim: _Block(start, here)}
        return _nest(facts, inner, inner_loops, blocks_here, _sized(facts, inner, carried))

    return _sized(facts, build, build.loop(bounds, made, body))


def _sized(facts: AttentionFacts, build: Builder, made: Sequence[ir.Value]) -> list[ir.Value]:
    """Results that a loop carries or gives: IREE finds no unknown sizes of those by itself."""
    return [
        build.tied(value, sizes_of(facts.value(name)))
        for value, name in zip(made, facts.result_names, strict=True)
    ]


def _insert(
    facts: AttentionFacts, build: Builder, blocks: Mapping[int, _Block], made: Sequence[ir.Value]
) -> list[ir.Value]:
    """`made` with the results of the attention over `blocks`, written out, in their place."""
    part = _part(facts, build, blocks)
    starts = {dim: build.size(block.start) for dim, block in blocks.items()}
    results = decomposed(describe_any(part), starts)
    erase_dead([part])
    return [
        build.insert_slice(result, whole, _starts(facts.map_of(name), blocks))
        for name, result, whole in zip(facts.result_names, results, made, strict=True)
    ]


def _part(facts: AttentionFacts, build: Builder, blocks: Mapping[int, _Block]) -> ir.Operation:
    """The same attention over `blocks` of its dims."""
    part = edit(facts, build)
    for name in facts.tensor_operands:
        part = part.operand(name, _slice(facts.value(name), facts.map_of(name), build, blocks))
    return part.build()


def _slice(
    value: ir.Value, positions: maps.Positions, build: Builder, blocks: Mapping[int, _Block]
) -> ir.Value:
    if not {*positions} & {*blocks}:
        return value
    sizes = [
        size if dim is None or dim not in blocks else blocks[dim].size
        for dim, size in zip(positions, sizes_of(value), strict=True)
    ]
    return build.extract_slice(value, _starts(positions, blocks), sizes)


def _starts(positions: maps.Positions, blocks: Mapping[int, _Block]) -> list[Size]:
    return [0 if dim is None or dim not in blocks else blocks[dim].start for dim in positions]
