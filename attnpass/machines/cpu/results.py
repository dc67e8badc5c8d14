"""Lets attention on CPUs write its result in the order that the model reads it.

A model brings the heads of a result behind its rows. IREE 3.13 keeps that in attention's dispatch,
as a loop that copies, and with it the tile that is copied. Attention that writes the result where
it belongs sums it up there: at head dim 256 that leaves room on the stack for vector loops.
"""

from __future__ import annotations

from dataclasses import dataclass

from iree.compiler import ir

from ...attention.edit import edit
from ...attention.facts import AttentionFacts, find
from ...ir import (
    Builder,
    Refusal,
    element_type,
    erase_dead,
    has_one_use,
    maps,
    reduces,
    sizes_of,
)
from . import loops as cpu_loops


def write_transposed(module: ir.Operation, register_bytes: int) -> bool:
    """Lets attention write its result in the order of the loop behind it, where only that gives
    it vector loops, for a module at IREE's phase flow; returns whether IR changed."""
    dead_ops: list[ir.Operation] = []
    for facts in find(module):
        reader = None if facts.own_configuration else _reader(facts)
        if reader is not None and _needs_place(facts, register_bytes):
            dead_ops += _rewrite(facts, reader)
    erase_dead(dead_ops)
    return bool(dead_ops)


@dataclass(frozen=True)
class _ResultLoop:
    """The loop behind attention: the number of the operand that is the result, and which dim of
    the result each dim of what the loop writes is."""

    loop: ir.Operation
    number: int
    order: tuple[int, ...]


def _reader(facts: AttentionFacts) -> _ResultLoop | None:
    """The one loop that takes the result, if it writes each element once, in another order."""
    if len(facts.op.results) != 1 or not has_one_use(facts.op.results[0]):
        return None
    use = next(iter(facts.op.results[0].uses))
    loop, number = use.owner.operation, use.operand_number
    if loop.name != "linalg.generic" or len(loop.results) != 1 or reduces(loop):
        return None
    found = maps.positions(loop)
    if found is None or number == len(found) - 1:
        return None
    read = [dim for dim in found[number] if dim is not None]
    written = [dim for dim in found[-1] if dim is not None]
    if len(read) != len(found[number]) or sorted(read) != sorted(written) or read == written:
        return None
    return _ResultLoop(loop, number, tuple(read.index(dim) for dim in written))


def _needs_place(facts: AttentionFacts, register_bytes: int) -> bool:
    """Whether attention has vector loops only where nothing copies its result."""
    found = cpu_loops.tiles(facts, register_bytes)
    if isinstance(found, Refusal):
        return False
    return not any(cpu_loops.fits_beside_result(facts, tiles) for tiles in found.from_best())


def _rewrite(facts: AttentionFacts, reader: _ResultLoop) -> list[ir.Operation]:
    """Gives the loop the same attention, its result's dims in the loop's order; returns the ops
    that have no use then. A loop that only copies has none, either."""
    loop, output, positions = reader.loop, facts.value("output"), facts.map_of("output")
    ordered = [sizes_of(output)[dim] for dim in reader.order]
    place = Builder(facts.op).empty(ordered, element_type(output))
    new = (
        edit(facts).operand("output", place, tuple(positions[dim] for dim in reader.order)).build()
    )
    # Types may differ in what they know of sizes.
    if _only_copies(reader) and loop.results[0].type == new.results[0].type:
        loop.results[0].replace_all_uses_with(new.results[0])
        return [loop, facts.op]
    found = maps.positions(loop)
    assert found is not None, "_reader has read them"
    loop_maps = [found[-1] if other == reader.number else own for other, own in enumerate(found)]
    loop.operands[reader.number] = new.results[0]
    loops = maps.loop_count(loop)
    loop.attributes["indexing_maps"] = maps.maps_attribute(loops, loop_maps)
    return [facts.op]


def _only_copies(reader: _ResultLoop) -> bool:
    """Whether the loop computes nothing."""
    body = reader.loop.regions[0].blocks[0]
    (first, *others) = body.operations
    return not others and first.operation.operands[0] == body.arguments[reader.number]
