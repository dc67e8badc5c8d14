"""How products of few rows are divided among workgroups."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from attnpass.kernels.hopper.manifest import ProductKernel, load_products
from attnpass.kernels.hopper.streamed import division

_UNITS = (132, 114, 78, 1)
_COLUMNS = (8, 64, 72, 1024, 2112, 2120, 4096, 4224, 4232, 6144, 8448, 8456, 14336, 28672, 128256)
_KERNELS = [kernel for kernel in load_products() if kernel.most_blocks]


def _kind(kernel: ProductKernel) -> tuple[str, ...]:
    """What a kernel does, however it divides its work."""
    types = (kernel.element_type, kernel.result_type, kernel.weights)
    return (*types, kernel.activation, str(kernel.most_rows), str(kernel.joined))


@pytest.mark.parametrize("units", _UNITS)
@pytest.mark.parametrize("n", _COLUMNS)
def test_one_kernel_of_each_kind_is_meant_for_a_product(n: int, units: int) -> None:
    meant = Counter(_kind(kernel) for kernel in _KERNELS if division(kernel, n, units))
    assert meant == dict.fromkeys({_kind(kernel) for kernel in _KERNELS}, 1)


@pytest.mark.parametrize("units", _UNITS)
@pytest.mark.parametrize("n", _COLUMNS)
def test_all_columns_are_computed_in_as_few_tiles_as_run_at_once(n: int, units: int) -> None:
    """As cuda/streamed.cu divides them: whole clusters, and one round where parts are added up."""
    for kernel in _KERNELS:
        found = division(kernel, n, units)
        if found is None:
            continue
        teams, blocks = found.workgroups // found.parts, math.ceil(n / 64)
        assert found.workgroups % kernel.cluster == kernel.cluster % found.parts == 0
        assert found.width in (1, kernel.most_blocks) and found.parts <= kernel.cluster
        assert found.rounds == 1 or found.parts == 1
        assert (
            teams * found.width * (found.rounds - 1) < blocks <= teams * found.width * found.rounds
        )
        assert found.workgroups <= max(units * kernel.resident, kernel.cluster)
        told = found.number
        assert (told & 15, told >> 4 & 15, told >> 8) == (found.parts, found.width, found.rounds)


@pytest.mark.parametrize(
    ("rows", "n", "expected"),
    [
        (8, 1024, (4, 1, 1, 64)),
        (64, 1280, (4, 1, 1, 80)),
        (8, 4096, (2, 1, 1, 128)),
        (64, 4096, (2, 1, 1, 128)),
        (64, 6144, (2, 1, 1, 192)),
        (8, 14336, (1, 1, 1, 224)),
        (64, 14336, (1, 1, 1, 224)),
        (64, 28672, (1, 2, 1, 224)),
        (16, 128256, (1, 2, 3, 334)),
    ],
)
def test_divisions_are_those_that_were_measured_to_be_best(
    rows: int, n: int, expected: tuple[int, int, int, int]
) -> None:
    most = 16 if rows <= 16 else 64
    found = {division(kernel, n, 132) for kernel in _KERNELS if kernel.most_rows == most} - {None}
    (only,) = found
    assert only is not None
    assert (only.parts, only.width, only.rounds, only.workgroups) == expected
