"""Attention whose head dims of Q.K and of V differ, where kernels have equal ones only: the smaller
is filled up with zeros, and the columns that come of these are cut off again."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property

from ...attention.edit import edit
from ...attention.facts import AttentionFacts, describe
from ...ir import Builder, element_bytes, element_type, sizes_of
from ...ir.padding import is_padded_in_place, pad_behind
from ...machines import Target

# Equal head dims that there are kernels for.
_KERNELS_HAVE = (*range(8, 129, 8), 256)


@dataclass(frozen=True)
class EvenHeads(AttentionFacts):
    """The same attention with head dims of `size`, which are `own` of Q.K and of V."""

    size: int
    own: tuple[int, int]

    @cached_property
    def sizes(self) -> tuple[int | None, ...]:
        own = list(super().sizes)
        for dim in (*self.k1, *self.n):
            own[dim] = self.size
        return tuple(own)

    @property
    def filled(self) -> tuple[str, ...]:
        """The operands of which elements are added."""
        return ("query", "key") if self.own[0] < self.size else ("value",)


def even_heads(facts: AttentionFacts) -> EvenHeads | None:
    """The attention with equal head dims; None where they are equal, or kernels have no such."""
    if type(facts) is not AttentionFacts or len(facts.k1) != 1 or len(facts.n) != 1:
        return None
    own, value = facts.extent(facts.k1), facts.extent(facts.n)
    if own is None or value is None or own == value:
        return None
    size = max(own, value)
    if size not in _KERNELS_HAVE:
        return None
    given = {one.name: getattr(facts, one.name) for one in fields(facts)}
    return EvenHeads(**given, size=size, own=(own, value))


def filling_seconds(facts: EvenHeads, target: Target) -> float:
    """What it takes to write operands anew with zeros behind their head dims."""
    seconds = 0.0
    for name in facts.filled:
        dims = (dim for dim in facts.map_of(name) if dim not in (None, *facts.k1, *facts.n))
        rows = facts.assumed_extent(tuple(dim for dim in dims if dim is not None))
        moved = rows * (min(facts.own) + facts.size) * element_bytes(facts.value(name))
        seconds += moved / target.bytes_per_second + target.launch_seconds
    return seconds


def with_even_heads(facts: AttentionFacts, size: int) -> AttentionFacts:
    """Gives the users of the attention the same one with head dims of `size`; the old one is left
    without uses. Needs a current context."""
    build, made = Builder(facts.op), edit(facts)
    for name in ("query", "key", "value"):
        value, place = facts.value(name), _column(facts, name)
        old = sizes_of(value)[place]
        assert isinstance(old, int)
        if old < size:
            free = is_padded_in_place(value, [place])
            made = made.operand(name, pad_behind(build, value, place, size - old, 0, free))
    value, place = facts.value("output"), _column(facts, "output")
    sizes = [size if at == place else old for at, old in enumerate(sizes_of(value))]
    made = made.operand("output", build.empty(sizes, element_type(value)))
    return describe(made.replace())


def _column(facts: AttentionFacts, name: str) -> int:
    """Which dim of an operand is a head dim."""
    (dim,) = facts.k1 if name in ("query", "key") else facts.n
    return facts.map_of(name).index(dim)
