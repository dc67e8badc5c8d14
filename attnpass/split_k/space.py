"""The iteration space that a split attention uses: unit rows and batch dims are gone, rows
lie in one dim, and dims stand in the order batch, split, m, n, k1, k2."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iree.compiler import ir

from ..attention.edit import iteration_size
from ..attention.facts import AttentionFacts
from ..ir import Builder, Size, maps, sizes_of


@dataclass(frozen=True)
class SplitSpace:
    """Old iteration dims by what becomes of them, and the new numbers.

    `dropped` are unit dims that nothing needs; `rows` are m dims that lie side by side in
    every operand and become one dim (the first of them), or empty.
    """

    facts: AttentionFacts
    dropped: frozenset[int]
    rows: tuple[int, ...]
    kept: tuple[int, ...]

    def new_dims(self, with_split: bool) -> dict[int, int]:
        """New number of every old dim that is kept; the split dim is `split_number`."""
        first = self.split_number
        numbers = {
            dim: i + (1 if with_split and i >= first else 0) for i, dim in enumerate(self.kept)
        }
        return {**numbers, **{dim: numbers[self.rows[0]] for dim in self.rows}}

    @property
    def split_number(self) -> int:
        """Where the split dim stands: behind the batch dims."""
        return sum(dim in self.facts.batch for dim in self.kept)

    def positions(self, name: str) -> tuple[int, ...]:
        """The operand's old dims as they stand in its normal form."""
        return tuple(
            dim
            for dim in self.facts.map_of(name)
            if dim is not None and dim not in self.dropped and dim not in self.rows[1:]
        )

    def size(self, dim: int) -> Size:
        """Size of an old dim that is kept; rows count together."""
        if dim in self.rows:
            total = self.facts.extent(self.rows)
            assert total is not None
            return total
        static = self.facts.sizes[dim]
        return iteration_size(self.facts, dim) if static is None else static

    def normal(self, name: str, build: Builder) -> ir.Value:
        """The operand without dropped dims and with its rows in one dim."""
        value, positions = self.facts.value(name), self.facts.map_of(name)
        sizes = sizes_of(value)
        pieces = [[] if p in self.dropped else [sizes[d]] for d, p in enumerate(positions)]
        value = build.split_dims(value, pieces)
        left = [p for p in positions if p not in self.dropped]
        groups: list[list[int]] = []
        for dim, p in enumerate(left):
            if p in self.rows[1:]:
                groups[-1].append(dim)
            else:
                groups.append([dim])
        return build.collapse(value, groups)

    def restore(self, name: str, value: ir.Value, build: Builder) -> ir.Value:
        """The inverse of `normal`, for a result."""
        positions, sizes = self.facts.map_of(name), sizes_of(self.facts.value(name))
        left = [dim for dim, p in enumerate(positions) if p not in self.dropped]
        groups: list[list[int]] = []
        for number, dim in enumerate(left):
            if positions[dim] in self.rows[1:]:
                groups[-1].append(number)
            else:
                groups.append([number])
        value = build.expand(value, groups, [sizes[dim] for dim in left])
        counts = [0 if p in self.dropped else 1 for p in positions]
        return build.join_dims(value, counts, sizes)


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
    return SplitSpace(facts, dropped, rows, kept)


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


def new_map(positions: Sequence[int], numbers: dict[int, int]) -> maps.Positions:
    return tuple(numbers[dim] for dim in positions)
