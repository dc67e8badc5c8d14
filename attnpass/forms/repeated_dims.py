"""Repeats in front of attention that must not become part of it.

IREE 3.13 lets attention read a value instead of its repeat, where a view joins what is repeated to
another dim: that dim becomes two, one of which the operand lacks. Heads of grouped queries are read
so. Rows, keys and head dims are two dims then, which no kernel of IREE's is for; where a dim is
lacked by all operands the compiler crashes; and where K or V lacks keys, or Q or K a head dim that
the other has, the numbers are wrong.
"""

from __future__ import annotations

from iree.compiler import ir

from ..attention.facts import AttentionFacts
from ..ir import sizes_of, tensor_bytes
from ..layout.axes import Axes, Dims, source_below

_OPERANDS = ("query", "key", "value")


def repeats_to_keep(facts: AttentionFacts) -> list[str]:
    """The operands whose repeats attention is not to read past."""
    axes = Axes()
    dims: dict[int, tuple[int, ...]] = {}
    lost: dict[str, set[int]] = {}
    for operand in _OPERANDS:
        sizes = sizes_of(facts.value(operand))
        for dim, size in zip(facts.map_of(operand), sizes, strict=True):
            if dim is not None and dim not in dims:
                dims[dim] = axes.new(size)
        of = tuple(() if dim is None else dims[dim] for dim in facts.map_of(operand))
        lost[operand] = _repeated(facts.value(operand), of, axes)
    lost = {operand: {*axes.now([*along])} for operand, along in lost.items()}
    axes_of = {dim: {*axes.now(of)} for dim, of in dims.items()}
    kept = {operand for operand in _OPERANDS if _cuts_tile(facts, operand, axes_of, lost[operand])}
    for dim, along in axes_of.items():
        readers = [operand for operand in _OPERANDS if dim in facts.map_of(operand)]
        if along.intersection(*(lost[operand] for operand in readers)) and not kept & {*readers}:
            kept.add(min(readers, key=lambda operand: tensor_bytes(facts.value(operand))))
    return [operand for operand in _OPERANDS if operand in kept]


def _cuts_tile(
    facts: AttentionFacts, operand: str, axes_of: dict[int, set[int]], lost: set[int]
) -> bool:
    """Whether the operand repeats a part of its rows or of a head dim, or lacks one that is summed
    over: keys, or the head dim of Q and K."""
    dims = {*facts.map_of(operand)}
    summed = [axes_of[dim] for dim in (*facts.k1, *facts.k2) if dim in dims]
    parts = [axes_of[dim] for dim in (*facts.m, *facts.n) if dim in dims]
    return any(part & lost for part in summed) or any(
        part & lost and not part <= lost for part in parts
    )


def _repeated(value: ir.Value, dims: Dims, axes: Axes) -> set[int]:
    """The axes along which `value`, which has `dims`, is only repeated."""
    _, below = source_below(value, dims, axes)
    there, left = ({axis for dim in axes.dims(of) for axis in dim} for of in (dims, below))
    return there - left
