"""Attention that reads one value twice, in a loop whose next turn reads what this one makes."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import compile_text, rel_error
from iree import runtime

from bench.device import load, to_iree

ROWS = 16
RUNS = 20
# The results that a caller asks for.
RESULTS = ((0, 1), (1,))


def _text(results: tuple[int, ...]) -> str:
    """Queries and keys are one state; another is made beside it."""
    state = f"tensor<{ROWS}x8xf32>"
    returned, types = (
        ", ".join(words) for words in ([f"%r#{n}" for n in results], [state] * len(results))
    )
    return f"""
#q = affine_map<(m, n, k, s) -> (m, k)>
#k = affine_map<(m, n, k, s) -> (s, k)>
#v = affine_map<(m, n, k, s) -> (s, n)>
#c = affine_map<(m, n, k, s) -> ()>
#o = affine_map<(m, n, k, s) -> (m, n)>
func.func @main(%x: {state}, %y: {state}, %turns: tensor<i32>) -> ({types}) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %scale = arith.constant 0.5 : f32
  %t = tensor.extract %turns[] : tensor<i32>
  %count = arith.index_cast %t : i32 to index
  %r:2 = scf.for %i = %c0 to %count step %c1 iter_args(%s = %x, %u = %x) -> ({state}, {state}) {{
    %e = tensor.empty() : {state}
    %o = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #c, #o]>
      ins(%s, %s, %y, %scale : {state}, {state}, {state}, f32) outs(%e : {state}) {{
    ^bb0(%a: f32):
      iree_linalg_ext.yield %a : f32
    }} -> {state}
    %w = linalg.generic {{
      indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]
    }} ins(%u : {state}) outs(%e : {state}) {{
    ^bb0(%a: f32, %b: f32):
      %h = math.tanh %a : f32
      linalg.yield %h : f32
    }} -> {state}
    scf.yield %o, %w : {state}, {state}
  }}
  return {returned} : {types}
}}
"""


def _reference(x: np.ndarray, y: np.ndarray, turns: int) -> tuple[np.ndarray, np.ndarray]:
    state = other = x.astype(np.float64)
    for _ in range(turns):
        scores = np.exp(state @ state.T / 2)
        state, other = scores @ y / scores.sum(-1, keepdims=True), np.tanh(other)
    return state, other


@pytest.mark.parametrize("level", ["O0", "O2", "O3"])
@pytest.mark.parametrize("results", RESULTS)
def test_each_turn_waits_for_the_last(results: tuple[int, ...], level: str) -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((ROWS, 8)).astype(np.float32) for _ in range(2))
    vmfb = compile_text(_text(results), mode="cost", flags=[f"--iree-opt-level={level}"])
    config = runtime.Config("local-task")
    main = load(config, vmfb)["main"]
    # Memory that is not there yet is read now and then only.
    for turns in [*range(4), *[3] * RUNS]:
        given = [to_iree(config.device, one) for one in (x, y, np.array(turns, np.int32))]
        found = main(*given)
        for number, one in zip(results, found if len(results) > 1 else [found], strict=True):
            assert rel_error(one.to_host(), _reference(x, y, turns)[number]) < 1e-5
