"""How long products take with a kernel and without: what decides where a kernel is taken.

Read off runs of the kernels alone on an NVIDIA H200, operands not in the cache, in words (those of
bench/results/product_kernels_h200.json are in modules):

- tiles of 128 x 256 take 11.5 ns for each element of depth and wave of workgroups, those of
  128 x 128 5.9, and 5 us in all beside that. What is done behind a product adds to each wave:
  2.6 us of GELU, half of it for half of the columns; nothing that counts of a residual. Where
  weights take longer, 2.6 TB/s: 8, 32 and 64 rows of 14336 columns took 52, 52 and 45 us.
- few rows take 2.4 us and the weights at 3.75 TB/s (up to 8 rows), 3.1 (16) or 2.8 (64).

IREE's are those of whole blocks there, its best: 4 us and 375 TFLOPS, 125 where the number of rows
is known only at run time (taken for operands in f32, too), and few rows 1.85 TB/s.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...machines import Target
from .manifest import ProductKernel

_TILE_ROWS = 128
_A_WAVE = {256: 11.5e-9, 128: 5.9e-9}
_TILE_RATE = 2.6e12
_FEW_ROWS = {8: 3.75e12, 16: 3.1e12, 64: 2.8e12}
_ACTIVATIONS = {"none": 0.8e-6, "gelu": 2.6e-6, "gelu_tanh": 2.2e-6, "silu": 2.2e-6}


@dataclass(frozen=True)
class ProductWork:
    """A product's size; `known` says whether its rows are, `count` of them are computed, `in_f32`
    by IREE: of operands that it was given so."""

    rows: int
    n: int
    k: int
    known: bool
    count: int = 1
    in_f32: bool = False

    @property
    def flops(self) -> float:
        return 2.0 * self.rows * self.n * self.k * self.count

    @property
    def bytes_moved(self) -> float:
        read = self.rows * self.k + self.n * self.k * self.count
        return 2.0 * (read + self.rows * self.n)


def iree_product_seconds(work: ProductWork) -> float:
    """IREE's code for this product, configured by attnpass."""
    rate = 3.75e14 if work.known and not work.in_f32 else 1.25e14
    return 4e-6 * work.count + max(work.flops / rate, work.bytes_moved / 1.85e12)


def turn_seconds(work: ProductWork) -> float:
    """IREE's code that turns the weights of one product: not measured, taken to be slow."""
    return 4e-6 + 4.0 * work.n * work.k / 0.7e12


def product_seconds(work: ProductWork, kernel: ProductKernel, target: Target) -> float:
    """The kernel's time: in whole waves of workgroups, or reading the weights once."""
    if kernel.most_rows:
        return 2.4e-6 + work.bytes_moved / _FEW_ROWS[kernel.most_rows]
    columns = kernel.columns_per_tile // work.count
    tiles = math.ceil(work.rows / _TILE_ROWS) * math.ceil(work.n / columns)
    waves = max(tiles / target.compute_units, 1)
    waves = math.ceil(waves) if work.known else waves
    behind = _ACTIVATIONS[kernel.activation] * kernel.columns_per_tile / 256
    a_wave = work.k * _A_WAVE[kernel.columns_per_tile] + behind
    return 5e-6 + max(waves * a_wave, work.bytes_moved / _TILE_RATE)
