"""Masks that heads or sequences share: attention reads the one that there is.

PyTorch's masks are broadcast to every head, and IREE's importer makes the mask of `is_causal` with
a copy a head. IREE 3.13 folds a broadcast into attention only where nothing else stands between:
mostly the copies are written to memory and read once a head, 2 GB of f32 for 32 heads of 4096 rows
and keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iree.compiler import ir

from . import maps
from .attention import AttentionFacts
from .ir import (
    Builder,
    copied_attributes,
    copy_body,
    defining_op,
    element_type,
    iterator_kinds,
    sizes_of,
)
from .layout.attention_rewrite import Swept
from .layout.layout import permuted
from .layout.sources import Source, find_source, fold_through_reshapes, sources


def share_mask(facts: AttentionFacts, swept: Swept) -> bool:
    """Lets an attention read its mask without copies along its batch dims; returns whether there
    were some. Dims of rows and keys stay as they are."""
    if not facts.has_mask or facts.own_configuration:
        return False
    while (made := _find_made(facts)) is not None:
        _make_once(made, swept)
    source = find_source(facts, "mask")
    if source is None or not _is_repeated(source) or not _keeps_scores(facts, source):
        return False
    return fold_through_reshapes(facts, "mask", swept) is not None


def _is_repeated(source: Source) -> bool:
    return any(axis is None for axes in source.parts for axis in axes)


def _keeps_scores(facts: AttentionFacts, source: Source) -> bool:
    """Whether rows and keys are one dim each, in this order, in what the mask is made of."""
    lies = [axis for axes in source.layout.dims for axis in axes]
    positions = facts.map_of("mask")
    scores = [
        axes
        for axes, p in zip(source.parts, positions, strict=True)
        if p not in facts.batch and axes
    ]
    flat = [axis for axes in scores for axis in axes]
    return all(len(axes) == 1 for axes in scores) and lies[len(lies) - len(flat) :] == flat


@dataclass(frozen=True)
class _Made:
    """An elementwise op that makes a mask, and the loops whose index its elements do not
    depend on."""

    op: ir.Operation
    loops: frozenset[int]
    positions: tuple[maps.Positions, ...]


def _find_made(facts: AttentionFacts) -> _Made | None:
    """What makes the mask, below reshapes and repeats, where it makes copies along batch dims."""
    value = facts.value("mask")
    sizes = sizes_of(value)
    layout = permuted(sizes, range(len(sizes)))
    bottom = Source(value, layout, layout.dims, ())
    for _, bottom in sources(facts, "mask"):  # noqa: B007
        pass
    op = defining_op(bottom.value)
    if op is None or op.name != "linalg.generic" or len(op.results) != 1:
        return None
    positions = maps.positions_of(op.attributes["indexing_maps"])
    if positions is None or None in positions[-1] or {*iterator_kinds(op)} != {"parallel"}:
        return None
    batch = {
        axis
        for axes, p in zip(bottom.parts, facts.map_of("mask"), strict=True)
        if p in facts.batch
        for axis in axes
    }
    read = {loop for dims in positions[:-1] for loop in dims} | _indices(op)
    copies = [
        loop
        for axes, loop in zip(bottom.layout.dims, positions[-1], strict=True)
        if axes and {*axes} <= batch and loop is not None and loop not in read
    ]
    block = op.regions[0].blocks[0]
    reads_destination = next(iter(block.arguments[len(block.arguments) - 1].uses), None)
    if not copies or reads_destination is not None:
        return None
    return _Made(op, frozenset(copies), positions)


def _indices(op: ir.Operation) -> set[int | None]:
    """The loops whose index the body of a linalg op reads."""
    return {
        ir.IntegerAttr(inner.operation.attributes["dim"]).value
        for inner in op.regions[0].blocks[0].operations
        if inner.operation.name == "linalg.index"
    }


def _make_once(made: _Made, swept: Swept) -> None:
    """Makes one of the copies, and a repeat of it for who reads them."""
    op, build = made.op, Builder(made.op)
    (result,) = op.results
    kept = [loop for loop in range(len(made.positions[-1])) if loop not in made.loops]
    numbers = {loop: number for number, loop in enumerate(kept)}
    sizes = {loop: size for loop, size in zip(made.positions[-1], sizes_of(result), strict=True)}
    init = build.empty([sizes[loop] for loop in kept], element_type(result))
    attributes = copied_attributes(op)
    indexing = [
        *(_renumbered(dims, numbers) for dims in made.positions[:-1]),
        tuple(range(len(kept))),
    ]
    kinds = list(ir.ArrayAttr(op.attributes["iterator_types"]))[: len(kept)]
    attributes["indexing_maps"] = maps.maps_attribute(len(kept), indexing)
    attributes["iterator_types"] = ir.ArrayAttr.get(kinds, op.context)
    operands = [*list(op.operands)[:-1], init]
    one = build.create(op.name, [init.type], operands, attributes, regions=1)
    source = op.regions[0].blocks[0]
    types = [argument.type for argument in source.arguments]
    block = one.regions[0].blocks.append(*types, arg_locs=[op.location] * len(types))
    copy_body(source, block, range(len(types)), numbers)
    everywhere = made.positions[-1]
    repeat = build.generic(
        [one.results[0]],
        [build.empty(sizes_of(result), element_type(result))],
        [tuple(kept), everywhere],
        lambda _, x: [x[0]],
    )
    result.replace_all_uses_with(repeat[0])
    swept.append(op)


def _renumbered(dims: Sequence[int | None], numbers: dict[int, int]) -> maps.Positions:
    return tuple(None if loop is None else numbers[loop] for loop in dims)
