"""How products of few rows are divided among workgroups, by what was measured on an NVIDIA H200.

A workgroup computes a tile of one or more blocks of 64 columns, or a part of its depth, and reads
the rows, too. A depth is divided where there are few columns, until there is about a workgroup for
each multiprocessor; as many run on one as have room for what is on its way. Clusters of four do
not reach all multiprocessors: 120 workgroups that are alone there, 248 of two. The measurements
stand in docs/notes/kernels.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from .manifest import ProductKernel


@dataclass(frozen=True)
class Division:
    """`parts` of the depth, tiles of `width` blocks of columns, `rounds` of them one after the
    other for a workgroup, and how many `workgroups` there are."""

    parts: int
    width: int
    rounds: int
    workgroups: int

    @property
    def number(self) -> int:
        """As kernels are told, see cuda/streamed.cu."""
        return self.parts | self.width << 4 | self.rounds << 8


def division(kernel: ProductKernel, n: int, units: int) -> Division | None:
    """How a kernel for few rows divides a product with n columns among so many multiprocessors;
    None if another kernel is meant for these."""
    blocks = math.ceil(n / kernel.columns_per_workgroup)
    if 4 * blocks <= units:
        return _divided(kernel, blocks, 4, units) if kernel.cluster == 4 else None
    if kernel.cluster == 4:
        return None
    parts = 2 if blocks <= units else 1
    # Where two may run on a multiprocessor, there is a kernel with room for one alone, too.
    alone = parts * blocks <= units
    if kernel.resident <= 2 and alone != (kernel.resident == 1):
        return None
    return _divided(kernel, blocks, parts, units)


def _divided(kernel: ProductKernel, blocks: int, parts: int, units: int) -> Division:
    teams = units * kernel.resident // kernel.cluster * kernel.cluster // parts
    width = 1 if blocks <= teams else kernel.most_blocks
    tiles = math.ceil(blocks / width)
    rounds = math.ceil(tiles / teams)
    assert parts == 1 or rounds == 1, "each part writes its sums once"
    clusters = math.ceil(math.ceil(tiles / rounds) * parts / kernel.cluster)
    return Division(parts, width, rounds, clusters * kernel.cluster)
