"""The iteration space that a split attention uses: unit rows and batch dims are gone, rows
lie in one dim, and dims stand in the order batch, split, m, n, k1, k2."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from iree.compiler import ir

from ..attention.edit import Dims, iteration_size
from ..attention.facts import AttentionFacts
from ..ir import Builder, Size, sizes_of


@dataclass(frozen=True)
class SplitSpace:
    """What iteration dims become, the split dim left out: none of unit dims that nothing needs,
    one of the m dims `rows`, which lie side by side in every operand. The new dims are the old
    ones `kept`; the split dim stands behind the first `batch` of them."""

    facts: AttentionFacts
    dims: Dims
    rows: tuple[int, ...]
    kept: tuple[int, ...]
    batch: int

    def positions(self, name: str) -> tuple[int, ...]:
        """The operand's new dims as they stand in its normal form."""
        new = self.dims.map_of(self.facts.map_of(name))
        return tuple(dict.fromkeys(dim for dim in new if dim is not None))

    def size(self, dim: int) -> Size:
        """Size of a new dim."""
        old = self.kept[dim]
        if old in self.rows:
            total = self.facts.extent(self.rows)
            assert total is not None
            return total
        static = self.facts.sizes[old]
        return iteration_size(self.facts, old) if static is None else static

    def normal(self, name: str, build: Builder) -> ir.Value:
        """The operand without dropped dims and with its rows in one dim."""
        value = self.facts.value(name)
        parts = [
            [size] * count for size, count in zip(sizes_of(value), self._counts(name), strict=True)
        ]
        return build.collapse(build.split_dims(value, parts), self._groups(name))

    def restore(self, name: str, value: ir.Value, build: Builder) -> ir.Value:
        """The inverse of `normal`, for a result."""
        counts, sizes = self._counts(name), sizes_of(self.facts.value(name))
        left = [size for size, count in zip(sizes, counts, strict=True) if count]
        return build.join_dims(build.expand(value, self._groups(name), left), counts, sizes)

    def _counts(self, name: str) -> list[int]:
        """For each dim of an operand 1, 0 where it is dropped."""
        return [1 if dim is None else len(self.dims.of[dim]) for dim in self.facts.map_of(name)]

    def _groups(self, name: str) -> list[list[int]]:
        """The dims of an operand, without dropped ones, that become one each."""
        new = self.dims.map_of(self.facts.map_of(name))
        groups = itertools.groupby(range(len(new)), lambda at: new[at])
        return [list(group) for _, group in groups]


def normal_space(facts: AttentionFacts) -> SplitSpace:
    """The space for this attention: what can be dropped and packed is."""
    dropped = frozenset(
        dim
        for dim in (*facts.batch, *facts.m)
        if dim not in facts.score_index_dims and facts.is_unit(dim)
    )
    many = [dim for dim in facts.map_of("query") if dim in facts.m and dim not in dropped]
    rows = tuple(many) if len(many) > 1 and _can_pack(facts, many, dropped) else ()
    order = (*facts.batch, *facts.m, *facts.n, *facts.k1, *facts.k2)
    kept = tuple(dim for dim in order if dim not in dropped and dim not in rows[1:])
    of: dict[int, tuple[int, ...]] = dict.fromkeys(dropped, ())
    of |= {dim: (number,) for number, dim in enumerate(kept)}
    of |= {dim: (kept.index(many[0]),) for dim in rows}
    return SplitSpace(facts, Dims(of, len(kept)), rows, kept, sum(d in facts.batch for d in kept))


def _can_pack(facts: AttentionFacts, rows: Sequence[int], dropped: frozenset[int]) -> bool:
    """Whether `rows` stand side by side, in this order, in every operand that has any."""
    if facts.score_index_dims & set(rows):
        return False
    for name in facts.tensor_operands:
        positions = [p for p in facts.map_of(name) if p not in dropped]
        if not set(rows) & set(positions):
            continue
        start = positions.index(rows[0]) if rows[0] in positions else len(positions)
        if positions[start : start + len(rows)] != list(rows):
            return False
    return True
