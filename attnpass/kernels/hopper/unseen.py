"""What the precompiled kernels need around them for rows that see no key, and for masks of large
numbers.

They subtract a row's maximum, rounded, from scores that are not: with masks of large numbers that
difference is no longer near 0, and its power of 2 no number of f16. So numbers far below a row's
largest become -infinity, and a row of nothing but low numbers is moved to 0. Where its numbers
absorb the scores the row is the mean of V: kernels that settle unseen rows find `EVEN_IN_KERNELS`
there, and take it for the scores; before others Q is 0. Rows that see no key have no weights, and
are 0 in all kernels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from iree.compiler import ir

from ...attention.facts import AttentionFacts
from ...attention.mask_numbers import may_hold_below, shows_each_row_a_key
from ...attention.sinks import AttentionWithSink
from ...ir import Builder, element_type, element_type_name, is_float, sizes_of
from ...ir.limits import (
    ABSORBS_IN_KERNELS,
    EVEN_IN_KERNELS,
    FAR_IN_KERNELS,
    HIDES_IN_KERNELS,
)
from ...ir.regions import computed_from


def row_maximum(facts: AttentionFacts, build: Builder) -> ir.Value | None:
    """The largest number of each row of a mask whose rows may hold nothing but numbers that the
    kernels cannot add; None where there is no such row."""
    # A sink's weight has to be compared with those of keys that are far below it.
    if isinstance(facts, AttentionWithSink):
        return None
    if not _holds_below(facts, FAR_IN_KERNELS) or shows_each_row_a_key(facts):
        return None
    reduced, _ = _axes(facts)
    return _most_seen(facts.value("mask"), reduced, build)


def within_range(
    build: Builder, facts: AttentionFacts, most: ir.Value | None, settles: bool
) -> ir.Value:
    """The mask, in numbers that the kernel can add: far below the largest of its row (`most`, of
    `row_maximum`) it hides keys, and a row that is far below 0 is moved there, which changes no
    weight. For a kernel that `settles` unseen rows, those that absorb scores say so."""
    mask = facts.value("mask")
    if not _holds_below(facts, FAR_IN_KERNELS):
        return mask
    kind = element_type(mask)
    evens = settles and _holds_below(facts, ABSORBS_IN_KERNELS)

    def body(inner: Builder, x: Sequence[ir.Value]) -> ir.Value:
        near, limit = x[0], inner.constant_float(HIDES_IN_KERNELS, kind)
        shown = near
        if most is not None:
            zero = inner.constant_float(0.0, kind)
            base = inner.select(_far_below(inner, x[1], FAR_IN_KERNELS), x[1], zero)
            near = inner.create("arith.subf", [kind], [near, base]).results[0]
            shown = near
        if most is not None and evens:
            even = inner.constant_float(EVEN_IN_KERNELS, kind)
            shown = inner.select(_far_below(inner, x[1], ABSORBS_IN_KERNELS), even, near)
        hidden = inner.constant_float(-math.inf, kind)
        return inner.select(inner.compare_floats("olt", near, limit), hidden, shown)

    _, kept = _axes(facts)
    of_rows = [] if most is None else [(most, kept)]
    return build.computed(sizes_of(mask), kind, body, mask, *of_rows)


def as_numbers(build: Builder, mask: ir.Value) -> ir.Value:
    """A mask of numbers, or of truth values, which become 0 and -inf, as what is added, in f32."""
    f32 = ir.F32Type.get()
    if element_type_name(mask) == "f32":
        return mask

    def body(inner: Builder, shown: ir.Value) -> ir.Value:
        if is_float(shown.type):
            return inner.cast_float(shown, f32)
        nothing, hidden = (inner.constant_float(value, f32) for value in (0.0, -math.inf))
        if element_type_name(shown) != "i1":
            shown = inner.compare("ne", shown, inner.constant_number(0, shown.type))
        return inner.select(shown, nothing, hidden)

    return computed_from(build, mask, f32, body)


def without_absorbed(
    build: Builder, facts: AttentionFacts, query: ir.Value, most: ir.Value | None
) -> ir.Value:
    """The query, 0 in rows of a mask whose numbers are so low that scores do not change them."""
    if most is None or not _holds_below(facts, ABSORBS_IN_KERNELS):
        return query
    kind, rows = element_type(query), facts.map_of("query")
    _, kept = _axes(facts)
    dims = facts.map_of("mask")
    places = tuple(None if dims[at] is None else rows.index(dims[at]) for at in kept)

    def body(inner: Builder, x: Sequence[ir.Value]) -> ir.Value:
        zero = inner.constant_float(0.0, kind)
        return inner.select(_far_below(inner, x[1], ABSORBS_IN_KERNELS), zero, x[0])

    return build.computed(sizes_of(query), kind, body, query, (most, places))


def _far_below(build: Builder, most: ir.Value, limit: float) -> ir.Value:
    """Whether a row's largest number is finite and below `limit`."""
    low = build.compare_floats("olt", most, build.constant_float(limit, most.type))
    number = build.compare_floats("une", most, build.constant_float(-math.inf, most.type))
    return build.create("arith.andi", [low.type], [low, number]).results[0]


def _holds_below(facts: AttentionFacts, limit: float) -> bool:
    """Whether there is a mask of numbers that may hold finite ones below `limit`."""
    mask = facts.value("mask") if facts.has_mask else None
    return mask is not None and is_float(element_type(mask)) and may_hold_below(mask, limit)


def _axes(facts: AttentionFacts) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The mask's axes that are keys, and the others."""
    dims = facts.map_of("mask")
    keys = tuple(at for at, dim in enumerate(dims) if dim in facts.k2)
    return keys, tuple(at for at in range(len(dims)) if at not in keys)


def _most_seen(mask: ir.Value, axes: Sequence[int], build: Builder) -> ir.Value:
    """The largest number of each row of a mask, without its dims `axes`."""
    kind, sizes = element_type(mask), sizes_of(mask)
    everywhere = tuple(range(len(sizes)))
    kept = tuple(dim for dim in everywhere if dim not in axes)
    rows = [sizes[at] for at in kept]

    def body(inner: Builder, x: Sequence[ir.Value]) -> list[ir.Value]:
        return [inner.create("arith.maximumf", [kind], x[:2]).results[0]]

    def reduction(inner: Builder) -> list[ir.Value]:
        start = inner.fill(inner.constant_number(-math.inf, kind), inner.empty(rows, kind))
        return inner.generic([mask], [start], [everywhere, kept], body)

    # Alone: IREE's CUDA kernels fail on one beside what makes the mask.
    return build.dispatch_region([(rows, kind)], reduction)[0]
