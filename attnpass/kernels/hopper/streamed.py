"""How products of few rows are divided among workgroups, by what was measured on an NVIDIA H200.

A workgroup computes a tile of one or more blocks of 64 columns, or a part of its depth, and reads
the rows, too. Microseconds of 8 and of 64 rows, weights (n, k) of f16 from memory, by CUDA graphs,
as `parts of the depth x workgroups of a cluster`, one, two or three of them on a multiprocessor:

| columns x depth | rows | 4 x 4, two | 2 x 2, one | 2 x 2, two | 2 x 2, three | 1 x 2, most |
| --- | ---: | ---: | ---: | ---: | ---: | ---: |
| 1024 x 4096 | 8 | 6.8 | 8.5 | 8.6 | 9.3 | |
| 1024 x 4096 | 64 | 8.8 | 11.4 | 11.6 | 18.4 | |
| 4096 x 4096 | 8 | | 12.4 | 12.1 | 12.2 | |
| 4096 x 4096 | 64 | | 13.6 | 14.8 | 20.7 | |
| 6144 x 4096 | 8 | | | 17.6 | 16.5 | 17.2 |
| 6144 x 4096 | 64 | | | 18.7 | 23.9 | 19.6 |
| 4096 x 14336 | 64 | | 34.9 | 38.3 | 58.5 | |
| 14336 x 4096 | 8 | | | 31.7 | 31.5 | 30.5 |
| 14336 x 4096 | 64 | | | 35.9 | | 34.7 |

(With one warpgroup for copies and products; with one for each, which is what is built, 14336 x
4096 take 30.9 and 34.0.) So a depth is divided where there are few columns, until there is about a
workgroup for each multiprocessor. As many run on one as have room for what is on its way. Clusters
of four do not reach all multiprocessors: 120 workgroups that are alone there, 248 of two.
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
