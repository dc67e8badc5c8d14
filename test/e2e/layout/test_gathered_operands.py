"""K and V that a gather takes in front of attention, by one or two indices a row."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from helpers import compile_text, joined, pairwise, rel_error, run_module, symbol

ROWS, KEYS, HEAD, PLACES = 5, 10, 8, (6, 8)
# Dims of the source that are indexed, and whether indices have a dim of their own.
DEPTHS = {"plain": (1, False), "one column": (1, True), "two columns": (2, True)}


def _text(depth: int, column: bool, heads: bool, known: bool) -> str:
    """Attention whose K and V have gathered keys or, with `heads`, gathered head dims; `known`
    indices are constants."""
    count, width = (HEAD, KEYS) if heads else (KEYS, HEAD)
    pool = f"tensor<{'x'.join(map(str, _places(depth)))}x{width}xf32>"
    indices, taken = f"tensor<{count}{f'x{depth}' * column}xi32>", f"tensor<{count}x{width}xf32>"
    result, dims = f"tensor<{ROWS}x{HEAD}xf32>", "affine_map<(m, n, d, k) ->"
    key, value = ("(d, k)", "(n, k)") if heads else ("(k, d)", "(k, n)")
    constant = f"%at = arith.constant dense<{_indices(depth, column, heads).tolist()}> : {indices}"
    places = list(range(depth))

    def gather(of: str) -> str:
        return (
            f"iree_linalg_ext.gather dimension_map = {places} ins({of}, %at : {pool}, {indices}) "
            f"outs(%e : {taken}) -> {taken}"
        )

    return f"""
func.func @main(%q: {result}, %pk: {pool}, %pv: {pool}{"" if known else f", %at: {indices}"})
    -> {result} {{
  {constant if known else ""}
  %e = tensor.empty() : {taken}
  %k = {gather("%pk")}
  %v = {gather("%pv")}
  %s = arith.constant 0.25 : f32
  %z = tensor.empty() : {result}
  %r = iree_linalg_ext.attention <indexing_maps = [{dims} (m, d)>, {dims} {key}>, {dims} {value}>,
      {dims} ()>, {dims} (m, n)>]> ins(%q, %k, %v, %s : {result}, {taken}, {taken}, f32)
      outs(%z : {result}) {{
    ^bb0(%x: f32):
      iree_linalg_ext.yield %x : f32
  }} -> {result}
  return %r : {result}
}}
"""


def _places(depth: int) -> tuple[int, ...]:
    return PLACES if depth == 2 else (PLACES[0] * PLACES[1],)


def _flat(heads: bool) -> np.ndarray:
    """Which rows are taken, of all."""
    count = HEAD if heads else KEYS
    return np.random.default_rng(1).permutation(PLACES[0] * PLACES[1])[:count].astype(np.int32)


def _indices(depth: int, column: bool, heads: bool) -> np.ndarray:
    flat = _flat(heads)
    columns = np.stack(np.unravel_index(flat, _places(depth)), axis=1).astype(np.int32)
    return columns if column else flat


CASES = pairwise(DEPTHS, [False, True], [False, True])


@cache
def _compiled() -> bytes:
    texts = {
        symbol(form, known, heads): _text(*DEPTHS[form], heads, known)
        for form, known, heads in CASES
    }
    return compile_text(joined(texts), mode="cost")


@pytest.mark.parametrize(("form", "known", "heads"), CASES)
def test_attention_reads_the_rows_that_a_gather_takes(form: str, known: bool, heads: bool) -> None:
    depth, column = DEPTHS[form]
    rng, width = np.random.default_rng(0), KEYS if heads else HEAD
    q = rng.standard_normal((ROWS, HEAD), np.float32)
    pools = rng.standard_normal((2, *_places(depth), width), np.float32)
    indices = [] if known else [_indices(depth, column, heads)]
    result = run_module(_compiled(), [q, *pools, *indices], symbol(form, known, heads))
    taken = pools.astype(float).reshape(2, -1, width)[:, _flat(heads)]
    key, value = (part.T if heads else part for part in taken)
    weights = np.exp(q @ key.T * 0.25)
    assert rel_error(result, weights / weights.sum(-1, keepdims=True) @ value) < 2e-5
