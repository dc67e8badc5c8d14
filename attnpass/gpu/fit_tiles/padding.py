"""Head dims, keys and masks with elements behind their own, where attention has a kernel for larger
ones only (ir/padding.py says how IREE writes them fastest).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from iree.compiler import ir

from ...attention.edit import edit, iteration_size
from ...attention.facts import AttentionFacts
from ...ir import Builder, element_type, is_float, sizes_of, static_size
from ...ir.padding import is_padded_in_place, pad_behind
from ...layout.rules.transposes import is_transposed, slice_before
from ...machines import Target


def pad_heads(facts: AttentionFacts, target: Target) -> str | None:
    """Pads the head dims of Q, K and V where attn-configure has a kernel for wider ones only."""
    heads = target.padded_heads(facts)
    if heads is None:
        return None
    pad_dims(facts, {facts.k1[0]: heads[0], facts.n[0]: heads[1]})
    old = [facts.sizes[dim] for dim in (*facts.k1, *facts.n)]
    return (
        f"head dims {old[0]} and {old[1]} are padded with zeros to {heads[0]} and {heads[1]}, "
        "which have a kernel"
    )


def pad_keys(facts: AttentionFacts, target: Target) -> str | None:
    """Pads K, V and the mask where attn-configure has a kernel for a few more keys only, of a
    known number."""
    keys = target.padded_keys(facts)
    if keys is None:
        return None
    pad_dims(facts, {facts.k2[0]: keys})
    return (
        f"{facts.sizes[facts.k2[0]]} keys are padded to {keys}, whole kernel tiles, the added "
        "ones masked"
    )


def pad_dims(facts: AttentionFacts, wanted: Mapping[int, int]) -> None:
    """Gives the users of an attention the same one whose iteration dims of known sizes have the
    larger ones `wanted`: zeros stand behind the elements of operands, and a mask hides keys."""
    build, made = Builder(facts.op), edit(facts)
    for name in facts.tensor_operands:
        made = made.operand(name, _padded(facts, name, wanted, build))
    keys = [dim for dim in facts.k2 if dim in wanted]
    if keys and not facts.has_mask:
        made = made.mask(_mask(facts, keys, wanted, build), tuple(keys))
    made.replace()


def _padded(
    facts: AttentionFacts, name: str, wanted: Mapping[int, int], build: Builder
) -> ir.Value:
    """An operand with elements added: zeros, or what hides keys in a mask."""
    value, positions = facts.value(name), facts.map_of(name)
    if facts.kind == "attention" and name == "output" and {*positions} & {*wanted}:
        sizes = [
            size if dim is None else wanted.get(dim, size)
            for dim, size in zip(positions, sizes_of(value), strict=True)
        ]
        return build.empty(sizes, element_type(value))
    hides = -math.inf if name == "mask" and is_float(element_type(value)) else 0
    for place, dim in enumerate(positions):
        old = None if dim is None else facts.sizes[dim]
        if dim is not None and old is not None and wanted.get(dim, old) > old:
            free = is_padded_in_place(value, [place]) or _has_gaps_by_index(value)
            value = pad_behind(build, value, place, wanted[dim] - old, hides, free)
    return value


def _mask(
    facts: AttentionFacts, keys: Sequence[int], wanted: Mapping[int, int], build: Builder
) -> ir.Value:
    """A mask that hides the added keys."""
    old = [static_size(iteration_size(facts, dim)) for dim in keys]
    seen = build.all_true(old)
    hidden = build.constant_number(0, element_type(seen))
    kind = build.tensor_type([wanted[dim] for dim in keys], element_type(seen))
    more = [wanted[dim] - size for dim, size in zip(keys, old, strict=True)]
    return build.pad(seen, kind, [0] * len(keys), more, hidden)


def _has_gaps_by_index(value: ir.Value) -> bool:
    """Whether a value is a slice behind which IREE puts a transpose, and then reads it by indices
    as if it had no gaps."""
    piece = slice_before(value)
    return piece is not None and is_transposed(piece.operands[0])
