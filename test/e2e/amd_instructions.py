"""What the matrix instructions of AMD GPUs compute, by where each lane holds its elements.

Written from AMD's matrix instruction calculator (github.com/ROCm/amd_matrix_instruction_calculator)
and the CDNA3 and RDNA3 instruction set documents, not from code that IREE makes. Arrays hold
one row a lane; products and sums are in float32.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

CDNA_LANES, RDNA_LANES = 64, 32


def mfma(a: np.ndarray, b: np.ndarray, c: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """`v_mfma_f32_MxNxK` of one block: c + a b, for `shape` (M, N, K) with M = N = 16 or 32.

    Lane l has row l % M of A (column l % N of B), and the K elements that follow each other
    from K / groups * (l // M), where `groups` = 64 / M. Of C it has column l % N, and the
    rows 4 * (l // N) to 4 * (l // N) + 3 of every 4 * groups rows.
    """
    m, n, k = shape
    assert m == n and m in (16, 32)
    groups = CDNA_LANES // m
    left = a.reshape(-1, groups, m, k // groups).transpose(0, 2, 1, 3).reshape(-1, m, k)
    right = b.reshape(-1, groups, n, k // groups).transpose(0, 1, 3, 2).reshape(-1, k, n)
    total = c.reshape(-1, groups, n, m // (4 * groups), 4).transpose(0, 3, 1, 4, 2)
    result = _product(left, right) + total.reshape(-1, m, n)
    back = result.reshape(-1, m // (4 * groups), groups, 4, n).transpose(0, 2, 4, 1, 3)
    return back.reshape(c.shape)


def wmma(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """`v_wmma_f32_16x16x16` of 32 lanes: c + a b.

    RDNA3: lane l has all of row l % 16 of A (column l % 16 of B), so both halves of the lanes
    must hold the same; of C it has column l % 16, and rows l // 16, l // 16 + 2, ... RDNA4:
    the first half of the lanes has the first 8 of each row's 16 elements, the second the
    rest; of C lane l has column l % 16 and the 8 rows from 8 * (l // 16).
    """
    if a.shape[1] == 16:
        left, right = (_both_halves(factor) for factor in (a, b))
        total = c.reshape(-1, 2, 16, 8).transpose(0, 3, 1, 2)
        result = _product(left, right.transpose(0, 2, 1)) + total.reshape(-1, 16, 16)
        return result.reshape(-1, 8, 2, 16).transpose(0, 2, 3, 1).reshape(c.shape)
    assert a.shape[1] == 8
    left = a.reshape(-1, 2, 16, 8).transpose(0, 2, 1, 3).reshape(-1, 16, 16)
    right = b.reshape(-1, 2, 16, 8).transpose(0, 1, 3, 2).reshape(-1, 16, 16)
    total = c.reshape(-1, 2, 16, 8).transpose(0, 1, 3, 2)
    result = _product(left, right) + total.reshape(-1, 16, 16)
    return result.reshape(-1, 2, 8, 16).transpose(0, 1, 3, 2).reshape(c.shape)


def _both_halves(factor: np.ndarray) -> np.ndarray:
    """The rows that the first half of the lanes holds, and the second again."""
    halves = factor.reshape(-1, 2, RDNA_LANES // 2, factor.shape[1])
    assert halves[:, 0].tobytes() == halves[:, 1].tobytes(), "the halves of a factor differ"
    return halves[:, 0]


def _product(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    return left.astype(np.float32) @ right.astype(np.float32)
