"""Permutations and affine maps: attnpass.ir.maps, held to numpy's transposes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from iree.compiler import ir

from attnpass.ir import maps


def permutations(count: int) -> st.SearchStrategy[tuple[int, ...]]:
    return st.permutations(range(count)).map(tuple)


@given(st.integers(1, 6).flatmap(permutations))
def test_inverse_undoes(order: tuple[int, ...]) -> None:
    x = np.empty([d + 2 for d in range(len(order))])
    back = maps.inverse(order)
    assert x.transpose(order).transpose(back).shape == x.shape
    assert x.transpose(back).transpose(order).shape == x.shape
    assert maps.inverse(back) == order


@st.composite
def operand_maps(draw: st.DrawFn) -> tuple[int, list[maps.Positions]]:
    loops = draw(st.integers(1, 7))
    one = st.lists(st.integers(0, loops - 1), unique=True, max_size=loops)
    found = draw(st.lists(one, min_size=1, max_size=4))
    positions = []
    for dims in found:
        units = draw(st.lists(st.integers(0, len(dims)), max_size=2))
        wanted: list[int | None] = list(dims)
        for place in units:
            wanted.insert(place, None)
        positions.append(tuple(wanted))
    return loops, positions


@given(operand_maps())
def test_positions_go_through_the_attribute_and_back(case) -> None:
    loops, positions = case
    with ir.Context():
        attribute = maps.maps_attribute(loops, positions)
        assert maps.positions_of(attribute) == tuple(positions)
        assert maps.num_dims(attribute) == loops


@pytest.mark.parametrize(
    "text",
    [
        "(d0, d1) -> (d0 + d1)",
        "(d0, d1) -> (d0, d0)",
        "(d0, d1) -> (d0 * 2)",
        "(d0, d1) -> (1)",
        "(d0)[s0] -> (d0)",
        "(d0) -> (d0 floordiv 2)",
    ],
)
def test_other_maps_have_no_positions(text: str) -> None:
    with ir.Context():
        assert maps.positions_of(ir.Attribute.parse(f"[affine_map<{text}>]")) is None


def test_show() -> None:
    assert maps.show((0, None, 2)) == "(d0, 0, d2)"
    assert maps.show((0, 2), {0: "b"}) == "(b, d2)"
