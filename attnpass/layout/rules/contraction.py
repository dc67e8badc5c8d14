"""Named contractions: the operands are swapped, so that the transposed product comes out.

C^T = B^T A^T: a `linalg.matmul` stays a matmul, a `linalg.batch_matmul` a batch_matmul
where both operands have the batch dim. Where the weight was only repeated over the batch,
or a dim is split, the un-repeated weight is read by a `linalg.contract`.
"""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from ...ir import (
    Builder,
    Size,
    copy_product,
    maps,
    sizes_of,
)
from ...ir.contractions import NAMED
from . import Alternative, Demand, Operands, Refusal, Request, Rule, Ways
from .loop_nest import (
    NestRewrite,
    add_units,
    finish,
    input_order,
    loops_of,
    operand_layout,
    peel_broadcasts,
    plan_nest,
    read_as_it_is,
)

# The canonical maps that the named forms allow, as (lhs, rhs) loops besides the batch.
_MATMUL_LOOPS = {"linalg.matmul": 3, "linalg.batch_matmul": 4}


class Contraction(Rule):
    """`linalg.matmul`, `linalg.batch_matmul` and `linalg.contract`."""

    ops = NAMED

    def match(self, op: ir.Operation, number: int, demand: Demand) -> Ways:
        positions = loops_of(op)
        if isinstance(positions, Refusal):
            return positions
        if None in positions[-1]:
            return Refusal("an indexing map is no projected permutation", op)
        num_loops = maps.loop_count(op)
        nest = plan_nest(positions[-1], num_loops, demand.layout)
        init = Request(2, Demand(operand_layout(nest, positions[-1])))
        return [Alternative((init,), data=nest)]

    def rewrite(
        self, op: ir.Operation, demand: Demand, way: Alternative, operands: Operands, build: Builder
    ) -> ir.Value:
        nest: NestRewrite = way.data
        positions = maps.positions(op)
        (init,) = operands
        assert positions is not None and init is not None
        init = add_units(nest, init, build)
        inputs = [(op.operands[i], positions[i]) for i in (0, 1)]
        reads = [
            read_as_it_is(nest, value, dims, build)
            for value, dims in peel_broadcasts(inputs, positions[-1])
        ]
        order = input_order(reads, nest)
        reads = [*(reads[i] for i in order), (init, tuple(range(len(nest.result))))]
        num_loops = len(nest.loops())
        units: list[int] = []
        if not _fits(op.name, num_loops, [dims for _, dims in reads]):
            units = _unit_loops(nest)
            reads = [_without(units, value, dims, build) for value, dims in reads]
            num_loops -= len(units)
        fits = _fits(op.name, num_loops, [dims for _, dims in reads])
        name = op.name if fits else "linalg.contract"
        result = copy_product(op, reads, num_loops, build, name)
        if units:
            counts = [0 if loop in units else 1 for loop in range(len(nest.result))]
            result = build.join_dims(result, counts, nest.result_sizes())
        return finish(nest, result, demand, build)


def drop_unit_dims(op: ir.Operation) -> bool:
    """Replaces one of these ops, whose result has dims of one and others, by a `linalg.contract`
    without the former; returns whether it did. The op stays behind, without use."""
    positions = loops_of(op)
    if op.name not in NAMED or isinstance(positions, Refusal):
        return False
    sizes, result = sizes_of(op.results[0]), positions[-1]
    pairs = zip(result, sizes, strict=True)
    units = [loop for loop, size in pairs if loop is not None and size == 1]
    if None in result or not 0 < len(units) < len(result):
        return False
    build = Builder(op)
    inputs = peel_broadcasts([(op.operands[i], positions[i]) for i in (0, 1)], result)
    reads = [_without(units, *read, build) for read in (*inputs, (op.operands[2], result))]
    num_loops = maps.loop_count(op) - len(units)
    new = copy_product(op, reads, num_loops, build)
    counts = [0 if loop in units else 1 for loop in result]
    op.results[0].replace_all_uses_with(build.join_dims(new, counts, sizes))
    return True


def _unit_loops(nest: NestRewrite) -> list[int]:
    """The loops of the result with one step: a batch of one, or what a window leaves of a dim,
    as torch.nn.MultiheadAttention has them. IREE drops a unit dim from the cast or bias behind
    a contraction, but not from the contraction, and then does not fuse the two."""
    found = [number for number, size in enumerate(nest.result_sizes()) if size == 1]
    return found if len(found) < len(nest.result) else found[1:]


def _without(
    loops: Sequence[int], value: ir.Value, dims: maps.Positions, build: Builder
) -> tuple[ir.Value, maps.Positions]:
    """An operand without its unit dims along `loops`, and its map over the loops that stay."""
    if not loops:
        return value, dims
    sizes = sizes_of(value)
    parts: list[list[Size]] = [
        [] if loop in loops else [size] for loop, size in zip(dims, sizes, strict=True)
    ]
    kept = [loop for loop in dims if loop not in loops]
    renumbered = tuple(
        None if loop is None else loop - sum(gone < loop for gone in loops) for loop in kept
    )
    return build.split_dims(value, parts), renumbered


def _fits(name: str, num_loops: int, loops: Sequence[maps.Positions]) -> bool:
    """Whether the named op's verifier takes these maps: (batch,) m, n, k in this order, each
    input a permutation of its two dims behind the batch."""
    if name not in _MATMUL_LOOPS:
        return True
    if num_loops != _MATMUL_LOOPS[name]:
        return False
    batch = list(range(num_loops - 3))
    m, n, k = range(num_loops - 3, num_loops)
    lhs, rhs, _ = (list(dims) for dims in loops)
    rank = len(batch)
    return (
        lhs[:rank] == batch
        and rhs[:rank] == batch
        and set(lhs[rank:]) == {m, k}
        and set(rhs[rank:]) == {n, k}
        and len(lhs) == len(rhs) == rank + 2
    )
