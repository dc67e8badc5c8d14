"""Where a slice that a kernel copies lies, in another shape: checked against NumPy."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from attnpass.forms.merge_copies import SlicePlace, place_of

_SHAPES = list(itertools.product((1, 2, 3), (1, 4, 6), (1, 2, 4)))


def _shapes(count: int, depth: int = 4) -> list[tuple[int, ...]]:
    """All shapes of so many elements with up to `depth` dims."""
    if depth == 0:
        return [()] if count == 1 else []
    found = [()] if count == 1 else []
    for size in range(1, count + 1):
        if count % size == 0:
            found += [(size, *rest) for rest in _shapes(count // size, depth - 1)]
    return found


def _slices(size: int) -> list[tuple[int, int]]:
    return [(0, size), (size // 2, size - size // 2), (size - 1, 1)]


@pytest.mark.parametrize("source", _SHAPES, ids=str)
def test_a_place_has_the_elements_of_the_slice(source: tuple[int, ...]) -> None:
    numbers = np.arange(math.prod(source))
    placed = 0
    for parts in itertools.product(*map(_slices, source)):
        starts, counts = zip(*parts, strict=True)
        taken = numbers.reshape(source)[_indices(starts, counts)]
        for wanted in _shapes(taken.size):
            place = place_of(source, starts, counts, wanted)
            if place is not None:
                placed += 1
                assert np.array_equal(_at(numbers, place), taken.ravel())
                # What a load leaves out of its result are dims of one element.
                kept = iter(place.counts)
                assert all(size in kept for size in wanted)
    assert placed


def test_whole_heads_are_joined_and_cut() -> None:
    """Heads of Q in a packed projection, as pairs and as rows."""
    source, starts, counts = (1, 9, 7, 4, 8, 2), (0, 0, 1, 0, 0, 0), (1, 9, 1, 4, 8, 2)
    assert place_of(source, starts, counts, (9, 4, 16)) == SlicePlace(
        (9, 7, 4, 16), (0, 1, 0, 0), (9, 1, 4, 16)
    )
    assert place_of(source, starts, counts, (9, 64)) == SlicePlace(
        (9, 7, 64), (0, 1, 0), (9, 1, 64)
    )
    # Rows and heads do not lie behind one another.
    assert place_of(source, starts, counts, (36, 16)) is None


def _indices(starts: tuple[int, ...], counts: tuple[int, ...]) -> tuple[Any, ...]:
    return tuple(slice(a, a + n) for a, n in zip(starts, counts, strict=True))


def _at(numbers: Any, place: SlicePlace) -> Any:
    return numbers.reshape(place.sizes)[_indices(place.starts, place.counts)].ravel()
