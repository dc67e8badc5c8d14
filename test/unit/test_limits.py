"""The low numbers, in the order that their meanings need, and as their types have them."""

from __future__ import annotations

import itertools
import math

import ml_dtypes
import numpy as np
import pytest

from attnpass.ir import limits

TYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32}


def test_order() -> None:
    rising = (
        limits.LOWEST,
        limits.LOG2E_OVERFLOWS,
        limits.LOG2E_LOWEST,
        limits.LOG2E_LOWEST_SCORE,
        limits.LOG2E_OVERFLOWS_IN_SUMS,
        limits.ABSORBS,
        limits.ABSORBS_ANY,
        limits.ABSORBS_IN_KERNELS,
        limits.HIDES_ADDED,
        limits.HIDES_IN_KERNELS,
        limits.FAR_IN_KERNELS,
        limits.HIDES,
        limits.HIDES_BESIDE_SEEN,
        limits.HIDES_SCALED,
    )
    assert all(low < high for low, high in itertools.pairwise(rising))


def test_what_log2e_makes_infinite() -> None:
    log2e = np.float32(math.log2(math.e))
    with np.errstate(over="ignore"):
        assert np.isinf(np.float32(limits.LOWEST) * log2e)
        assert np.isinf(np.float32(limits.LOG2E_OVERFLOWS * 1.01) * log2e)
    for number in (limits.LOG2E_LOWEST, limits.LOG2E_LOWEST_SCORE):
        assert np.isfinite(np.float32(number) * log2e)
    assert np.isfinite(np.float32(2 * limits.LOG2E_OVERFLOWS_IN_SUMS) * log2e)


@pytest.mark.parametrize("kind", TYPES)
def test_types(kind: str) -> None:
    scalar, one = TYPES[kind], TYPES[kind](1)
    with np.errstate(over="ignore"):
        assert np.isinf(scalar(limits.INFINITE[kind]))
    assert np.isfinite(scalar(limits.INFINITE[kind] * (1 - 2.0**-20)))
    digits = limits.DIGITS[kind]
    assert scalar(2.0**digits) + one == scalar(2.0**digits)
    assert scalar(2.0 ** (digits - 1)) + one != scalar(2.0 ** (digits - 1))
    # Scores of a few hundred at the most vanish beside these.
    low = scalar(limits.ABSORBS_BY_TYPE[kind])
    assert low + one == low


def test_lowest() -> None:
    assert float(np.finfo(np.float32).min) == limits.LOWEST
    assert float(np.finfo(np.float16).min) == limits.HIDES


def test_kernels_know_what_absorbs_any_score() -> None:
    """Numbers of 16 bits that absorb scores become such of f32, times ln(2) in masks: kernels find
    all of them. What f32 numbers of their size do not absorb stays a score's."""
    assert limits.ABSORBS_ANY * math.log(2) < limits.ABSORBS_IN_KERNELS
    assert 2**10 * limits.ABSORBS_BY_TYPE["f32"] > limits.ABSORBS_IN_KERNELS
