"""How many workgroups keep a CPU's workers busy, whose number is known only at run time.

IREE 3.13's workers take one workgroup at a time where there are fewer than eight for each of them,
else eight. With 16 workers 96 and 768 workgroups keep 14.4 of them busy, 384 13.5, 192 11.4
(measured on Emerald Rapids, docs/notes/cpu.md).
"""

from __future__ import annotations

from math import ceil

# Workgroups that are taken at once, where there are many.
CLAIM = 8
# Numbers of workers that count, 16 the most.
WORKERS = (8, 16, 16, 16, 32)


def busy(count: int) -> float:
    """The part of its time that a worker has work, of `count` workgroups of one size: the last
    claims end half a claim apart."""
    return sum(_busy(count, workers) for workers in WORKERS) / len(WORKERS)


def _busy(count: int, workers: int) -> float:
    claim = CLAIM if count >= CLAIM * workers else 1
    rounds = ceil(ceil(count / claim) / workers)
    return count / (workers * claim * (rounds + 0.5))


def reached(tile: tuple[int, int], rows: int, columns: int, fixed_rows: float) -> float:
    """The part of their speed that many cores reach where a workgroup has a tile of (rows,
    columns), and takes as long as `fixed_rows` of them before it begins."""
    high, wide = tile
    return busy(ceil(rows / high) * columns // wide) * high / (high + fixed_rows)


def divisors(number: int) -> list[int]:
    return [size for size in range(1, number + 1) if number % size == 0]
