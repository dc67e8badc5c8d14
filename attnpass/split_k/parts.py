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

    @property
    def key(self) -> int:
        """The dim of the keys that are split."""
        return self.space.dims.of[self.plan.dim][0]

    def result_dims(self, name: str) -> tuple[int, ...]:
        """Dims of `output`, `max` or `sum`; `attention` itself has no max and sum."""
        if name in self.facts.result_names:
            return self.space.positions(name)
        rows = {*self.facts.batch, *self.facts.m}
        return tuple(dim for dim, old in enumerate(self.space.kept) if old in rows)

    def with_split(self, dims: Sequence[int]) -> tuple[int | None, ...]:
        """`dims` with the split dim (None) before the first that is no batch dim."""
        batch = self.space.batch
        place = next((i for i, dim in enumerate(dims) if dim >= batch), len(dims))
        return (*dims[:place], None, *dims[place:])

    def numbers(self, dims: Sequence[int | None], chunked: bool) -> tuple[int, ...]:
        """`dims` as attention counts them, over chunks with the split dim (None) behind those of
        the batch."""
        batch = self.space.batch
        return tuple(
            batch if dim is None else dim + (1 if chunked and dim >= batch else 0) for dim in dims
        )

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
