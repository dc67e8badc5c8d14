"""Attention over a cache of latents, as DeepSeek decodes: V is the first columns of K, so that one
cache is read for both. Here this is proven, and the cache is found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from iree.compiler import ir

from ...attention.facts import AttentionFacts
from ...ir import (
    Builder,
    Refusal,
    Size,
    defining_op,
    element_bytes,
    product,
    ranked_shape,
    sizes_of,
)
from ...ir.views import IN_PLACE, below_views
from .places import UNIT, HeadPlace, StridedAxis, divided, heads_of, lying_in, numbers_of_heads

_CONCAT = "tensor.concat"


@dataclass(frozen=True)
class LatentPlace:
    """Where the columns lie that K and V share, and those that K alone has."""

    key: HeadPlace
    rest: HeadPlace

    def numbers(self, build: Builder) -> dict[str, Size]:
        """The kernel's words for them."""
        found: dict[str, Size] = {}
        for name, place in (("key", self.key), ("rest", self.rest)):
            assert place.source is not None, "a place that is read"
            unit = UNIT // element_bytes(place.source)
            found |= numbers_of_heads(build, name, place, unit)
        return found

    @property
    def sources(self) -> list[ir.Value]:
        """The tensors that both lie in: one cache, or two."""
        return [place.source for place in (self.key, self.rest) if place.source is not None]


def latent_place(
    facts: AttentionFacts, sources: Mapping[str, ir.Value], orders: Mapping[str, Sequence[int]]
) -> LatentPlace | Refusal:
    """Where a kernel for latents reads K and V; why it cannot. `sources` are both without their
    repeats, in the orders in which it wants their dims."""
    columns = facts.extent(facts.n)
    assert columns is not None, "a head dim that the kernel has"
    values = {*_rows(sources["value"], orders["value"])}
    key = sources["key"]
    found = [
        LatentPlace(place, replace(place, starts=(*place.starts, columns)))
        for place in _rows(key, orders["key"])
    ]
    found += _joined(key, orders["key"], columns)
    same = [each for each in found if each.key in values]
    if not same:
        return Refusal(
            f"V is not known to be the first {columns} columns of K: kernels for head dims "
            f"{facts.extent(facts.k1)} and {columns} read one cache for both"
        )
    near = [each for each in same if len(each.key.heads) < 2]
    return near[0] if near else Refusal("the heads of K and V do not lie at equal distances")


def _rows(value: ir.Value, order: Sequence[int]) -> Iterator[HeadPlace]:
    """All the ways to say where the rows of `value` lie, whose dims are wanted in this order, the
    deepest first."""
    *heads, row, column = order
    for place in lying_in(value):
        found = heads_of(place, heads, row, column, sizes_of(value)[column])
        if found is not None:
            yield _without_paths(found)


def _without_paths(place: HeadPlace) -> HeadPlace:
    """The place by its distances alone, whatever dims they are of; how many of the outermost there
    are does not matter to them, and is the same in K and V."""
    axes = enumerate(place.heads)
    heads = [StridedAxis(each.size if at else 0, each.stride, ()) for at, each in axes]
    return replace(place, heads=tuple(heads))


def _joined(key: ir.Value, order: Sequence[int], columns: int) -> Iterator[LatentPlace]:
    """Where K's columns lie if it joins latents and what V lacks, each a tensor of its own."""
    whole = below_views(key, IN_PLACE)
    op = defining_op(whole, _CONCAT)
    if op is None or len(op.operands) != 2:
        return
    widths = [ranked_shape(operand)[-1] for operand in op.operands]
    dim = ir.IntegerAttr(op.attributes["dim"]).value
    if dim != len(ranked_shape(whole)) - 1 or widths[0] != columns or widths[1] is None:
        return
    for place in _rows(key, order):
        if place.source == whole:
            parts = [
                _part(place, below_views(operand, IN_PLACE), width, columns + widths[1])
                for operand, width in zip(op.operands, (columns, widths[1]), strict=True)
            ]
            latents, rest = parts
            if latents is not None and rest is not None:
                yield LatentPlace(latents, rest)


def _part(place: HeadPlace, source: ir.Value, width: int, whole: int) -> HeadPlace | None:
    """The place of the same rows in a part, `width` of the `whole` elements of each; None where
    that is not aligned."""
    strides = [place.row, *(axis.stride for axis in place.heads)]
    counts = [divided(stride, whole) for stride in strides]
    if place.starts or width * element_bytes(source) % UNIT:
        return None
    row, *heads = [None if count is None else product([count, width]) for count in counts]
    axes = [
        StridedAxis(axis.size, stride, ())
        for axis, stride in zip(place.heads, heads, strict=True)
        if stride is not None
    ]
    complete = row is not None and len(axes) == len(heads)
    return HeadPlace(source, (), tuple(axes), row) if row is not None and complete else None
