"""What a split attention is made of: its inputs in normal form, the chunking as sizes, and
the (output, max, sum) triples that partial attention gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iree.compiler import ir

from ..attention.facts import AttentionFacts
from ..ir import Builder, DynamicSize, Size
from .plan import SplitPlan
from .space import SplitSpace

Triple = tuple[ir.Value, ir.Value, ir.Value]


@dataclass(frozen=True)
class Operands:
    """The attention's inputs in normal form, its result maps, and the chunking as sizes."""

    space: SplitSpace
    plan: SplitPlan
    values: dict[str, ir.Value]
    splits: Size
    chunk: Size
    covered: Size
    tail: Size

    @property
    def facts(self) -> AttentionFacts:
        return self.space.facts

    def result_dims(self, name: str) -> tuple[int, ...]:
        """Old dims of `output`, `max` or `sum`; `attention` itself has no max and sum."""
        if name in self.facts.result_names:
            return self.space.positions(name)
        rows = {*self.facts.batch, *self.facts.m}
        return tuple(dim for dim in self.space.kept if dim in rows)

    def with_split(self, dims: Sequence[int]) -> tuple[int | None, ...]:
        """`dims` with the split dim (None) before the first that is no batch dim."""
        batch = self.facts.batch
        place = next((i for i, dim in enumerate(dims) if dim not in batch), len(dims))
        return (*dims[:place], None, *dims[place:])

    def result_sizes(self, name: str, build: Builder, chunked: bool = False) -> list[Size]:
        """Sizes of a result, dynamic ones computed where `build` stands; with the split dim
        if `chunked`."""
        dims = self.result_dims(name)
        sizes: list[Size] = []
        for dim in self.with_split(dims) if chunked else dims:
            size = self.splits if dim is None else self.space.size(dim)
            sizes.append(size if isinstance(size, int) else DynamicSize(build.size(size)))
        return sizes


def triple(values: Sequence[ir.Value]) -> Triple:
    """Three results as a triple."""
    output, maximum, total = values
    return output, maximum, total
