"""Keys and head dims of two dims each, one of which an operand only repeats."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from helpers import compile_text, joined, rel_error, run_module, symbol

SIZES = {"m": 5, "n": 8, "c": 2, "d": 4, "j": 6, "k": 2}
DIMS = {"q": "mcd", "k": "jkcd", "v": "jkn"}
MASK = "mjk"


def _type(dims: str) -> str:
    return f"tensor<{''.join(f'{SIZES[dim]}x' for dim in dims)}f32>"


def _text(operand: str, repeated: str) -> str:
    loops = ", ".join(SIZES)
    whole = DIMS[operand]
    given = {**DIMS, operand: whole.replace(repeated, "")}
    kinds = ", ".join(_type(dims) for dims in DIMS.values())

    def mapped(dims: str, within: str = loops) -> str:
        return f"affine_map<({within}) -> ({', '.join(dims)})>"

    maps = ", ".join(mapped(dims) for dims in (*DIMS.values(), "", MASK, "mn"))
    iterators = ", ".join(['"parallel"'] * len(whole))
    within = ", ".join(whole)
    names = ", ".join("%whole" if name == operand else f"%{name}" for name in DIMS)
    arguments = ", ".join(f"%{name}: {_type(dims)}" for name, dims in given.items())
    return f"""
func.func @main({arguments}, %mask: {_type(MASK)}) -> {_type("mn")} {{
  %e = tensor.empty() : {_type(whole)}
  %whole = linalg.generic {{indexing_maps = [{mapped(given[operand], within)},
      {mapped(whole, within)}], iterator_types = [{iterators}]}}
      ins(%{operand} : {_type(given[operand])}) outs(%e : {_type(whole)}) {{
    ^bb0(%x: f32, %y: f32):
      linalg.yield %x : f32
  }} -> {_type(whole)}
  %s = arith.constant 0.25 : f32
  %z = tensor.empty() : {_type("mn")}
  %r = iree_linalg_ext.attention <indexing_maps = [{maps}]>
      ins({names}, %s, %mask : {kinds}, f32, {_type(MASK)}) outs(%z : {_type("mn")}) {{
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  }} -> {_type("mn")}
  return %r : {_type("mn")}
}}
"""


CASES = [("k", "j"), ("k", "k"), ("v", "j"), ("v", "k"), ("q", "c"), ("k", "c")]


@cache
def _compiled() -> bytes:
    return compile_text(joined({symbol(*case): _text(*case) for case in CASES}), mode="cost")


@pytest.mark.parametrize(("operand", "repeated"), CASES)
def test_what_is_summed_over_may_be_repeated(operand: str, repeated: str) -> None:
    rng = np.random.default_rng(0)
    given = {**DIMS, operand: DIMS[operand].replace(repeated, "")}
    values = [
        rng.standard_normal([SIZES[dim] for dim in dims], np.float32)
        for dims in (*given.values(), MASK)
    ]
    q, k, v, mask = (value.astype(float) for value in values)
    sizes = {dim: np.ones(size) for dim, size in SIZES.items()}
    scores = np.einsum(f"{given['q']},{given['k']},c,j,k->mjk", q, k, *(sizes[d] for d in "cjk"))
    weights = np.exp(scores * 0.25 + mask)
    weights /= weights.sum((1, 2), keepdims=True)
    wanted = np.einsum(f"mjk,{given['v']}->mn", weights, v)
    found = run_module(_compiled(), values, symbol(operand, repeated))
    assert rel_error(found, wanted) < 2e-5
