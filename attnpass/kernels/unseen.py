"""What the precompiled kernels need around them for rows that see no key.

They divide by a sum of weights that is 0 there, and their code is fixed: what they give is NaN,
so that others say which rows those are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from iree.compiler import ir

from ..attention import AttentionFacts
from ..ir import Builder, element_type, element_type_name, is_float, sizes_of
from ..mask_numbers import may_hide, may_hold_below, shows_each_row_a_key

# The kernels' running maximum begins at -1e20, in units of log2(e): masks stay above that.
_LOW, _SLOPE = -1e18, 1e-20


def with_zeros(facts: AttentionFacts, result: ir.Value, build: Builder) -> ir.Value:
    """The kernel's result for an attention, with 0 in rows whose mask hides every key."""
    if not _mask_may_hide_rows(facts):
        return result
    dims, output = facts.map_of("mask"), facts.map_of("output")
    reduced = tuple(at for at, dim in enumerate(dims) if dim in facts.k2)
    seen = _most_seen(facts.value("mask"), reduced, build)
    kept = [dim for dim in dims if dim not in facts.k2]
    places = tuple(None if dim is None else output.index(dim) for dim in kept)
    everywhere = tuple(range(len(output)))
    kind = element_type(result)

    def body(inner: Builder, x: Sequence[ir.Value]) -> list[ir.Value]:
        return [inner.select(_shows(inner, x[1]), x[0], inner.constant_float(0.0, kind))]

    init = build.empty(sizes_of(result), kind)
    return build.generic([result, seen], [init], [everywhere, places, everywhere], body)[0]


def within_range(build: Builder, mask: ir.Value) -> ir.Value:
    """A mask of numbers with those that lie below where the kernels' maximum begins brought
    above, in their order: a row of nothing else is the mean of V."""
    if not is_float(element_type(mask)) or not may_hold_below(mask, _LOW):
        return mask
    kind = element_type(mask)

    def body(inner: Builder, x: Sequence[ir.Value]) -> list[ir.Value]:
        low, slope = (inner.constant_float(value, kind) for value in (_LOW, _SLOPE))
        below = inner.compare_floats("olt", x[0], low)
        # -infinity times the slope stays.
        bent = inner.create("arith.mulf", [kind], [x[0], slope]).results[0]
        bent = inner.create("arith.addf", [kind], [bent, low]).results[0]
        return [inner.select(below, bent, x[0])]

    everywhere = tuple(range(len(sizes_of(mask))))
    init = build.empty(sizes_of(mask), kind)
    return build.generic([mask], [init], [everywhere, everywhere], body)[0]


def _mask_may_hide_rows(facts: AttentionFacts) -> bool:
    """Whether the mask could hide all keys of some rows."""
    if not facts.has_mask or not set(facts.k2) & set(facts.map_of("mask")):
        return False
    return may_hide(facts.value("mask")) and not shows_each_row_a_key(facts)


def _most_seen(mask: ir.Value, axes: Sequence[int], build: Builder) -> ir.Value:
    """The largest number of each row of a mask, without its dims `axes`: 0 or 1 of truth values."""
    numbers = is_float(element_type(mask))
    kind = element_type(mask) if numbers else ir.IntegerType.get_signless(32, mask.type.context)
    sizes = [size for at, size in enumerate(sizes_of(mask)) if at not in axes]
    least = -math.inf if numbers else 0
    everywhere = tuple(range(len(sizes) + len(axes)))
    kept = tuple(dim for dim in everywhere if dim not in axes)

    def body(inner: Builder, x: Sequence[ir.Value]) -> list[ir.Value]:
        if numbers:
            return [inner.create("arith.maximumf", [kind], x[:2]).results[0]]
        shown = inner.create("arith.extui", [kind], [_shows(inner, x[0])]).results[0]
        return [inner.create("arith.maxui", [kind], [x[1], shown]).results[0]]

    def reduction(inner: Builder) -> list[ir.Value]:
        start = inner.fill(inner.constant_number(least, kind), inner.empty(sizes, kind))
        return inner.generic([mask], [start], [everywhere, kept], body)

    # Alone: IREE's CUDA kernels fail on one beside what makes the mask.
    return build.dispatch_region([(sizes, kind)], reduction)[0]


def _shows(build: Builder, most: ir.Value) -> ir.Value:
    """Whether an element of a mask lets its key be seen, or the largest of a row one of its."""
    if is_float(most.type):
        hidden = build.constant_float(-math.inf, most.type)
        return build.compare_floats("une", most, hidden)
    if element_type_name(most) == "i1":
        return most
    return build.compare("ne", most, build.constant_number(0, most.type))
