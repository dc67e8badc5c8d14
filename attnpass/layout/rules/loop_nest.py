"""`linalg.generic` with one result: the whole loop nest is permuted.

An elementwise op hands the demand on to every operand that has dims to permute, and reads
the others (a bias, a scale) through a new map. An op that reduces reads all its operands
through new maps. Loops whose dim is split become several loops, and operands that carry
such a dim are expanded, which costs nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from iree.compiler import ir

from ...attention.facts import configured_by
from ...ir import (
    Builder,
    Size,
    body_of,
    body_ops,
    copy_generic,
    defining_op,
    element_type,
    has_one_use,
    index_dim,
    index_ops,
    is_ranked_tensor,
    is_used,
    iterator_kinds,
    maps,
    reduces,
    sizes_of,
    static_size,
    tensor_bytes,
)
from ...ir.contractions import is_contraction
from ...ir.views import repeat_of
from ..cost import FREE, Cost
from ..layout import Layout, Refinement, Window, make_layout
from . import Alternative, Demand, Operands, Refusal, Request, Rule, Ways

# A loop of the new nest: (old loop, which part of it).
Loop = tuple[int, int]
# What an old loop becomes: (size, window) of each new loop; None where it stays as it is.
Parts = tuple[tuple[Size, "Window | None"], ...]


@dataclass(frozen=True)
class NestRewrite:
    """A loop nest in the new order, as pure data.

    `merged` is the demanded layout at its coarsest; `parts[p]` are the loops that old loop p
    becomes, None where it stays as it is; `result` are the loops of the new result, `units`
    those of them that are unit dims, which no axis stands for.
    """

    merged: Refinement
    parts: tuple[Parts | None, ...]
    result: tuple[Loop, ...]
    units: frozenset[Loop]

    def loops(self) -> list[Loop]:
        """The new loops in order: those of the result, then the others as they stood."""
        others = [(p, i) for p in range(len(self.parts)) for i in range(self.count(p))]
        return [*self.result, *(loop for loop in others if loop not in self.result)]

    def number(self) -> dict[Loop, int]:
        return {loop: i for i, loop in enumerate(self.loops())}

    def count(self, loop: int) -> int:
        """How many loops old loop `loop` becomes."""
        return len(self.parts[loop] or (None,))

    def changes(self, loop: int) -> bool:
        """Whether an old loop is split, or runs over a window only."""
        return self.parts[loop] is not None

    def result_sizes(self) -> list[Size]:
        """Sizes of the new result's dims, unit dims included."""
        sizes = iter(self.merged.layout.sizes)
        return [1 if loop in self.units else next(sizes) for loop in self.result]


def plan_nest(out: maps.Positions, num_loops: int, layout: Layout) -> NestRewrite:
    """How to permute a nest whose result has map `out` so that the result has `layout`."""
    merged = layout.merged()
    parts: list[Parts | None] = [None] * num_loops
    loop_of_axis: dict[int, Loop] = {}
    units: list[tuple[int, Loop]] = []
    for dim, (axes, loop) in enumerate(zip(merged.layout.dims, out, strict=True)):
        if loop is None:
            continue
        if len(axes) > 1 or any(merged.layout.window(axis) for axis in axes):
            parts[loop] = tuple((merged.layout.sizes[a], merged.layout.window(a)) for a in axes)
        if not axes:
            units.append((dim, (loop, 0)))
        for part, axis in enumerate(axes):
            loop_of_axis[axis] = (loop, part)
    result = [loop_of_axis[axis] for axis in range(merged.layout.rank)]
    for dim, loop in units:
        result.insert(min(dim, len(result)), loop)
    return NestRewrite(merged, tuple(parts), tuple(result), frozenset(loop for _, loop in units))


def can_compute_index(nest: NestRewrite, loop: int) -> bool:
    """Whether `old_index` can be had: the factors inside the outermost must be static."""
    return all(isinstance(size, int) for size, _ in (nest.parts[loop] or ())[1:])


def old_index(nest: NestRewrite, loop: int, build: Builder) -> ir.Value:
    """In the body of the new nest, the index that old loop `loop` had."""
    number, parts = nest.number(), nest.parts[loop]
    if parts is None:
        return build.loop_index(number[(loop, 0)])
    total: ir.Value | None = None
    for part, (size, window) in enumerate(parts):
        place = build.loop_index(number[(loop, part)])
        if window is not None:
            place = build.multiply_add(place, 1, window[0])
        full = size if window is None else window[1]
        total = place if total is None else build.multiply_add(total, static_size(full), place)
    assert total is not None
    return total


def operand_layout(nest: NestRewrite, positions: maps.Positions) -> Layout:
    """The layout of an operand with this map that follows the new loop order, coarsest."""
    carried = {p for p in positions if p is not None}
    layout = nest.merged.layout
    axis_of = {
        loop: axis
        for axis, loop in enumerate(loop for loop in nest.result if loop not in nest.units)
    }
    loops = [loop for loop in axis_of if loop[0] in carried]
    number = {loop: i for i, loop in enumerate(loops)}
    dims = tuple(
        () if p is None else tuple(number[(p, i)] for i in range(nest.count(p)) if (p, i) in number)
        for p in positions
    )
    sizes = [layout.sizes[axis_of[loop]] for loop in loops]
    return make_layout(sizes, dims, [layout.window(axis_of[loop]) for loop in loops])


def read_as_it_is(
    nest: NestRewrite, value: ir.Value, positions: maps.Positions, build: Builder
) -> tuple[ir.Value, maps.Positions]:
    """The old operand, expanded and sliced where a loop was, and its map over the new loops."""
    number = nest.number()
    if any(p is not None and nest.changes(p) for p in positions):
        sizes = sizes_of(value)
        parts: list[Parts] = [
            (p is not None and nest.parts[p]) or ((sizes[dim], None),)
            for dim, p in enumerate(positions)
        ]
        value = build.split_and_slice(value, parts)
    dims = [
        number[(p, i)] if p is not None else None
        for p in positions
        for i in range(1 if p is None else nest.count(p))
    ]
    return value, tuple(dims)


def delivered_map(nest: NestRewrite, positions: maps.Positions) -> maps.Positions:
    """The map of an operand that was delivered in `operand_layout`."""
    number = nest.number()
    carried = {p for p in positions if p is not None}
    return tuple(
        number[loop] for loop in nest.result if loop[0] in carried and loop not in nest.units
    )


def finish(nest: NestRewrite, result: ir.Value, demand: Demand, build: Builder) -> ir.Value:
    """From the new nest's result to one dim per axis of the demand."""
    parts: list[list[Size]] = []
    groups = iter(nest.merged.groups)
    for loop in nest.result:
        axes = () if loop in nest.units else next(groups)
        parts.append([demand.layout.sizes[axis] for axis in axes])
    return build.split_dims(result, parts)


def cost_of_reading(value: ir.Value) -> Cost:
    """What reading `value` in its old layout in a permuted nest adds.

    Nothing for a value in memory. A contraction that IREE would have fused into the nest
    is launched on its own, and its result makes a round trip through memory.
    """
    op = defining_op(value)
    if op is None or not has_one_use(value):
        return FREE
    if is_contraction(op):
        return Cost(2 * tensor_bytes(value), 1)
    return FREE


def loops_of(op: ir.Operation) -> tuple[maps.Positions, ...] | Refusal:
    """The loops that each operand is read by, of a linalg op that may be rewritten."""
    configuration = configured_by(op)
    if configuration:
        return Refusal(f"it has its own {configuration}", op)
    positions = maps.positions(op)
    if positions is None:
        return Refusal("an indexing map is no projected permutation", op)
    return positions


class LoopNest(Rule):
    """`linalg.generic` with one result, elementwise or reducing."""

    ops = ("linalg.generic",)

    def match(self, op: ir.Operation, number: int, demand: Demand) -> Ways:
        if len(op.results) != 1:
            return Refusal("it has several results", op)
        positions = loops_of(op)
        if isinstance(positions, Refusal):
            return positions
        iterators = iterator_kinds(op)
        if not all(iterators[p] == "parallel" for p in positions[-1] if p is not None):
            return Refusal("its result carries a reduction loop", op)
        nest = plan_nest(positions[-1], len(iterators), demand.layout)
        refusal = self._refuse_body(op, nest)
        if refusal is not None:
            return refusal
        requests = []
        for i, operand in enumerate(list(op.operands)[:-1]):
            if not reduces(op) and is_ranked_tensor(operand):
                layout = operand_layout(nest, positions[i])
                requests.append(Request(i, Demand(layout), cost_of_reading(operand)))
        if _reads_destination(op):
            layout = operand_layout(nest, positions[-1])
            requests.append(Request(len(op.operands) - 1, Demand(layout)))
        return [Alternative(tuple(requests), data=nest)]

    def _refuse_body(self, op: ir.Operation, nest: NestRewrite) -> Refusal | None:
        if any(len(inner.regions) for inner in body_ops(op)):
            return Refusal("its body has nested regions", op)
        if not all(can_compute_index(nest, index_dim(inner)) for inner in index_ops(op)):
            return Refusal("its body reads the index of a dim of dynamic factors", op)
        return None

    def rewrite(
        self, op: ir.Operation, demand: Demand, way: Alternative, operands: Operands, build: Builder
    ) -> ir.Value:
        nest: NestRewrite = way.data
        positions = maps.positions(op)
        assert positions is not None
        given = {
            request.operand: value for request, value in zip(way.requests, operands, strict=True)
        }
        inputs = list(zip(list(op.operands)[:-1], positions, strict=False))
        if is_contraction(op) and all(is_ranked_tensor(x) for x, _ in inputs):
            inputs = peel_broadcasts(inputs, positions[-1])
        reads: list[tuple[ir.Value, maps.Positions]] = []
        for i, (value, dims) in enumerate(inputs):
            new = given.get(i)
            if new is not None:
                reads.append((new, delivered_map(nest, positions[i])))
            elif not is_ranked_tensor(value):
                reads.append((value, ()))
            else:
                reads.append(read_as_it_is(nest, value, dims, build))
        init = given.get(len(op.operands) - 1)
        if init is None:
            init = build.empty(nest.result_sizes(), element_type(op.results[0]))
        else:
            init = add_units(nest, init, build)
        order = input_order(reads, nest) if is_contraction(op) else None
        result = build_generic(op, nest, reads, order or range(len(reads)), init, build)
        return finish(nest, result, demand, build)


def add_units(nest: NestRewrite, value: ir.Value, build: Builder) -> ir.Value:
    """A delivered destination with the unit dims of the new result put in."""
    counts = [0 if loop in nest.units else 1 for loop in nest.result]
    return build.join_dims(value, counts, nest.result_sizes())


def peel_broadcasts(
    inputs: Sequence[tuple[ir.Value, maps.Positions]], result: maps.Positions
) -> list[tuple[ir.Value, maps.Positions]]:
    """The inputs of a contraction below their repeats, with the maps that read them directly.

    A repeat along a loop that is summed stays, and so does one along a loop that no other
    input has: a contraction needs both.
    """
    peeled = list(inputs)
    for i, (value, positions) in enumerate(inputs):
        elsewhere = {dim for j, (_, dims) in enumerate(peeled) if j != i for dim in dims}
        peeled[i] = _peel_broadcast(value, positions, {*result} & elsewhere)
    return peeled


def _peel_broadcast(
    value: ir.Value, positions: maps.Positions, without: set[int | None]
) -> tuple[ir.Value, maps.Positions]:
    while (op := defining_op(value)) is not None:
        repeat = repeat_of(op)
        dims = None if repeat is None else repeat.projection
        if repeat is None or dims is None or None in dims or len(dims) == len(positions):
            break
        inner = tuple(positions[dim] for dim in dims if dim is not None)
        if not set(positions) - set(inner) <= without:
            break
        value, positions = repeat.source, inner
    return value, positions


def input_order(
    reads: Sequence[tuple[ir.Value, maps.Positions]], nest: NestRewrite
) -> Sequence[int]:
    """The order of a contraction's two inputs: the one that carries the last dim of the
    result that only one input has comes second.

    With the loops in the order of the result this puts the innermost loop of the first
    input before that of the second. For the other order IREE 3.13 computes wrong numbers on
    CUDA: measured on an H200, `x, w -> (b, n, s)` has an error of 1, `w, x -> (b, n, s)` is
    right (bench/results/cuda_numbers.json).
    """
    first, second = ({dim for dim in dims if dim is not None} for _, dims in reads[:2])
    for dim in reversed(range(len(nest.result))):
        if (dim in first) != (dim in second):
            return (0, 1) if dim in second else (1, 0)
    return (0, 1)


def _reads_destination(op: ir.Operation) -> bool:
    """Whether the body of a generic uses what its destination held."""
    arguments = body_of(op).arguments
    return is_used(arguments[len(arguments) - 1])


def build_generic(
    op: ir.Operation,
    nest: NestRewrite,
    reads: Sequence[tuple[ir.Value, maps.Positions]],
    order: Sequence[int],
    init: ir.Value,
    build: Builder,
) -> ir.Value:
    """The generic over the new loops, its inputs in `order`."""
    loops, number = nest.loops(), nest.number()
    kinds = iterator_kinds(op)
    result = tuple(number[loop] for loop in nest.result)
    new = copy_generic(
        op,
        [*(reads[i] for i in order), (init, result)],
        [kinds[p] for p, _ in loops],
        build,
        order=[*order, len(reads)],
        index_dims={p: number[(p, 0)] for p in range(len(nest.parts)) if not nest.changes(p)},
        compute_index=functools.partial(old_index, nest),
    )
    return new.results[0]
